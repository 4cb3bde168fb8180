//! `triage`: what it says of itself, what it asks for, and how it ends where nothing was granted. What it does with
//! a model, tools and a person, its own tests try on a mock.

use serde_json::json;
use skillrun_test_artifacts::TRIAGE;

use crate::harness::Home;

/// The tools and the person that `skill.toml` asks for.
const MANIFEST: &str =
    "[component]\nworld = \"0.1\"\n[capabilities]\nrequest = [\"tool:tickets__*\", \"approval\"]\n";

fn home() -> Home {
    let home = Home::new(&[TRIAGE]);
    home.write_manifest("triage", MANIFEST);
    home
}

#[test]
pub(super) fn main_job() {
    let home = home();
    let ticket = json!({ "id": "T-9", "text": "It burns" });
    let (document, exit) = home.run_json("triage", &ticket);
    assert_eq!(
        (exit, &document["code"]),
        (3, &json!("denied")),
        "{document}"
    );
    let run_id = document["run_id"].as_str().unwrap();
    let denied = home.events_of(run_id, "denied");
    assert_eq!(denied.len(), 1);
    assert_eq!(denied[0]["payload"]["capability"], "tool:tickets__search");
    let left = home.events_of(run_id, "node_exit");
    assert_eq!(left[0]["payload"]["node_id"], "step:find-similar#1");
    assert_eq!(home.skillrun(&["runs", "verify", run_id]).exit, Some(0));
}

#[test]
fn its_schemas_are_those_of_its_types() {
    let inspected = home()
        .skillrun(&["skills", "inspect", "triage", "--json"])
        .json();
    assert_eq!(
        inspected["input_schema"],
        json!({
            "type": "object",
            "properties": {
                "id": { "type": "string", "minLength": 1, "maxLength": 64 },
                "text": { "type": "string", "minLength": 1, "maxLength": 8000 },
            },
            "required": ["id", "text"],
            "additionalProperties": false,
        }),
        "{inspected}"
    );
    let output = &inspected["output_schema"];
    assert_eq!(
        output["properties"]["priority"]["enum"],
        json!(["low", "normal", "high"])
    );
    assert_eq!(
        output["properties"]["approved"]["type"],
        json!(["boolean", "null"])
    );
}

#[test]
fn a_ticket_that_does_not_fit_is_refused() {
    let home = home();
    for ticket in [
        json!({ "id": "", "text": "x" }),
        json!({ "id": "T-9", "text": "x", "urgent": true }),
    ] {
        let (document, _) = home.run_json("triage", &ticket);
        assert_eq!(document["code"], "invalid_input", "{document}");
    }
}
