//! One tool of a mode: what it is, and typed arguments in place of text.

use async_trait::async_trait;
use futures_util::future::BoxFuture;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::call::{Effect, ToolAnswer, ToolDefinition};
use crate::runner::{CallError, HostToolCall};
use crate::telemetry::chain;
use crate::tools::{HostTool, ToolError};

/// In which way a tool was no use. The words are what agents branch on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RefusalCode {
    /// It is not allowed.
    Denied,
    /// There is no such thing.
    NotFound,
    /// What was asked makes no sense, or does not fit.
    Invalid,
    /// The thing is another one by now.
    Conflict,
    /// There is no room for it.
    Full,
    /// It was cancelled.
    Cancelled,
    /// It went wrong.
    Failed,
}

/// Why a tool was no use: its answer then, which says of itself that it is an error.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
pub struct Refusal {
    /// In which way.
    pub error: RefusalCode,
    /// Why, for the model that reads it. It names nothing of the host.
    pub message: String,
}

impl Refusal {
    /// A refusal.
    pub fn new(error: RefusalCode, message: impl Into<String>) -> Self {
        Self {
            error,
            message: message.into(),
        }
    }

    /// Something that went wrong in the host, of which the agent is told no more than what it was.
    pub(super) fn internal(what: &str, error: &(dyn std::error::Error + 'static)) -> Self {
        tracing::warn!(error = chain(error), "{what}");
        Self::new(RefusalCode::Failed, what)
    }
}

impl From<CallError> for Refusal {
    fn from(error: CallError) -> Self {
        let (code, message) = match error {
            CallError::Denied {
                capability, rule, ..
            } => (
                RefusalCode::Denied,
                format!("needs {capability}, which is {rule}"),
            ),
            CallError::NotFound(name) => {
                (RefusalCode::NotFound, format!("there is no skill {name:?}"))
            }
            CallError::Invalid(problem) => (RefusalCode::Invalid, problem),
            CallError::Ambiguous(names) => (
                RefusalCode::Invalid,
                format!("ambiguous: {}", names.join(", ")),
            ),
            CallError::Failed(problem) => (RefusalCode::Failed, problem),
            CallError::TimedOut { limit_ms } => (
                RefusalCode::Failed,
                format!("no answer within {limit_ms} ms"),
            ),
            CallError::Exhausted(problem) => (RefusalCode::Full, problem),
            CallError::Cancelled => (RefusalCode::Cancelled, "it was cancelled".to_owned()),
            CallError::LimitReached(_) | CallError::Unrecorded(_) => {
                (RefusalCode::Failed, "it cannot be recorded".to_owned())
            }
        };
        Self::new(code, message)
    }
}

/// What a tool answers: JSON text.
pub(super) type Answered = Result<Box<RawValue>, Refusal>;

/// A value as an answer.
pub(super) fn answer(value: &impl Serialize) -> Answered {
    serde_json::value::to_raw_value(value)
        .map_err(|error| Refusal::internal("the answer cannot be written", &error))
}

/// What a tool is.
#[derive(Debug, Clone)]
pub(super) struct Facts {
    pub(super) name: &'static str,
    pub(super) description: &'static str,
    /// What its arguments have to fit.
    pub(super) input: Value,
    pub(super) effect: Effect,
    /// See [`HostTool::keeps_record`].
    pub(super) keeps_record: bool,
}

type Work =
    dyn Fn(&str, HostToolCall) -> Result<BoxFuture<'static, Answered>, ToolError> + Send + Sync;

/// A tool of a mode.
pub(super) struct ModeTool {
    facts: Facts,
    work: Box<Work>,
}

impl ModeTool {
    /// A tool that does `work` with its arguments, which fit the schema.
    pub(super) fn new<A, F>(
        facts: Facts,
        work: impl Fn(A, HostToolCall) -> F + Send + Sync + 'static,
    ) -> Self
    where
        A: DeserializeOwned,
        F: Future<Output = Answered> + Send + 'static,
    {
        let work = move |arguments: &str, call| {
            let arguments = serde_json::from_str::<A>(arguments);
            let arguments = arguments.map_err(|error| ToolError::Invalid(error.to_string()))?;
            let work: BoxFuture<'static, Answered> = Box::pin(work(arguments, call));
            Ok(work)
        };
        Self {
            facts,
            work: Box::new(work),
        }
    }
}

#[async_trait]
impl HostTool for ModeTool {
    fn definition(&self) -> ToolDefinition {
        ToolDefinition {
            name: self.facts.name.to_owned(),
            description: self.facts.description.to_owned(),
            input_schema: self.facts.input.to_string(),
            effect: self.facts.effect,
        }
    }

    fn keeps_record(&self) -> bool {
        self.facts.keeps_record
    }

    async fn call(&self, arguments: &str) -> Result<ToolAnswer, ToolError> {
        let Some(call) = HostToolCall::current() else {
            return Err(ToolError::Failed("called outside of any run".to_owned()));
        };
        let answered = (self.work)(arguments, call)?.await;
        let (text, is_error) = match answered {
            Ok(text) => (text.get().to_owned(), false),
            Err(refusal) => (json!(refusal).to_string(), true),
        };
        Ok(ToolAnswer {
            content: json!([{ "type": "text", "text": text }]).to_string(),
            is_error,
        })
    }
}

/// Arguments of a tool that takes none.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Nothing {}

/// The schema of an object with these properties and no others. Strings without a bound of their own cannot be
/// written by it.
pub(super) fn object(required: &[&str], properties: Value) -> Value {
    json!({
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": false,
    })
}

/// The schema of a text that is not empty.
pub(super) fn text(description: &str, chars_max: usize) -> Value {
    json!({
        "type": "string",
        "description": description,
        "minLength": 1,
        "maxLength": chars_max,
    })
}
