//! How many runs go on at once, and what happens to the others.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use skillrun::clock::{Clock, Timestamp};
use skillrun::config::Admission;
use skillrun::outcome::OutcomeCode;
use skillrun::runner::{Caller, RunError, StartOptions};
use tokio::sync::Semaphore;

use super::fake::{ok, runner_on, runner_with, skill};

const ONE_AND_ONE: Admission = Admission {
    at_once_max: 1,
    nested_max: 64,
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

/// The executor moves the clock on by ten seconds, while the second run waits for the first.
#[tokio::test]
async fn time_in_the_queue_is_recorded_and_is_no_part_of_the_work() {
    const TEN_SECONDS: Duration = Duration::from_secs(10);
    let clock = Clock::manual(Timestamp::from_unix_micros(0));
    let moved = clock.clone();
    let bench = runner_on(ONE_AND_ONE, clock, move |_, _| {
        let moved = moved.clone();
        async move {
            moved.advance(TEN_SECONDS);
            ok("1")
        }
    });
    let first = bench.runner.start(Caller::new(), skill()).await.unwrap();
    let second = bench.runner.start(Caller::new(), skill()).await.unwrap();
    let micros = |payload: &Value, key: &str| payload[key].as_u64();
    let ten = u64::try_from(TEN_SECONDS.as_micros()).ok();
    for (started, queued) in [(first, None), (second, ten)] {
        let outcome = started.handle.wait().await.unwrap();
        let terminal = bench.terminal(&started.run_id).await;
        assert_eq!(micros(&terminal, "queued_micros"), queued);
        assert_eq!(micros(&terminal, "duration_micros"), ten);
        assert_eq!(Some(outcome.duration_micros), ten);
    }
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
