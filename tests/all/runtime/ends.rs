//! How executions end, and who is told.

use futures_util::future::join_all;
use serde_json::json;
use skillrun::ledger::StoreError;
use skillrun::outcome::OutcomeCode;
use skillrun::runtime::{
    BackendError, EventKind, Execution, ExecutionFilter, ExecutionStatus, LaunchSpec, RuntimeError,
};

use super::rig::{Rig, Settings, in_time, names};

pub(super) async fn an_agent_that_ends_itself_completes(rig: &Rig) {
    let id = rig.ready().await;
    let ended = in_time(rig.runtime().resume(&id, "exit 0")).await;
    assert!(
        matches!(ended, Err(RuntimeError::Completed { .. })),
        "{ended:?}"
    );
    let execution = rig.look(&id).await;
    assert_eq!(execution.status, ExecutionStatus::Completed);
    assert_eq!(
        (execution.exit_code, execution.code),
        (Some(0), Some(OutcomeCode::Ok))
    );
    assert!(execution.finished_at.is_some());
    assert_eq!(names(&rig.all(&id).await).last(), Some(&"stopped"));
    let again = LaunchSpec {
        prior_session: execution.prior_session.to_string(),
        ..rig.spec()
    };
    let again = in_time(rig.runtime().launch(again)).await;
    let Err(RuntimeError::Launch { source, .. }) = &again else {
        panic!("{again:?}")
    };
    assert!(
        matches!(**source, BackendError::Store(StoreError::Ended { .. })),
        "{source:?}"
    );
}

/// C48
pub(super) async fn an_agent_that_traps_fails_and_its_caller_is_told(rig: &Rig) {
    let id = rig.ready().await;
    let ended = in_time(rig.runtime().resume(&id, "trap")).await;
    let Err(RuntimeError::Failed { code, message, .. }) = ended else {
        panic!("{ended:?}")
    };
    assert_eq!(code, OutcomeCode::Trap);
    let execution = rig.look(&id).await;
    assert_eq!(execution.status, ExecutionStatus::Failed);
    assert_eq!(execution.error_message, Some(message));
    assert_eq!(execution.code, Some(OutcomeCode::Trap));
    let stopped = in_time(rig.runtime().stop(&id, "")).await;
    assert!(
        matches!(stopped, Err(RuntimeError::NotFound { .. })),
        "{stopped:?}"
    );
    let last = rig.all(&id).await.pop().unwrap();
    let failed = matches!(
        last.kind,
        EventKind::Stopped {
            status: ExecutionStatus::Failed,
            code: OutcomeCode::Trap,
            ..
        }
    );
    assert!(failed, "{last:?}");
    // The session can be served again.
    let spec = rig.spec_with(&json!({"launch_request": {"session_id": "s"}}));
    for _ in 0..2 {
        let id = rig.ready_with(spec.clone()).await;
        in_time(rig.runtime().resume(&id, "trap"))
            .await
            .unwrap_err();
    }
}

pub(super) async fn a_stop_ends_whoever_waits_and_keeps_its_reason(rig: &Rig) {
    let id = rig.ready().await;
    let begun = rig.begin(&id, "permission a").await;
    let mut waits = Box::pin(rig.runtime().resume(&id, "echo b"));
    assert!(futures_util::poll!(waits.as_mut()).is_pending());
    let stopped = in_time(rig.runtime().stop(&id, "not \"needed\"\n"))
        .await
        .unwrap();
    assert_eq!(stopped.status, ExecutionStatus::Stopped);
    assert_eq!((stopped.forced, stopped.teardown_error), (false, None));
    for ended in [in_time(begun).await.unwrap(), in_time(waits).await] {
        let Err(RuntimeError::Stopped { reason, .. }) = ended else {
            panic!("{ended:?}")
        };
        assert_eq!(reason, "not \"needed\"\n");
    }
    let execution = rig.look(&id).await;
    assert_eq!(execution.status, ExecutionStatus::Stopped);
    assert_eq!(execution.stop_reason.as_deref(), Some("not \"needed\"\n"));
    let events = rig.all(&id).await;
    let ends = events.iter().filter(|event| event.kind.name() == "stopped");
    assert_eq!(ends.count(), 1);
    assert!(!names(&events).contains(&"error"));
}

