//! What a guest asks of others through the host: tools, models, people and other skills.

use futures_util::future::BoxFuture;

use super::run_host::RecordRefused;
use crate::call::{
    Decision, ModelChunk, ModelRequest, ModelResponse, PermissionRequest, Question, ToolAnswer,
    ToolDefinition,
};
use crate::limits::LimitReached;

/// Why a call of a guest was not answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CallError {
    /// The policy forbids it. The executor records it.
    Denied {
        /// The capability that would have allowed it.
        capability: String,
        /// The rule that refused it.
        rule: &'static str,
        /// What the guest asked for.
        wanted: String,
    },
    /// There is nothing of that name.
    NotFound(String),
    /// What was handed over does not fit: where, what was expected, what was found.
    Invalid(String),
    /// Several things fit the name: these.
    Ambiguous(Vec<String>),
    /// The other side answered with an error, or not at all.
    Failed(String),
    /// It took longer than it may, in milliseconds.
    TimedOut {
        /// How long it may take.
        limit_ms: u64,
    },
    /// There is no room for it: which bound, its value and its source.
    Exhausted(String),
    /// The run is being cancelled.
    Cancelled,
    /// A limit of the run is used up, which ends it.
    LimitReached(LimitReached),
    /// The call, or its answer, cannot be recorded.
    Unrecorded(RecordRefused),
}

/// The answer to a call of a guest, when it comes.
pub type Answer<'a, T> = BoxFuture<'a, Result<T, CallError>>;

/// Answers what a guest asks of others: the part of [`super::RunHost`] that reaches outside. Each call
/// is on record before it has an effect, and its answer before the guest has it. Ids are given when a
/// function is called, not when its future is first polled, so calls that go on at once have theirs in
/// the order in which the guest made them. Dropping the future gives the call up. What models take is
/// counted against the run's budget behind this.
pub trait Provided: Send + Sync {
    /// The tools that the run may call, in order of their names.
    fn tools(&self) -> Answer<'_, Vec<ToolDefinition>>;

    /// Calls a tool. `arguments` is what the guest gave, not yet looked at.
    fn call_tool<'a>(&'a self, name: &'a str, arguments: &'a str) -> Answer<'a, ToolAnswer>;

    /// Asks a model and waits for the whole answer.
    fn ask_model(&self, request: ModelRequest) -> Answer<'_, ModelResponse>;

    /// Asks a model, and is there when the answer begins.
    fn start_model(&self, request: ModelRequest) -> Answer<'_, Box<dyn ModelAnswer>>;

    /// Asks a person and waits for the decision.
    fn ask_approval(&self, question: Question) -> Answer<'_, Decision>;

    /// Asks whoever watches the execution to choose, waits, and gives the id of what was chosen.
    fn ask_permission(&self, request: PermissionRequest) -> Answer<'_, String>;

    /// Hands work to another skill and waits for its result, as JSON text.
    fn call_skill<'a>(&'a self, skill: &'a str, input: &'a str) -> Answer<'a, String>;
}

/// An answer of a model that is still coming. Dropping it leaves no trace: the run was cut off.
pub trait ModelAnswer: Send {
    /// The next piece. It is not asked again after the last one, nor after an error.
    fn next(&mut self) -> Answer<'_, Option<ModelChunk>>;

    /// Records that the guest does not want the rest, unless the end is on record.
    ///
    /// # Errors
    /// What was given up took more than the run may use, or cannot be recorded.
    fn give_up(self: Box<Self>) -> Result<(), CallError>;
}
