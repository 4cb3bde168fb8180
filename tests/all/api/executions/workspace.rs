//! The folders that agents work in.

use std::fs;

use serde_json::json;

use super::*;
use crate::api::streams::Watcher;

/// No answer says where the home, or the folder, is.
#[track_caller]
fn tells_no_folder(daemon: &Client, id: &str, folders: &[&str]) {
    let run_id = ledger(id);
    let mut texts = vec![String::from_utf8(daemon.get(EXECUTIONS).body).unwrap()];
    for path in [
        format!("{EXECUTIONS}/{id}"),
        format!("/api/agent/runs/{run_id}"),
    ] {
        texts.push(String::from_utf8(daemon.get(&path).body).unwrap());
    }
    for path in [
        format!("{EXECUTIONS}/{id}/events"),
        format!("/api/agent/runs/{run_id}/events"),
    ] {
        let frames = Watcher::open(daemon.address, &path, &[]).unwrap().rest();
        texts.extend(frames.into_iter().filter_map(|frame| frame.data));
    }
    assert!(
        texts.iter().any(|text| text.contains("/workspace")),
        "{texts:?}"
    );
    for text in texts {
        for folder in folders {
            assert!(!text.contains(folder), "{folder}: {text}");
        }
    }
}

#[test]
fn a_folder_of_the_machine_is_below_one_that_was_opened_for_that_and_is_never_told() {
    let outside = tempfile::tempdir().unwrap();
    let opened = tempfile::tempdir().unwrap();
    let opened_path = opened.path().canonicalize().unwrap();
    let inside = opened_path.join("project");
    fs::create_dir(&inside).unwrap();
    std::os::unix::fs::symlink(outside.path(), opened_path.join("link")).unwrap();
    let home = home(&format!("[runtime]\nworkspaces = [{:?}]\n", opened_path));
    let daemon = Daemon::start(&home);
    let of = |path: &std::path::Path| {
        let mut body = plain();
        body["workspace"] = json!({ "path": path, "repository_id": "r-1" });
        body
    };
    let file = outside.path().join("file");
    fs::write(&file, "").unwrap();
    for path in [
        outside.path().to_owned(),
        opened_path.join("link"),
        file,
        outside.path().join("none"),
    ] {
        let answer = daemon.post(EXECUTIONS, &of(&path));
        assert_eq!(
            (answer.status, answer.problem().as_str()),
            (400, "invalid_input")
        );
        // The same, whatever there is: a client does not find out what the machine has.
        let detail = answer.json()["detail"].as_str().unwrap().to_owned();
        let told = format!("workspace path {path:?} is no folder below one of runtime.workspaces");
        assert_eq!(detail, told);
    }
    let id = ready(&daemon, &of(&inside));
    let ended = turn(&daemon, &id, "write /workspace/note.txt hello");
    assert_eq!(ended["stop_reason"], "end_turn", "{ended}");
    assert_eq!(
        fs::read_to_string(inside.join("note.txt")).unwrap(),
        "hello"
    );
    let execution = shown(&daemon, &id);
    assert_eq!(execution["workspace_path"], "/workspace");
    assert_eq!(execution["repository_id"], "r-1");
    assert_eq!(ask(&daemon, &id, "stop", &json!(null)).status, 200);
    let opened_text = opened_path.to_str().unwrap();
    tells_no_folder(&daemon, &id, &[opened_text, home.path().to_str().unwrap()]);
    assert!(inside.join("note.txt").exists());
}

#[test]
fn a_folder_of_its_own_goes_with_the_execution() {
    let home = home("");
    let daemon = Daemon::start(&home);
    let mut body = plain();
    body["workspace"] = json!({ "is_ephemeral": true });
    let id = ready(&daemon, &body);
    let ended = turn(&daemon, &id, "write /workspace/note.txt hello");
    assert_eq!(ended["stop_reason"], "end_turn", "{ended}");
    let workspaces = home.path().join("workspaces");
    assert_eq!(fs::read_dir(&workspaces).unwrap().count(), 1);
    assert_eq!(shown(&daemon, &id)["is_ephemeral"], true);
    assert_eq!(ask(&daemon, &id, "stop", &json!(null)).status, 200);
    eventually("a folder that goes", || {
        (fs::read_dir(&workspaces).unwrap().count() == 0).then_some(())
    });
    tells_no_folder(&daemon, &id, &[home.path().to_str().unwrap()]);
}
