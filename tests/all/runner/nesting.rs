//! Runs inside runs.

use std::sync::{Arc, OnceLock};

use skillrun::config::Admission;
use skillrun::limits::LimitKey;
use skillrun::outcome::OutcomeCode;
use skillrun::runner::{Caller, RunContext, RunError, Runner, ToolCallResult};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::fake::{Answer, ok, runner_with, skill};

/// Lets the executor reach the runner that it is part of.
type Shared = Arc<OnceLock<Runner>>;

/// Hands work on until `depth` runs are inside each other; gives the ids, innermost first.
async fn nest(runner: Shared, cx: RunContext, depth: u64) -> Answer {
    if cx.depth() == depth {
        return ok(cx.run_id().as_str());
    }
    match runner
        .get()
        .unwrap()
        .run(Caller::within(&cx), skill())
        .await
    {
        Ok(inner) => ok(&format!("{} {}", inner.result.joined_text(), cx.run_id())),
        Err(error) => Ok(ToolCallResult {
            is_error: true,
            ..ToolCallResult::text(error.to_string())
        }),
    }
}

#[tokio::test]
async fn a_run_inside_another_names_it_and_needs_no_place_of_its_own() {
    let shared = Shared::default();
    let runner = Arc::clone(&shared);
    let one = Admission {
        at_once_max: 1,
        nested_max: 64,
        queue_max: 0,
    };
    let bench = runner_with(one, move |cx, _| nest(Arc::clone(&runner), cx, 3));
    shared.set(bench.runner.clone()).ok().unwrap();
    let outcome = bench.runner.run(Caller::new(), skill()).await.unwrap();
    let text = outcome.result.joined_text();
    let ids: Vec<&str> = text.split(' ').collect();
    assert_eq!(ids.len(), 4);
    for pair in ids.windows(2) {
        let started = bench.events(&pair[0].parse().unwrap()).swap_remove(0);
        assert_eq!(started["payload"]["parent_run_id"], pair[1]);
    }
    let outermost = bench.events(&outcome.run_id).swap_remove(0);
    assert!(outermost["payload"].get("parent_run_id").is_none());
}

#[tokio::test]
async fn nesting_is_bounded_and_the_limit_is_named() {
    let shared = Shared::default();
    let runner = Arc::clone(&shared);
    let bench = runner_with(Admission::default(), move |cx, _| {
        nest(Arc::clone(&runner), cx, u64::MAX)
    });
    shared.set(bench.runner.clone()).ok().unwrap();
    let outcome = bench.runner.run(Caller::new(), skill()).await.unwrap();
    let depth_max = LimitKey::NestingDepth.default_value();
    assert!(
        outcome
            .result
            .joined_text()
            .contains("nesting_depth limit of 8"),
        "{:?}",
        outcome.result
    );
    assert_eq!(bench.ledgers() as u64, depth_max + 1);
}

#[tokio::test]
async fn cancelling_a_run_cancels_the_runs_inside_it() {
    let shared = Shared::default();
    let runner = Arc::clone(&shared);
    let (sender, mut started) = mpsc::channel(2);
    let bench = runner_with(Admission::default(), move |cx, _| {
        let (runner, sender) = (Arc::clone(&runner), sender.clone());
        async move {
            sender.send(cx.run_id().clone()).await.unwrap();
            if cx.depth() == 0 {
                // A run that is only started, not waited for, is inside this one all the same.
                let runner = runner.get().unwrap();
                let inner = runner.start(Caller::within(&cx), skill()).await.unwrap();
                let ended = inner.handle.wait().await;
                panic!("the outer run goes first: {ended:?}");
            }
            std::future::pending().await
        }
    });
    shared.set(bench.runner.clone()).ok().unwrap();
    let outer = bench.runner.start(Caller::new(), skill()).await.unwrap();
    assert_eq!(started.recv().await.as_ref(), Some(&outer.run_id));
    let inner = started.recv().await.unwrap();
    outer.handle.cancel();
    assert!(matches!(
        outer.handle.wait().await,
        Err(RunError::Cancelled { .. })
    ));
    bench.runner.shutdown().await;
    let terminal = bench.terminal(&inner).await;
    assert_eq!(terminal["code"], OutcomeCode::Cancelled.as_str());
}

/// Runs one inside the other and waits for neither: `end` stops the outer one.
async fn end_of_a_run_inside_another(end: impl AsyncFnOnce(&Runner)) -> serde_json::Value {
    let shared = Shared::default();
    let runner = Arc::clone(&shared);
    let (sender, mut started) = mpsc::channel(2);
    let bench = runner_with(Admission::default(), move |cx, _| {
        let (runner, sender) = (Arc::clone(&runner), sender.clone());
        async move {
            sender.send(cx.run_id().clone()).await.unwrap();
            if cx.depth() == 0 {
                // A token of the caller's own takes nothing away from the parent's.
                let caller = Caller::within(&cx).with_cancellation(CancellationToken::new());
                let inner = runner.get().unwrap().run(caller, skill()).await;
                panic!("the outer run goes first: {inner:?}");
            }
            std::future::pending().await
        }
    });
    shared.set(bench.runner.clone()).ok().unwrap();
    let outer = bench.runner.start(Caller::new(), skill()).await.unwrap();
    started.recv().await.unwrap();
    let inner = started.recv().await.unwrap();
    end(&bench.runner).await;
    outer.handle.cancel();
    assert!(outer.handle.wait().await.is_err());
    bench.runner.shutdown().await;
    bench.events(&inner).pop().unwrap()["payload"].clone()
}

#[tokio::test]
async fn a_shutdown_interrupts_runs_inside_others_too() {
    let terminal = end_of_a_run_inside_another(async |runner| runner.interrupt()).await;
    assert_eq!(terminal["status"], "interrupted");
}

#[tokio::test]
async fn cancelling_a_run_cancels_those_with_a_token_of_their_own_too() {
    let terminal = end_of_a_run_inside_another(async |_| {}).await;
    assert_eq!(terminal["status"], "cancelled");
}
