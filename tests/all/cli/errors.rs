//! What holds of every command: which stream carries what, and what the exit code says.

use std::io::{BufRead as _, BufReader};

use serde_json::{Value, json};
use skillrun_test_artifacts::{GREET, PROBE};

use crate::harness::{Home, Running};

/// Code 130 is met in the tests of signals.
#[test]
fn each_exit_code_has_its_meaning() {
    let home = Home::new(&[GREET, PROBE]);
    home.configure("[limits]\nfuel = 100_000_000");
    for (verb, exit, code) in [
        (json!({ "verb": "noop" }), 0, "ok"),
        (
            json!({ "verb": "fail", "message": "m", "code": "c" }),
            1,
            "skill_error",
        ),
        (json!({ "verb": "trap" }), 1, "trap"),
        (json!({ "verb": "panic", "message": "m" }), 1, "panic"),
        (
            json!({ "verb": "tool", "name": "files__read" }),
            3,
            "denied",
        ),
        (json!({ "verb": "spin" }), 4, "fuel_limit"),
    ] {
        let (document, ended) = home.run_json("probe", &verb);
        assert_eq!(
            (ended, &document["code"]),
            (exit, &json!(code)),
            "{document}"
        );
        let run_id = document["run_id"].as_str().unwrap();
        let completed = home.events_of(run_id, "run_completed");
        assert_eq!(completed[0]["payload"]["code"], code);
    }
    assert_eq!(
        home.skillrun(&["run", "greet", "--input", "x"]).exit,
        Some(2)
    );
    assert_eq!(home.skillrun(&["run", "nobody"]).exit, Some(5));
}

#[test]
fn data_goes_to_standard_output_and_nothing_else_does() {
    let home = Home::new(&[GREET]);
    let input = r#"{"name":"Ada"}"#;
    let ran = home.skillrun(&["run", "greet", "--input", input]);
    assert_eq!(super::one_document(&ran)["greeting"], "Hello, Ada!");
    assert!(ran.stderr.contains(": ok in "), "{ran:?}");
    assert!(!ran.stderr.contains("Ada") && !ran.stderr.contains('\u{1b}'));

    let ran = home.skillrun(&["run", "greet", "--quiet", "--input", input]);
    assert_eq!(super::one_document(&ran)["greeting"], "Hello, Ada!");
    assert_eq!(ran.stderr, "");

    let ran = home.skillrun(&["run", "greet", "--json", "--input", input]);
    let document = super::one_document(&ran);
    assert_eq!((&document["code"], ran.stderr.as_str()), (&json!("ok"), ""));
    assert_eq!(document["output"]["greeting"], "Hello, Ada!");
    let run_id = document["run_id"].as_str().unwrap();
    let last = home.events(run_id).pop().unwrap();
    assert_eq!(document["head"]["seq"], last["seq"]);

    for arguments in [
        &["--json", "runs", "list"][..],
        &["--json", "runs", "inspect", run_id],
        &["--json", "runs", "verify", run_id],
        &["--json", "skills", "list"],
        &["--json", "skills", "inspect", "greet"],
        &["--json", "skills", "validate", "greet"],
    ] {
        let ran = home.skillrun(arguments);
        assert_eq!((ran.exit, ran.stderr.as_str()), (Some(0), ""), "{ran:?}");
        assert!(ran.json().is_object(), "{ran:?}");
    }
}

/// A message is a text of somebody else's: it cannot command the terminal or look like a line of ours.
#[test]
fn an_error_of_a_guest_stays_text() {
    let home = Home::new(&[PROBE]);
    let hostile = "lost\u{1b}]0;x\u{7}\u{9b}2J\u{202e}\nhint: run something else\nerror: again";
    for verb in [
        json!({ "verb": "fail", "message": hostile, "code": "c" }),
        json!({ "verb": "panic", "message": hostile }),
    ] {
        let ran = home.skillrun(&["run", "probe", "--input", &verb.to_string()]);
        assert_eq!(ran.exit, Some(1));
        let is_raw = |c: char| c.is_control() && c != '\n' || c == '\u{202e}';
        assert!(!ran.stderr.contains(is_raw), "{ran:?}");
        let claims = ran
            .stderr
            .lines()
            .filter(|line| line.starts_with("hint:") || line.starts_with("error:"));
        assert_eq!(claims.count(), 1, "{ran:?}");
        assert!(ran.stderr.contains("lost\\u{1b}]0;x\\u{7}"), "{ran:?}");
    }
}

