//! Executions that were launched by others.

use skillrun::runtime::{DEPTH_MAX, ExecutionFilter, ExecutionStatus, LaunchSpec, RuntimeError};

use super::rig::{Rig, in_time};

async fn child(rig: &Rig, parent: &str) -> String {
    let spec = LaunchSpec {
        parent: Some(parent.parse().unwrap()),
        ..rig.spec()
    };
    rig.ready_with(spec).await
}

pub(super) async fn children_end_with_their_parent(rig: &Rig) {
    for ends in ["stop", "exit", "trap"] {
        let parent = rig.ready().await;
        let first = child(rig, &parent).await;
        let below = child(rig, &first).await;
        let other = rig.ready().await;
        let reason = match ends {
            "stop" => {
                rig.stop(&parent).await;
                "enough"
            }
            verb => {
                in_time(rig.runtime().resume(&parent, verb))
                    .await
                    .unwrap_err();
                "its parent has ended"
            }
        };
        for id in [&first, &below] {
            let events = rig.all(id).await;
            assert_eq!(events.last().unwrap().kind.name(), "stopped");
            let execution = rig.look(id).await;
            assert_eq!(execution.status, ExecutionStatus::Stopped);
            assert_eq!(execution.stop_reason.as_deref(), Some(reason));
        }
        assert_eq!(rig.status(&other).await, ExecutionStatus::Ready);
        // What it launches now comes to nothing.
        let spec = LaunchSpec {
            parent: Some(parent.parse().unwrap()),
            ..rig.spec()
        };
        let runs = rig.home.run_ids().len();
        in_time(rig.runtime().launch(spec)).await.unwrap_err();
        assert_eq!(rig.home.run_ids().len(), runs);
        rig.stop(&other).await;
    }
}

pub(super) async fn only_the_parent_stops_its_children(rig: &Rig) {
    let parent = rig.ready().await;
    let first = child(rig, &parent).await;
    let below = child(rig, &first).await;
    for (by, id) in [
        (&parent, &below),
        (&below, &first),
        (&first, &parent),
        (&first, &first),
    ] {
        let refused = in_time(rig.runtime().stop_child(by, id, "")).await;
        assert!(
            matches!(refused, Err(RuntimeError::NotFound { .. })),
            "{refused:?}"
        );
    }
    let filter = ExecutionFilter {
        parent: Some(parent.parse().unwrap()),
        ..ExecutionFilter::default()
    };
    let listed = in_time(rig.runtime().list_executions(filter))
        .await
        .unwrap();
    assert_eq!(listed.executions.len(), 1);
    in_time(rig.runtime().stop_child(&parent, &first, "enough"))
        .await
        .unwrap();
    assert_eq!(rig.status(&below).await, ExecutionStatus::Stopped);
    let (a, b) = (child(rig, &parent).await, child(rig, &parent).await);
    let stopped = in_time(rig.runtime().stop_children(&parent, "all"))
        .await
        .unwrap();
    assert_eq!(stopped.len(), 2);
    for id in [a, b] {
        assert_eq!(rig.look(&id).await.stop_reason.as_deref(), Some("all"));
    }
    assert_eq!(rig.status(&parent).await, ExecutionStatus::Ready);
    rig.stop(&parent).await;
}

/// Also of those that ended a short while ago.
pub(super) async fn a_parent_has_a_list_of_its_children(rig: &Rig) {
    let parent = rig.ready().await;
    let first = child(rig, &parent).await;
    let second = child(rig, &parent).await;
    let below = child(rig, &second).await;
    rig.stop(&first).await;
    let listed = in_time(rig.runtime().list_children(&parent)).await.unwrap();
    let listed: Vec<_> = listed
        .iter()
        .map(|child| (child.id.to_string(), child.status))
        .collect();
    let expected = [
        (second.clone(), ExecutionStatus::Ready),
        (first, ExecutionStatus::Stopped),
    ];
    assert_eq!(listed, expected);
    let listed = in_time(rig.runtime().list_children(&below)).await.unwrap();
    assert_eq!(listed, []);
    let none = "exec_0190a0a0a0a07000800000000000abcd_1";
    let refused = in_time(rig.runtime().list_children(none)).await;
    assert!(
        matches!(refused, Err(RuntimeError::NotFound { .. })),
        "{refused:?}"
    );
    rig.stop(&parent).await;
}

/// Each has limits of its own, so that without a bound on depth there would be none on anything.
pub(super) async fn launches_end_at_a_depth(rig: &Rig) {
    let root = rig.ready().await;
    let mut parent = root.clone();
    for _ in 0..DEPTH_MAX {
        parent = child(rig, &parent).await;
    }
    let spec = LaunchSpec {
        parent: Some(parent.parse().unwrap()),
        ..rig.spec()
    };
    let runs = rig.home.run_ids().len();
    let refused = in_time(rig.runtime().launch(spec)).await.unwrap_err();
    assert!(
        matches!(&refused, RuntimeError::TooDeep { parent: of, .. } if of.to_string() == parent),
        "{refused:?}"
    );
    assert_eq!(rig.home.run_ids().len(), runs);
    rig.stop(&root).await;
}
