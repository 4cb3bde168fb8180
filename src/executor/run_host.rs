//! What a guest's calls reach: the seam behind which the runner keeps its ledger.

use crate::limits::LimitReached;

/// Who a run is. Nothing of it changes while the run goes on.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RunFacts {
    /// The run's id as text.
    pub run_id: String,
    /// The run that handed work to this one.
    pub parent_run_id: Option<String>,
    /// The name under which the skill was called.
    pub skill_name: String,
    /// The text of SKILL.md below its front matter.
    pub skill_body: std::sync::Arc<str>,
    /// 1 for a first run, one higher after each resume.
    pub attempt: u32,
}

/// How much a log line matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogLevel {
    /// Finest detail.
    Trace,
    /// Detail for whoever writes the skill.
    Debug,
    /// What happens.
    Info,
    /// Something to look at.
    Warn,
    /// Something went wrong.
    Error,
}

/// Which way a log line came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogOrigin {
    /// The `log` interface.
    Interface,
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// An event that a guest adds to its own ledger. JSON texts in it have been checked to be JSON.
#[derive(Debug, Clone, Copy, PartialEq)]
#[expect(
    missing_docs,
    reason = "the fields are those of wit/recorder.wit, which documents them"
)]
pub enum GuestEvent<'a> {
    /// A call that the skill made on its own.
    ToolCall {
        call_id: &'a str,
        name: &'a str,
        arguments: &'a str,
    },
    /// The answer to it.
    ToolResult {
        call_id: &'a str,
        output: &'a str,
        is_error: bool,
    },
    /// A use of a language model of its own.
    LlmCall {
        model: &'a str,
        provider: &'a str,
        prompt_tokens: u64,
        output_tokens: u64,
        cost_usd: f64,
    },
    /// A result that fits a schema.
    StructuredOutput {
        schema_digest: &'a str,
        output: &'a str,
    },
    /// Something went wrong and the skill goes on.
    Error { message: &'a str },
    /// Anything else.
    Custom { name: &'a str, payload: &'a str },
}

/// A host call that the effective policy refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Denial<'a> {
    /// The capability that would have allowed it, in the grammar of capabilities.
    pub capability: &'a str,
    /// The rule that refused it.
    pub rule: &'a str,
    /// What the guest asked for.
    pub wanted: &'a str,
}

/// Why an event was not recorded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RecordRefused {
    /// The event makes no sense where it stands, such as a result without its call.
    #[error("{reason}")]
    Invalid {
        /// What is wrong.
        reason: String,
    },
    /// The record cannot be written. It stays so: the run ends as `internal`.
    #[error("the run's record cannot be written")]
    Unavailable,
}

/// What a guest's calls reach. One value serves one run.
///
/// The executor bounds what the guest may write before it calls these; an implementation only has to
/// keep it. Calls come from the run's own task and never at the same time.
pub trait RunHost: Send + Sync {
    /// Who the run is.
    fn facts(&self) -> &RunFacts;

    /// Records an event of the guest and gives its sequence number.
    ///
    /// # Errors
    /// The event is refused, or the record cannot be written.
    fn emit(&self, event: GuestEvent<'_>) -> Result<u64, RecordRefused>;

    /// Records one log line.
    ///
    /// # Errors
    /// The record cannot be written.
    fn log(
        &self,
        level: LogLevel,
        origin: LogOrigin,
        message: &str,
        fields: &[(String, String)],
    ) -> Result<(), RecordRefused>;

    /// Records that log lines were dropped, once, at the end of the run.
    fn logs_dropped(&self, lines: u64, limit: LimitReached);

    /// Records that a step was entered and gives its id.
    ///
    /// # Errors
    /// The record cannot be written.
    fn enter(&self, name: &str) -> Result<String, RecordRefused>;

    /// Records that a step was left.
    fn exit(&self, node_id: &str, duration_micros: u64, success: bool);

    /// Records that a host call was refused.
    fn denied(&self, denial: Denial<'_>);
}

/// A host for calls that are on no record, such as `describe`.
#[derive(Debug, Default)]
pub struct Unrecorded(RunFacts);

impl RunHost for Unrecorded {
    fn facts(&self) -> &RunFacts {
        &self.0
    }

    fn emit(&self, _event: GuestEvent<'_>) -> Result<u64, RecordRefused> {
        Err(RecordRefused::Unavailable)
    }

    fn log(
        &self,
        _level: LogLevel,
        _origin: LogOrigin,
        _message: &str,
        _fields: &[(String, String)],
    ) -> Result<(), RecordRefused> {
        Ok(())
    }

    fn logs_dropped(&self, _lines: u64, _limit: LimitReached) {}

    fn enter(&self, _name: &str) -> Result<String, RecordRefused> {
        Err(RecordRefused::Unavailable)
    }

    fn exit(&self, _node_id: &str, _duration_micros: u64, _success: bool) {}

    fn denied(&self, _denial: Denial<'_>) {}
}
