//! `runs list` and its filters.

use std::fs;
use std::time::Duration;

use serde_json::json;
use skillrun::clock::{Clock, Timestamp};
use skillrun::config::Durability;
use skillrun::ledger::{
    Event, Json, Origin, RunCompleted, RunStarted, RunStatus, Store, StoreOptions, ToolCall,
    ToolResult,
};
use skillrun::outcome::OutcomeCode;

use super::{one_document, run_id};
use crate::harness::Home;

/// The number of each run, its skill, its parent's number and how it ended. Every run but the first is
/// an hour younger than the one before; the last is of this minute.
type Run = (u32, &'static str, Option<u32>, Option<RunStatus>);
const RUNS: [Run; 7] = [
    (1, "mill", None, Some(RunStatus::Ok)),
    (2, "mill", Some(1), Some(RunStatus::Error)),
    (3, "sort", Some(1), Some(RunStatus::Ok)),
    (4, "sort", Some(3), Some(RunStatus::Cancelled)),
    (5, "mill.grind", None, Some(RunStatus::Interrupted)),
    (6, "mill", None, Some(RunStatus::Suspended)),
    (7, "sort", None, None),
];

/// The id of a run that sorts by its number.
fn id(number: u32) -> String {
    run_id(0).replacen("0190a0a0a0a0", &format!("0190a0a0a{number:03x}"), 1)
}

/// A home with all those runs, and an eighth whose ledger is damaged.
fn home_with_runs() -> Home {
    let home = Home::new(&[]);
    let now = Clock::system().now().unix_micros();
    let hours = |hours: i64| Duration::from_secs(hours.unsigned_abs() * 3_600);
    let oldest = i64::try_from(hours(6).as_micros()).unwrap();
    let clock = Clock::manual(Timestamp::from_unix_micros(now - oldest));
    let store = Store::open(StoreOptions {
        runs_dir: home.path().join("runs"),
        durability: Durability::Relaxed,
        clock: clock.clone(),
    })
    .unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    for (number, skill, parent, status) in RUNS {
        let started = RunStarted {
            skill: skill.to_owned(),
            input: Json::parse("{}").unwrap(),
            parent_run_id: parent.map(|parent| id(parent).parse().unwrap()),
            ..RunStarted::default()
        };
        let run_id = id(number).parse().unwrap();
        let (recorder, _) = runtime.block_on(store.create(run_id, started)).unwrap();
        if let Some(status) = status {
            let code = match status {
                RunStatus::Ok => OutcomeCode::Ok,
                _ => OutcomeCode::Internal,
            };
            let end = Event::from(RunCompleted::new(status, code));
            recorder.record(Origin::Host, &end).unwrap();
        }
        clock.advance(hours(1));
    }
    fs::write(home.ledger(&id(8)), "garbage\n").unwrap();
    home
}

#[track_caller]
fn listed(home: &Home, filters: &[&str]) -> (Vec<String>, bool) {
    let ran = home.skillrun(&[&["--json", "runs", "list"], filters].concat());
    assert_eq!((ran.exit, ran.stderr.as_str()), (Some(0), ""), "{ran:?}");
    let document = one_document(&ran);
    let runs = document["runs"].as_array().unwrap();
    let ids = runs.iter().map(|run| run["run_id"].as_str().unwrap());
    let ids = ids.map(str::to_owned).collect();
    (ids, document["has_more"].as_bool().unwrap())
}

#[test]
fn filters_select_and_the_newest_comes_first() {
    let home = home_with_runs();
    let (one, three, many) = (id(1), id(3), "1000");
    for (filters, expected) in [
        (&[][..], &[7, 6, 5, 4, 3, 2, 1, 8][..]),
        (&["--status", "ok"], &[3, 1]),
        (&["--status", "error"], &[2]),
        (&["--status", "cancelled"], &[4]),
        (&["--status", "interrupted"], &[5]),
        (&["--status", "suspended"], &[6]),
        (&["--status", "running"], &[7]),
        (&["--status", "corrupt"], &[8]),
        (&["--skill", "mill"], &[6, 5, 2, 1]),
        (&["--skill", "mill.grind"], &[5]),
        (&["--skill", "mill.gri"], &[]),
        (&["--skill", "mil"], &[]),
        (&["--parent", &one], &[3, 2]),
        (&["--parent", &three], &[4]),
        (&["--since", "90m"], &[7, 6]),
        (&["--since", "30m"], &[7]),
        (&["--skill", "mill", "--status", "ok"], &[1]),
        (
            &["--skill", "sort", "--since", "5h", "--parent", &three],
            &[4],
        ),
        (&["--limit", many], &[7, 6, 5, 4, 3, 2, 1, 8]),
        (&["--limit", "8"], &[7, 6, 5, 4, 3, 2, 1, 8]),
    ] {
        let ids: Vec<String> = expected.iter().copied().map(id).collect();
        assert_eq!(listed(&home, filters), (ids, false), "{filters:?}");
    }
}

#[test]
fn a_limit_cuts_and_says_so() {
    let home = home_with_runs();
    assert_eq!(listed(&home, &["--limit", "2"]), (vec![id(7), id(6)], true));
    let filters = ["--skill", "mill", "--limit", "3"];
    assert_eq!(listed(&home, &filters), (vec![id(6), id(5), id(2)], true));
    let ran = home.skillrun(&["runs", "list", "--limit", "2"]);
    assert_eq!(ran.stdout.lines().count(), 3, "{ran:?}");
    assert!(ran.stderr.contains("more than 2 runs"), "{ran:?}");
}

#[test]
fn a_list_for_people_has_columns() {
    let home = home_with_runs();
    fs::write(home.path().join("runs/notes.jsonl"), "").unwrap();
    let ran = home.skillrun(&["runs", "list"]);
    assert_eq!(ran.exit, Some(0), "{ran:?}");
    let lines: Vec<&str> = ran.stdout.lines().collect();
    let column = lines[0].find("STATUS").unwrap();
    let status = |line: &&str| line[column..].split("  ").next().unwrap().to_owned();
    let statuses: Vec<String> = lines[1..].iter().map(status).collect();
    let ended = RUNS.iter().rev().filter_map(|run| run.3);
    let expected: Vec<String> = ["cut off"]
        .into_iter()
        .chain(ended.map(RunStatus::as_str))
        .map(str::to_owned)
        .collect();
    let (last, whole) = statuses.split_last().unwrap();
    assert_eq!(whole, expected);
    // Its own line does not tell when it began, so its place is that of its id.
    assert_eq!(last, "corrupt", "{ran:?}");
    assert_eq!(ran.stderr, "not a ledger: notes.jsonl\n");
    let document = home.skillrun(&["--json", "runs", "list"]).json();
    assert_eq!(document["foreign"], json!(["notes.jsonl"]));
}

#[test]
fn a_home_that_is_new_has_no_runs_and_no_skills() {
    let home = Home::new(&[]);
    for command in ["runs", "skills"] {
        let ran = home.skillrun(&["--json", command, "list"]);
        assert_eq!(ran.exit, Some(0), "{ran:?}");
        assert_eq!(one_document(&ran)[command], json!([]));
    }
}

#[test]
fn what_a_guest_claims_of_a_call_does_not_stand_where_the_host_says_how_it_ended() {
    let home = Home::new(&[]);
    let store = Store::open(StoreOptions {
        runs_dir: home.path().join("runs"),
        durability: Durability::Relaxed,
        clock: Clock::system(),
    })
    .unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    let created = store.create(id(1).parse().unwrap(), RunStarted::default());
    let (recorder, _) = runtime.block_on(created).unwrap();
    let call = Event::from(ToolCall {
        call_id: "tool#1".to_owned(),
        name: "bank__pay".to_owned(),
        ..ToolCall::default()
    });
    let result = |is_error| {
        Event::from(ToolResult {
            call_id: "tool#1".to_owned(),
            is_error,
            ..ToolResult::default()
        })
    };
    recorder.record(Origin::Host, &call).unwrap();
    recorder.record(Origin::Host, &result(true)).unwrap();
    recorder.record(Origin::Guest, &result(false)).unwrap();
    drop(recorder);
    let ran = home.skillrun(&["runs", "inspect", &id(1)]);
    let line = ran.stdout.lines().find(|line| line.contains("bank__pay"));
    let line = line.unwrap();
    assert!(line.contains('→') && !line.contains("(guest)"), "{ran:?}");
}