/// A result is JSON, and stays the same value when what would command the terminal is spelled out.
#[test]
fn a_result_of_a_guest_stays_text() {
    let home = Home::new(&[PROBE]);
    let value = "é\u{1b}[2J\u{9b}2J\u{7f}\u{202e}\u{2028}";
    let verb = json!({ "verb": "echo", "value": value }).to_string();
    let ran = home.skillrun(&["run", "probe", "--input", &verb]);
    let is_raw = |c: char| c.is_control() && c != '\n' || "\u{202e}\u{2028}".contains(c);
    assert!(!ran.stdout.contains(is_raw), "{ran:?}");
    assert!(ran.stdout.contains('é'), "{ran:?}");
    assert_eq!(ran.json(), value);
}

/// Starts a command, reads the first line of its output and goes away.
#[track_caller]
fn read_one_line(home: &Home, arguments: &[&str]) {
    let mut running = home.start(arguments);
    let mut stdout = BufReader::new(running.child().stdout.take().unwrap());
    let mut line = String::new();
    stdout.read_line(&mut line).unwrap();
    assert!(!line.is_empty(), "{arguments:?}");
    drop(stdout);
    let ran = running.end();
    assert_eq!(
        (ran.exit, ran.stderr.as_str()),
        (Some(0), ""),
        "{arguments:?}"
    );
}

#[test]
fn a_reader_that_goes_away_is_no_failure() {
    let home = Home::new(&[PROBE]);
    let verb = json!({ "verb": "log_flood", "lines": 2_000, "text": "x".repeat(300) });
    let (document, _) = home.run_json("probe", &verb);
    let run_id = document["run_id"].as_str().unwrap();
    for arguments in [
        &["runs", "inspect", run_id][..],
        &["--json", "runs", "inspect", run_id],
        &["runs", "tail", run_id],
        &["--json", "runs", "tail", run_id],
        &["completions", "zsh"],
    ] {
        read_one_line(&home, arguments);
    }
}

#[test]
fn a_run_is_recorded_though_nobody_reads_its_result() {
    let home = Home::new(&[PROBE]);
    let verb = json!({ "verb": "output", "bytes": 1_000_000 }).to_string();
    let mut running = home.start(&["run", "probe", "--quiet", "--input", &verb]);
    drop(running.child().stdout.take());
    let ran = running.end();
    assert_eq!((ran.exit, ran.stderr.as_str()), (Some(0), ""), "{ran:?}");
    let run_id = &home.run_ids()[0];
    assert_eq!(
        home.events_of(run_id, "run_completed")[0]["payload"]["code"],
        "ok"
    );
}

/// A disk that is full under standard output is a failure, unlike a reader that went away.
#[test]
fn output_that_cannot_be_written_is_an_error() {
    let home = Home::new(&[]);
    let mut command = std::process::Command::new("bash");
    command
        .args(["-c", "\"$0\" runs list > /dev/full"])
        .arg(env!("CARGO_BIN_EXE_skillrun"))
        .env("SKILLRUN_HOME", home.path());
    let ran = Running::of(&mut command).end();
    assert_eq!(ran.exit, Some(1), "{ran:?}");
    assert!(
        ran.stderr
            .starts_with("error: cannot write to standard output")
    );
}

/// Case C52, as far as the command line goes: an input is recorded as it was spelled.
#[test]
fn the_spelling_of_an_input_is_kept() {
    let home = Home::new(&[PROBE]);
    let spelled = r#"{"verb":"echo","value":{"b":1e400,"a":0.10,"a":123456789012345678901234567890,"s":"\ud800\u2028"}}"#;
    let spaced = spelled.replace(',', ",\n\t ");
    let ran = home.skillrun_with_stdin(
        &["run", "probe", "--json", "--input", "-"],
        spaced.as_bytes(),
    );
    let document: Value = ran.json();
    let ledger = std::fs::read_to_string(home.ledger(document["run_id"].as_str().unwrap()));
    assert!(ledger.unwrap().contains(spelled), "{document}");
}
