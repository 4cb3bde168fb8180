//! The document of the surface: whether it is valid, and whether it is true.

use std::collections::BTreeSet;
use std::fs;
use std::process::{Command, Output};

use serde_json::Value;
use skillrun_test_artifacts::{GREET, PROBE};

use super::daemon::Daemon;
use crate::harness::Home;
use crate::wit::tool;

/// A token, as it stands in a file.
const TOKEN: &str = "0123456789abcdef";
/// The rules of the linter.
const LINT_RULES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/all/api/redocly.yaml");

/// What schemathesis is told beside the document.
const RULES: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/tests/all/api/schemathesis.toml"
);

fn document(daemon: &Daemon) -> Value {
    let answer = daemon.get("/openapi.json");
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.json()
}

/// Each operation, with its method and path.
fn operations(document: &Value) -> Vec<(String, &Value)> {
    let paths = document["paths"].as_object().unwrap().iter();
    let each = paths.flat_map(|(path, item)| {
        let methods = item.as_object().unwrap().iter();
        methods.map(move |(method, operation)| (format!("{method} {path}"), operation))
    });
    each.collect()
}

#[track_caller]
fn told(output: &Output) -> String {
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    text(&output.stdout) + &text(&output.stderr)
}

#[test]
fn the_document_says_of_every_route_what_holds_for_it() {
    let home = Home::new(&[]);
    let daemon = Daemon::start(&home);
    let document = document(&daemon);
    assert!(document["openapi"].as_str().unwrap().starts_with("3.1"));
    assert_eq!(
        document["components"]["securitySchemes"]["bearer"]["scheme"],
        "bearer"
    );
    let mut ids = BTreeSet::new();
    for (name, operation) in operations(&document) {
        let id = operation["operationId"].as_str().unwrap_or_default();
        assert!(
            !id.is_empty() && ids.insert(id.to_owned()),
            "{name}: {id:?}"
        );
        assert_eq!(
            operation["tags"].as_array().map(Vec::len),
            Some(1),
            "{name}"
        );
        assert!(operation["summary"].is_string(), "{name}");
        let responses = operation["responses"].as_object().unwrap();
        let mut expected = vec!["403", "500", "503"];
        if operation["security"] != serde_json::json!([{}]) {
            expected.push("401");
        }
        if operation.get("requestBody").is_some() {
            expected.extend(["400", "413", "415"]);
        }
        for status in expected {
            assert!(responses.contains_key(status), "{name} has no {status}");
        }
    }
    for id in [
        "list_approvals",
        "decide_approval",
        "resume_run",
        "list_skills",
        "get_skill",
    ] {
        assert!(ids.contains(id), "{id}: {ids:?}");
    }
}

#[test]
fn the_document_is_clean_to_a_linter() {
    let home = Home::new(&[]);
    let daemon = Daemon::start(&home);
    let file = home.path().join("openapi.json");
    fs::write(&file, document(&daemon).to_string()).unwrap();
    let linted = tool("node_modules/.bin/redocly")
        .args(["lint", "--max-problems", "100", "--config", LINT_RULES])
        .arg(&file)
        .env("REDOCLY_SUPPRESS_UPDATE_NOTICE", "true")
        .env("REDOCLY_TELEMETRY", "off")
        .current_dir(home.path())
        .output()
        .unwrap();
    let text = told(&linted);
    assert!(linted.status.success(), "{text}");
}

#[test]
fn whatever_the_document_allows_is_answered_as_it_says() {
    let home = Home::new(&[GREET, PROBE]);
    fs::write(home.path().join("token"), TOKEN).unwrap();
    home.configure("[serve]\ntoken_file = \"token\"\n");
    let daemon = Daemon::start(&home);
    let asked = schemathesis(&home, &daemon, 20);
    let text = told(&asked);
    assert!(asked.status.success(), "{text}\n{}", daemon.log());
    assert!(!daemon.log().contains("panicked"), "{}", daemon.log());
}

fn schemathesis(home: &Home, daemon: &Daemon, examples: u32) -> Output {
    let mut asked: Command = tool("python/bin/schemathesis");
    asked
        .args([
            "--config-file",
            RULES,
            "run",
            "--checks",
            "all",
            "--seed",
            "1",
        ])
        .args(["--max-examples", &examples.to_string(), "--no-color"])
        // However busy the machine is.
        .args(["--request-timeout", "120"])
        .args(["--exclude-tag", "streams", "--generation-database", "none"])
        .args(["-H", &format!("Authorization: Bearer {TOKEN}")])
        .arg(format!("http://{}/openapi.json", daemon.address))
        .env("HYPOTHESIS_STORAGE_DIRECTORY", home.path())
        .current_dir(home.path());
    asked.output().unwrap()
}
