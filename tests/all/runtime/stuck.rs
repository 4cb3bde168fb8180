//! Workers that do not answer: they are there, and nothing comes of them.

use rustix::process::{Pid, Signal, kill_process};
use skillrun::runtime::{ExecutionStatus, LaunchSpec, RuntimeError};

use super::rig::{Kind, Rig, in_time};

/// Lets the worker of an execution stand still.
async fn freeze(rig: &Rig, id: &str) {
    let run_id = rig.look(id).await.prior_session;
    let summary = rig.host.store().summary(&run_id).unwrap();
    let pid = Pid::from_raw(i32::try_from(summary.writer_pid.unwrap()).unwrap()).unwrap();
    kill_process(pid, Signal::STOP).unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_mode_that_nobody_knows_to_be_taken_ends_the_execution_and_holds_no_other_up() {
    let rig = Rig::new(Kind::Subprocess);
    let (stuck, other) = (rig.ready().await, rig.ready().await);
    freeze(&rig, &stuck).await;
    let mut changing = std::pin::pin!(rig.runtime().set_mcp_mode(&stuck, "config"));
    tokio::select! {
        biased;
        changed = &mut changing => panic!("it answered: {changed:?}"),
        changed = in_time(rig.runtime().set_mcp_mode(&other, "office")) => assert!(changed.unwrap()),
    }
    let changed = in_time(changing).await;
    assert!(
        matches!(changed, Err(RuntimeError::Mode { .. })),
        "{changed:?}"
    );
    // Otherwise it would have the tools of that mode as soon as it goes on.
    rig.until_status(&stuck, ExecutionStatus::Failed).await;
    assert_eq!(rig.status(&other).await, ExecutionStatus::Ready);
    rig.stop(&other).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_that_does_not_end_is_killed_at_a_shutdown_and_can_be_taken_up() {
    let rig = Rig::new(Kind::Subprocess);
    let id = rig.ready().await;
    rig.turn(&id, "remember a").await;
    freeze(&rig, &id).await;
    in_time(rig.runtime.shutdown()).await;
    let execution = rig.look(&id).await;
    assert_eq!(execution.status, ExecutionStatus::Stopped);
    assert_eq!(execution.stop_reason.as_deref(), Some("interrupted"));
    let ends = rig
        .home
        .events_of(execution.prior_session.as_str(), "run_completed");
    assert_eq!(ends.len(), 1);
    assert_eq!(ends[0]["payload"]["code"], "interrupted");
    let other = rig.restarted();
    let second = other
        .ready_with(LaunchSpec {
            prior_session: execution.prior_session.to_string(),
            ..LaunchSpec::default()
        })
        .await;
    assert_eq!(other.turn(&second, "recall").await.generation, 2);
    other.stop(&second).await;
}
