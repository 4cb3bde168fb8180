//! Cases against skills that are built already: every kind of mock, and every way to fail.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use skillrun_test_artifacts::{Guest, HANDOFF, NOTES, TRIAGE};

use super::{Desk, write};

const TRIAGE_MANIFEST: &str = "[component]\nworld = \"0.1\"\n\n[capabilities]\n\
    request = [\"tool:tickets__*\", \"llm:acme/large\", \"approval\"]\n";

/// A project of a skill that is built already, with these cases in one file.
fn project(desk: &Desk, guest: &Guest, manifest: Option<&str>, cases: &Value) -> PathBuf {
    desk.home.install(guest);
    let installed = desk.home.skill(guest.name);
    let project = desk.path().join(guest.name);
    let dist = project.join("dist").join(guest.name);
    fs::create_dir_all(&dist).unwrap();
    for file in ["SKILL.md", "skill.toml", "skill.wasm"] {
        fs::copy(installed.join(file), dist.join(file)).unwrap();
    }
    if let Some(manifest) = manifest {
        write(&dist.join("skill.toml"), manifest);
    }
    fs::copy(installed.join("SKILL.md"), project.join("SKILL.md")).unwrap();
    write(&project.join("tests/cases.json"), &cases.to_string());
    project
}

#[track_caller]
fn verdicts(desk: &Desk, project: &Path) -> Vec<Value> {
    desk.verdicts(&[project.to_str().unwrap(), "--no-build"])
}

#[track_caller]
fn all_pass(desk: &Desk, project: &Path) {
    for verdict in verdicts(desk, project) {
        assert_eq!(verdict["passed"], true, "{verdict}");
    }
}

fn assessed(priority: &str) -> Value {
    json!({ "json": { "priority": priority, "summary": "Fire." }, "usage": { "output_tokens": 7 } })
}

#[test]
fn tools_models_and_people_are_mocked() {
    let desk = Desk::new();
    let input = json!({ "id": "T-9", "text": "It burns" });
    let tools = json!({
        "tickets__search": { "text": "T-7: printer on fire", "effect": "read" },
        "tickets__set_priority": { "answers": [{ "text": "done" }], "schema": { "type": "object", "required": ["id"] } },
    });
    let cases = json!([
        {
            "name": "approved",
            "input": input,
            "tools": tools,
            "models": [assessed("high")],
            "approvals": [{ "approved": true, "reason": "go on" }],
            "expect": {
                "output": { "id": "T-9", "priority": "high", "summary": "Fire.", "approved": true, "applied": true },
                "calls": 4,
                "events": [
                    { "type": "tool_call", "name": "tickets__search", "effect": "read" },
                    { "type": "llm_call", "phase": "call", "provider": "acme", "model": "large" },
                    { "type": "llm_call", "phase": "result", "output_tokens": 7 },
                    { "type": "approval_request", "prompt": "Set ticket T-9 to high priority?" },
                    { "type": "approval_response", "approved": true, "reason": "go on" },
                ],
            },
        },
        {
            "name": "rejected",
            "input": input,
            "tools": tools,
            "models": [assessed("high")],
            "approvals": [false],
            "expect": { "output_like": { "approved": false, "applied": false }, "calls": 3 },
        },
        {
            "name": "the search fails in one way, and then the model does",
            "input": input,
            "tools": { "tickets__search": [{ "text": "index gone", "is_error": true }] },
            "models": [{ "fails": "overloaded" }],
            "expect": { "code": "skill_error", "error_contains": "overloaded" },
        },
        {
            "name": "the model says what does not fit",
            "input": input,
            "tools": tools,
            "models": [{ "text": "no idea" }],
            "expect": { "code": "skill_error" },
        },
        {
            "name": "the search is out of reach",
            "input": input,
            "tools": { "tickets__search": { "fails": "connection refused" } },
            "expect": { "code": "skill_error", "error_contains": "connection refused", "calls": 1 },
        },
    ]);
    all_pass(
        &desk,
        &project(&desk, &TRIAGE, Some(TRIAGE_MANIFEST), &cases),
    );
}

#[test]
fn what_nobody_mocked_fails_the_case_and_says_what_to_add() {
    let desk = Desk::new();
    let input = json!({ "id": "T-9", "text": "It burns" });
    let search = json!({ "text": "none" });
    let whatever = json!({ "code": "skill_error" });
    let cases = json!([
        { "name": "no tool", "input": input, "expect": whatever },
        { "name": "no model", "input": input, "tools": { "tickets__search": search }, "expect": whatever },
        {
            "name": "no person",
            "input": input,
            "tools": { "tickets__search": search },
            "models": [assessed("high")],
            "expect": { "code": "cancelled" },
        },
        {
            "name": "no more answers",
            "input": input,
            "tools": { "tickets__search": [] },
            "expect": { "code": "skill_error" },
        },
    ]);
    let project = project(&desk, &TRIAGE, Some(TRIAGE_MANIFEST), &cases);
    let verdicts = verdicts(&desk, &project);
    for (verdict, told) in verdicts.iter().zip([
        "tool tickets__search was called with {\"query\":\"It burns\"} and is not mocked: add \
         \"tools\": { \"tickets__search\": { \"text\": \"…\" } }",
        "models were asked more often than there are answers (0): add one to models",
        "a person was asked \"Set ticket T-9 to high priority?\", and there are no more answers (0): \
         add true or false to approvals",
        "tool tickets__search was called more often than it has answers (0): add one to \
         tools.tickets__search",
    ]) {
        assert_eq!(verdict["problems"], json!([told]), "{verdict}");
    }
}

