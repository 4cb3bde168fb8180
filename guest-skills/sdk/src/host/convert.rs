//! From the bindings' types to the SDK's and back.

use serde::de::DeserializeOwned;

use crate::agent_bindings::skillrun::skill::session;
use crate::bindings::skillrun::skill::types::HostError as RawError;
use crate::bindings::skillrun::skill::{llm, log, recorder, tools};
use crate::llm::{
    Chunk, Message, Part, Request, Response, Role, StopReason, ToolAnswer, ToolUse, Usage,
};
use crate::log::Level;
use crate::recorder::{Event, RecordError};
use crate::session::{PlanStatus, Update};
use crate::tools::{Answer, Tool};
use crate::{HostError, SkillError};

/// What the host wrote, read.
pub(super) fn json<T: DeserializeOwned>(text: &str) -> Result<T, HostError> {
    serde_json::from_str(text)
        .map_err(|error| HostError::Failed(format!("the host's answer cannot be read: {error}")))
}

/// The results of several calls, each converted.
pub(super) fn results<R, T>(
    results: Vec<Result<R, RawError>>,
    convert: impl Fn(R) -> Result<T, HostError>,
) -> Vec<Result<T, HostError>> {
    let results = results.into_iter();
    results.map(|result| convert(result?)).collect()
}

pub(super) fn tool_answer(answer: tools::Answer) -> Result<Answer, HostError> {
    Ok(Answer {
        content: json(&answer.content)?,
        is_error: answer.is_error,
    })
}

pub(super) fn llm_request(request: &Request) -> llm::Request {
    let tools = request.tools.iter().map(|tool| llm::ToolOffer {
        name: tool.name.clone(),
        description: tool.description.clone(),
        input_schema: tool.input_schema.to_string(),
    });
    llm::Request {
        model: request.model.clone(),
        system: request.system.clone(),
        messages: request.messages.iter().map(llm::Message::from).collect(),
        tools: tools.collect(),
        output_tokens_max: request.output_tokens_max,
        temperature: request.temperature,
        stop: request.stop.clone(),
        output_schema: request.output_schema.as_ref().map(ToString::to_string),
    }
}

pub(super) fn llm_response(response: llm::Response) -> Result<Response, HostError> {
    let content = response.content.into_iter().map(part);
    Ok(Response {
        content: content.collect::<Result<_, _>>()?,
        stop_reason: response.stop_reason.into(),
        usage: Usage {
            input_tokens: response.usage.input_tokens,
            output_tokens: response.usage.output_tokens,
            cache_read_tokens: response.usage.cache_read_tokens,
            cache_write_tokens: response.usage.cache_write_tokens,
            cost_usd: response.usage.cost_usd,
        },
        model: response.model,
    })
}

pub(super) fn completion_chunk(chunk: llm::Chunk) -> Result<Chunk, HostError> {
    Ok(match chunk {
        llm::Chunk::Text(text) => Chunk::Text(text),
        llm::Chunk::ToolUse(asked) => Chunk::ToolUse(tool_use(asked)?),
        llm::Chunk::Done(response) => Chunk::Done(llm_response(response)?),
    })
}

fn part(part: llm::Part) -> Result<Part, HostError> {
    Ok(match part {
        llm::Part::Text(text) => Part::Text(text),
        llm::Part::ToolUse(asked) => Part::ToolUse(tool_use(asked)?),
        llm::Part::ToolAnswer(answer) => Part::ToolAnswer(ToolAnswer {
            id: answer.id,
            content: answer.content,
            is_error: answer.is_error,
        }),
    })
}

fn tool_use(asked: llm::ToolUse) -> Result<ToolUse, HostError> {
    Ok(ToolUse {
        arguments: json(&asked.arguments)?,
        id: asked.id,
        name: asked.name,
    })
}

impl From<&Message> for llm::Message {
    fn from(message: &Message) -> Self {
        Self {
            role: match message.role {
                Role::User => llm::Role::User,
                Role::Assistant => llm::Role::Assistant,
                Role::Tool => llm::Role::Tool,
            },
            content: message.content.iter().map(llm::Part::from).collect(),
        }
    }
}

impl From<&Part> for llm::Part {
    fn from(part: &Part) -> Self {
        match part {
            Part::Text(text) => Self::Text(text.clone()),
            Part::ToolUse(asked) => Self::ToolUse(llm::ToolUse {
                id: asked.id.clone(),
                name: asked.name.clone(),
                arguments: asked.arguments.to_string(),
            }),
            Part::ToolAnswer(answer) => Self::ToolAnswer(llm::ToolAnswer {
                id: answer.id.clone(),
                content: answer.content.clone(),
                is_error: answer.is_error,
            }),
        }
    }
}

