//! Ledgers that something happened to, and ledgers of the original system.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use skillrun_test_artifacts::{GREET, PROBE};

use super::{Refusal, one_document};
use crate::harness::Home;

const ORIGINAL: &str = include_str!("../ledger/original.jsonl");
const ORIGINAL_ID: &str = "run_20260513T170216042_9f86d081884c7d65";

/// A home with one finished run of a few events.
fn home_with_a_run() -> (Home, String) {
    let home = Home::new(&[GREET]);
    let (document, _) = home.run_json("greet", &json!({ "name": "Ada" }));
    let run_id = document["run_id"].as_str().unwrap().to_owned();
    (home, run_id)
}

/// What `runs verify` says, for a program and for a person.
#[track_caller]
fn verify(home: &Home, ledger: &str) -> (Value, String, Option<i32>) {
    let ran = home.skillrun(&["--json", "runs", "verify", ledger]);
    let report = one_document(&ran);
    let told = home.skillrun(&["runs", "verify", ledger]);
    assert_eq!(told.exit, ran.exit);
    let verdict = report["verdict"].as_str().unwrap();
    assert!(told.stdout.contains(verdict), "{told:?}");
    (report, told.stderr, told.exit)
}

/// Case C21 at this surface.
#[test]
fn a_half_line_at_the_end_is_torn_and_the_rest_is_in_order() {
    let (home, run_id) = home_with_a_run();
    let path = home.ledger(&run_id);
    let ledger = fs::read(&path).unwrap();
    let last = ledger[..ledger.len() - 1].iter().rposition(|b| *b == b'\n');
    let last = last.unwrap() + 1;
    for cut in [last + 1, last + 40, ledger.len() - 1] {
        fs::write(&path, &ledger[..cut]).unwrap();
        let (report, told, exit) = verify(&home, &run_id);
        assert_eq!((exit, &report["verdict"]), (Some(1), &json!("torn")));
        assert_eq!(report["head"]["seq"], 5);
        let place = format!("{} bytes at the end, from byte {last} on", cut - last);
        assert!(
            report["problem"].as_str().unwrap().contains(&place),
            "{report}"
        );
        assert!(
            told.starts_with("error: ") && told.contains(&place),
            "{told}"
        );
        let inspected = home.skillrun(&["runs", "inspect", &run_id]);
        assert_eq!(inspected.exit, Some(0), "{inspected:?}");
        assert!(inspected.stdout.contains("greeted"), "{inspected:?}");
        assert_eq!(fs::read(&path).unwrap(), &ledger[..cut]);
    }
}

/// Cases C23 and C29 at this surface: an edited byte in each of the lines.
#[test]
fn an_edited_byte_is_found_in_its_line() {
    let (home, run_id) = home_with_a_run();
    let path = home.ledger(&run_id);
    let ledger = fs::read_to_string(&path).unwrap();
    let lines: Vec<&str> = ledger.split_inclusive('\n').collect();
    assert_eq!(lines.len(), 6);
    // The last line has no successor that would name it; only a head that was noted elsewhere can.
    for altered in 1..lines.len() {
        let mut edited: Vec<String> = lines.iter().copied().map(str::to_owned).collect();
        let line = &mut edited[altered - 1];
        *line = line.replacen("\"time\":\"2", "\"time\":\"3", 1);
        fs::write(&path, edited.concat()).unwrap();
        let (report, told, exit) = verify(&home, &run_id);
        assert_eq!((exit, &report["verdict"]), (Some(1), &json!("corrupt")));
        assert_eq!(report["line"], altered);
        assert!(
            told.contains(&format!("error: line {altered}, byte ")),
            "{told}"
        );
    }
}

#[test]
fn a_line_that_is_gone_or_moved_is_named() {
    let (home, run_id) = home_with_a_run();
    let path = home.ledger(&run_id);
    let ledger = fs::read_to_string(&path).unwrap();
    let lines: Vec<&str> = ledger.split_inclusive('\n').collect();
    let without = |gone: usize| [&lines[..gone], &lines[gone + 1..]].concat().concat();
    let mut swapped = lines.clone();
    swapped.swap(2, 3);
    for (text, line) in [
        (without(2), 3),
        (swapped.concat(), 3),
        (ledger.replacen(lines[3], &lines[3].repeat(2), 1), 5),
        (ledger.replacen(lines[3], "garbage\n", 1), 4),
        (format!("{ledger}{}", lines[5]), 7),
    ] {
        fs::write(&path, text).unwrap();
        let (report, _, exit) = verify(&home, &run_id);
        assert_eq!((exit, &report["line"]), (Some(1), &json!(line)), "{report}");
        let inspected = home.skillrun(&["runs", "inspect", &run_id]);
        assert_eq!(inspected.exit, Some(0), "{inspected:?}");
        assert!(inspected.stdout.contains("greeted"), "{inspected:?}");
    }
}

