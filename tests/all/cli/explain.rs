//! Why a run ended: which rule, limit or decision it was, where that came from, which setting changes it.

use serde_json::{Value, json};
use skillrun_test_artifacts::{GREET, PROBE};

use crate::harness::Home;

/// Runs a verb and gives what `runs explain` says of the run.
fn explained(home: &Home, verb: &Value, flags: &[&str]) -> Value {
    let input = verb.to_string();
    let mut arguments = vec!["run", "probe", "--json", "--input", &input];
    arguments.extend(flags);
    let document = home.skillrun(&arguments).json();
    let run_id = document["run_id"].as_str().unwrap();
    let ran = home.skillrun(&["runs", "explain", "--json", run_id]);
    assert_eq!(ran.exit, Some(0), "{ran:?}");
    ran.json()
}

#[test]
fn a_limit_is_named_with_its_source_and_the_setting_that_changes_it() {
    let home = Home::new(&[PROBE]);
    let spin = json!({ "verb": "spin" });
    for (config, flags, source, place, key) in [
        (
            "[limits]\nwall_time_ms = 100",
            &[][..],
            "config",
            "config.toml",
            "limits.wall_time_ms",
        ),
        (
            "[skills.probe.limits]\nwall_time_ms = 100",
            &[],
            "skill",
            "config.toml",
            "skills.probe.limits.wall_time_ms",
        ),
        (
            "",
            &["--timeout", "100ms"],
            "call",
            "skillrun run",
            "--timeout",
        ),
    ] {
        home.configure(config);
        let explanation = explained(&home, &spin, flags);
        assert_eq!(
            explanation["cause"],
            json!({ "kind": "limit", "key": "wall_time_ms", "value": 100, "source": source, "above": false }),
        );
        let setting = &explanation["settings"][0];
        assert_eq!(
            (&setting["place"], &setting["key"]),
            (&json!(place), &json!(key))
        );
        assert_eq!(explanation["code"], "time_limit");
    }
}

#[test]
fn a_denial_is_named_with_its_rule_and_what_each_side_would_have_to_say() {
    let home = Home::new(&[PROBE]);
    let explanation = explained(
        &home,
        &json!({ "verb": "tool", "name": "files__read" }),
        &[],
    );
    assert_eq!(
        explanation["cause"],
        json!({
            "kind": "capability",
            "capability": "tool:files__read",
            "rule": "not granted",
            "wanted": "files__read",
        }),
    );
    let keys: Vec<&str> = explanation["settings"]
        .as_array()
        .unwrap()
        .iter()
        .map(|setting| setting["key"].as_str().unwrap())
        .collect();
    assert_eq!(keys, ["capabilities.request", "skills.probe.grant"]);
    let run_id = explanation["run_id"].as_str().unwrap();
    let denied = &home.events_of(run_id, "denied")[0];
    assert_eq!(explanation["seq"], denied["seq"]);

    home.configure("[skills.probe]\ngrant = [\"tool:files__read\"]");
    let explanation = explained(
        &home,
        &json!({ "verb": "tool", "name": "files__read" }),
        &[],
    );
    assert_eq!(
        explanation["cause"]["rule"],
        "granted, and not requested in skill.toml"
    );
    assert_eq!(explanation["settings"].as_array().unwrap().len(), 1);
}

