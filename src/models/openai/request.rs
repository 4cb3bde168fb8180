use serde_json::{Map, Value, json};

use crate::call::{Message, ModelRequest, Part, Role, ToolDefinition, ToolUse, ToolUseAnswer};
use crate::models::{ModelError, question};

/// What stands before the answer of a tool that failed, since the format has no other place for that.
const ERROR_PREFIX: &str = "error: ";

/// The field that bounds an answer. OpenAI itself gave up the older one and refuses it for newer models;
/// other servers may know it alone, and pass over the newer one in silence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::models) enum TokensField {
    /// `max_tokens`
    Older,
    /// `max_completion_tokens`
    Newer,
}

impl TokensField {
    pub(in crate::models) fn as_str(self) -> &'static str {
        match self {
            Self::Older => "max_tokens",
            Self::Newer => "max_completion_tokens",
        }
    }
}

/// The body of a request.
pub(in crate::models) fn body(
    request: &ModelRequest,
    tokens_default: u64,
    tokens_field: TokensField,
    is_stream: bool,
) -> Result<Value, ModelError> {
    question::check(request)?;
    let mut body = Map::new();
    body.insert("model".to_owned(), json!(request.model));
    body.insert("messages".to_owned(), Value::Array(messages(request)));
    body.insert(
        tokens_field.as_str().to_owned(),
        json!(question::output_tokens_max(request, tokens_default)),
    );
    if let Some(temperature) = request.temperature {
        body.insert("temperature".to_owned(), json!(temperature));
    }
    if !request.stop.is_empty() {
        body.insert("stop".to_owned(), json!(request.stop));
    }
    if !request.tools.is_empty() {
        let tools: Result<Vec<_>, _> = request.tools.iter().map(tool).collect();
        body.insert("tools".to_owned(), Value::Array(tools?));
    }
    if let Some(schema) = &request.output_schema {
        body.insert("response_format".to_owned(), response_format(schema)?);
    }
    if is_stream {
        body.insert("stream".to_owned(), json!(true));
        let options = json!({ "include_usage": true });
        body.insert("stream_options".to_owned(), options);
    }
    Ok(Value::Object(body))
}

fn messages(request: &ModelRequest) -> Vec<Value> {
    let system = request.system.iter();
    let system = system.map(|text| json!({ "role": "system", "content": text }));
    system
        .chain(request.messages.iter().flat_map(message))
        .collect()
}

/// The answers of several tools are one message of ours, and one each on the wire.
fn message(message: &Message) -> Vec<Value> {
    match message.role {
        Role::User => vec![json!({ "role": "user", "content": text(&message.content) })],
        Role::Assistant => vec![assistant(&message.content)],
        Role::Tool => message
            .content
            .iter()
            .filter_map(|part| match part {
                Part::ToolAnswer(answer) => Some(tool_answer(answer)),
                _ => None,
            })
            .collect(),
    }
}

/// One text as it is, since every server takes that; several as a list.
fn text(parts: &[Part]) -> Value {
    let texts: Vec<&String> = parts
        .iter()
        .filter_map(|part| match part {
            Part::Text(text) if !text.is_empty() => Some(text),
            _ => None,
        })
        .collect();
    match texts.as_slice() {
        [] => Value::Null,
        [text] => json!(text),
        texts => {
            let block = |text: &&String| json!({ "type": "text", "text": text });
            texts.iter().map(block).collect()
        }
    }
}

fn assistant(parts: &[Part]) -> Value {
    let mut message = json!({ "role": "assistant", "content": text(parts) });
    let calls: Vec<Value> = parts
        .iter()
        .filter_map(|part| match part {
            Part::ToolUse(tool) => Some(tool_call(tool)),
            _ => None,
        })
        .collect();
    if let Some(message) = message.as_object_mut().filter(|_| !calls.is_empty()) {
        message.insert("tool_calls".to_owned(), Value::Array(calls));
    }
    message
}

fn tool_call(tool: &ToolUse) -> Value {
    let function = json!({ "name": tool.name, "arguments": tool.arguments });
    json!({ "id": tool.id, "type": "function", "function": function })
}

fn tool_answer(answer: &ToolUseAnswer) -> Value {
    let prefix = if answer.is_error { ERROR_PREFIX } else { "" };
    let content = format!("{prefix}{}", answer.content);
    json!({ "role": "tool", "tool_call_id": answer.id, "content": content })
}

fn tool(tool: &ToolDefinition) -> Result<Value, ModelError> {
    let parameters = question::schema(&tool.input_schema, &format!("tool {:?}", tool.name))?;
    let function = json!({
        "name": tool.name,
        "description": tool.description,
        "parameters": parameters,
    });
    Ok(json!({ "type": "function", "function": function }))
}

/// An answer is held to the schema strictly where the schema allows that, and otherwise as well as the
/// server can.
fn response_format(schema: &str) -> Result<Value, ModelError> {
    let schema = question::schema(schema, "the answer")?;
    let mut fitted = question::fitted(schema.clone());
    let is_strict = question::is_strict(&mut fitted);
    let schema = if is_strict { fitted } else { schema };
    let named = json!({ "name": "answer", "schema": schema, "strict": is_strict });
    Ok(json!({ "type": "json_schema", "json_schema": named }))
}
