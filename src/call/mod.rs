//! What passes between a run and whoever answers its calls: tools, models, people and other skills.
//! Plain data that knows neither a wire nor a guest.

mod model;
mod session;
mod tool;

use serde::{Deserialize, Serialize};

pub use model::{
    Message, ModelChunk, ModelRequest, ModelResponse, Part, Role, StopReason, ToolUse,
    ToolUseAnswer, Usage,
};
pub use session::{
    PermissionOption, PermissionRequest, PlanEntry, PlanStatus, SessionUpdate, TurnStop,
};
pub use tool::{ToolAnswer, ToolDefinition};

/// What the client of a run, a program with a person behind it, can be asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClientFeature {
    /// To have a person fill in a form.
    Elicitation,
    /// To have its language model answer.
    Sampling,
    /// Which folders and files it works on.
    Roots,
}

impl ClientFeature {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Elicitation, Self::Sampling, Self::Roots];

    /// As it stands in a manifest and in a ledger.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Elicitation => "elicitation",
            Self::Sampling => "sampling",
            Self::Roots => "roots",
        }
    }
}

/// What a repetition of a call would do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    /// It changes nothing.
    Read,
    /// It changes nothing more than the first time did.
    Idempotent,
    /// It may do its work a second time. A call whose class is not known counts as this.
    #[default]
    Write,
}

/// What a person is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Question {
    /// One or two sentences.
    pub prompt: String,
    /// What exactly is being approved, as JSON text.
    pub payload: String,
    /// Milliseconds until nobody has to answer any more; none: what the run's limits say.
    pub timeout_ms: Option<u64>,
    /// Whether a yes is no answer by itself, so that no policy can give one.
    pub needs_answer: bool,
}

/// What was decided.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    /// Yes or no.
    pub approved: bool,
    /// What the person said, or why it was decided without one; may be empty.
    pub reason: String,
    /// A policy or a timeout decided, not a person.
    pub automatic: bool,
}
