//! What the events of calls carry: tools, skills, models and servers, before the call and after it.

use serde::{Deserialize, Serialize};

use super::{Head, is_false};
pub use crate::call::Effect;
use crate::id::RunId;
use crate::ledger::json::{Json, Text, present};

/// Which half of a model call an `llm_call` is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallPhase {
    /// Written before the effect.
    Call,
    /// Written after it.
    Result,
}

/// What a `tool_call` calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallKind {
    /// A tool.
    Tool,
    /// Another skill.
    Skill,
    /// Nothing: the run asks which tools it may call.
    Tools,
}

/// Why a call of a guest has no answer. The kinds are those of `host-error` in `wit/types.wit`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum CallFailure {
    /// There is nothing of that name.
    NotFound {
        /// The name.
        name: String,
    },
    /// What was handed over does not fit.
    Invalid {
        /// Where, what was expected, what was found.
        message: String,
    },
    /// Several things fit the name.
    Ambiguous {
        /// These.
        names: Vec<String>,
    },
    /// The other side answered with an error, or not at all.
    Failed {
        /// What it said.
        message: String,
    },
    /// It took longer than it may.
    TimedOut {
        /// How long it may take.
        limit_ms: u64,
    },
    /// There was no room for it.
    Exhausted {
        /// Which bound, its value and its source.
        message: String,
    },
    /// The run was being cancelled.
    Cancelled,
}

impl CallFailure {
    /// The words that stand in `kind`.
    pub(in crate::ledger) const KINDS: [&str; 7] = [
        "not_found",
        "invalid",
        "ambiguous",
        "failed",
        "timed_out",
        "exhausted",
        "cancelled",
    ];
}

/// A tool, or another skill, is about to be called.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct ToolCall {
    /// Pairs the call with its result.
    pub call_id: String,
    /// The step that the call belongs to.
    #[serde(default)]
    pub node_id: String,
    /// The tool.
    pub name: String,
    /// Its arguments as the guest spelled them.
    #[serde(default)]
    pub arguments: Json,
    /// Whether `arguments` is less than what the guest gave.
    #[serde(default, skip_serializing_if = "is_false")]
    pub truncated: bool,
    /// What a repetition would do.
    #[serde(default)]
    pub effect: Effect,
    /// What is called, where it is not a tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<CallKind>,
    /// The name by which the guest asked for it, where that is not `name`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked: Option<String>,
    /// The run that the call is, when it calls another skill.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub child_run_id: Option<RunId>,
}

/// What a tool, or another skill, answered.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct ToolResult {
    /// Pairs the result with its call.
    pub call_id: String,
    /// The step that the call belongs to.
    #[serde(default)]
    pub node_id: String,
    /// The answer.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "present"
    )]
    pub output: Option<Json>,
    /// Whether `output` is less than the answer.
    #[serde(default, skip_serializing_if = "is_false")]
    pub truncated: bool,
    /// Whether the tool failed.
    #[serde(default, skip_serializing_if = "is_false")]
    pub is_error: bool,
    /// Why there is no answer, as the guest was told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<CallFailure>,
    /// Microseconds from call to answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_micros: Option<u64>,
    /// The run that the call was, when it called another skill.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub child_run_id: Option<RunId>,
    /// The newest line of that run's ledger when it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub child_head: Option<Head>,
}

/// A model is about to be called, or answered: one event before the effect and one after it, which
/// share `call_id` and differ in `phase`. The original system wrote only the second, without either.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct LlmCall {
    /// Pairs the two.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call_id: Option<String>,
    /// Which of the two this is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<CallPhase>,
    /// The step that the call belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_id: Option<String>,
    /// The model.
    #[serde(default)]
    pub model: String,
    /// Who serves it.
    #[serde(default)]
    pub provider: String,
    /// The name by which the guest asked for it; in the first event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked: Option<String>,
    /// What a repetition would do; in the first event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effect: Option<Effect>,
    /// What is asked; in the first event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<Json>,
    /// The answer; in the second event.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "present"
    )]
    pub output: Option<Json>,
    /// Whether the call failed; in the second event.
    #[serde(default, skip_serializing_if = "is_false")]
    pub is_error: bool,
    /// Why there is no answer, as the guest was told; in the second event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<CallFailure>,
    /// Whether the answer came in pieces; in the first event.
    #[serde(default, skip_serializing_if = "is_false")]
    pub streamed: bool,
    /// Tokens of the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt_tokens: Option<u64>,
    /// Tokens of the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_tokens: Option<u64>,
    /// Tokens that the provider had in its cache.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_read_tokens: Option<u64>,
    /// Tokens that the provider put into its cache.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_write_tokens: Option<u64>,
    /// What the call cost, in US dollars.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
    /// Microseconds from call to answer; in the second event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_micros: Option<u64>,
}

/// A piece of a model's answer.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct LlmChunk {
    /// The call that it answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call_id: Option<String>,
    /// Its place in the answer, from 0.
    pub index: u64,
    /// The text.
    pub delta: Text,
    /// The tool that the model asks to have called, in place of a text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_use: Option<Json>,
}

/// A value that was checked against a schema.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct StructuredOutput {
    /// The digest of the schema.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema_digest: Option<String>,
    /// The step that it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_id: Option<String>,
    /// The value.
    #[serde(default)]
    pub output: Json,
}

/// An HTTP request is about to be sent.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct HttpCall {
    /// Pairs the request with its response.
    pub call_id: String,
    /// The step that the request belongs to.
    #[serde(default)]
    pub node_id: String,
    /// The method.
    pub method: String,
    /// The address.
    pub url: Text,
    /// The header fields, as an array of pairs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub headers: Option<Json>,
    /// The body.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<Text>,
    /// Whether `body` is base64, because it is no text.
    #[serde(default, skip_serializing_if = "is_false")]
    pub base64: bool,
    /// What a repetition would do.
    #[serde(default)]
    pub effect: Effect,
}

/// What an HTTP server answered.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct HttpResult {
    /// Pairs the response with its request.
    pub call_id: String,
    /// The step that the request belongs to.
    #[serde(default)]
    pub node_id: String,
    /// The status code; absent when there was no response.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// The header fields, as an array of pairs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub headers: Option<Json>,
    /// The body.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<Text>,
    /// Whether `body` is base64, because it is no text.
    #[serde(default, skip_serializing_if = "is_false")]
    pub base64: bool,
    /// Whether `body` is less than what came.
    #[serde(default, skip_serializing_if = "is_false")]
    pub truncated: bool,
    /// Why there was no response.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Text>,
    /// Microseconds from request to the end of the response.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_micros: Option<u64>,
}