/// Where both sides have the capability, something else was in the way.
#[test]
fn advice_that_would_change_nothing_is_not_given() {
    let home = Home::new(&[PROBE]);
    let dir = tempfile::tempdir().unwrap();
    let folder = format!("fs:rw:{}=/d", dir.path().display());
    let grants = json!([folder, "net:http://localhost/#GET"]);
    home.write_manifest(
        "probe",
        "[capabilities]\nrequest = [\"fs:rw:*=/d\", \"net:http://localhost/#GET\"]",
    );
    home.configure(&format!("[skills.probe]\ngrant = {grants}"));
    let outside = json!({ "verb": "read_file", "path": "/d/../etc/passwd" });
    let explanation = explained(&home, &outside, &[]);
    assert_eq!(explanation["cause"]["kind"], "capability");
    assert_eq!(explanation["settings"], json!([]));
    let itself = json!({ "verb": "http", "url": "http://localhost/" });
    let explanation = explained(&home, &itself, &[]);
    assert_eq!(explanation["settings"][0]["key"], "http.addresses_allowed");
    let cloud = json!({ "verb": "http", "url": "http://169.254.169.254/latest" });
    let odd = json!({ "verb": "http", "url": "http://localhost/a%2fb" });
    for verb in [cloud, odd] {
        let explanation = explained(&home, &verb, &[]);
        assert_eq!(explanation["cause"]["kind"], "capability", "{explanation}");
        assert_eq!(explanation["settings"], json!([]));
    }
    let many = json!({ "verb": "random", "bytes": 100_000_000 });
    let explanation = explained(&home, &many, &[]);
    assert_eq!(explanation["cause"]["kind"], "bound");
}

#[test]
fn every_kind_of_end_has_its_cause() {
    let home = Home::new(&[PROBE, GREET]);
    for (verb, kind) in [
        (json!({ "verb": "noop" }), "done"),
        (json!({ "verb": "trap" }), "guest"),
        (json!({ "verb": "panic", "message": "m" }), "guest"),
        (
            json!({ "verb": "fail", "message": "m", "code": "c" }),
            "skill",
        ),
        (json!({ "verb": "output", "bytes": 5_000_000 }), "limit"),
    ] {
        let explanation = explained(&home, &verb, &[]);
        assert_eq!(explanation["cause"]["kind"], kind, "{explanation}");
    }
    let document = home.skillrun(&["run", "nobody", "--json"]).json();
    let run_id = document["run_id"].as_str().unwrap();
    let explanation = home.skillrun(&["runs", "explain", "--json", run_id]).json();
    assert_eq!(explanation["cause"]["kind"], "load");
}

#[test]
fn people_are_told_in_lines_and_nothing_of_the_skill_steers_their_terminal() {
    let home = Home::new(&[PROBE]);
    let verb = json!({ "verb": "handoff", "skill": "\u{1b}[2Jevil" });
    let document = home.run_json("probe", &verb).0;
    let run_id = document["run_id"].as_str().unwrap();
    let ran = home.skillrun(&["runs", "explain", run_id]);
    assert_eq!(ran.exit, Some(0));
    assert!(ran.stdout.contains("decided  capability skill:"), "{ran:?}");
    assert!(!ran.stdout.contains('\u{1b}'));

    let verb = json!({ "verb": "handoff", "skill": "greet" });
    let document = home.run_json("probe", &verb).0;
    let ran = home.skillrun(&["runs", "explain", document["run_id"].as_str().unwrap()]);
    let change = "change   config.toml: add \"skill:greet\" to skills.probe.grant";
    assert!(ran.stdout.contains(change), "{ran:?}");
}

#[test]
fn a_run_that_is_not_there_is_not_explained() {
    let home = Home::new(&[]);
    let ran = home.skillrun(&["runs", "explain", &super::run_id(1)]);
    assert_eq!(ran.exit, Some(5), "{ran:?}");
}

/// What was missing is said with the error, before anybody has to ask for an explanation.
#[test]
fn an_error_tells_what_was_asked_for_and_not_granted() {
    let home = Home::new(&[PROBE]);
    home.write_manifest("probe", "[capabilities]\nrequest = [\"fs:rw:*=/notes\"]");
    let lost = json!({ "verb": "read_file", "path": "/notes/milk" });
    let (document, _) = home.run_json("probe", &lost);
    let hint = document["hint"].as_str().unwrap();
    assert!(hint.contains("fs:rw:*=/notes"), "{document}");
    let denied = json!({ "verb": "tool", "name": "files__read" });
    let ran = home.skillrun(&["run", "probe", "--input", &denied.to_string()]);
    assert!(
        ran.stderr.contains("hint: tool:files__read: not granted"),
        "{ran:?}"
    );
}
