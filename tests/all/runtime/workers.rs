//! What only executions in processes of their own can do: be killed, and lose the process that looks after them.

use std::fs;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use skillrun::runtime::{ExecutionStatus, Runtime as _, RuntimeError};

use super::rig::{Kind, Rig, Settings, in_time};
use crate::tools::{started, wait_for_end};

/// The process of the server that the agent has called.
fn server(rig: &Rig) -> i32 {
    started(&rig.home)[0]
}

fn parent(id: i32) -> Pid {
    let status = fs::read_to_string(format!("/proc/{id}/status")).unwrap();
    let parent = status.lines().find_map(|line| line.strip_prefix("PPid:"));
    Pid::from_raw(parent.unwrap().trim().parse().unwrap()).unwrap()
}

/// Neither that which is told in its input nor its end is anything to such a server.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn servers_of_a_worker_that_is_killed_end_with_it() {
    let rig = Rig::with_server(Kind::Subprocess, Settings::default());
    let id = rig.ready().await;
    rig.turn(&id, "tool h__echo {}").await;
    let server = server(&rig);
    // It takes note of nothing from now on, so that it has to be killed.
    kill_process(parent(server), Signal::STOP).unwrap();
    let stopped = in_time(rig.runtime().stop(&id, "enough")).await.unwrap();
    assert!(stopped.forced, "{stopped:?}");
    assert_eq!(stopped.status, ExecutionStatus::Stopped);
    wait_for_end(server);
    let execution = rig.look(&id).await;
    assert_eq!(execution.stop_reason.as_deref(), Some("enough"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn servers_of_a_worker_that_ends_end_with_it() {
    // So long that what its servers are given to end is well within it.
    let settings = Settings {
        grace: Duration::from_secs(10),
        ..Settings::default()
    };
    let rig = Rig::with_server(Kind::Subprocess, settings);
    let id = rig.ready().await;
    rig.turn(&id, "tool h__echo {}").await;
    let server = server(&rig);
    let stopped = in_time(rig.runtime.stop(&id, "enough")).await.unwrap();
    assert!(!stopped.forced, "{stopped:?}");
    wait_for_end(server);
}

/// An end is on record before anybody is told of it: then it is the one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_end_that_a_worker_recorded_is_the_end() {
    let rig = Rig::new(Kind::Mute);
    let id = rig.ready().await;
    let told = in_time(rig.runtime().resume(&id, "exit 0"))
        .await
        .unwrap_err();
    assert!(matches!(told, RuntimeError::Completed { .. }), "{told:?}");
    let execution = rig.look(&id).await;
    assert_eq!(
        (execution.status, execution.exit_code),
        (ExecutionStatus::Completed, Some(0))
    );
    let id = rig.ready().await;
    let stopped = in_time(rig.runtime().stop(&id, "enough")).await.unwrap();
    assert_eq!(stopped.status, ExecutionStatus::Stopped);
    let execution = rig.look(&id).await;
    assert_eq!(execution.stop_reason.as_deref(), Some("enough"));
    assert_eq!(execution.error_message, None);
}
