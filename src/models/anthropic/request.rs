use serde_json::{Map, Value, json};

use crate::call::{Message, ModelRequest, Part, Role, ToolDefinition};
use crate::models::{ModelError, question};

/// The body of a request.
pub(in crate::models) fn body(
    request: &ModelRequest,
    tokens_default: u64,
    is_stream: bool,
) -> Result<Value, ModelError> {
    question::check(request)?;
    let mut body = Map::new();
    body.insert("model".to_owned(), json!(request.model));
    body.insert(
        "max_tokens".to_owned(),
        json!(question::output_tokens_max(request, tokens_default)),
    );
    if let Some(system) = request.system.as_ref().filter(|text| !text.is_empty()) {
        body.insert("system".to_owned(), json!(system));
    }
    let messages = messages(&request.messages)?;
    body.insert("messages".to_owned(), Value::Array(messages));
    if let Some(temperature) = request.temperature {
        body.insert("temperature".to_owned(), json!(temperature));
    }
    if !request.stop.is_empty() {
        body.insert("stop_sequences".to_owned(), json!(request.stop));
    }
    if !request.tools.is_empty() {
        let tools: Result<Vec<_>, _> = request.tools.iter().map(tool).collect();
        body.insert("tools".to_owned(), Value::Array(tools?));
    }
    if let Some(schema) = &request.output_schema {
        let schema = question::fitted(question::schema(schema, "the answer")?);
        let format = json!({ "type": "json_schema", "schema": schema });
        body.insert("output_config".to_owned(), json!({ "format": format }));
    }
    if is_stream {
        body.insert("stream".to_owned(), json!(true));
    }
    Ok(Value::Object(body))
}

/// Tools answer as the user does. All answers to one message of the model have to be in one message, so
/// messages of one side in a row become one.
fn messages(messages: &[Message]) -> Result<Vec<Value>, ModelError> {
    let mut merged: Vec<(&str, Vec<Value>)> = Vec::new();
    for message in messages {
        let role = match message.role {
            Role::User | Role::Tool => "user",
            Role::Assistant => "assistant",
        };
        let blocks = message.content.iter().filter_map(block);
        let blocks: Result<Vec<_>, _> = blocks.collect();
        match merged.last_mut() {
            Some((last, before)) if *last == role => before.extend(blocks?),
            _ => merged.push((role, blocks?)),
        }
    }
    let message = |(role, content)| json!({ "role": role, "content": Value::Array(content) });
    Ok(merged.into_iter().map(message).collect())
}

/// One part; none for a text that is empty, which the API refuses.
fn block(part: &Part) -> Option<Result<Value, ModelError>> {
    Some(Ok(match part {
        Part::Text(text) if text.is_empty() => return None,
        Part::Text(text) => json!({ "type": "text", "text": text }),
        Part::ToolUse(tool) => match serde_json::from_str::<Value>(&tool.arguments) {
            Ok(input) => {
                json!({ "type": "tool_use", "id": tool.id, "name": tool.name, "input": input })
            }
            Err(error) => {
                let problem = format!("arguments of {:?}: {error}", tool.name);
                return Some(Err(ModelError::Invalid(problem)));
            }
        },
        Part::ToolAnswer(answer) => {
            let mut block = json!({
                "type": "tool_result",
                "tool_use_id": answer.id,
                "content": answer.content,
            });
            if let Some(block) = block.as_object_mut().filter(|_| answer.is_error) {
                block.insert("is_error".to_owned(), json!(true));
            }
            block
        }
    }))
}

fn tool(tool: &ToolDefinition) -> Result<Value, ModelError> {
    let schema = question::schema(&tool.input_schema, &format!("tool {:?}", tool.name))?;
    Ok(json!({
        "name": tool.name,
        "description": tool.description,
        "input_schema": schema,
    }))
}
