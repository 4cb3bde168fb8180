//! Executions that outlive their process.

use skillrun::runtime::{
    EventKind, ExecutionFilter, ExecutionStatus, LaunchKind, LaunchSpec, RuntimeError,
};

use super::rig::{Kind, Rig, in_time, names, text};

/// C49
pub(super) async fn what_a_shutdown_interrupts_is_taken_up_where_it_was(rig: &Rig) {
    let id = interrupted(rig).await;
    let execution = rig.look(&id).await;
    let other = rig.restarted();
    for recovered in other.runtime.recover().await {
        recovered.outcome.unwrap();
    }
    let listed = other.runtime().list_executions(ExecutionFilter::default());
    for execution in in_time(listed).await.unwrap().executions {
        assert_eq!(execution.status, ExecutionStatus::Stopped);
    }
    let gone = in_time(other.runtime().resume(&id, "recall")).await;
    assert!(
        matches!(gone, Err(RuntimeError::NotFound { .. })),
        "{gone:?}"
    );
    let again = LaunchSpec {
        prior_session: execution.prior_session.to_string(),
        ..LaunchSpec::default()
    };
    let launched = in_time(other.runtime().launch(again.clone()))
        .await
        .unwrap();
    assert_eq!(launched.id.run_id(), &execution.prior_session);
    assert_eq!(launched.id.part(), 2);
    assert_eq!(launched.session_id, execution.session_id);
    let twice = in_time(other.runtime().launch(again)).await;
    assert!(
        matches!(twice, Err(RuntimeError::AlreadyRunning { .. })),
        "{twice:?}"
    );
    let second = launched.id.to_string();
    go_on(&other, &second).await;
    let recalled = other.turn(&second, "recall").await;
    assert!(recalled.generation >= 4);
    other.stop(&second).await;
    let events = other.all(&second).await;
    let resumed = EventKind::SessionStatus {
        status: LaunchKind::Resumed,
        mcp_mode: "task".to_owned(),
        turn_goes_on: Some(3),
    };
    assert_eq!(events[0].kind, resumed);
    assert_eq!(text(&events, recalled.generation), "a,b");
    // The first part is what it was.
    assert_eq!(other.all(&id).await, rig.all(&id).await);
    assert_eq!(other.status(&id).await, ExecutionStatus::Stopped);
}

/// Shuts a runtime down in the middle of the third turn of an execution.
async fn interrupted(rig: &Rig) -> String {
    let id = rig.ready().await;
    rig.turn(&id, "remember a").await;
    rig.turn(&id, "remember b").await;
    let begun = rig.begin(&id, "permission c").await;
    in_time(rig.runtime.shutdown()).await;
    let ended = in_time(begun).await.unwrap();
    assert!(
        matches!(ended, Err(RuntimeError::Stopped { .. })),
        "{ended:?}"
    );
    let execution = rig.look(&id).await;
    assert_eq!(execution.status, ExecutionStatus::Stopped);
    assert_eq!(execution.stop_reason.as_deref(), Some("interrupted"));
    let names = names(&rig.all(&id).await);
    assert!(!names.contains(&"error"), "{names:?}");
    let refused = in_time(rig.runtime().launch(rig.spec())).await;
    assert!(
        matches!(refused, Err(RuntimeError::ShuttingDown)),
        "{refused:?}"
    );
    id
}

/// Ends the turn that was cut off and goes on. Nobody waits for it any more.
async fn go_on(rig: &Rig, id: &str) {
    if rig.kind == Kind::Fake {
        // It does not go on with any.
        rig.until(id, |kind| *kind == EventKind::BootReady).await;
        return;
    }
    rig.until_status(id, ExecutionStatus::Running).await;
    let cancelled = in_time(rig.runtime().cancel_turn(id)).await.unwrap();
    assert_eq!(cancelled.map(|turn| turn.generation), Some(3));
}
