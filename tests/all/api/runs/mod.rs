//! Runs over HTTP.

mod cancel;
mod inspect;
mod keys;
mod list;
mod record;
mod start;
mod survive;

use serde_json::{Value, json};

use super::daemon::{Answer, Daemon};

/// Where runs are started and listed.
const RUNS: &str = "/api/agent/runs";

/// A run of the probe that nobody waits for to its end.
fn long() -> Value {
    json!({ "skill_name": "probe", "input": { "verb": "sleep", "ms": 600_000 } })
}

/// A run of the probe that does nothing.
fn short() -> Value {
    json!({ "skill_name": "probe", "input": { "verb": "noop" } })
}

/// The run that an answer speaks of, which has to be one to a run that was started.
#[track_caller]
fn accepted(answer: &Answer) -> String {
    assert_eq!(answer.status, 202, "{answer:?}");
    let run_id = answer.json()["run_id"].as_str().unwrap().to_owned();
    let location = format!("{RUNS}/{run_id}");
    assert_eq!(answer.header("location"), Some(location.as_str()));
    run_id
}

/// Starts a run and waits for its end.
#[track_caller]
fn outcome(daemon: &Daemon, body: &Value) -> Value {
    let answer = daemon.post(&format!("{RUNS}?wait=true"), body);
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.json()
}

/// How many runs there are in that state, as the daemon says.
#[track_caller]
fn count(daemon: &Daemon, status: &str) -> usize {
    let answer = daemon.get(&format!("{RUNS}?limit=1000&status={status}"));
    answer.json()["runs"].as_array().unwrap().len()
}

/// The status of a run, as the daemon says.
#[track_caller]
fn status(daemon: &Daemon, run_id: &str) -> String {
    let answer = daemon.get(&format!("{RUNS}/{run_id}"));
    answer.json()["run"]["status"].as_str().unwrap().to_owned()
}
