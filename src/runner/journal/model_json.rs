//! What is asked of a model and what it answers, as ledgers keep it.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::call::{
    Message, ModelRequest, ModelResponse, Part, Role, StopReason, ToolDefinition, ToolUse,
    ToolUseAnswer, Usage,
};
use crate::ledger::Json;

#[derive(Serialize)]
struct RequestJson<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    system: Option<&'a str>,
    messages: Vec<MessageJson<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<ToolJson<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    output_tokens_max: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f32>,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    stop: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    output_schema: Option<&'a RawValue>,
}

#[derive(Serialize)]
struct MessageJson<'a> {
    role: &'static str,
    content: Vec<PartJson<'a>>,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum PartJson<'a> {
    Text {
        text: &'a str,
    },
    ToolUse(ToolUseJson<'a>),
    ToolAnswer {
        id: &'a str,
        content: &'a str,
        is_error: bool,
    },
}

#[derive(Serialize, Deserialize)]
struct ToolUseJson<'a> {
    #[serde(borrow)]
    id: Cow<'a, str>,
    #[serde(borrow)]
    name: Cow<'a, str>,
    #[serde(borrow)]
    arguments: &'a RawValue,
}

/// A part as a ledger has it. It is read by hand, because a text of JSON that is to be kept as it is
/// spelled cannot stand behind a tag.
#[derive(Deserialize)]
struct RecordedPart<'a> {
    #[serde(borrow, rename = "type")]
    kind: Cow<'a, str>,
    #[serde(borrow, default)]
    text: Cow<'a, str>,
    #[serde(borrow, default)]
    id: Cow<'a, str>,
    #[serde(borrow, default)]
    name: Cow<'a, str>,
    #[serde(borrow)]
    arguments: Option<&'a RawValue>,
    #[serde(borrow, default)]
    content: Cow<'a, str>,
    #[serde(default)]
    is_error: bool,
}

#[derive(Deserialize)]
struct RecordedResponse<'a> {
    #[serde(borrow)]
    content: Vec<RecordedPart<'a>>,
    #[serde(borrow)]
    stop_reason: Cow<'a, str>,
    #[serde(borrow)]
    model: Cow<'a, str>,
}

#[derive(Serialize)]
struct ToolJson<'a> {
    name: &'a str,
    description: &'a str,
    input_schema: &'a RawValue,
}

#[derive(Serialize)]
struct ResponseJson<'a> {
    content: Vec<PartJson<'a>>,
    stop_reason: &'static str,
    model: &'a str,
}

/// A question as a ledger keeps it. What should be JSON in it and is not is told.
pub(super) fn request(request: &ModelRequest) -> Result<Json, String> {
    let messages = request.messages.iter().enumerate();
    let messages = messages.map(|(at, message)| {
        message_json(message).map_err(|error| format!("messages[{at}]: {error}"))
    });
    let tools = request.tools.iter().map(tool_json);
    let output_schema = request.output_schema.as_deref();
    json(&RequestJson {
        system: request.system.as_deref(),
        messages: messages.collect::<Result<_, _>>()?,
        tools: tools.collect::<Result<_, _>>()?,
        output_tokens_max: request.output_tokens_max,
        temperature: request.temperature,
        stop: &request.stop,
        output_schema: output_schema
            .map(|schema| raw("output-schema", schema))
            .transpose()?,
    })
}

/// An answer as a ledger keeps it.
pub(super) fn response(response: &ModelResponse) -> Result<Json, String> {
    json(&ResponseJson {
        content: parts(&response.content)?,
        stop_reason: stop_reason(response.stop_reason),
        model: &response.model,
    })
}

