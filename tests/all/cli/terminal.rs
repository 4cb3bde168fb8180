//! A run on a terminal: `script` gives the binary one.

use std::io::{Read as _, Write as _};
use std::process::{Command, Stdio};

use serde_json::json;
use skillrun_test_artifacts::PROBE;

use super::run_id;
use crate::harness::{Home, Running};

/// Starts `skillrun run probe` on a terminal of its own. What the terminal shows is its standard
/// output; what is written to its standard input is typed.
pub(super) fn on_a_terminal(home: &Home, run_id: &str, verb: &serde_json::Value) -> Running {
    let input = home.path().join("input.json");
    std::fs::write(&input, verb.to_string()).unwrap();
    let binary = env!("CARGO_BIN_EXE_skillrun");
    let line = format!(
        "'{binary}' run probe --run-id {run_id} --grant approval --approve ask --input '@{}'",
        input.display()
    );
    let mut script = Command::new("script");
    script
        .args([
            "--quiet",
            "--flush",
            "--return",
            "--command",
            &line,
            "/dev/null",
        ])
        .env("SKILLRUN_HOME", home.path())
        .env("TERM", "xterm")
        .stdin(Stdio::piped());
    Running::of(&mut script)
}

/// Reads what the terminal shows until `mark` is among it.
pub(super) fn read_until(terminal: &mut Running, mark: &str) -> String {
    read_until_some(terminal, mark, |shown| shown.contains(mark))
}

/// Reads what the terminal shows until that is as wanted.
pub(super) fn read_until_some(
    terminal: &mut Running,
    what: &str,
    is_some: impl Fn(&str) -> bool,
) -> String {
    let stdout = terminal.child().stdout.as_mut().unwrap();
    let (mut shown, mut chunk) = (Vec::new(), [0; 4096]);
    loop {
        let text = String::from_utf8_lossy(&shown);
        if is_some(&text) {
            return text.into_owned();
        }
        let bytes = stdout.read(&mut chunk).unwrap();
        assert!(bytes > 0, "ended without {what}: {text}");
        shown.extend_from_slice(&chunk[..bytes]);
    }
}

/// The last of case C5: the keys Ctrl and C.
#[test]
fn events_show_while_the_run_goes_on_and_ctrl_c_cancels_it() {
    let home = Home::new(&[PROBE]);
    let id = run_id(1);
    let verb = json!({ "verb": "sleep", "ms": 3_600_000 });
    let mut terminal = on_a_terminal(&home, &id, &verb);
    // Once with the event, and once beside a spinner with the time that has passed.
    let shown = read_until_some(&mut terminal, "a spinner", |shown| {
        let (_, below) = shown.split_once("run_started").unwrap_or_default();
        below.split("probe ").skip(1).any(|beside| {
            let unit = beside.trim_start_matches(|digit: char| digit.is_ascii_digit());
            unit.len() < beside.len() && unit.starts_with('s')
        })
    });
    assert!(!shown.contains("run_completed"), "{shown:?}");
    assert!(terminal.is_alive());

    let mut keys = terminal.child().stdin.take().unwrap();
    keys.write_all(b"\x03").unwrap();
    let ran = terminal.end();
    assert_eq!(ran.exit, Some(130), "{ran:?}");
    let end = ran.stdout.split_once("run_completed").unwrap().1;
    assert!(end.contains("cancelled in "), "{ran:?}");
    assert!(
        end.contains(&format!("error: run {id} was cancelled")),
        "{ran:?}"
    );
    let completed = home.events_of(&id, "run_completed");
    assert_eq!(completed[0]["payload"]["status"], "cancelled");
}

#[test]
fn what_a_guest_writes_does_not_reach_the_terminal_as_a_command() {
    let home = Home::new(&[PROBE]);
    let id = run_id(1);
    let verb = json!({ "verb": "log", "message": "A\u{1b}[31;5mB\u{7}C\u{9b}31mD\u{202e}E" });
    let ran = on_a_terminal(&home, &id, &verb).end();
    assert_eq!(ran.exit, Some(0), "{ran:?}");
    let spelled = "A\\u{1b}[31;5mB\\u{7}C\\u{9b}31mD\\u{202e}E";
    assert!(ran.stdout.contains(spelled), "{ran:?}");
    for raw in ["\u{1b}[31;5m", "\u{7}", "\u{9b}", "\u{202e}"] {
        assert!(!ran.stdout.contains(raw), "{raw:?}: {ran:?}");
    }
}

#[test]
fn a_line_that_was_typed_before_a_question_was_shown_does_not_answer_it() {
    let home = Home::new(&[PROBE]);
    home.write_manifest(
        "probe",
        "[component]\nworld = \"0.1\"\n[capabilities]\nrequest = [\"approval\"]\n",
    );
    let id = run_id(1);
    let ask = |prompt: &str| json!({ "call": "ask", "prompt": prompt, "payload": "{}" });
    let verb = json!({ "verb": "calls", "calls": [ask("first"), ask("second")] });
    let mut terminal = on_a_terminal(&home, &id, &verb);
    read_until(&mut terminal, "approve? (y or n");
    let mut keys = terminal.child().stdin.take().unwrap();
    keys.write_all(b"y\ny\ny\n").unwrap();
    let shown = read_until(&mut terminal, "approve? (y or n");
    assert!(shown.contains("approval#2 asks: second"), "{shown:?}");
    keys.write_all(b"n\n").unwrap();
    let ran = terminal.end();
    assert_eq!(ran.exit, Some(0), "{ran:?}");
    let answers = home.events_of(&id, "approval_response");
    let approved: Vec<_> = answers
        .iter()
        .map(|answer| answer["payload"]["approved"].clone())
        .collect();
    assert_eq!(approved, [json!(true), json!(false)]);
}
