//! Which runs there are.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::Value;
use skillrun::clock::{Clock, Timestamp};
use skillrun::config::Durability;
use skillrun::id::RunId;
use skillrun::ledger::{
    Event, Json, Origin, RunCompleted, RunStarted, RunStatus, Store, StoreOptions,
};
use skillrun::outcome::OutcomeCode;

use super::RUNS;
use crate::api::daemon::Daemon;
use crate::harness::Home;

/// Runs of case C35.
const RUNS_COUNT: usize = 10_000;
const NOW_MICROS: i64 = 1_778_691_736_049_000;

/// A store that another process of the same machine could be.
struct Seed {
    store: Store,
    clock: Clock,
    runtime: tokio::runtime::Runtime,
}

impl Seed {
    fn new(home: &Home) -> Self {
        let clock = Clock::manual(Timestamp::from_unix_micros(NOW_MICROS));
        let store = Store::open(StoreOptions {
            runs_dir: home.path().join("runs"),
            durability: Durability::Relaxed,
            clock: clock.clone(),
        });
        let runtime = tokio::runtime::Builder::new_current_thread().build();
        Self {
            store: store.unwrap(),
            clock,
            runtime: runtime.unwrap(),
        }
    }

    /// Puts a run on record that has ended.
    fn run(&self, skill: &str, parent: Option<&RunId>, status: RunStatus) -> String {
        let run_id = RunId::generate();
        let started = RunStarted {
            skill: skill.to_owned(),
            input: Json::parse("{}").unwrap(),
            parent_run_id: parent.cloned(),
            ..RunStarted::default()
        };
        let created = self
            .runtime
            .block_on(self.store.create(run_id.clone(), started));
        let code = match status {
            RunStatus::Ok => OutcomeCode::Ok,
            RunStatus::Cancelled => OutcomeCode::Cancelled,
            _ => OutcomeCode::Internal,
        };
        let end = Event::from(RunCompleted::new(status, code));
        created.unwrap().0.record(Origin::Host, &end).unwrap();
        run_id.to_string()
    }
}

/// Walks over all pages of a list, and puts runs on record meanwhile.
fn walk(daemon: &Daemon, query: &str, mut meanwhile: impl FnMut(usize)) -> Vec<String> {
    let (mut seen, mut cursor) = (Vec::new(), None);
    for page in 0.. {
        let after = cursor.map(|cursor: String| format!("&cursor={cursor}"));
        let path = format!("{RUNS}?limit=7{query}{}", after.unwrap_or_default());
        let answer = daemon.get(&path);
        assert_eq!(answer.status, 200, "{answer:?}");
        let document = answer.json();
        let runs = document["runs"].as_array().unwrap();
        seen.extend(
            runs.iter()
                .map(|run| run["run_id"].as_str().unwrap().to_owned()),
        );
        match document.get("next_cursor") {
            Some(next) => cursor = Some(next.as_str().unwrap().to_owned()),
            None => return seen,
        }
        assert_eq!(runs.len(), 7, "{path}");
        meanwhile(page);
    }
    unreachable!("pages are counted for ever")
}

/// Case C35: no run twice and none missing, whatever comes in meanwhile.
#[test]
fn c35_ten_thousand_runs_of_one_moment_are_walked_over() {
    let home = Home::new(&[]);
    let seed = Seed::new(&home);
    let parent: RunId = seed.run("above", None, RunStatus::Ok).parse().unwrap();
    let (mut all, mut mill, mut inside, mut failed) = (
        BTreeSet::new(),
        BTreeSet::new(),
        BTreeSet::new(),
        BTreeSet::new(),
    );
    for number in 1..RUNS_COUNT {
        let skill = if number % 10 == 0 {
            "mill.grind"
        } else {
            "sort"
        };
        let above = (number % 15 == 0).then_some(&parent);
        let status = if number % 20 == 1 {
            RunStatus::Error
        } else {
            RunStatus::Ok
        };
        let run_id = seed.run(skill, above, status);
        let sets = [
            (&mut mill, number % 10 == 0),
            (&mut inside, above.is_some()),
            (&mut failed, number % 20 == 1),
            (&mut all, true),
        ];
        for (set, _) in sets.into_iter().filter(|(_, is_in)| *is_in) {
            set.insert(run_id.clone());
        }
    }
    all.insert(parent.to_string());
    let daemon = Daemon::start(&home);
    let now = Timestamp::from_unix_micros(NOW_MICROS);
    for (query, expected) in [
        (format!("&since={now}"), &all),
        ("&skill=mill".to_owned(), &mill),
        ("&skill=mill.grind".to_owned(), &mill),
        (format!("&parent={parent}"), &inside),
        ("&status=error".to_owned(), &failed),
        (format!("&status=ok&skill=mill&since={now}"), &mill),
    ] {
        let mut added = BTreeSet::new();
        let seen = walk(&daemon, &query, |page| {
            // One that every filter wants, of the very moment, or it would say nothing.
            if page % 40 == 3 {
                let status = if query.contains("error") {
                    RunStatus::Error
                } else {
                    RunStatus::Ok
                };
                added.insert(seed.run("mill.grind", Some(&parent), status));
            }
        });
        let unique: BTreeSet<String> = seen.iter().cloned().collect();
        assert_eq!(unique.len(), seen.len(), "{query}: a run came twice");
        let missing: Vec<_> = expected.difference(&unique).collect();
        assert_eq!(missing, Vec::<&String>::new(), "{query}");
        assert!(!added.is_empty(), "{query}");
        let foreign = unique
            .difference(expected)
            .filter(|run_id| !added.contains(*run_id));
        let listed_before: Vec<_> = foreign.filter(|run_id| all.contains(*run_id)).collect();
        assert_eq!(listed_before, Vec::<&String>::new(), "{query}");
    }
}

