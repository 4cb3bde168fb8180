//! What a skill can ask its client.

use serde_json::{Value, json};
use skillrun_sdk::tools::{self, Call};
use skillrun_sdk::{HostError, SkillError};

const ELICIT: &str = "client__elicit";
const SAMPLE: &str = "client__sample";
const ROOTS: &str = "client__roots";

/// A form for a person.
pub(crate) fn elicitation(key: &str, message: &str, properties: &Value, required: &[&str]) -> Call {
    let schema = json!({ "type": "object", "properties": properties, "required": required });
    let question = json!({ "key": key, "message": message, "requestedSchema": schema });
    Call::new(ELICIT, &question)
}

/// A form with one text in it, which has the name `field`.
pub(crate) fn text_field(key: &str, message: &str, field: &str) -> Call {
    elicitation(
        key,
        message,
        &json!({ field: { "type": "string" } }),
        &[field],
    )
}

/// A form that only wants a yes, which has the name `field`.
pub(crate) fn yes_field(key: &str, message: &str, field: &str) -> Call {
    elicitation(
        key,
        message,
        &json!({ field: { "type": "boolean" } }),
        &[field],
    )
}

/// A prompt for the client's model.
pub(crate) fn sampling(key: &str, prompt: &str, tokens_max: u32) -> Call {
    let content = json!({ "type": "text", "text": prompt });
    let messages = json!([{ "role": "user", "content": content }]);
    let question = json!({ "key": key, "messages": messages, "maxTokens": tokens_max });
    Call::new(SAMPLE, &question)
}

/// The question after the client's folders.
pub(crate) fn roots(key: &str) -> Call {
    Call::new(ROOTS, &json!({ "key": key }))
}

/// Asks one thing.
pub(crate) fn ask(call: Call) -> Result<Value, SkillError> {
    let mut answers = ask_all(&[call])?;
    answers
        .pop()
        .ok_or_else(|| SkillError::new("the host gave no answer"))
}

/// Asks several things at once; the answers are in the order of the questions.
pub(crate) fn ask_all(calls: &[Call]) -> Result<Vec<Value>, SkillError> {
    let answers = tools::invoke_all(calls, 0).into_iter();
    answers.map(parsed).collect()
}

fn parsed(answer: Result<tools::Answer, HostError>) -> Result<Value, SkillError> {
    let text = answer.map_err(SkillError::from)?.check()?.text();
    serde_json::from_str(&text).map_err(|error| SkillError::new(format!("no JSON: {error}")))
}

/// What a person filled in; empty where nobody did.
pub(crate) fn filled<'a>(answer: &'a Value, field: &str) -> &'a str {
    let value = answer.get("content").and_then(|content| content.get(field));
    value.and_then(Value::as_str).unwrap_or_default()
}

/// What a model said.
pub(crate) fn said(answer: &Value) -> &str {
    let text = answer
        .get("content")
        .and_then(|content| content.get("text"));
    text.and_then(Value::as_str).unwrap_or_default()
}
