//! How many runs go on at once, and what happens to the others.

use std::sync::Arc;
use std::time::Duration;

use skillrun::config::Admission;
use skillrun::outcome::OutcomeCode;
use skillrun::runner::{Caller, RunError, StartOptions};
use tokio::sync::Semaphore;

use super::fake::{ok, runner_with, skill};

const ONE_AND_ONE: Admission = Admission {
    at_once_max: 1,
    queue_max: 1,
};

#[tokio::test]
async fn beyond_the_queue_a_start_is_refused_before_anything_is_written() {
    let go = Arc::new(Semaphore::new(0));
    let gate = Arc::clone(&go);
    let bench = runner_with(ONE_AND_ONE, move |_, _| {
        let gate = Arc::clone(&gate);
        async move {
            gate.acquire().await.unwrap().forget();
            ok("1")
        }
    });
    let first = bench.runner.start(Caller::new(), skill()).await.unwrap();
    let second = bench.runner.start(Caller::new(), skill()).await.unwrap();
    let refused = bench
        .runner
        .start(Caller::new(), skill())
        .await
        .unwrap_err();
    assert!(matches!(
        refused,
        RunError::Busy {
            at_once_max: 1,
            queue_max: 1
        }
    ));
    assert!(refused.hint().unwrap().contains("runs.at_once_max"));
    assert_eq!(bench.ledgers(), 2);

    go.add_permits(2);
    for started in [first, second] {
        assert_eq!(started.handle.wait().await.unwrap().code, OutcomeCode::Ok);
    }
    go.add_permits(1);
    let third = bench.runner.start(Caller::new(), skill()).await.unwrap();
    assert_eq!(third.handle.wait().await.unwrap().code, OutcomeCode::Ok);
}

#[tokio::test(start_paused = true)]
async fn time_in_the_queue_is_recorded_and_not_billed() {
    let bench = runner_with(ONE_AND_ONE, |_, input| async move {
        let wait = if input.as_str().contains("slow") {
            10
        } else {
            1
        };
        tokio::time::advance(Duration::from_secs(wait)).await;
        ok("1")
    });
    let slow = StartOptions::new(
        "fake",
        skillrun::runner::JsonObject::parse(r#"{"slow":1}"#).unwrap(),
    );
    let quick = StartOptions {
        deadline: Duration::from_secs(5),
        ..skill()
    };
    let first = bench.runner.start(Caller::new(), slow).await.unwrap();
    let second = bench.runner.start(Caller::new(), quick).await.unwrap();
    first.handle.wait().await.unwrap();
    let outcome = second.handle.wait().await.unwrap();
    assert_eq!(outcome.code, OutcomeCode::Ok);
    let waited = |payload: &serde_json::Value| payload["queued_micros"].as_u64();
    assert!(waited(&bench.terminal(&second.run_id).await).is_some_and(|micros| micros > 0));
}

#[tokio::test]
async fn a_run_that_is_cancelled_in_the_queue_never_runs() {
    let bench = runner_with(ONE_AND_ONE, |_, input| async move {
        assert!(!input.as_str().contains("never"));
        std::future::pending().await
    });
    let first = bench.runner.start(Caller::new(), skill()).await.unwrap();
    let never = skillrun::runner::JsonObject::parse(r#"{"never":1}"#).unwrap();
    let second = bench
        .runner
        .start(Caller::new(), StartOptions::new("fake", never))
        .await
        .unwrap();
    second.handle.cancel();
    assert!(matches!(
        second.handle.wait().await,
        Err(RunError::Cancelled { .. })
    ));
    // Its place in the queue is free again.
    let third = bench.runner.start(Caller::new(), skill()).await.unwrap();
    first.handle.cancel();
    third.handle.cancel();
}
