//! What becomes of launches.

use std::fs;

use serde_json::json;
use skillrun::runtime::{
    EventKind, ExecutionFilter, ExecutionStatus, LaunchSpec, RuntimeError, WorkspaceRef,
};

use super::rig::{Rig, in_time, names, object, text};
use crate::harness::eventually;

pub(super) async fn a_launch_is_seen_at_once_and_has_its_events(rig: &Rig) {
    let launched = in_time(rig.runtime().launch(rig.spec())).await.unwrap();
    let id = launched.id.to_string();
    let execution = rig.look(&id).await;
    assert_eq!(execution.started_at, launched.started_at);
    assert_eq!(execution.session_id, launched.session_id);
    // Nobody named a session: it is that of the ledger.
    assert_eq!(execution.session_id, launched.id.run_id().as_str());
    assert_eq!(&execution.prior_session, launched.id.run_id());
    assert_eq!(execution.mcp_mode, "task");
    assert_eq!(execution.agentctl_url, "");
    assert!(!execution.status.is_terminal());
    let listed = rig.runtime().list_executions(ExecutionFilter::default());
    let listed = in_time(listed).await.unwrap().executions;
    assert_eq!(
        listed.iter().map(|one| &one.id).collect::<Vec<_>>(),
        [&launched.id]
    );
    rig.until(&id, |kind| *kind == EventKind::BootReady).await;
    assert_eq!(rig.status(&id).await, ExecutionStatus::Ready);
    rig.runtime.set_base_url("http://localhost/executions/");
    let url = rig.look(&id).await.agentctl_url;
    assert_eq!(url, format!("http://localhost/executions/{id}"));
    rig.stop(&id).await;
    let events = rig.all(&id).await;
    assert_eq!(names(&events), ["session_status", "boot_ready", "stopped"]);
    assert!(events.is_sorted_by(|one, other| one.seq < other.seq));
}

pub(super) async fn a_prompt_of_the_launch_is_its_first_turn(rig: &Rig) {
    let spec = LaunchSpec {
        prompt: "echo hello".to_owned(),
        ..rig.spec()
    };
    let id = in_time(rig.runtime().launch(spec))
        .await
        .unwrap()
        .id
        .to_string();
    rig.until(&id, |kind| *kind == EventKind::Ready).await;
    rig.stop(&id).await;
    let events = rig.all(&id).await;
    let expected = [
        "session_status",
        "boot_ready",
        "running",
        "message_chunk",
        "complete",
        "ready",
        "stopped",
    ];
    assert_eq!(names(&events), expected);
    assert_eq!(text(&events, 1), "hello");
}

/// C43
pub(super) async fn parallel_launches_of_a_session_share_one_result(rig: &Rig) {
    let spec = rig.spec_with(&json!({"launch_request": {"session_id": "s"}}));
    let launches = (0..10).map(|_| rig.runtime().launch(spec.clone()));
    let launched = in_time(futures_util::future::join_all(launches)).await;
    let mut ids = Vec::new();
    for launched in launched {
        match launched {
            Ok(launched) => ids.push(launched.id.to_string()),
            // It came when the others had what they wanted.
            Err(RuntimeError::AlreadyRunning { execution_id, .. }) => {
                ids.push(execution_id.to_string());
            }
            Err(error) => panic!("{error}"),
        }
    }
    ids.dedup();
    assert_eq!(ids.len(), 1);
    let later = in_time(rig.runtime().launch(spec)).await;
    assert!(matches!(later, Err(RuntimeError::AlreadyRunning { .. })));
    assert_eq!(rig.home.run_ids().len(), 1);
    rig.stop(&ids[0]).await;
    for event in rig.all(&ids[0]).await {
        assert_eq!(event.execution_id.to_string(), ids[0]);
        assert_eq!(event.session_id, "s");
    }
}