/// C47, the first half.
pub(super) async fn ten_stops_have_one_owner_and_one_end(rig: &Rig) {
    let id = rig.ready().await;
    let begun = rig.begin(&id, "spin").await;
    let stops = (0..10).map(|_| rig.runtime().stop(&id, "enough"));
    let stopped = in_time(join_all(stops)).await;
    let others = stopped.iter().filter(|stopped| stopped.is_err());
    let not_found = others.filter(|other| matches!(other, Err(RuntimeError::NotFound { .. })));
    assert_eq!(not_found.count(), 9);
    in_time(begun).await.unwrap().unwrap_err();
    let run_id = rig.look(&id).await.prior_session;
    assert_eq!(
        rig.home.events_of(run_id.as_str(), "run_completed").len(),
        1
    );
    let verified = rig.home.skillrun(&["runs", "verify", run_id.as_str()]);
    assert_eq!(verified.exit, Some(0), "{verified:?}");
}

pub(super) async fn an_agent_that_does_not_finish_is_ended_and_that_is_told(rig: &Rig) {
    let id = rig
        .ready_with(rig.spec_with(&json!({"finish": "spin"})))
        .await;
    let stopped = in_time(rig.runtime().stop(&id, "enough")).await.unwrap();
    assert_eq!(stopped.status, ExecutionStatus::Stopped);
    assert!(
        stopped.forced || stopped.teardown_error.is_some(),
        "{stopped:?}"
    );
    assert_eq!(rig.look(&id).await.stop_reason.as_deref(), Some("enough"));
}

/// The same but for when it ended, which the ledger knows better.
fn without_time(mut execution: Execution) -> Execution {
    execution.finished_at = None;
    execution
}

pub(super) async fn an_execution_is_read_from_its_ledger_as_it_was(rig: &Rig) {
    let spec = rig.spec_with(&json!({"launch_request": {"task_id": "t"}, "a": [1, null]}));
    let mut known = Vec::new();
    for ended in ["trap", "exit 0", "exit 3", "stop refusal"] {
        let id = rig.ready_with(spec.clone()).await;
        let over = in_time(rig.runtime().resume(&id, ended)).await;
        if over.is_ok() {
            rig.stop(&id).await;
        }
        known.push(rig.look(&id).await);
    }
    // Another process on the same home knows no more than what is on record.
    let other = rig.restarted();
    for execution in known {
        let id = execution.id.to_string();
        assert_eq!(
            without_time(other.look(&id).await),
            without_time(execution.clone())
        );
        assert!(other.look(&id).await.finished_at.is_some());
        let listed = other.runtime().list_executions(ExecutionFilter {
            session_id: Some(execution.session_id.clone()),
            status: Some(execution.status),
            ..ExecutionFilter::default()
        });
        let listed = in_time(listed).await.unwrap().executions;
        assert_eq!(listed.len(), 1);
        let gone = in_time(other.runtime().resume(&id, "echo")).await;
        assert!(
            matches!(gone, Err(RuntimeError::NotFound { .. })),
            "{gone:?}"
        );
        assert_eq!(names(&other.all(&id).await), names(&rig.all(&id).await));
    }
    // The same when this one has let it go.
    let forgetful = Rig::with(
        rig.kind,
        Settings {
            retention: std::time::Duration::ZERO,
            ..Settings::default()
        },
    );
    let id = forgetful.ready().await;
    forgetful.stop(&id).await;
    assert_eq!(forgetful.look(&id).await.status, ExecutionStatus::Stopped);
    assert_eq!(
        forgetful.look(&id).await.stop_reason.as_deref(),
        Some("enough")
    );
}
