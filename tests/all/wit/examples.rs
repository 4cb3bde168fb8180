//! The example skills that are not in Rust, run by the real binary.

use std::path::PathBuf;

use serde_json::{Value, json};

use super::foreign_skill::{ForeignSkill, PYTHON, TYPESCRIPT, on_record};
use crate::harness::Home;

const GREET_TS: ForeignSkill = ForeignSkill {
    name: "greet-ts",
    source: "guest-skills/greet-ts",
    language: &TYPESCRIPT,
};

const GREET_PY: ForeignSkill = ForeignSkill {
    name: "greet-py",
    source: "guest-skills/greet-py",
    language: &PYTHON,
};

pub(crate) const TRIAGE_TS: ForeignSkill = ForeignSkill {
    name: "triage-ts",
    source: "guest-skills/triage-ts",
    language: &TYPESCRIPT,
};

pub(crate) const TRIAGE_PY: ForeignSkill = ForeignSkill {
    name: "triage-py",
    source: "guest-skills/triage-py",
    language: &PYTHON,
};

pub(crate) const CHAT_TS: ForeignSkill = ForeignSkill {
    name: "chat-ts",
    source: "guest-skills/chat-ts",
    language: &TYPESCRIPT,
};

/// The folder of the example in Python, whose component holds an interpreter.
pub(crate) fn python() -> PathBuf {
    GREET_PY.build()
}

/// Runs the skill and looks at what it answered and at what is on record.
fn greets(example: &ForeignSkill) {
    let home = example.home();
    let skill = example.build();
    let skill = skill.to_str().unwrap();

    let (document, exit) = home.run_json(skill, &json!({ "name": "Ada" }));
    assert_eq!(exit, 0, "{document}");
    let run_id = &document["run_id"];
    assert_eq!(document["code"], "ok");
    assert_eq!(
        document["output"],
        json!({ "greeting": "Hello, Ada!", "run_id": run_id })
    );
    let run_id = run_id.as_str().unwrap();
    let inspected = home.skillrun(&["runs", "inspect", run_id, "--json"]).json();
    assert_eq!(inspected["run"]["skill"], example.name);
    assert_eq!(inspected["run"]["flavor"], example.language.flavor);
    assert_eq!(inspected["run"]["status"], "ok");
    assert_eq!(
        on_record(&home, run_id),
        [
            "host run_started",
            "guest node_enter step:compose#1",
            "guest node_exit step:compose#1 true",
            "guest log info composed a greeting",
            "guest custom greeted Ada",
            "host run_completed ok",
        ]
    );
    refuses(&home, skill, &json!({ "name": "" }));
}

/// Runs a skill on input that does not fit the schema that it says it has.
fn refuses(home: &Home, skill: &str, input: &Value) {
    let (document, exit) = home.run_json(skill, input);
    assert_eq!(exit, 2, "{document}");
    assert_eq!(document["code"], "invalid_input");
    let run_id = document["run_id"].as_str().unwrap();
    assert_eq!(
        on_record(home, run_id),
        [
            "host run_started",
            "host error",
            "host run_completed invalid_input",
        ]
    );
}

/// Looks at what the skill says of itself, and at how it ends where nothing is granted.
fn triages(example: &ForeignSkill) {
    let home = example.home();
    let component = example.build().join("skill.wasm");
    // The file alone asks for nothing.
    let skill = component.to_str().unwrap();

    let inspected = home
        .skillrun(&["skills", "inspect", skill, "--json"])
        .json();
    let input = &inspected["input_schema"];
    assert_eq!(input["required"], json!(["id", "text"]), "{inspected}");
    assert_eq!(input["additionalProperties"], false);
    assert_eq!(input["properties"]["text"]["maxLength"], 8000);
    let output = &inspected["output_schema"]["properties"];
    assert_eq!(output["priority"]["enum"], json!(["low", "normal", "high"]));
    assert_eq!(output["approved"]["type"], json!(["boolean", "null"]));

    for input in [
        json!({}),
        json!({ "id": "1" }),
        json!({ "id": "1", "text": "" }),
        json!({ "id": "1", "text": 2 }),
        json!({ "id": "é".repeat(65), "text": "x" }),
        json!({ "id": "1", "text": "x", "urgent": true }),
    ] {
        refuses(&home, skill, &input);
    }

    let longest = json!({ "id": "🦀".repeat(64), "text": "x".repeat(8000) });
    let (document, exit) = home.run_json(skill, &longest);
    assert_eq!((&document["code"], exit), (&json!("denied"), 3));
    assert_eq!(
        on_record(&home, document["run_id"].as_str().unwrap()),
        [
            "host run_started",
            "guest node_enter step:find-similar#1",
            "host denied tool:tickets__search",
            "guest node_exit step:find-similar#1 false",
            "host error",
            "host run_completed denied",
        ]
    );
}

#[test]
fn the_example_in_typescript_greets_and_refuses() {
    greets(&GREET_TS);
}

#[test]
fn the_example_in_python_greets_and_refuses() {
    greets(&GREET_PY);
}

#[test]
fn triage_in_typescript_describes_itself_and_asks_for_what_it_was_not_granted() {
    triages(&TRIAGE_TS);
}

#[test]
fn triage_in_python_describes_itself_and_asks_for_what_it_was_not_granted() {
    triages(&TRIAGE_PY);
}
