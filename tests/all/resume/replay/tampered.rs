//! Records that somebody changed, cut or made up.

use std::fs;

use serde_json::{Value, json};
use skillrun_test_artifacts::{GREET, PROBE};

use super::{Recorded, assert_same, replayed, str};
use crate::harness::Home;

/// A record of a run with a value that is too large for a line.
fn large() -> Recorded {
    let home = Home::new(&[PROBE]);
    let value = json!({ "verb": "echo", "value": "ü".repeat(50_000) });
    let (document, exit) = home.run_json("probe", &value);
    assert_eq!(exit, 0);
    Recorded::of(home, document["run_id"].as_str().unwrap().to_owned())
}

#[track_caller]
fn refused(home: &Home, record: &str, parts: &[&str]) {
    let ran = home.skillrun(&["runs", "replay", record]);
    assert!(matches!(ran.exit, Some(1 | 2)), "{ran:?}");
    for part in parts {
        assert!(ran.stderr.contains(part), "{part}: {ran:?}");
    }
    assert!(!ran.stderr.contains("panicked"), "{ran:?}");
}

#[test]
fn a_line_that_was_changed_moved_or_left_out_is_found() {
    let recorded = Recorded::triage();
    let text = recorded.text();
    let lines: Vec<&str> = text.lines().collect();
    let with = |lines: &[&str]| recorded.file(format!("{}\n", lines.join("\n")));
    let home = &recorded.home;
    for (at, from, to) in [
        (0, "Checkout", "checkout"),
        (3, "high", "low!"),
        (13, "\"approved\":true", "\"approved\":false"),
    ] {
        let changed = lines[at].replace(from, to);
        assert_ne!(changed, lines[at], "{from}");
        let mut all = lines.clone();
        all[at] = &changed;
        let line = format!("line {}", at + 1);
        refused(home, str(&with(&all)), &[&line, "was altered"]);
    }
    let mut swapped = lines.clone();
    swapped.swap(4, 5);
    refused(home, str(&with(&swapped)), &["event number 6: expected 5"]);
    let mut without = lines.clone();
    without.remove(6);
    refused(home, str(&with(&without)), &["event number 8: expected 7"]);
    let other = home.run_ids()[0].replace("run_0", "run_1");
    let foreign = lines[7].replace(&recorded.run_id, &other);
    let mut mixed = lines.clone();
    mixed[7] = &foreign;
    refused(home, str(&with(&mixed)), &["event of run_1"]);
}

#[test]
fn a_large_value_is_found_in_its_place_and_beside_a_ledger() {
    let recorded = large();
    let home = &recorded.home;
    assert!(recorded.text().len() > 200_000);
    assert_same(home, &recorded.run_id);
    assert_same(home, str(&recorded.export));
    let ledger = home.ledger(&recorded.run_id);
    let other = Home::new(&[PROBE]);
    assert_same(&other, str(&ledger));

    // One that was changed in an export does not come out again.
    let text = recorded.text();
    let (start, end) = text.split_once('\n').unwrap();
    let changed = recorded.file(format!("{start}\n{}", end.replacen('ü', "u", 1)));
    let (document, exit) = replayed(home, str(&changed), &[]);
    assert_eq!(
        (exit, &document["verdict"]),
        (Some(1), &json!("diverged")),
        "{document}"
    );
    assert_eq!(document["event"], 2);

    // A ledger whose large values are gone says so.
    let alone = recorded.folder.path().join(ledger.file_name().unwrap());
    fs::copy(&ledger, &alone).unwrap();
    refused(home, str(&alone), &["blob", "missing"]);
}

#[test]
fn a_line_of_an_export_may_be_longer_than_one_of_a_ledger() {
    let home = Home::new(&[PROBE]);
    home.configure("[limits]\noutput_bytes = 33_554_432\nhost_call_bytes = 33_554_432\n");
    let (document, exit) = home.run_json("probe", &json!({ "verb": "output", "bytes": 9_000_000 }));
    assert_eq!(exit, 0);
    let run_id = document["run_id"].as_str().unwrap().to_owned();
    let recorded = Recorded::of(home, run_id);
    let other = Home::new(&[PROBE]);
    let document = assert_same(&other, str(&recorded.export));
    assert_eq!(document["output"].as_str().unwrap().len(), 9_000_000);
}

