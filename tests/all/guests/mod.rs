//! A module for every guest, with a test of its main job.

mod calc;
mod chat;
mod command;
mod conformance;
mod fan_out;
mod fetch;
mod greet;
mod handoff;
mod notes;
mod probe;
mod probe_agent;
mod triage;

use serde_json::json;
use skillrun_test_artifacts::Guest;

use crate::harness::Home;

/// An agent is a skill as far as its folder goes, and asks for `requested`. It is launched: to run it is refused, in
/// words that say so.
#[track_caller]
fn assert_is_agent(agent: &Guest, requested: &[&str]) {
    let home = Home::new(&[*agent]);
    let folder = home.skill(agent.name);
    let valid = home.skillrun(&["skills", "validate", folder.to_str().unwrap()]);
    assert_eq!(valid.exit, Some(0), "{valid:?}");
    let inspect = ["skills", "inspect", agent.name, "--json"];
    let inspected = home.skillrun(&inspect).json();
    assert_eq!(inspected["version"], "0.1.0", "{inspected}");
    assert_eq!(inspected["policy"]["requested"], json!(requested));

    let (document, exit) = home.run_json(agent.name, &json!({}));
    assert_ne!(exit, 0, "{document}");
    let error = document["error"].as_str().unwrap_or_default();
    assert!(error.contains("is an agent"), "{document}");
    let run_id = document["run_id"].as_str().unwrap();
    let verified = home.skillrun(&["runs", "verify", run_id]);
    assert_eq!(verified.exit, Some(0), "{verified:?}");
}

/// Names a test of every guest, so that a guest without one does not compile.
macro_rules! assert_each_is_tested {
    ($($guest:ident),+) => { const _: &[fn()] = &[$(self::$guest::main_job),+]; };
}
skillrun_test_artifacts::for_all_guests!(assert_each_is_tested);