impl From<llm::StopReason> for StopReason {
    fn from(reason: llm::StopReason) -> Self {
        match reason {
            llm::StopReason::EndTurn => Self::EndTurn,
            llm::StopReason::TokenLimit => Self::TokenLimit,
            llm::StopReason::ToolUse => Self::ToolUse,
            llm::StopReason::StopSequence => Self::StopSequence,
            llm::StopReason::Refusal => Self::Refusal,
        }
    }
}

impl From<tools::Tool> for Tool {
    fn from(tool: tools::Tool) -> Self {
        Self {
            name: tool.name,
            description: tool.description,
            // A tool whose schema is no JSON takes anything as far as the skill can know; the host is
            // the one that checks.
            input_schema: serde_json::from_str(&tool.input_schema).unwrap_or_default(),
            read_only: tool.read_only,
            idempotent: tool.idempotent,
        }
    }
}

impl From<Level> for log::Level {
    fn from(level: Level) -> Self {
        match level {
            Level::Trace => Self::Trace,
            Level::Debug => Self::Debug,
            Level::Info => Self::Info,
            Level::Warn => Self::Warn,
            Level::Error => Self::Error,
        }
    }
}

impl From<&Event> for recorder::Event {
    fn from(event: &Event) -> Self {
        match event {
            Event::ToolCall(call) => Self::ToolCall(recorder::ToolCall {
                call_id: call.call_id.clone(),
                name: call.name.clone(),
                arguments: call.arguments.to_string(),
            }),
            Event::ToolResult(result) => Self::ToolResult(recorder::ToolResult {
                call_id: result.call_id.clone(),
                output: result.output.clone(),
                is_error: result.is_error,
            }),
            Event::LlmCall(call) => Self::LlmCall(recorder::LlmCall {
                model: call.model.clone(),
                provider: call.provider.clone(),
                prompt_tokens: call.prompt_tokens,
                output_tokens: call.output_tokens,
                cost_usd: call.cost_usd,
            }),
            Event::StructuredOutput(result) => Self::StructuredOutput(recorder::StructuredOutput {
                schema_digest: result.schema_digest.clone(),
                output: result.output.to_string(),
            }),
            Event::Error(message) => Self::Error(message.clone()),
            Event::Custom(custom) => Self::Custom(recorder::Custom {
                name: custom.name.clone(),
                payload: custom.payload.to_string(),
            }),
        }
    }
}

impl From<&Update> for session::Update {
    fn from(update: &Update) -> Self {
        match update {
            Update::MessageChunk(text) => Self::MessageChunk(text.clone()),
            Update::Reasoning(text) => Self::Reasoning(text.clone()),
            Update::Plan(entries) => {
                let entries = entries.iter().map(|entry| session::PlanEntry {
                    description: entry.description.clone(),
                    status: match entry.status {
                        PlanStatus::Pending => session::PlanStatus::Pending,
                        PlanStatus::InProgress => session::PlanStatus::InProgress,
                        PlanStatus::Completed => session::PlanStatus::Completed,
                        PlanStatus::Failed => session::PlanStatus::Failed,
                    },
                    priority: entry.priority,
                });
                Self::Plan(entries.collect())
            }
            &Update::ContextWindow(used, size) => Self::ContextWindow((used, size)),
        }
    }
}

impl From<recorder::RecordError> for RecordError {
    fn from(error: recorder::RecordError) -> Self {
        match error {
            recorder::RecordError::TooLarge(limit_bytes) => Self::TooLarge(limit_bytes),
            recorder::RecordError::Invalid(what) => Self::Invalid(what),
            recorder::RecordError::Exhausted => Self::Exhausted,
        }
    }
}

impl From<RawError> for HostError {
    fn from(error: RawError) -> Self {
        match error {
            RawError::Denied(capability) => Self::Denied(capability),
            RawError::NotFound(name) => Self::NotFound(name),
            RawError::Invalid(what) => Self::Invalid(what),
            RawError::Ambiguous(names) => Self::Ambiguous(names),
            RawError::Failed(message) => Self::Failed(message),
            RawError::TimedOut(limit_ms) => Self::TimedOut(limit_ms),
            RawError::Exhausted(limit) => Self::Exhausted(limit),
            RawError::Cancelled => Self::Cancelled,
        }
    }
}

impl From<RawError> for SkillError {
    fn from(error: RawError) -> Self {
        HostError::from(error).into()
    }
}
