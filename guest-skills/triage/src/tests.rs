//! Each way that a ticket can take, with no model, no server and nobody to ask.

use serde_json::{Value, json};
use skillrun_sdk::mock::{Mock, Record};
use skillrun_sdk::tools::Answer;
use skillrun_sdk::{HostError, Skill, SkillError};

use super::Triage;

/// A host whose model finds that priority.
fn mock(priority: &'static str) -> Mock {
    Mock::new()
        .skill_body("Judge the ticket.")
        .tool("tickets__search", |_arguments| Ok("T-7: printer on fire"))
        .tool("tickets__set_priority", |_arguments| Ok("done"))
        .model(move |_request| Ok(json!({ "priority": priority, "summary": "Fire." })))
}

fn triage(mock: &Mock) -> Record<Result<Value, SkillError>> {
    mock.run_skill::<Triage>(&json!({ "id": "T-9", "text": "It burns" }))
}

fn output(priority: &str, approved: Option<bool>, applied: bool) -> Value {
    json!({ "id": "T-9", "priority": priority, "summary": "Fire.", "approved": approved, "applied": applied })
}

#[test]
fn what_is_urgent_is_asked_about_and_applied() {
    let record = triage(&mock("high").approve(true));
    assert_eq!(record.result, Ok(output("high", Some(true), true)));
    let steps = ["find-similar", "assess", "approve", "apply"];
    assert_eq!(record.steps(), steps.map(|name| (name, true)));
    assert_eq!(record.log_messages(), ["assessed"]);
    assert_eq!(
        record.tool_calls(),
        [
            ("tickets__search", &json!({ "query": "It burns" })),
            (
                "tickets__set_priority",
                &json!({ "id": "T-9", "priority": "high" })
            ),
        ]
    );
    let question = record.questions()[0];
    assert_eq!(question.prompt, "Set ticket T-9 to high priority?");
    let payload: Value = serde_json::from_str(&question.payload).unwrap();
    assert_eq!(
        payload,
        json!({ "id": "T-9", "priority": "high", "summary": "Fire." })
    );
    assert_eq!(question.timeout_ms, None);
}

#[test]
fn the_model_gets_the_body_of_skill_md_and_a_schema() {
    let record = triage(&mock("low"));
    let request = record.model_calls()[0];
    assert_eq!(request.model, "default");
    assert_eq!(request.system.as_deref(), Some("Judge the ticket."));
    assert_eq!(
        request.messages,
        [skillrun_sdk::llm::Message::user(
            "Ticket T-9:\nIt burns\n\nSimilar tickets:\nT-7: printer on fire"
        )]
    );
    assert_eq!(
        (request.temperature, request.output_tokens_max),
        (Some(0.0), Some(500))
    );
    assert_eq!(
        request.output_schema,
        Some(json!({
            "type": "object",
            "properties": {
                "priority": { "type": "string", "enum": ["low", "normal", "high"] },
                "summary": { "type": "string", "maxLength": 500 },
            },
            "required": ["priority", "summary"],
            "additionalProperties": false,
        }))
    );
}

#[test]
fn what_is_not_urgent_is_applied_without_asking() {
    let record = triage(&mock("normal"));
    assert_eq!(record.result, Ok(output("normal", None, true)));
    assert!(record.questions().is_empty());
}

#[test]
fn what_a_person_rejects_is_not_applied() {
    let record = triage(&mock("high").approve(false));
    assert_eq!(record.result, Ok(output("high", Some(false), false)));
    assert_eq!(record.tool_calls().len(), 1);
}

#[test]
fn a_search_that_fails_is_logged_and_done_without() {
    let mock = mock("low").tool("tickets__search", |_arguments| {
        Ok(Answer::error("index gone"))
    });
    let record = triage(&mock);
    assert_eq!(record.result, Ok(output("low", None, true)));
    assert_eq!(
        record.log_messages(),
        ["cannot search for similar tickets", "assessed"]
    );
    let Some(skillrun_sdk::llm::Part::Text(text)) =
        record.model_calls()[0].messages[0].content.first()
    else {
        panic!("no text");
    };
    assert!(text.ends_with("Similar tickets:\nnone"), "{text}");
}

#[test]
fn a_priority_that_is_not_taken_is_an_error() {
    let mock = mock("low").tool("tickets__set_priority", |_arguments| {
        Ok(Answer::error("ticket is closed"))
    });
    let record = triage(&mock);
    assert_eq!(
        record.result,
        Err(SkillError::new("ticket is closed").with_code("not_applied"))
    );
    assert_eq!(record.steps().last(), Some(&("apply", false)));
}

#[test]
fn a_refused_tool_ends_it_as_denied() {
    let mock = Mock::new().tool("tickets__search", |_arguments| {
        Err::<Answer, _>(HostError::Denied("tool:tickets__search".to_owned()))
    });
    let record = triage(&mock);
    assert_eq!(record.error_code(), Some("denied"));
    assert_eq!(record.steps(), [("find-similar", false)]);
}

#[test]
fn tickets_that_do_not_fit_are_refused() {
    let long = |chars| "ä".repeat(chars);
    for input in [
        json!({ "id": "", "text": "x" }),
        json!({ "id": long(65), "text": "x" }),
        json!({ "id": "x", "text": "" }),
        json!({ "id": "x", "text": long(8001) }),
        json!({ "id": "x", "text": "x", "more": 1 }),
    ] {
        let record = Mock::new().run_skill::<Triage>(&input);
        assert_eq!(record.error_code(), Some("invalid_input"));
    }
    let longest = json!({ "id": long(64), "text": long(8000) });
    assert!(mock("low").run_skill::<Triage>(&longest).result.is_ok());
}

#[test]
fn the_schema_says_the_same() {
    let schema: Value = serde_json::from_str(&Triage::describe().input_schema).unwrap();
    assert_eq!(
        schema,
        json!({
            "type": "object",
            "properties": {
                "id": { "type": "string", "minLength": 1, "maxLength": 64 },
                "text": { "type": "string", "minLength": 1, "maxLength": 8000 },
            },
            "required": ["id", "text"],
            "additionalProperties": false,
        })
    );
}
