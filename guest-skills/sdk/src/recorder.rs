//! Events of the skill's own in the run's ledger, marked as coming from the guest. The host records its
//! own calls by itself; this is for what a skill does inside.

use serde::Serialize;
use serde_json::Value;
use thiserror::Error;

use crate::host;

/// One event. Names and ids have at most 128 bytes, the rest of an event at most 1 MiB.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// A call that the skill made on its own.
    ToolCall(ToolCall),
    /// The answer to it.
    ToolResult(ToolResult),
    /// A use of a language model that did not go through [`llm`](crate::llm).
    LlmCall(LlmCall),
    /// A result that fits a schema.
    StructuredOutput(StructuredOutput),
    /// Something went wrong and the skill goes on.
    Error(String),
    /// Anything else.
    Custom(Custom),
}

/// A call that the skill made on its own. Recorded as `tool_call`.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolCall {
    /// Chosen by the skill; ties the result to the call.
    pub call_id: String,
    /// What was called.
    pub name: String,
    /// What it was given.
    pub arguments: Value,
}

/// The answer to a call. Recorded as `tool_result`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolResult {
    /// The id of the call.
    pub call_id: String,
    /// What came back.
    pub output: String,
    /// It says that something failed.
    pub is_error: bool,
}

/// A use of a language model. Recorded as `llm_call`.
#[derive(Debug, Clone, PartialEq)]
pub struct LlmCall {
    /// The model.
    pub model: String,
    /// Whose it is.
    pub provider: String,
    /// Tokens that went in.
    pub prompt_tokens: u32,
    /// Tokens that came out.
    pub output_tokens: u32,
    /// What it cost, in US dollars.
    pub cost_usd: f64,
}

/// A result that fits a schema. Recorded as `structured_output`.
#[derive(Debug, Clone, PartialEq)]
pub struct StructuredOutput {
    /// SHA-256 of the schema's text, in hexadecimal.
    pub schema_digest: String,
    /// The result.
    pub output: Value,
}

/// An event with a name of the skill's own. Recorded as `custom`.
#[derive(Debug, Clone, PartialEq)]
pub struct Custom {
    /// What happened.
    pub name: String,
    /// What belongs to it.
    pub payload: Value,
}

/// Why an event was not written. The skill may go on.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum RecordError {
    /// The event is larger than one event may be; the limit in bytes.
    #[error("the event is larger than {0} bytes")]
    TooLarge(u32),
    /// A part of it cannot be encoded or is not accepted; which and why.
    #[error("invalid event: {0}")]
    Invalid(String),
    /// This run may write no more events.
    #[error("this run may write no more events")]
    Exhausted,
}

/// Appends an event and gives its sequence number in the ledger.
///
/// # Errors
/// It is too large or not accepted, or the run may write no more events.
pub fn emit(event: &Event) -> Result<u32, RecordError> {
    host::emit(event)
}

/// Records a `custom` event with any payload and gives its sequence number.
///
/// # Errors
/// The payload cannot be encoded or is too large, or the run may write no more events.
pub fn custom(name: &str, payload: &(impl Serialize + ?Sized)) -> Result<u32, RecordError> {
    let payload =
        serde_json::to_value(payload).map_err(|error| RecordError::Invalid(error.to_string()))?;
    emit(&Event::Custom(Custom {
        name: name.to_owned(),
        payload,
    }))
}

/// Records that something went wrong and the skill goes on.
///
/// # Errors
/// The message is too large, or the run may write no more events.
pub fn error(message: &str) -> Result<u32, RecordError> {
    emit(&Event::Error(message.to_owned()))
}

/// A step of the skill: `node_enter` is recorded when it is made and `node_exit` when it is ended. Dropped
/// without [`end`](Node::end) it is recorded as failed. [`step`] ends it for you.
#[derive(Debug)]
pub struct Node(host::Node);

impl Node {
    /// Enters a step; `name` is cut to 128 bytes.
    pub fn new(name: &str) -> Self {
        Self(host::Node::new(name))
    }

    /// The step's id: `step:<name>#<n>`, counted per run.
    pub fn id(&self) -> String {
        self.0.id()
    }

    /// Leaves the step. A second call does nothing.
    pub fn end(&self, success: bool) {
        self.0.end(success);
    }
}

/// Does `work` inside a step: recorded as entered before and as left after it, with its success.
///
/// # Errors
/// Those of the work.
pub fn step<T, E>(name: &str, work: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
    let node = Node::new(name);
    let result = work();
    node.end(result.is_ok());
    result
}
