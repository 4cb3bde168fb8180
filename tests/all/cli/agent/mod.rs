//! `skillrun agent`, with the agent of the tests.

mod chat;
mod commands;
mod terminal;

use serde_json::Value;
use skillrun_test_artifacts::{GREET, PROBE_AGENT};

use crate::harness::{Home, Ran, eventually};

/// A home with the agent, and a skill that is none; `more` is the rest of its configuration.
fn home(more: &str) -> Home {
    let home = Home::new(&[PROBE_AGENT, GREET]);
    home.configure(&format!(
        "[ledger]\ndurability = \"relaxed\"\n[capabilities]\ngrant = [\"approval\"]\n{more}\n"
    ));
    home
}

/// What a command printed as one JSON document, which has to have been all right.
#[track_caller]
fn json(ran: &Ran) -> Value {
    assert_eq!(ran.exit, Some(0), "{ran:?}");
    ran.json()
}

/// Each line as JSON.
#[track_caller]
fn lines(ran: &Ran) -> Vec<Value> {
    let lines = ran.stdout.lines();
    lines
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// Waits until an execution does that.
#[track_caller]
fn until(home: &Home, id: &str, status: &str) -> Value {
    eventually(&format!("{status} of {id}"), || {
        let ran = home.skillrun(&["agent", "show", id, "--json"]);
        (ran.exit == Some(0))
            .then(|| ran.json())
            .filter(|shown| shown["status"] == status)
    })
}

/// The run that is the ledger of an execution.
fn ledger(id: &str) -> String {
    let digits = id.strip_prefix("exec_").unwrap();
    format!("run_{}", digits.split_once('_').unwrap().0)
}
