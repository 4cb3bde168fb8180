//! `start`.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use skillrun::outcome::OutcomeCode;
use skillrun::runner::{Caller, RunError, StartOptions};
use skillrun::trace_context::TraceContext;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::fake::{ok, runner, skill};

#[tokio::test]
async fn it_returns_once_the_first_event_is_on_disk_while_the_work_goes_on() {
    let go = Arc::new(Notify::new());
    let gate = Arc::clone(&go);
    let bench = runner(move |_, _| {
        let gate = Arc::clone(&gate);
        async move {
            gate.notified().await;
            ok("7")
        }
    });
    let started = bench.runner.start(Caller::new(), skill()).await.unwrap();
    assert_eq!(bench.kinds(&started.run_id), ["run_started"]);
    assert_eq!(
        bench.events(&started.run_id)[0]["time"],
        started.started_at.to_string()
    );
    go.notify_one();
    let outcome = started.handle.wait().await.unwrap();
    assert_eq!(
        (outcome.run_id, outcome.started_at),
        (started.run_id.clone(), started.started_at)
    );
    assert_eq!(bench.terminal(&started.run_id).await["output"], 7);
}

/// A caller's place in a trace.
const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00";

#[tokio::test]
async fn the_work_keeps_the_callers_values_and_not_its_cancellation() {
    let go = Arc::new(Notify::new());
    let gate = Arc::clone(&go);
    let bench = runner(move |cx, _| {
        let gate = Arc::clone(&gate);
        async move {
            gate.notified().await;
            let parent = cx.trace().and_then(TraceContext::traceparent);
            assert_eq!(
                (parent.as_deref(), cx.request_id()),
                (Some(PARENT), Some("r"))
            );
            ok("1")
        }
    });
    let token = CancellationToken::new();
    let caller = Caller::new()
        .with_cancellation(token.clone())
        .with_trace(TraceContext::parse(PARENT, None).unwrap())
        .with_request_id("r");
    let started = bench.runner.start(caller, skill()).await.unwrap();
    token.cancel();
    go.notify_one();
    assert_eq!(started.handle.wait().await.unwrap().code, OutcomeCode::Ok);
}

#[tokio::test]
async fn the_work_goes_on_when_its_handle_is_dropped() {
    let (sender, mut ended) = tokio::sync::mpsc::channel(1);
    let bench = runner(move |cx, _| {
        let sender = sender.clone();
        async move {
            tokio::task::yield_now().await;
            sender.send(cx.run_id().clone()).await.unwrap();
            ok("1")
        }
    });
    let started = bench.runner.start(Caller::new(), skill()).await.unwrap();
    drop(started.handle);
    assert_eq!(ended.recv().await, Some(started.run_id));
}

#[tokio::test]
async fn an_explicit_cancel_ends_it() {
    let bench = runner(|_, _| std::future::pending());
    let started = bench.runner.start(Caller::new(), skill()).await.unwrap();
    started.handle.cancel();
    let ended = started.handle.wait().await;
    assert!(matches!(ended, Err(RunError::Cancelled { run_id }) if run_id == started.run_id));
    assert_eq!(bench.terminal(&started.run_id).await["status"], "cancelled");
}

#[tokio::test(start_paused = true)]
async fn its_own_deadline_ends_it() {
    let bench = runner(|_, _| std::future::pending());
    let options = StartOptions {
        deadline: Duration::from_secs(5),
        ..skill()
    };
    let started = bench.runner.start(Caller::new(), options).await.unwrap();
    let error = started.handle.wait().await.unwrap_err();
    assert_eq!(error.code(), OutcomeCode::TimeLimit);
    let terminal = bench.terminal(&started.run_id).await;
    assert_eq!(
        terminal["error"],
        "deadline of 5000 ms reached (set by call)"
    );
}

#[tokio::test]
async fn a_shutdown_interrupts_it_and_takes_no_more() {
    let bench = runner(|_, _| std::future::pending());
    let first = bench.runner.start(Caller::new(), skill()).await.unwrap();
    let second = bench.runner.start(Caller::new(), skill()).await.unwrap();
    bench.runner.shutdown().await;
    for started in [first, second] {
        let events = bench.events(&started.run_id);
        let terminal = &events.last().unwrap()["payload"];
        assert_eq!(terminal["status"], "interrupted");
        assert_eq!(terminal["error"], json!(null));
        // It can be resumed, so its ledger can be taken up.
        let recorder = bench.runner.store().recover(&started.run_id).await.unwrap();
        assert_eq!(recorder.head().seq, 2);
        assert!(matches!(
            started.handle.wait().await,
            Err(RunError::Interrupted { .. })
        ));
    }
    let refused = bench.runner.start(Caller::new(), skill()).await;
    assert!(matches!(refused, Err(RunError::ShuttingDown)));
    assert_eq!(bench.ledgers(), 2);
}
