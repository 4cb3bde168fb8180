//! What whoever watches is told.

use serde_json::json;
use skillrun::runtime::{EventKind, ExecutionStatus, RuntimeError};

use super::rig::{Rig, in_time, names, next, rest, text, until};

/// C44
pub(super) async fn whoever_comes_late_sees_everything_and_the_end(rig: &Rig) {
    let spec = rig.spec_with(&json!({"start": "exit:0"}));
    let id = in_time(rig.runtime().launch(spec))
        .await
        .unwrap()
        .id
        .to_string();
    let events = rig.all(&id).await;
    assert_eq!(names(&events), ["session_status", "stopped"]);
    assert_eq!(rig.status(&id).await, ExecutionStatus::Completed);
    // It has ended by now.
    let mut late = rig.events(&id).await;
    assert_eq!(rest(&mut late).await, events);
    assert_eq!(next(&mut late).await, None);
}

/// C46, the first half.
pub(super) async fn a_handler_may_call_every_method(rig: &Rig) {
    let id = rig.ready().await;
    let mut events = rig.events(&id).await;
    until(&mut events, |kind| *kind == EventKind::BootReady).await;
    // What it is told is so by then.
    assert_eq!(rig.status(&id).await, ExecutionStatus::Ready);
    let turn = rig.begin(&id, "permission a").await;
    until(&mut events, |kind| {
        matches!(kind, EventKind::Running { .. })
    })
    .await;
    assert_eq!(rig.status(&id).await, ExecutionStatus::Running);
    in_time(rig.runtime().cancel_turn(&id))
        .await
        .unwrap()
        .unwrap();
    in_time(turn).await.unwrap().unwrap();
    until(&mut events, |kind| *kind == EventKind::Ready).await;
    assert_eq!(rig.status(&id).await, ExecutionStatus::Ready);
    rig.turn(&id, "echo a").await;
    until(&mut events, |kind| *kind == EventKind::Ready).await;
    assert!(
        in_time(rig.runtime().set_mcp_mode(&id, "office"))
            .await
            .unwrap()
    );
    until(&mut events, |kind| {
        matches!(kind, EventKind::ModeChanged { .. })
    })
    .await;
    assert_eq!(rig.look(&id).await.mcp_mode, "office");
    let stop = rig.runtime().stop(&id, "enough");
    in_time(stop).await.unwrap();
    until(&mut events, |kind| {
        matches!(kind, EventKind::Stopped { .. })
    })
    .await;
    assert_eq!(rig.status(&id).await, ExecutionStatus::Stopped);
    let gone = in_time(rig.runtime().stop(&id, "")).await;
    assert!(
        matches!(gone, Err(RuntimeError::NotFound { .. })),
        "{gone:?}"
    );
    assert_eq!(next(&mut events).await, None);
}

/// C46, the second half, and C50.
pub(super) async fn a_subscriber_who_does_not_read_holds_nothing_up(rig: &Rig) {
    const CHUNKS: usize = 30_000;
    let id = rig.ready().await;
    let mut reads_nothing = rig.events(&id).await;
    let mut reads_a_little = rig.events(&id).await;
    until(&mut reads_a_little, |kind| *kind == EventKind::BootReady).await;
    // It has everything there is, so that it is told when it falls behind.
    assert!(futures_util::poll!(Box::pin(reads_a_little.next())).is_pending());
    let mut reads = rig.events(&id).await;
    let reading = tokio::spawn(async move { rest(&mut reads).await });
    rig.turn(&id, &format!("chunks {CHUNKS}")).await;
    let first = next(&mut reads_a_little).await.unwrap();
    assert_eq!(first.kind.name(), "lagged");
    rig.stop(&id).await;
    let events = in_time(reading).await.unwrap();
    let expected: String = (0..CHUNKS).map(|at| format!("{at};")).collect();
    assert!(text(&events, 1) == expected);
    let names = names(&events);
    let complete = names.iter().position(|name| *name == "complete");
    let last_chunk = names.iter().rposition(|name| *name == "message_chunk");
    assert!(last_chunk < complete);
    // Whoever reads may have been behind for a while, and been told so.
    let told = events.iter().filter(|event| event.kind.name() != "lagged");
    assert!(rest(&mut reads_nothing).await.iter().eq(told));
    let slow = rest(&mut reads_a_little).await;
    assert!(text(&slow, 1) == expected);
}

pub(super) async fn events_are_replayed_from_a_number_on(rig: &Rig) {
    let id = rig.ready().await;
    rig.turn(&id, "echo a").await;
    rig.turn(&id, "echo b").await;
    rig.stop(&id).await;
    let all = rig.all(&id).await;
    for at in 0..all.len() {
        let from = Some(all[at].seq);
        let mut events = in_time(rig.runtime().subscribe_events(&id, from))
            .await
            .unwrap();
        assert_eq!(rest(&mut events).await, all[at..]);
    }
    let beyond = Some(all.last().unwrap().seq + 1);
    let mut events = in_time(rig.runtime().subscribe_events(&id, beyond))
        .await
        .unwrap();
    assert_eq!(rest(&mut events).await, []);
}
