//! Several processes on one home.

use std::fs;

use rustix::process::Signal;
use serde_json::json;
use skillrun_test_artifacts::PROBE;

use super::{Refusal, run_id};
use crate::harness::{Home, Running};

/// Case C27 at this surface: one id is one run, whether the first goes on or has ended.
#[test]
fn a_second_run_with_the_same_id_is_refused_and_leaves_the_first_alone() {
    let home = Home::new(&[PROBE]);
    let id = run_id(1);
    let wait = json!({ "verb": "sleep", "ms": 3_600_000 }).to_string();
    let again = Refusal::usage(&[
        "run",
        "probe",
        "--run-id",
        &id,
        "--input",
        r#"{"verb":"noop"}"#,
    ])
    .says(&["a ledger of run_", "exists already"])
    .hints("without --run-id");

    let mut first = home.start(&["run", "probe", "--run-id", &id, "--input", &wait]);
    home.wait_for_event(&id, "run_started");
    let begun = fs::read(home.ledger(&id)).unwrap();
    again.check(&home);
    assert!(first.is_alive());
    assert_eq!(fs::read(home.ledger(&id)).unwrap(), begun);

    first.signal(Signal::INT);
    assert_eq!(first.end().exit, Some(130));
    let ended = fs::read(home.ledger(&id)).unwrap();
    assert!(ended.starts_with(&begun));
    again.check(&home);
    assert_eq!(fs::read(home.ledger(&id)).unwrap(), ended);
    assert_eq!(home.skillrun(&["runs", "verify", &id]).exit, Some(0));
}

/// The ids of the original system are never given to a new run.
#[test]
fn a_run_cannot_take_an_id_of_the_original_system() {
    let home = Home::new(&[PROBE]);
    Refusal::usage(&[
        "run",
        "probe",
        "--run-id",
        "run_20260513T170216042_9f86d081884c7d65",
    ])
    .says(&["original system"])
    .hints("without --run-id")
    .check(&home);
    assert!(home.run_ids().is_empty());
}

/// Case C42: both are in the middle of their call at once, however late the second is.
#[test]
fn two_calls_of_one_skill_go_on_at_once() {
    let home = Home::new(&[PROBE]);
    let ids = [run_id(1), run_id(2)];
    let wait = json!({ "verb": "sleep", "ms": 3_600_000 });
    let verb = json!({ "verb": "in_node", "name": "n", "then": wait }).to_string();
    let mut started = ids
        .each_ref()
        .map(|id| home.start(&["run", "probe", "--run-id", id, "--input", &verb]));
    for id in &ids {
        home.wait_for_event(id, "node_enter");
    }
    assert!(started.iter_mut().all(Running::is_alive));
    for id in &ids {
        assert!(home.events_of(id, "run_completed").is_empty());
    }
    for mut running in started {
        running.signal(Signal::INT);
        let ran = running.end();
        assert_eq!(ran.exit, Some(130), "{ran:?}");
    }
}
