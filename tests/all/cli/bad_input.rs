//! An input or a command line that is wrong is refused before anything runs.

use std::fs::File;

use skillrun_test_artifacts::GREET;

use super::Refusal;
use crate::harness::{Home, Running};

const HINT: &str = r#"--input '{"name":"Ada"}'"#;

#[test]
fn an_input_that_is_no_json_object_is_refused() {
    let home = Home::new(&[GREET]);
    let deep = format!("{{\"a\":{}{}}}", "[".repeat(200), "]".repeat(200));
    let very_deep = "[".repeat(1_000_000);
    for (input, says) in [
        ("Ada", "input is not JSON"),
        ("", "input is not JSON"),
        ("{} {}", "input is not JSON"),
        ("{'name':'Ada'}", "input is not JSON"),
        (r#"{"name":"Ada""#, "input is not JSON"),
        ("[]", "input is an array: expected a JSON object"),
        (r#""Ada""#, "input is a string"),
        ("5", "input is a number"),
        ("null", "input is null"),
        (&deep, "nests deeper than 128 levels"),
    ] {
        Refusal::usage(&["run", "greet", "--input", input])
            .says(&[says, "(--input)"])
            .hints(HINT)
            .check(&home);
        Refusal::usage(&["run", "greet", "--input", "-"])
            .with_stdin(input)
            .says(&[says, "(standard input)"])
            .hints(HINT)
            .check(&home);
    }
    for (stdin, says) in [
        (b"{\"name\":\"\xff\"}".to_vec(), "not UTF-8"),
        (b"{\"name\":\"\xed\xa0\x80\"}".to_vec(), "not UTF-8"),
        (very_deep.into_bytes(), "input"),
        (vec![b' '; 9 * 1024 * 1024], "expected at most 8388608"),
    ] {
        Refusal::usage(&["run", "greet", "--input", "-"])
            .with_stdin(stdin)
            .says(&[says, "(standard input)"])
            .hints(HINT)
            .check(&home);
    }
    assert!(home.run_ids().is_empty());
}

#[test]
fn a_file_of_input_that_cannot_be_read_is_named() {
    let home = Home::new(&[GREET]);
    let missing = format!("@{}", home.path().join("missing.json").display());
    let folder = format!("@{}", home.path().display());
    for (input, says) in [
        (missing.as_str(), ["missing.json", "No such file"]),
        (&folder, ["cannot read the input from", "Is a directory"]),
        ("@", ["cannot read the input from", "No such file"]),
    ] {
        Refusal::usage(&["run", "greet", "--input", input])
            .says(&says)
            .check(&home);
    }
    let mut from_folder = home.command(&["run", "greet", "--input", "-"]);
    from_folder.stdin(File::open(home.path()).unwrap());
    let ran = Running::of(&mut from_folder).end();
    assert_eq!(ran.exit, Some(2), "{ran:?}");
    assert!(ran.stderr.contains("from standard input"), "{ran:?}");
    assert!(home.run_ids().is_empty());
}

#[test]
fn a_wrong_command_line_is_refused_with_its_usage_or_a_tip() {
    let home = Home::new(&[GREET]);
    for (arguments, says, hint) in [
        (
            &["rum", "greet"][..],
            "unrecognized subcommand 'rum'",
            "'run'",
        ),
        (
            &["run", "greet", "--inputt", "{}"],
            "unexpected argument '--inputt'",
            "'--input'",
        ),
        (&["run"], "<SKILL>", "usage: skillrun run"),
        (&["run", "greet", "more"], "'more'", "usage: skillrun run"),
        (&["run", "greet", "--timeout"], "--timeout", "--help"),
        (&["run", "greet", "--timeout", "5"], "such as 5s", "--help"),
        (&["run", "greet", "--timeout", "-5s"], "\"-5s\"", "--help"),
        (
            &["run", "greet", "--timeout", "0s"],
            "at least 1ms",
            "--help",
        ),
        (
            &["run", "greet", "--run-id", "../x"],
            "malformed run id \"../x\"",
            "--help",
        ),
        (
            &["runs", "inspect", "run_123"],
            "malformed run id \"run_123\"",
            "--help",
        ),
        (&["runs", "tail", ""], "run id", "--help"),
        (&["runs", "list", "--since", "soon"], "\"soon\"", "--help"),
        (&["runs", "list", "--limit", "-1"], "'-1'", "--help"),
        (&["runs", "list", "--limit", "many"], "'many'", "--help"),
        (
            &["runs", "list", "--status", "gone"],
            "[possible values: running, ok,",
            "--help",
        ),
        (&["skills", "inspect"], "<SKILL>", "usage:"),
        (&["completions", "tcsh"], "[possible values: bash", "'zsh'"),
        (&["--home"], "--home", "--help"),
    ] {
        Refusal::usage(arguments)
            .says(&[says])
            .hints(hint)
            .check(&home);
    }
    assert!(home.run_ids().is_empty());
}

/// A limit of the call is checked like one of the configuration.
#[test]
fn a_timeout_out_of_range_is_refused() {
    let home = Home::new(&[GREET]);
    Refusal::usage(&["run", "greet", "--timeout", "25h"])
        .says(&["wall_time_ms = 90000000", "expected 1 to 86400000"])
        .check(&home);
    assert!(home.run_ids().is_empty());
}

#[test]
fn without_a_command_the_manual_is_shown_and_it_is_an_error() {
    let home = Home::new(&[]);
    for arguments in [&[][..], &["runs"], &["skills"]] {
        let ran = home.skillrun(arguments);
        assert_eq!((ran.exit, ran.stdout.as_str()), (Some(2), ""), "{ran:?}");
        assert!(ran.stderr.contains("Usage: skillrun"), "{ran:?}");
    }
    let ran = home.skillrun(&["--json"]);
    assert_eq!(ran.exit, Some(2));
    assert_eq!(super::one_document(&ran)["code"], "usage");
}
