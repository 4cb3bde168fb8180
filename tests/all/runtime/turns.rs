//! Prompts, one after the other.

use futures_util::future::join_all;
use skillrun::call::TurnStop;
use skillrun::runtime::{EventKind, ExecutionStatus, QUEUED_MAX, RuntimeError};

use super::rig::{Rig, in_time, names, text};

pub(super) async fn prompts_are_taken_in_their_order(rig: &Rig) {
    let id = rig.ready().await;
    let first = rig.begin(&id, "permission a").await;
    let prompts: Vec<String> = (0..QUEUED_MAX).map(|n| format!("remember {n}")).collect();
    let mut waiting = Vec::new();
    for prompt in &prompts {
        let mut resume = Box::pin(rig.runtime().resume(&id, prompt));
        assert!(futures_util::poll!(resume.as_mut()).is_pending());
        waiting.push(resume);
    }
    assert_eq!(rig.look(&id).await.prompts_queued, QUEUED_MAX);
    let busy = in_time(rig.runtime().resume(&id, "one more")).await;
    assert!(matches!(busy, Err(RuntimeError::Busy { .. })), "{busy:?}");
    in_time(rig.runtime().cancel_turn(&id)).await.unwrap();
    let ended = in_time(first).await.unwrap().unwrap();
    assert_eq!(
        (ended.generation, ended.stop_reason),
        (1, TurnStop::Cancelled)
    );
    let ended = in_time(join_all(waiting)).await;
    let generations = ended.into_iter().map(|ended| ended.unwrap().generation);
    assert!(generations.eq(2..=QUEUED_MAX as u64 + 1));
    rig.turn(&id, "recall").await;
    rig.stop(&id).await;
    let told: Vec<String> = (0..QUEUED_MAX).map(|n| n.to_string()).collect();
    assert_eq!(
        text(&rig.all(&id).await, QUEUED_MAX as u64 + 2),
        told.join(",")
    );
}

pub(super) async fn a_turn_ends_with_the_reason_that_the_agent_has(rig: &Rig) {
    let id = rig.ready().await;
    assert_eq!(rig.turn(&id, "echo a").await.stop_reason, TurnStop::EndTurn);
    assert_eq!(
        rig.turn(&id, "stop refusal").await.stop_reason,
        TurnStop::Refusal
    );
    let failed = rig.turn(&id, "fail code it failed").await;
    assert_eq!(failed.stop_reason, TurnStop::Error);
    assert!(failed.error.unwrap().contains("it failed"));
    // It goes on all the same.
    assert_eq!(rig.turn(&id, "echo a").await.generation, 4);
    rig.stop(&id).await;
    let events = rig.all(&id).await;
    let completes = events.iter().filter_map(|event| match &event.kind {
        EventKind::Complete { stop_reason, .. } => Some((event.prompt_generation, *stop_reason)),
        _ => None,
    });
    let expected = [
        (1, TurnStop::EndTurn),
        (2, TurnStop::Refusal),
        (3, TurnStop::Error),
        (4, TurnStop::EndTurn),
    ];
    assert!(completes.eq(expected));
}

/// C45, as far as a real agent is late.
pub(super) async fn a_cancelled_turn_ends_and_the_next_goes_on(rig: &Rig) {
    let id = rig.ready().await;
    assert_eq!(in_time(rig.runtime().cancel_turn(&id)).await.unwrap(), None);
    let first = rig.begin(&id, "permission a").await;
    assert_eq!(rig.status(&id).await, ExecutionStatus::Running);
    let cancelled = in_time(rig.runtime().cancel_turn(&id))
        .await
        .unwrap()
        .unwrap();
    assert_eq!(cancelled.stop_reason, TurnStop::Cancelled);
    assert_eq!(in_time(first).await.unwrap().unwrap(), cancelled);
    let next = rig.turn(&id, "echo b").await;
    assert_eq!((next.generation, next.stop_reason), (2, TurnStop::EndTurn));
    rig.stop(&id).await;
    assert_eq!(text(&rig.all(&id).await, 2), "b");
}

pub(super) async fn an_agent_that_does_not_listen_is_interrupted_and_goes_on_without_the_turn(
    rig: &Rig,
) {
    let id = rig.ready().await;
    rig.turn(&id, "remember a").await;
    let spins = rig.begin(&id, "remember b\nspin").await;
    let ended = in_time(rig.runtime().cancel_turn(&id))
        .await
        .unwrap()
        .unwrap();
    assert!(ended.undone);
    assert_eq!(in_time(spins).await.unwrap().unwrap(), ended);
    assert_eq!(rig.turn(&id, "echo c").await.generation, 3);
    rig.stop(&id).await;
}

pub(super) async fn a_wait_that_is_given_up_takes_the_prompt_back_or_ends_its_turn(rig: &Rig) {
    let id = rig.ready().await;
    let begun = rig.begin(&id, "permission a").await;
    let mut waits = Box::pin(rig.runtime().resume(&id, "remember b"));
    assert!(futures_util::poll!(waits.as_mut()).is_pending());
    assert_eq!(rig.look(&id).await.prompts_queued, 1);
    drop(waits);
    assert_eq!(rig.look(&id).await.prompts_queued, 0);
    begun.abort();
    let complete = |kind: &EventKind| {
        matches!(
            kind,
            EventKind::Complete {
                stop_reason: TurnStop::Cancelled,
                ..
            }
        )
    };
    rig.until(&id, complete).await;
    rig.until(&id, |kind| *kind == EventKind::Ready).await;
    assert_eq!(rig.status(&id).await, ExecutionStatus::Ready);
    rig.turn(&id, "recall").await;
    rig.stop(&id).await;
    assert_eq!(text(&rig.all(&id).await, 2), "");
}

pub(super) async fn a_mode_is_changed_in_the_middle_of_a_turn_and_told_once(rig: &Rig) {
    let id = rig.ready().await;
    let spins = rig.begin(&id, "spin").await;
    let mut events = rig.events(&id).await;
    let change = |mode: &'static str| in_time(rig.runtime().set_mcp_mode(&id, mode));
    assert!(change("config").await.unwrap());
    assert!(!change("config").await.unwrap());
    let unknown = change("root").await;
    assert!(
        matches!(unknown, Err(RuntimeError::UnknownMode { .. })),
        "{unknown:?}"
    );
    assert_eq!(rig.look(&id).await.mcp_mode, "config");
    super::rig::until(&mut events, |kind| {
        matches!(kind, EventKind::ToolsChanged { .. })
    })
    .await;
    in_time(rig.runtime().cancel_turn(&id)).await.unwrap();
    in_time(spins).await.unwrap().unwrap();
    rig.stop(&id).await;
    let over = change("task").await;
    assert!(
        matches!(over, Err(RuntimeError::NotFound { .. })),
        "{over:?}"
    );
    let names = names(&rig.all(&id).await);
    for changed in ["mode_changed", "tools_changed"] {
        assert_eq!(names.iter().filter(|name| **name == changed).count(), 1);
    }
    assert_eq!(rig.look(&id).await.mcp_mode, "config");
}