#[test]
fn damage_is_shown_with_what_can_still_be_read() {
    let (home, run_id) = home_with_a_run();
    let path = home.ledger(&run_id);
    let ledger = fs::read_to_string(&path).unwrap();
    fs::write(&path, ledger.replacen("\"type\":\"log\"", "\"type\":", 1)).unwrap();
    let ran = home.skillrun(&["runs", "inspect", &run_id]);
    assert_eq!(ran.exit, Some(0), "{ran:?}");
    assert!(
        ran.stderr.starts_with("warning: damaged: line 4, byte "),
        "{ran:?}"
    );
    assert!(ran.stdout.contains("run_completed"), "{ran:?}");
    let document = one_document_of_many_lines(&home, &run_id);
    assert!(
        document["events"][3]["damaged"]
            .as_str()
            .unwrap()
            .contains("line 4")
    );
    assert_eq!(document["events"].as_array().unwrap().len(), 6);
}

fn one_document_of_many_lines(home: &Home, run_id: &str) -> Value {
    home.skillrun(&["--json", "runs", "inspect", run_id]).json()
}

#[test]
fn a_ledger_is_verified_where_it_lies() {
    let (home, run_id) = home_with_a_run();
    let elsewhere = tempfile::tempdir().unwrap();
    let copy = elsewhere.path().join(format!("{run_id}.jsonl"));
    fs::copy(home.ledger(&run_id), &copy).unwrap();
    let (report, told, exit) = verify(&home, copy.to_str().unwrap());
    assert_eq!((exit, &report["verdict"]), (Some(0), &json!("ok")));
    assert_eq!(
        (report["chained"].clone(), told.as_str()),
        (json!(true), "")
    );

    let misnamed = elsewhere.path().join("ledger.jsonl");
    fs::rename(&copy, &misnamed).unwrap();
    for path in [misnamed.as_path(), elsewhere.path(), Path::new("/dev/null")] {
        Refusal::usage(&["runs", "verify", path.to_str().unwrap()])
            .says(&["expected <run id>.jsonl"])
            .check(&home);
    }
}

/// Case C51.
#[test]
fn a_ledger_of_the_original_system_is_read_and_never_written() {
    let home = Home::new(&[]);
    fs::create_dir(home.path().join("runs")).unwrap();
    let path = home.ledger(ORIGINAL_ID);
    fs::write(&path, ORIGINAL).unwrap();
    let before = fs::metadata(&path).unwrap();

    let listed = home.skillrun(&["--json", "runs", "list"]).json();
    let run = &listed["runs"][0];
    assert_eq!(
        (&run["run_id"], &run["skill"]),
        (&json!(ORIGINAL_ID), &json!("triage"))
    );
    assert_eq!(run["chained"], false);
    let inspected = home.skillrun(&["runs", "inspect", ORIGINAL_ID]);
    assert_eq!((inspected.exit, inspected.stderr.as_str()), (Some(0), ""));
    for part in [
        "run_started",
        "tool:github__search#1",
        "disk full",
        "run_completed",
    ] {
        assert!(inspected.stdout.contains(part), "{part}: {inspected:?}");
    }
    // What happened inside of a step stands further right than the step.
    let column = |kind: &str| {
        let line = inspected.stdout.lines().find(|line| line.contains(kind));
        line.unwrap().find(kind).unwrap()
    };
    assert!(
        column("tool_call ") > column("node_enter "),
        "{inspected:?}"
    );
    let tailed = home.skillrun(&["--json", "runs", "tail", ORIGINAL_ID]);
    assert_eq!((tailed.exit, tailed.stdout.as_str()), (Some(0), ORIGINAL));
    let (report, told, exit) = verify(&home, ORIGINAL_ID);
    assert_eq!((exit, &report["verdict"]), (Some(0), &json!("unchained")));
    assert_eq!(
        (report["chained"].clone(), told.as_str()),
        (json!(false), "")
    );

    assert_eq!(fs::read_to_string(&path).unwrap(), ORIGINAL);
    let after = fs::metadata(&path).unwrap();
    assert_eq!(after.modified().unwrap(), before.modified().unwrap());
    assert_eq!(home.run_ids(), [ORIGINAL_ID]);
}

/// A value beside the ledger is part of it.
#[test]
fn a_large_value_that_is_missing_or_altered_is_told() {
    let home = Home::new(&[PROBE]);
    let (document, _) = home.run_json("probe", &json!({ "verb": "output", "bytes": 200_000 }));
    let run_id = document["run_id"].as_str().unwrap();
    let blobs = home.path().join("runs").join(format!("{run_id}.blobs"));
    let blob = fs::read_dir(blobs).unwrap().next().unwrap().unwrap().path();
    assert_eq!(verify(&home, run_id).2, Some(0));
    let altered = fs::read_to_string(&blob).unwrap().replacen('o', "p", 1);
    fs::write(&blob, altered).unwrap();
    assert_eq!(verify(&home, run_id).0["verdict"], "corrupt");
    fs::remove_file(&blob).unwrap();
    let (report, told, exit) = verify(&home, run_id);
    assert_eq!(
        (exit, &report["verdict"]),
        (Some(1), &json!("blobs_missing"))
    );
    assert!(told.contains("1 of 1 blobs are missing"), "{told}");
}