#[test]
fn what_is_no_record_is_refused_in_words() {
    let home = Home::new(&[GREET]);
    let (document, _) = home.run_json("greet", &json!({ "name": "Ada" }));
    let recorded = Recorded::of(home, document["run_id"].as_str().unwrap().to_owned());
    let home = &recorded.home;
    for (text, part) in [
        ("", "it has no whole line"),
        ("{}", "it has no whole line"),
        ("{}\n", "its first line is not an event"),
        ("\0\u{1}\n", "its first line is not an event"),
    ] {
        refused(
            home,
            str(&recorded.file(text)),
            &["no record of a run", part],
        );
    }
    refused(home, str(recorded.folder.path()), &["cannot open"]);
    let gone = home.skillrun(&["runs", "replay", "./gone"]);
    assert_eq!(gone.exit, Some(5), "{gone:?}");
    let nobody = home.skillrun(&["runs", "replay", "run_0190a0a0a0a07000800000000000abcd"]);
    assert_eq!(nobody.exit, Some(5), "{nobody:?}");
}

/// Changes what the first line says, which is all that there is then.
fn forged(recorded: &Recorded, change: impl Fn(&mut Value)) -> std::path::PathBuf {
    let text = recorded.text();
    let mut first: Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
    change(&mut first["payload"]);
    // In the order of a ledger's line.
    recorded.file(format!("{first}\n"))
}

/// What a record says of its run is held to the same bounds as what an operator says.
#[test]
fn a_record_that_was_made_up_gets_nothing() {
    let home = Home::new(&[PROBE]);
    let secret = tempfile::tempdir().unwrap();
    fs::write(secret.path().join("a"), "secret").unwrap();
    let (document, _) = home.run_json("probe", &json!({ "verb": "alloc" }));
    let recorded = Recorded::of(home, document["run_id"].as_str().unwrap().to_owned());
    let home = &recorded.home;
    let limit = |value: u64| json!({ "value": value, "source": "call" });
    for limits in [
        json!({ "memory_bytes": limit(0) }),
        json!({ "memory_bytes": limit(u64::MAX) }),
        json!({ "fuel": limit(u64::MAX) }),
        json!([]),
    ] {
        let file = forged(&recorded, |started| started["limits"] = limits.clone());
        refused(home, str(&file), &["unusable limits"]);
    }
    // More memory than an instance may have here is not to be had.
    let file = forged(&recorded, |started| {
        started["limits"] = json!({ "memory_bytes": limit(1 << 32) });
    });
    let (document, exit) = replayed(home, str(&file), &[]);
    assert_eq!(exit, Some(0), "{document}");
    assert_eq!(document["verdict"], "same_so_far");
    assert!(
        document["next"].as_str().unwrap().contains("memory_limit"),
        "{document}"
    );

    let file = forged(&recorded, |started| {
        let all = json!([
            "tool:*",
            "llm:*/*",
            format!("fs:rw:{}=/data", str(secret.path()))
        ]);
        started["policy"] = json!({ "requested": all, "granted": [], "effective": all });
        started["input"] = json!({ "verb": "tool", "name": "a__b" });
    });
    let (document, _) = replayed(home, str(&file), &[]);
    assert_eq!(document["verdict"], "same_so_far", "{document}");
    assert!(
        document["next"].as_str().unwrap().contains("tool_call"),
        "{document}"
    );
    let missing = document["folders_missing"].as_array().unwrap();
    assert_eq!(missing.len(), 1);

    for (field, value) in [("policy", json!([1])), ("environment", json!({ "a": 1 }))] {
        let file = forged(&recorded, |started| started[field] = value.clone());
        refused(home, str(&file), &["unusable"]);
    }
    for field in ["seed", "input"] {
        let file = forged(&recorded, |started| started[field] = json!("x"));
        refused(home, str(&file), &[&format!("no {field}")]);
    }
}