#[test]
fn filters_select_and_the_newest_comes_first() {
    let home = Home::new(&[]);
    let seed = Seed::new(&home);
    let hour = Duration::from_secs(3_600);
    let one = seed.run("mill", None, RunStatus::Ok);
    seed.clock.advance(hour);
    let two = seed.run("sort", Some(&one.parse().unwrap()), RunStatus::Cancelled);
    seed.clock.advance(hour);
    let three = seed.run("mill.grind", None, RunStatus::Interrupted);
    std::fs::write(
        home.ledger("run_0190a0a0a0a07000800000000000abcd"),
        "garbage\n",
    )
    .unwrap();
    let daemon = Daemon::start(&home);
    let listed = |query: &str| {
        let document = daemon.get(&format!("{RUNS}?{query}")).json();
        let runs = document["runs"].as_array().unwrap().clone();
        let ids: Vec<String> = runs
            .iter()
            .map(|run| run["run_id"].as_str().unwrap().to_owned())
            .collect();
        (ids, document.get("next_cursor").is_some())
    };
    let at = |hours: i64| Timestamp::from_unix_micros(NOW_MICROS + hours * 3_600_000_000);
    for (query, expected) in [
        ("status=ok".to_owned(), vec![&one]),
        ("status=cancelled".to_owned(), vec![&two]),
        ("status=interrupted".to_owned(), vec![&three]),
        ("status=error".to_owned(), vec![]),
        ("skill=mill".to_owned(), vec![&three, &one]),
        ("skill=mill.grind".to_owned(), vec![&three]),
        (format!("parent={one}"), vec![&two]),
        (format!("since={}", at(1)), vec![&three, &two]),
        (format!("since={}", at(3)), vec![]),
        (format!("since={}&skill=sort", at(0)), vec![&two]),
        ("since=1h".to_owned(), vec![]),
    ] {
        let expected: Vec<String> = expected.into_iter().cloned().collect();
        assert_eq!(listed(&query), (expected, false), "{query}");
    }
    assert_eq!(listed("limit=2"), (vec![three, two], true));
    let damaged = daemon.get(&format!("{RUNS}?status=corrupt")).json();
    assert_eq!(damaged["runs"].as_array().unwrap().len(), 1, "{damaged}");
    assert_eq!(damaged["runs"][0]["skill"], Value::Null);
}

/// A cursor names a place, which stays when its run goes.
#[test]
fn a_cursor_survives_its_run() {
    let home = Home::new(&[]);
    let seed = Seed::new(&home);
    let mut runs: Vec<String> = (0..4)
        .map(|_| seed.run("mill", None, RunStatus::Ok))
        .collect();
    runs.reverse();
    let daemon = Daemon::start(&home);
    let page = daemon.get(&format!("{RUNS}?limit=2")).json();
    assert_eq!(page["runs"][1]["run_id"], runs[1].as_str());
    std::fs::remove_file(home.ledger(&runs[1])).unwrap();
    let cursor = page["next_cursor"].as_str().unwrap();
    let rest = daemon
        .get(&format!("{RUNS}?limit=2&cursor={cursor}"))
        .json();
    assert_eq!(rest["runs"][0]["run_id"], runs[2].as_str(), "{rest}");
    assert_eq!(rest["runs"][1]["run_id"], runs[3].as_str(), "{rest}");
    assert!(rest.get("next_cursor").is_none(), "{rest}");
}

#[test]
fn a_query_that_cannot_be_used_is_refused() {
    let home = Home::new(&[]);
    let daemon = Daemon::start(&home);
    assert_eq!(daemon.get(RUNS).json(), serde_json::json!({ "runs": [] }));
    for query in [
        "limit=0",
        "limit=1001",
        "limit=-1",
        "limit=x",
        "limit=",
        "limit=5&limit=6",
        "status=",
        "status=done",
        "status=OK",
        "parent=",
        "parent=7",
        "since=",
        "since=yesterday",
        "since=-1h",
        "cursor=",
        "cursor=7",
        "cursor=%00",
        "stauts=ok",
        "since=%ff",
    ] {
        let answer = daemon.get(&format!("{RUNS}?{query}"));
        assert_eq!(answer.status, 400, "{query}: {answer:?}");
        let code = answer.problem();
        assert!(
            ["bad_request", "invalid_input"].contains(&code.as_str()),
            "{query}: {code}"
        );
    }
}
