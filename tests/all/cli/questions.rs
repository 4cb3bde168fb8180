//! Questions that are answered at the terminal on which a run goes on.

use std::io::Write as _;

use serde_json::{Value, json};
use skillrun_test_artifacts::PROBE;

use super::run_id;
use super::terminal::{on_a_terminal, read_until};
use crate::harness::Home;

const ASKED: &str = "approve? (y or n";

/// A home whose probe may ask, and call itself.
fn home() -> Home {
    let home = Home::new(&[PROBE]);
    let asked = r#"["approval", "skill:probe"]"#;
    home.write_manifest("probe", &format!("[capabilities]\nrequest = {asked}\n"));
    home.configure(&format!("[capabilities]\ngrant = {asked}\n"));
    home
}

fn ask(prompt: &str) -> Value {
    json!({ "call": "ask", "prompt": prompt, "payload": "{}", "timeout_ms": null })
}

fn answers(home: &Home, run_id: &str) -> Vec<bool> {
    let responses = home.events_of(run_id, "approval_response");
    let approved = responses.iter().map(|event| &event["payload"]["approved"]);
    approved.map(|approved| approved == true).collect()
}

#[test]
fn what_was_typed_before_a_question_was_shown_is_no_answer_to_it() {
    let home = home();
    let id = run_id(1);
    let verb = json!({ "verb": "calls", "calls": [ask("May I read?"), ask("May I delete?")] });
    let mut terminal = on_a_terminal(&home, &id, &verb);
    let mut keys = terminal.child().stdin.take().unwrap();
    read_until(&mut terminal, ASKED);
    keys.write_all(b"y\ny\n").unwrap();
    let shown = read_until(&mut terminal, ASKED);
    assert!(shown.contains("approval#2 asks: May I delete?"), "{shown}");
    assert_eq!(answers(&home, &id), [true]);
    keys.write_all(b"n\n").unwrap();
    let ran = terminal.end();
    assert_eq!(ran.exit, Some(0), "{ran:?}");
    assert_eq!(answers(&home, &id), [true, false]);
}

#[test]
fn a_run_inside_the_run_asks_at_its_terminal() {
    let home = home();
    let id = run_id(1);
    let inside = json!({ "verb": "calls", "calls": [ask("May I?")] }).to_string();
    let call = json!({ "call": "skill", "skill": "probe", "input": inside });
    let mut terminal = on_a_terminal(&home, &id, &json!({ "verb": "calls", "calls": [call] }));
    let mut keys = terminal.child().stdin.take().unwrap();
    let shown = read_until(&mut terminal, ASKED);
    assert!(shown.contains("approval#1 asks: May I?"), "{shown}");
    let calls = home.events_of(&id, "tool_call");
    let child = calls[0]["payload"]["child_run_id"].as_str().unwrap();
    assert!(shown.contains(&format!("in {child}:")), "{shown}");
    keys.write_all(b"y\n").unwrap();
    let ran = terminal.end();
    assert_eq!(ran.exit, Some(0), "{ran:?}");
    assert_eq!(answers(&home, child), [true]);
}