#[test]
fn other_skills_are_mocked() {
    let desk = Desk::new();
    let step = |skill: &str| json!({ "skill": skill, "input": { "name": "Ada" } });
    let cases = json!([
        {
            "name": "answers",
            "input": { "steps": [step("greet"), step("notes")], "parallel": true },
            "skills": { "greet": { "greeting": "Hi" }, "notes": [1] },
            "expect": { "output": { "results": [{ "greeting": "Hi" }, [1]] }, "calls": 2 },
        },
        {
            "name": "fails",
            "input": { "steps": [step("greet")] },
            "skills": { "greet": { "fails": "is asleep" } },
            "expect": { "code": "skill_error", "error_contains": "is asleep" },
        },
        {
            "name": "is not mocked",
            "input": { "steps": [step("handoff")] },
            "expect": { "code": "skill_error" },
        },
    ]);
    let verdicts = verdicts(&desk, &project(&desk, &HANDOFF, None, &cases));
    assert_eq!(verdicts[0]["problems"], json!([]));
    assert_eq!(verdicts[1]["problems"], json!([]));
    assert_eq!(
        verdicts[2]["problems"],
        json!(["skill handoff was called and is not mocked: add skills.handoff"])
    );
}

#[test]
fn what_is_no_mock_is_granted_by_the_case_alone() {
    let desk = Desk::new();
    let folder = desk.path().join("notes-folder");
    fs::create_dir(&folder).unwrap();
    let grant = format!("fs:rw:{}=/notes", folder.display());
    // What the operator grants does not count in a test.
    desk.home
        .configure(&format!("[capabilities]\ngrant = [{grant:?}]\n"));
    let input = json!({ "do": "add", "title": "a", "text": "b" });
    let cases = json!([
        { "name": "granted", "input": input, "grants": [grant], "expect": { "output": { "title": "a" } } },
        { "name": "not granted", "input": { "do": "list" }, "expect": { "code": "skill_error" } },
    ]);
    all_pass(&desk, &project(&desk, &NOTES, None, &cases));
    assert_eq!(fs::read_to_string(folder.join("a.txt")).unwrap(), "b");
}

#[test]
fn a_case_that_fails_says_how_and_keeps_its_ledger_if_asked() {
    let desk = Desk::new();
    let cases = json!([{
        "input": { "id": "T-9", "text": "It burns" },
        "tools": { "tickets__search": { "text": "none" }, "tickets__set_priority": { "text": "done" } },
        "models": [assessed("low")],
        "expect": {
            "output": { "id": "T-9", "priority": "high", "summary": "Fire.", "applied": true },
            "calls": 9,
            "events": [{ "type": "log", "message": "assessed", "level": "warn" }],
        },
    }]);
    let project = project(&desk, &TRIAGE, Some(TRIAGE_MANIFEST), &cases);
    let project = project.to_str().unwrap();
    let ran = desk.run(&["test", project, "--no-build", "--keep"]);
    assert_eq!(ran.exit, Some(1), "{ran:?}");
    let lines: Vec<&str> = ran.stdout.lines().collect();
    assert!(
        lines[0].starts_with("FAIL cases (tests/cases.json, "),
        "{ran:?}"
    );
    assert_eq!(
        lines[1..6],
        [
            "     output.priority: expected \"high\", got \"low\"",
            "     output.approved: expected none, got null",
            "     events[0]: expected {\"type\":\"log\",\"message\":\"assessed\",\"level\":\"warn\"}, got none",
            lines[4],
            "     calls: expected 9, got 3",
        ]
    );
    assert!(
        lines[4].contains("there is log {\"level\":\"info\",\"message\":\"assessed\""),
        "{ran:?}"
    );
    let ledger = lines[6].strip_prefix("     ledger: ").unwrap();
    desk.succeed(&["runs", "verify", ledger]);
    assert!(ran.stderr.ends_with("0 passed, 1 failed\n"), "{ran:?}");
    let kept = Path::new(ledger).parent().unwrap().parent().unwrap();
    fs::remove_dir_all(kept).unwrap();

    let ran = desk.run(&["test", project, "--no-build"]);
    assert!(!ran.stdout.contains("ledger"), "{ran:?}");
}
