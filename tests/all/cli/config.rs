//! `skillrun config`: what is in force, and what cannot work.

use serde_json::{Value, json};
use skillrun_test_artifacts::{GREET, PROBE};

use crate::harness::Home;

fn setting<'d>(document: &'d Value, key: &str) -> &'d Value {
    let settings = document["settings"].as_array().unwrap();
    let found = settings.iter().find(|setting| setting["key"] == key);
    found.unwrap_or_else(|| panic!("{key}: {document}"))
}

#[test]
fn every_setting_is_shown_with_its_source() {
    let home = Home::new(&[]);
    home.configure(
        "[limits]\nfuel = 7\n[runs]\nqueue_max = 3\n[capabilities]\ngrant = [\"env:LANG\"]\n\
         [skills.a]\ngrant = [\"approval\"]\n[skills.a.limits]\nlog_bytes = 9\n\
         [secrets.TOKEN]\nenv = \"TOKEN\"\nurl = \"https://a/\"\nheader = \"authorization\"\n\
         [http]\naddresses_allowed = [\"10.0.0.0/8\"]\n",
    );
    let ran = home
        .command(&["config", "show", "--json"])
        .env("TOKEN", "not to be shown")
        .output()
        .unwrap();
    let text = String::from_utf8(ran.stdout).unwrap();
    assert!(!text.contains("not to be shown"));
    let document: Value = serde_json::from_str(&text).unwrap();
    for (key, value, source) in [
        ("limits.fuel", "7", "config"),
        ("limits.memory_bytes", "268435456", "default"),
        ("runs.queue_max", "3", "config"),
        ("runs.at_once_max", "256", "default"),
        ("runs.nested_max", "256", "default"),
        ("approvals.policy", "ask", "default"),
        ("ledger.durability", "sync", "default"),
        ("engine.compile_time_ms", "60000", "default"),
        ("capabilities.grant", "env:LANG", "config"),
        ("skills.a.grant", "approval", "config"),
        ("skills.a.limits.log_bytes", "9", "config"),
        (
            "secrets.TOKEN",
            "from variable TOKEN into authorization of https://a/",
            "config",
        ),
        ("http.addresses_allowed", "10.0.0.0/8", "config"),
    ] {
        let setting = setting(&document, key);
        assert_eq!(
            (&setting["value"], &setting["source"]),
            (&json!(value), &json!(source))
        );
    }
    assert_eq!(setting(&document, "limits.wall_time_ms")["max"], 86_400_000);
    let table = home.skillrun(&["config", "show"]).stdout;
    assert!(
        table.contains("limits.fuel") && table.contains("config"),
        "{table}"
    );
}

#[test]
fn what_cannot_work_is_found_and_what_does_nothing_is_warned_of() {
    let home = Home::new(&[GREET, PROBE]);
    home.configure(
        "[capabilities]\ngrant = [\"env:SKILLRUN_TEST_UNSET\"]\n\
         [skills.nobody]\ngrant = []\n\
         [skills.greet]\ngrant = [\"fs:ro:/no/such/folder=/data\", \"secret:ABSENT\", \"approval\"]\n\
         [secrets.FILE]\nfile = \"/no/such/file\"\nurl = \"https://a/\"\nheader = \"x-key\"\n",
    );
    let ran = home.skillrun(&["config", "check", "--json"]);
    assert_eq!(ran.exit, Some(1));
    let document = ran.json();
    assert_eq!(document["valid"], false);
    let found: Vec<(&str, &str)> = document["findings"]
        .as_array()
        .unwrap()
        .iter()
        .map(|finding| {
            let text = |key: &str| finding[key].as_str().unwrap();
            (text("severity"), text("problem"))
        })
        .collect();
    for (severity, part) in [
        ("error", "env:SKILLRUN_TEST_UNSET: the variable"),
        ("warning", "no such skill is installed"),
        (
            "error",
            "fs:ro:/no/such/folder=/data: /no/such/folder: No such file",
        ),
        ("error", "there is no [secrets.ABSENT]"),
        ("warning", "approval: no installed skill asks for it"),
        ("error", "/no/such/file: No such file"),
    ] {
        assert!(
            found
                .iter()
                .any(|(s, problem)| *s == severity && problem.contains(part)),
            "{part}: {found:?}"
        );
    }
}

#[test]
fn a_configuration_without_fault_is_valid() {
    let home = Home::new(&[GREET]);
    let ran = home.skillrun(&["config", "check"]);
    assert_eq!((ran.exit, ran.stdout.as_str()), (Some(0), ""), "{ran:?}");
    assert!(ran.stderr.ends_with("config.toml: valid\n"), "{ran:?}");
}

#[test]
fn a_line_that_is_wrong_is_named() {
    let home = Home::new(&[]);
    home.configure("[limits]\nfuel = 1\n\nwall_time_ms = 0\n");
    let ran = home.skillrun(&["config", "check", "--json"]);
    assert_eq!(ran.exit, Some(2));
    let error = ran.json()["error"].as_str().unwrap().to_owned();
    assert!(
        error.contains("config.toml: line 4: limit wall_time_ms = 0"),
        "{error}"
    );
}
