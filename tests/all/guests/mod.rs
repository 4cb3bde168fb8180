//! A module for every guest, with a test of its main job.

mod calc;
mod chat;
mod command;
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

/// An agent is launched: to run it as a skill is refused, and the words say why.
#[track_caller]
fn assert_is_no_skill(agent: &Guest) {
    let home = Home::new(&[]);
    let (document, exit) = home.run_json(agent.wasm, &json!({}));
    assert_ne!(exit, 0, "{document}");
    let error = document["error"].as_str().unwrap_or_default();
    assert!(error.contains("is an agent"), "{document}");
}

/// Names a test of every guest, so that a guest without one does not compile.
macro_rules! assert_each_is_tested {
    ($($guest:ident),+) => { const _: &[fn()] = &[$(self::$guest::main_job),+]; };
}
skillrun_test_artifacts::for_all_guests!(assert_each_is_tested);