pub(super) async fn what_is_refused_leaves_nothing_behind(rig: &Rig) {
    let spec = || rig.spec();
    let launch = |spec: LaunchSpec| async move { in_time(rig.runtime().launch(spec)).await };
    let unknown = LaunchSpec {
        executor_id: "elsewhere".to_owned(),
        ..spec()
    };
    let refused = launch(unknown).await;
    assert!(
        matches!(refused, Err(RuntimeError::UnknownExecutor { .. })),
        "{refused:?}"
    );
    let unknown = LaunchSpec {
        mcp_mode: "root".to_owned(),
        ..spec()
    };
    let refused = launch(unknown).await;
    assert!(
        matches!(refused, Err(RuntimeError::UnknownMode { .. })),
        "{refused:?}"
    );
    for agent in ["nobody", "", "../probe-agent"] {
        let unknown = LaunchSpec {
            agent_profile_id: agent.to_owned(),
            workspace: WorkspaceRef {
                is_ephemeral: true,
                ..WorkspaceRef::default()
            },
            ..spec()
        };
        assert!(launch(unknown).await.is_err(), "{agent:?}");
    }
    unusable_folders_are_refused(rig).await;
    for id in ["a/b", "..", ".", "a\\b"] {
        let named = rig.spec_with(&json!({"launch_request": {"session_id": id}}));
        let refused = launch(named).await;
        assert!(
            matches!(refused, Err(RuntimeError::InvalidArgument { .. })),
            "{refused:?}"
        );
    }
    let nowhere = LaunchSpec {
        prior_session: "run_0190a0a0a0a07000800000000000abcd".to_owned(),
        ..spec()
    };
    let refused = launch(nowhere).await;
    assert!(
        matches!(refused, Err(RuntimeError::InvalidArgument { .. })),
        "{refused:?}"
    );
    assert_eq!(rig.home.run_ids(), Vec::<String>::new());
    assert!(!rig.home.path().join("workspaces").exists());
    let listed = rig
        .runtime()
        .list_executions(ExecutionFilter::default())
        .await;
    assert!(listed.unwrap().executions.is_empty());
}

async fn unusable_folders_are_refused(rig: &Rig) {
    for path in ["relative", "/no/such/folder"] {
        let unusable = LaunchSpec {
            workspace: WorkspaceRef {
                path: path.to_owned(),
                ..WorkspaceRef::default()
            },
            ..rig.spec()
        };
        let refused = in_time(rig.runtime().launch(unusable)).await;
        assert!(
            matches!(refused, Err(RuntimeError::Workspace(_))),
            "{refused:?}"
        );
    }
}

pub(super) async fn a_caller_who_goes_away_leaves_no_execution(rig: &Rig) {
    let spec = LaunchSpec {
        workspace: WorkspaceRef {
            is_ephemeral: true,
            ..WorkspaceRef::default()
        },
        ..rig.spec_with(&json!({"launch_request": {"session_id": "s"}}))
    };
    // Polled a few times more each time, so that it is dropped at every point that it waits at.
    for polls in 0..8 {
        let mut launch = rig.runtime().launch(spec.clone());
        let mut is_over = false;
        for _ in 0..polls {
            let polled = futures_util::poll!(launch.as_mut());
            if polled.is_ready() {
                is_over = true;
                break;
            }
            tokio::task::yield_now().await;
        }
        drop(launch);
        if is_over {
            break;
        }
    }
    let live = || {
        let runs = rig.home.run_ids();
        let lines = runs.iter().map(|run_id| rig.home.events(run_id));
        let open = lines.filter(|events| events.last().unwrap()["type"] != "run_completed");
        open.count()
    };
    // What was begun by then comes to its end, but for one that was launched as a whole.
    let listed = rig
        .runtime()
        .list_executions(ExecutionFilter::default())
        .await;
    let launched = listed.unwrap().executions.into_iter();
    let launched: Vec<_> = launched.filter(|one| !one.status.is_terminal()).collect();
    for execution in &launched {
        rig.stop(&execution.id.to_string()).await;
    }
    eventually("the ends of what was begun", || (live() == 0).then_some(()));
    eventually("the removal of folders", || {
        let workspaces = fs::read_dir(rig.home.path().join("workspaces"));
        workspaces
            .is_ok_and(|entries| entries.count() == 0)
            .then_some(())
    });
    // The session can be served.
    let id = rig.ready_with(spec).await;
    rig.stop(&id).await;
}