/// An answer as a ledger keeps it, back; none when it cannot be read.
pub(super) fn to_response(json: &Json, usage: Usage) -> Option<ModelResponse> {
    let recorded: RecordedResponse<'_> = serde_json::from_str(json.as_str()).ok()?;
    let content = recorded.content.into_iter().map(part);
    let reasons = [
        StopReason::EndTurn,
        StopReason::TokenLimit,
        StopReason::ToolUse,
        StopReason::StopSequence,
        StopReason::Refusal,
    ];
    let mut reasons = reasons.into_iter();
    Some(ModelResponse {
        content: content.collect::<Option<_>>()?,
        stop_reason: reasons.find(|&reason| stop_reason(reason) == recorded.stop_reason)?,
        usage,
        model: recorded.model.into_owned(),
    })
}

/// A request for a tool as a ledger keeps it.
pub(super) fn tool_use(tool: &ToolUse) -> Result<Json, String> {
    json(&tool_use_json(tool)?)
}

/// A request for a tool as a ledger keeps it, back; none when it cannot be read.
pub(super) fn to_tool_use(json: &Json) -> Option<ToolUse> {
    let recorded: ToolUseJson<'_> = serde_json::from_str(json.as_str()).ok()?;
    Some(ToolUse {
        id: recorded.id.into_owned(),
        name: recorded.name.into_owned(),
        arguments: recorded.arguments.get().to_owned(),
    })
}

fn part(recorded: RecordedPart<'_>) -> Option<Part> {
    Some(match &*recorded.kind {
        "text" => Part::Text(recorded.text.into_owned()),
        "tool_use" => Part::ToolUse(ToolUse {
            id: recorded.id.into_owned(),
            name: recorded.name.into_owned(),
            arguments: recorded.arguments?.get().to_owned(),
        }),
        "tool_answer" => Part::ToolAnswer(ToolUseAnswer {
            id: recorded.id.into_owned(),
            content: recorded.content.into_owned(),
            is_error: recorded.is_error,
        }),
        _ => return None,
    })
}

fn stop_reason(reason: StopReason) -> &'static str {
    match reason {
        StopReason::EndTurn => "end_turn",
        StopReason::TokenLimit => "token_limit",
        StopReason::ToolUse => "tool_use",
        StopReason::StopSequence => "stop_sequence",
        StopReason::Refusal => "refusal",
    }
}

fn tool_use_json(tool: &ToolUse) -> Result<ToolUseJson<'_>, String> {
    Ok(ToolUseJson {
        id: tool.id.as_str().into(),
        name: tool.name.as_str().into(),
        arguments: raw("arguments", &tool.arguments)?,
    })
}

fn json(value: &impl Serialize) -> Result<Json, String> {
    Json::from_serialize(value).map_err(|error| error.to_string())
}

fn message_json(message: &Message) -> Result<MessageJson<'_>, String> {
    Ok(MessageJson {
        role: match message.role {
            Role::User => "user",
            Role::Assistant => "assistant",
            Role::Tool => "tool",
        },
        content: parts(&message.content)?,
    })
}

fn parts(parts: &[Part]) -> Result<Vec<PartJson<'_>>, String> {
    parts.iter().map(part_json).collect()
}

fn part_json(part: &Part) -> Result<PartJson<'_>, String> {
    Ok(match part {
        Part::Text(text) => PartJson::Text { text },
        Part::ToolUse(tool) => PartJson::ToolUse(tool_use_json(tool)?),
        Part::ToolAnswer(answer) => PartJson::ToolAnswer {
            id: &answer.id,
            content: &answer.content,
            is_error: answer.is_error,
        },
    })
}

fn tool_json(tool: &ToolDefinition) -> Result<ToolJson<'_>, String> {
    Ok(ToolJson {
        name: &tool.name,
        description: &tool.description,
        input_schema: raw("input-schema", &tool.input_schema)
            .map_err(|error| format!("tools {:?}: {error}", tool.name))?,
    })
}

fn raw<'a>(field: &str, text: &'a str) -> Result<&'a RawValue, String> {
    serde_json::from_str(text).map_err(|error| format!("{field} is not JSON: {error}"))
}
