//! The folders that executions work in.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use skillrun::outcome::OutcomeCode;
use skillrun::runtime::{ExecutionStatus, LaunchSpec, Runtime as _, WorkspaceRef};

use super::rig::{Kind, Rig, in_time};

fn spec(rig: &Rig, path: &Path) -> LaunchSpec {
    LaunchSpec {
        workspace: WorkspaceRef {
            path: path.to_str().unwrap().to_owned(),
            ..WorkspaceRef::default()
        },
        ..rig.spec()
    }
}

/// However it is spelled, so that it is the same when the ledger is taken up.
pub(super) async fn a_folder_is_given_under_its_one_name(rig: &Rig) {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().canonicalize().unwrap();
    fs::create_dir(root.join("project")).unwrap();
    symlink("project", root.join("link")).unwrap();
    let mut prior = String::new();
    for spelled in [
        "project",
        "link",
        "project/",
        "./project",
        "link/../project",
    ] {
        let taken_up = LaunchSpec {
            prior_session: prior.clone(),
            ..spec(rig, &root.join(spelled))
        };
        let id = rig.ready_with(taken_up).await;
        let execution = rig.look(&id).await;
        assert_eq!(
            execution.workspace_path.as_deref(),
            root.join("project").to_str(),
            "{spelled}"
        );
        rig.stop(&id).await;
        prior = execution.prior_session.to_string();
    }
}

/// Also by whoever could not open it by other means: then nothing of it is opened.
async fn a_folder_that_became_a_link_is_not_opened(kind: Kind) {
    let rig = Rig::new(kind);
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().canonicalize().unwrap();
    let (project, outside) = (root.join("a/project"), root.join("outside"));
    fs::create_dir_all(&project).unwrap();
    fs::create_dir_all(outside.join("project")).unwrap();
    let id = rig.ready_with(spec(&rig, &project)).await;
    let turn = rig.turn(&id, "write /workspace/note.txt hello").await;
    assert_eq!(turn.error, None);
    // The next instance is given the folder again.
    let spins = rig.begin(&id, "spin").await;
    fs::rename(root.join("a"), root.join("b")).unwrap();
    symlink("outside", root.join("a")).unwrap();
    let _undone = in_time(rig.runtime.cancel_turn(&id)).await;
    let _undone = in_time(spins).await.unwrap();
    rig.until_status(&id, ExecutionStatus::Failed).await;
    let execution = rig.look(&id).await;
    assert_eq!(
        execution.code,
        Some(OutcomeCode::LoadError),
        "{execution:?}"
    );
    assert_eq!(fs::read_dir(outside.join("project")).unwrap().count(), 0);
    assert!(root.join("b/project/note.txt").exists());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_folder_that_became_a_link_is_not_opened_here() {
    a_folder_that_became_a_link_is_not_opened(Kind::InProcess).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_folder_that_became_a_link_is_not_opened_in_a_worker() {
    a_folder_that_became_a_link_is_not_opened(Kind::Subprocess).await;
}
