//! Tools that ask their client before they answer.

use serde_json::{Value, json};
use skillrun_sdk::SkillError;

use crate::blocks::says;
use crate::client::{
    ask, ask_all, elicitation, filled, roots, said, sampling, text_field, yes_field,
};
use crate::{Answer, text};

pub(crate) fn answer(name: &str, input: &Value) -> Answer {
    let said = match name.strip_prefix("test-input-required-result-") {
        Some(name) => in_rounds(name)?,
        None => at_once(name, input)?,
    };
    Some(said.map(|said| says(&said)))
}

/// Fixtures of the revision with sessions, or of both.
fn at_once(name: &str, input: &Value) -> Option<Result<String, SkillError>> {
    Some(match name {
        "test-sampling" => {
            let answer = ask(sampling("answer", text(input, "prompt"), 100));
            answer.map(|answer| format!("LLM response: {}", said(&answer)))
        }
        "test-missing-capability" => {
            let answer = ask(sampling("answer", "Say something", 100));
            answer.map(|answer| said(&answer).to_owned())
        }
        "test-elicitation" => {
            let properties = json!({
                "username": { "type": "string", "description": "User's response" },
                "email": { "type": "string", "description": "User's email address" },
            });
            let required = ["username", "email"];
            let message = text(input, "message");
            let answer = ask(elicitation("user", message, &properties, &required));
            answer.map(|answer| format!("User response: {answer}"))
        }
        "test-elicitation-sep1034-defaults" => completed("Is this still so?", &defaults()),
        "test-elicitation-sep1330-enums" => completed("What will it be?", &choices()),
        "test-streaming-elicitation" => {
            let answer = ask(text_field("user_name", "What is your name?", "name"));
            answer.map(|answer| greeting(&answer))
        }
        _ => return None,
    })
}

/// Fixtures of the revision in which an answer can be what is asked.
fn in_rounds(name: &str) -> Option<Result<String, SkillError>> {
    let ask_name = || ask(text_field("user_name", "What is your name?", "name"));
    Some(match name {
        "elicitation" => ask_name().map(|answer| greeting(&answer)),
        "sampling" => {
            let question = "What is the capital of France?";
            let answer = ask(sampling("capital_question", question, 100));
            answer.map(|answer| said(&answer).to_owned())
        }
        "list-roots" => ask(roots("client_roots")).map(|answer| format!("roots: {answer}")),
        "request-state" | "tampered-state" => {
            let answer = ask(yes_field("confirm", "Please confirm", "ok"));
            answer.map(|answer| format!("state-ok: {answer}"))
        }
        "multiple-inputs" => {
            let answers = ask_all(&[
                text_field("user_name", "What is your name?", "name"),
                sampling("greeting", "Generate a greeting", 50),
                roots("client_roots"),
            ]);
            answers.map(|answers| json!(answers).to_string())
        }
        "multi-round" => two_rounds(),
        // Whether a client can be asked something it says itself; what it cannot be asked fails at once.
        "capabilities" => ask_name()
            .map(|answer| greeting(&answer))
            .or_else(|_| ask(sampling("answer", "Say something", 50)).map(|a| said(&a).to_owned())),
        _ => return None,
    })
}

fn two_rounds() -> Result<String, SkillError> {
    let name = ask(text_field("step1", "Step 1: What is your name?", "name"))?;
    let color = ask(text_field(
        "step2",
        "Step 2: What is your favorite color?",
        "color",
    ))?;
    let (name, color) = (filled(&name, "name"), filled(&color, "color"));
    Ok(format!("{name} likes {color}."))
}

fn greeting(answer: &Value) -> String {
    format!("Hello, {}!", filled(answer, "name"))
}

fn completed(message: &str, properties: &Value) -> Result<String, SkillError> {
    let answer = ask(elicitation("form", message, properties, &[]))?;
    let content = answer.get("content").cloned().unwrap_or_default();
    let action = text(&answer, "action");
    Ok(format!(
        "Elicitation completed: action={action}, content={content}"
    ))
}

fn defaults() -> Value {
    json!({
        "name": { "type": "string", "default": "John Doe" },
        "age": { "type": "integer", "default": 30 },
        "score": { "type": "number", "default": 95.5 },
        "status": {
            "type": "string",
            "enum": ["active", "inactive", "pending"],
            "default": "active",
        },
        "verified": { "type": "boolean", "default": true },
    })
}

fn choices() -> Value {
    let options = ["option1", "option2", "option3"];
    let titled = |word: &str| {
        json!([
            { "const": "value1", "title": format!("First {word}") },
            { "const": "value2", "title": format!("Second {word}") },
            { "const": "value3", "title": format!("Third {word}") },
        ])
    };
    json!({
        "untitledSingle": { "type": "string", "enum": options },
        "titledSingle": { "type": "string", "oneOf": titled("Option") },
        "legacyEnum": {
            "type": "string",
            "enum": ["opt1", "opt2", "opt3"],
            "enumNames": ["Option One", "Option Two", "Option Three"],
        },
        "untitledMulti": { "type": "array", "items": { "type": "string", "enum": options } },
        "titledMulti": { "type": "array", "items": { "anyOf": titled("Choice") } },
    })
}