pub(super) async fn the_launch_request_is_carried_over_and_does_not_show(rig: &Rig) {
    let metadata = json!({
        "launch_request": {
            "agent_profile_id": "nobody",
            "mcp_mode": "office",
            "session_id": "s",
            "task_id": "t",
            "prompt": "echo below",
        },
        "mine": {"kept": true},
    });
    let spec = LaunchSpec {
        prompt: "echo above".to_owned(),
        ..rig.spec_with(&metadata)
    };
    let given = spec.clone();
    let id = in_time(rig.runtime().launch(spec.clone()))
        .await
        .unwrap()
        .id
        .to_string();
    assert_eq!(spec, given);
    rig.until(&id, |kind| *kind == EventKind::Ready).await;
    let execution = rig.look(&id).await;
    assert_eq!(execution.session_id, "s");
    assert_eq!(execution.task_id.as_deref(), Some("t"));
    assert_eq!(execution.mcp_mode, "office");
    assert_eq!(execution.metadata, object(&json!({"mine": {"kept": true}})));
    rig.stop(&id).await;
    let events = rig.all(&id).await;
    assert_eq!(text(&events, 1), "above");
    let started = &rig.home.events(execution.prior_session.as_str())[0]["payload"];
    assert_eq!(started["input"], json!({"mine": {"kept": true}}));
    assert_eq!(started["session"]["metadata"], started["input"]);
    let wrong = rig.spec_with(&json!({"launch_request": {"prompt": 1}}));
    let refused = in_time(rig.runtime().launch(wrong)).await.unwrap_err();
    assert!(
        refused
            .to_string()
            .contains("metadata.launch_request.prompt"),
        "{refused}"
    );
}

pub(super) async fn a_folder_is_made_for_an_execution_and_goes_with_it(rig: &Rig) {
    let spec = LaunchSpec {
        workspace: WorkspaceRef {
            is_ephemeral: true,
            ..WorkspaceRef::default()
        },
        ..rig.spec()
    };
    let id = rig.ready_with(spec).await;
    let execution = rig.look(&id).await;
    let path = execution.workspace_path.unwrap();
    assert!(execution.is_ephemeral);
    assert_eq!(
        rig.home.path().join("workspaces").join(&id).to_str(),
        Some(path.as_str())
    );
    fs::write(format!("{path}/a"), "b").unwrap();
    rig.stop(&id).await;
    assert!(!fs::exists(&path).unwrap());
    // A folder that is somebody else's stays, with what is in it.
    let own = tempfile::tempdir().unwrap();
    fs::write(own.path().join("a"), "b").unwrap();
    let spec = LaunchSpec {
        workspace: WorkspaceRef {
            path: own.path().to_str().unwrap().to_owned(),
            is_ephemeral: true,
            ..WorkspaceRef::default()
        },
        ..rig.spec()
    };
    let id = rig.ready_with(spec).await;
    assert!(!rig.look(&id).await.is_ephemeral);
    rig.stop(&id).await;
    assert!(own.path().join("a").exists());
}

pub(super) async fn an_id_that_is_none_is_an_argument_error_and_an_unknown_one_is_not_found(
    rig: &Rig,
) {
    let runtime = rig.runtime();
    for (id, is_argument) in [
        ("", true),
        ("..", true),
        ("exec_../../a_1", true),
        ("exec_0190a0a0a0a07000800000000000abcd_1", false),
    ] {
        let errors = [
            runtime.resume(id, "echo").await.unwrap_err(),
            runtime.cancel_turn(id).await.unwrap_err(),
            runtime.stop(id, "").await.unwrap_err(),
            runtime.stop_children(id, "").await.unwrap_err(),
            runtime.stop_child(id, id, "").await.unwrap_err(),
            runtime.get_execution(id).await.unwrap_err(),
            runtime.subscribe_events(id, None).await.err().unwrap(),
            runtime.set_mcp_mode(id, "task").await.unwrap_err(),
        ];
        for error in errors {
            match is_argument {
                true => assert!(
                    matches!(error, RuntimeError::InvalidArgument { .. }),
                    "{error}"
                ),
                false => assert!(matches!(error, RuntimeError::NotFound { .. }), "{error}"),
            }
        }
    }
    // A run that is no execution is none.
    let filter = ExecutionFilter {
        session_id: Some("nobody's".to_owned()),
        ..ExecutionFilter::default()
    };
    let listed = runtime.list_executions(filter).await.unwrap();
    assert_eq!(listed.executions, []);
}
