//! Ledgers that are listed in pages, closed, copied and removed by the binary.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use skillrun::clock::Clock;
use skillrun::config::Durability;
use skillrun::id::RunId;
use skillrun::ledger::{
    Event, Json, Origin, RunCompleted, RunStarted, RunStatus, Store, StoreOptions,
};
use skillrun::outcome::OutcomeCode;

use crate::harness::Home;

/// Runs of a skill, the oldest first; the last one was cut off.
async fn runs(home: &Path, count: usize) -> Vec<RunId> {
    let store = Store::open(StoreOptions {
        runs_dir: home.join("runs"),
        durability: Durability::Relaxed,
        clock: Clock::system(),
    })
    .unwrap();
    let mut ids = Vec::new();
    for n in 0..count {
        let started = RunStarted {
            skill: "greet".to_owned(),
            ..RunStarted::default()
        };
        let (recorder, _) = store.create(RunId::generate(), started).await.unwrap();
        if n + 1 < count {
            let end = RunCompleted {
                output: Some(Json::string(&"x".repeat(100_000))),
                ..RunCompleted::new(RunStatus::Ok, OutcomeCode::Ok)
            };
            recorder.record(Origin::Host, &Event::from(end)).unwrap();
        }
        ids.push(recorder.run_id().clone());
    }
    ids
}

#[tokio::test]
async fn pages_of_a_list_join() {
    let home = Home::new(&[]);
    let ids = runs(home.path(), 5).await;
    let mut seen = Vec::new();
    let mut cursor: Option<String> = None;
    loop {
        let mut arguments = vec!["runs", "list", "--json", "--limit", "2"];
        if let Some(cursor) = &cursor {
            arguments.extend(["--cursor", cursor]);
        }
        let page = home.skillrun(&arguments).json();
        for run in page["runs"].as_array().unwrap() {
            seen.insert(0, run["run_id"].as_str().unwrap().to_owned());
        }
        cursor = page["next_cursor"].as_str().map(str::to_owned);
        assert_eq!(page["has_more"], cursor.is_some());
        if cursor.is_none() {
            break;
        }
    }
    let expected: Vec<String> = ids.iter().map(ToString::to_string).collect();
    assert_eq!(seen, expected);
    let refused = home.skillrun(&["runs", "list", "--cursor", "somewhere"]);
    assert_eq!(refused.exit, Some(2));
}

#[tokio::test]
async fn a_run_that_was_cut_off_is_closed_once() {
    let home = Home::new(&[]);
    let ids = runs(home.path(), 2).await;
    let listed = home.skillrun(&["runs", "list"]);
    assert!(listed.stdout.contains("cut off"), "{listed:?}");
    let closed = home.skillrun(&["runs", "recover"]);
    assert_eq!(closed.stdout, format!("{}: interrupted\n", ids[1]));
    assert_eq!(closed.exit, Some(0));
    let again = home.skillrun(&["runs", "recover", "--json"]).json();
    assert_eq!(again["runs"].as_array().unwrap().len(), 0);
    let verified = home.skillrun(&["runs", "verify", ids[1].as_str()]);
    assert_eq!(verified.exit, Some(0), "{verified:?}");
}

#[tokio::test]
async fn an_export_is_whole_and_replaces_no_file() {
    let home = Home::new(&[]);
    let ids = runs(home.path(), 2).await;
    let printed = home.skillrun(&["runs", "export", ids[0].as_str()]);
    assert_eq!(printed.stdout.lines().count(), 2);
    assert!(printed.stdout.contains(&"x".repeat(100_000)));
    let file = home.path().join("export.jsonl");
    let file = file.to_str().unwrap();
    let arguments = ["runs", "export", ids[0].as_str(), "--output", file];
    assert_eq!(home.skillrun(&arguments).exit, Some(0));
    assert_eq!(fs::read_to_string(file).unwrap(), printed.stdout);
    let mode = fs::metadata(file).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    assert_eq!(home.skillrun(&arguments).exit, Some(1));
    let unknown = "run_00000000000070008000000000000000";
    assert_eq!(home.skillrun(&["runs", "export", unknown]).exit, Some(5));
}

#[tokio::test]
async fn what_is_pruned_is_gone_and_a_rehearsal_removes_nothing() {
    let home = Home::new(&[]);
    let ids = runs(home.path(), 4).await;
    let rehearsed = home.skillrun(&["runs", "prune", "--keep", "2", "--dry-run"]);
    assert_eq!(rehearsed.stdout, format!("{}\n{}\n", ids[0], ids[1]));
    assert_eq!(home.run_ids().len(), 4);
    let pruned = home
        .skillrun(&["runs", "prune", "--keep", "2", "--json"])
        .json();
    assert_eq!(pruned["removed"].as_array().unwrap().len(), 2);
    assert!(pruned["removed_bytes"].as_u64().unwrap() > 200_000);
    assert_eq!(home.run_ids(), [ids[2].to_string(), ids[3].to_string()]);
    assert_eq!(home.skillrun(&["runs", "prune"]).exit, Some(2));
}

#[tokio::test]
async fn an_end_that_was_cut_off_after_a_list_is_found() {
    let home = Home::new(&[]);
    let ids = runs(home.path(), 2).await;
    home.skillrun(&["runs", "list"]);
    let ledger = home.ledger(ids[0].as_str());
    let text = fs::read_to_string(&ledger).unwrap();
    let first = text.lines().next().unwrap();
    fs::write(&ledger, format!("{first}\n")).unwrap();
    let verified = home.skillrun(&["runs", "verify", ids[0].as_str()]);
    assert_eq!(verified.exit, Some(1));
    assert!(verified.stdout.contains("corrupt"), "{verified:?}");
}
