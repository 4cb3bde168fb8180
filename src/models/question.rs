//! What is asked of every provider alike, whichever wire format it speaks: a conversation that holds
//! together, and schemas that are JSON.

use serde_json::{Map, Value};

use super::ModelError;
use super::assembly::is_object;
use crate::call::{Message, ModelRequest, Part, Role};

/// Levels of a schema that are looked into when it is fitted to a provider; `serde_json` reads no more.
const SCHEMA_DEPTH_MAX: usize = 128;

/// Keywords that providers refuse in a schema that they hold an answer to. Whoever asked checks the
/// answer against the whole schema.
const LEFT_OUT: [&str; 16] = [
    "minLength",
    "maxLength",
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
    "minItems",
    "maxItems",
    "uniqueItems",
    "minContains",
    "maxContains",
    "minProperties",
    "maxProperties",
    "$schema",
    "$id",
];

/// Keywords whose value is a map of names to schemas.
const MAPS: [&str; 4] = ["properties", "patternProperties", "$defs", "definitions"];
/// Keywords whose value is data and no schema.
const DATA: [&str; 5] = ["const", "enum", "default", "examples", "required"];

/// Checks what no provider would take.
pub(super) fn check(request: &ModelRequest) -> Result<(), ModelError> {
    let invalid = |problem: String| Err(ModelError::Invalid(problem));
    if request.tokens_left == 0 {
        return invalid("no tokens are left".to_owned());
    }
    for (at, message) in request.messages.iter().enumerate() {
        let mut parts = message.content.iter();
        if let Some(wrong) = parts.position(|part| !may_say(message.role, part)) {
            let expected = match message.role {
                Role::User => "text",
                Role::Assistant => "text or a request for a tool",
                Role::Tool => "an answer of a tool",
            };
            return invalid(format!(
                "messages[{at}].content[{wrong}]: expected {expected}"
            ));
        }
        if is_empty(message) {
            return invalid(format!("messages[{at}] is empty: expected content"));
        }
        for part in &message.content {
            if let Part::ToolUse(tool) = part
                && !is_object(&tool.arguments)
            {
                return invalid(format!(
                    "messages[{at}]: expected the arguments of {:?} to be a JSON object",
                    tool.name
                ));
            }
        }
    }
    Ok(())
}

fn may_say(role: Role, part: &Part) -> bool {
    matches!(
        (role, part),
        (Role::User | Role::Assistant, Part::Text(_))
            | (Role::Assistant, Part::ToolUse(_))
            | (Role::Tool, Part::ToolAnswer(_))
    )
}

fn is_empty(message: &Message) -> bool {
    let mut parts = message.content.iter();
    parts.all(|part| matches!(part, Part::Text(text) if text.is_empty()))
}

/// Tokens of the answer at most, as the provider is told.
pub(super) fn output_tokens_max(request: &ModelRequest, default: u64) -> u64 {
    let wanted = request.output_tokens_max.unwrap_or(default);
    wanted.min(request.tokens_left)
}

/// A schema from its text.
pub(super) fn schema(text: &str, whose: &str) -> Result<Value, ModelError> {
    match serde_json::from_str(text) {
        Ok(schema @ Value::Object(_)) => Ok(schema),
        Ok(_) => Err(ModelError::Invalid(format!(
            "schema of {whose}: expected a JSON object"
        ))),
        Err(error) => Err(ModelError::Invalid(format!("schema of {whose}: {error}"))),
    }
}

/// A schema as providers take one that they hold an answer to: without bounds on values, and with no
/// properties but those that it names. It allows no answer that does not fit the original but for those
/// bounds.
pub(super) fn fitted(mut schema: Value) -> Value {
    fit(&mut schema, 0);
    schema
}

fn fit(schema: &mut Value, depth: usize) {
    let Value::Object(schema) = schema else {
        return;
    };
    if depth > SCHEMA_DEPTH_MAX {
        return;
    }
    schema.retain(|keyword, _| !LEFT_OUT.contains(&keyword.as_str()));
    if schema.contains_key("properties") && !schema.contains_key("additionalProperties") {
        schema.insert("additionalProperties".to_owned(), Value::Bool(false));
    }
    each_subschema(schema, &mut |below| fit(below, depth + 1));
}

fn each_subschema(schema: &mut Map<String, Value>, visit: &mut dyn FnMut(&mut Value)) {
    for (keyword, value) in schema.iter_mut() {
        match value {
            _ if DATA.contains(&keyword.as_str()) => {}
            Value::Object(map) if MAPS.contains(&keyword.as_str()) => {
                map.values_mut().for_each(&mut *visit);
            }
            Value::Object(_) => visit(value),
            Value::Array(list) => list.iter_mut().for_each(&mut *visit),
            _ => {}
        }
    }
}

/// Whether each object in a fitted schema requires all of its properties and allows no others, which
/// is what OpenAI demands of one that it is to hold answers to strictly.
pub(super) fn is_strict(schema: &mut Value) -> bool {
    let Value::Object(schema) = schema else {
        return true;
    };
    if let Some(Value::Object(properties)) = schema.get("properties") {
        let required = schema.get("required").and_then(Value::as_array);
        let is_required = |name: &String| {
            required.is_some_and(|list| list.iter().any(|one| one.as_str() == Some(name)))
        };
        if schema.get("additionalProperties") != Some(&Value::Bool(false))
            || !properties.keys().all(is_required)
        {
            return false;
        }
    } else if schema.get("type").and_then(Value::as_str) == Some("object")
        || schema.contains_key("patternProperties")
    {
        return false;
    }
    let mut all = true;
    each_subschema(schema, &mut |below| all &= is_strict(below));
    all
}
