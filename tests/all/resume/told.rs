//! What people are told of runs that were cut off: that they were, how they go on, and what was made again.

use rustix::process::Signal;
use serde_json::{Value, json};

use super::killable::{Killable, Moment};
use super::kills::{RUN_ID, calls, probe};
use crate::harness::Ran;

fn runs(killable: &Killable, words: &[&str]) -> Ran {
    killable.home.skillrun(&[&["runs"], words].concat())
}

#[track_caller]
fn says(ran: &Ran, part: &str) {
    let told = format!("{}{}", ran.stdout, ran.stderr);
    assert!(told.contains(part), "{part}: {ran:?}");
}

fn question() -> Value {
    let ask = json!({ "call": "ask", "prompt": "Go on?", "payload": "{}", "timeout_ms": null });
    let mut input = calls(&["write"]);
    input["calls"].as_array_mut().unwrap().insert(0, ask);
    input
}

#[test]
fn whoever_asks_for_a_run_that_has_a_process_is_told_so_and_else_how_it_goes_on() {
    let killable = probe("");
    let mut running = killable.start(RUN_ID, &question());
    killable.home.wait_for_event(RUN_ID, "approval_request");
    let refused = killable.resume(RUN_ID, &[]);
    assert_eq!(
        (refused.exit, &refused.json()["code"]),
        (Some(1), &json!("busy"))
    );
    says(&refused, &format!("skillrun runs tail {RUN_ID}"));
    says(
        &runs(&killable, &["explain", RUN_ID]),
        " carries the run out; skillrun runs tail",
    );

    running.signal(Signal::KILL);
    running.end();
    let resume = format!("skillrun runs resume {RUN_ID} goes on with it");
    for words in [
        &["explain", RUN_ID][..],
        &["explain", RUN_ID, "--json"],
        &["tail", RUN_ID],
        &["approve", RUN_ID, "--decision", "approve"],
    ] {
        says(&runs(&killable, words), &resume);
    }
    assert_eq!(killable.resume(RUN_ID, &[]).exit, Some(0));
    let explained = runs(&killable, &["explain", RUN_ID]);
    assert!(!explained.stdout.contains("resume"), "{explained:?}");
}

#[test]
fn a_run_that_was_interrupted_names_the_command_that_goes_on_with_it() {
    let killable = probe("");
    let mut running = killable.start(RUN_ID, &question());
    killable.home.wait_for_event(RUN_ID, "approval_request");
    running.signal(Signal::TERM);
    let ran = running.end();
    assert_eq!(ran.exit, Some(130), "{ran:?}");
    let resume = format!("skillrun runs resume {RUN_ID} goes on with it");
    assert_eq!(ran.json()["hint"], json!(resume));
    says(&runs(&killable, &["explain", RUN_ID]), &resume);
}

/// A policy answers the open question, so nobody is bothered with it.
#[test]
fn a_question_that_is_open_on_record_is_not_shown_where_nobody_is_asked() {
    let killable = probe("");
    let mut running = killable.start(RUN_ID, &question());
    killable.home.wait_for_event(RUN_ID, "approval_request");
    running.signal(Signal::KILL);
    running.end();
    let ran = runs(&killable, &["resume", RUN_ID, "--approve", "no"]);
    assert_eq!(ran.exit, Some(0), "{ran:?}");
    assert!(!ran.stderr.contains("waiting for"), "{ran:?}");
}

#[test]
fn the_tree_has_the_answer_at_the_call_that_got_it_and_the_ids_that_a_new_run_begins_at() {
    let killable = probe("");
    killable.configure(Some((Moment::Before, 2)));
    let input = calls(&["write", "idempotent", "write"]);
    assert_eq!(killable.run(RUN_ID, &input).exit, None);
    killable.configure(None);
    assert_eq!(killable.resume(RUN_ID, &[]).exit, Some(0));
    let tree = runs(&killable, &["inspect", RUN_ID]).stdout;
    let lines: Vec<&str> = tree
        .lines()
        .filter(|line| line.contains("tool#2"))
        .collect();
    let [first, again] = lines.as_slice() else {
        panic!("{tree}");
    };
    assert!(!first.contains('→') && again.contains('→'), "{tree}");

    let ran = runs(
        &killable,
        &["resume", RUN_ID, "--from-node", "tool#3", "--json"],
    );
    assert_eq!(ran.exit, Some(0), "{ran:?}");
    let document = ran.json();
    let new = document["run_id"].as_str().unwrap();
    let inspected = runs(&killable, &["inspect", new]);
    says(&inspected, &format!("from     {RUN_ID}\n"));
}

#[test]
fn a_run_that_waits_suspended_is_not_said_to_be_interrupted() {
    let killable = probe("[approvals]\nsuspend_after_ms = 100");
    let running = killable.start(RUN_ID, &question());
    killable.home.wait_for_event(RUN_ID, "run_completed");
    let tree = runs(&killable, &["inspect", RUN_ID]);
    says(&tree, "  suspended in ");
    assert!(!tree.stdout.contains("interrupted in"), "{tree:?}");
    says(
        &runs(&killable, &["explain", RUN_ID]),
        &format!("skillrun runs approvals {RUN_ID} shows the question"),
    );
    let approved = runs(&killable, &["approve", RUN_ID, "--decision", "approve"]);
    says(&approved, "unless a process waits for the run, ");
    assert_eq!(running.end().exit, Some(0));
}
