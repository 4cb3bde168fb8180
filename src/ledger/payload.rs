//! What each type of event carries.
//!
//! Fields that the original vocabulary lacks are optional here, or have a default, so that its
//! ledgers can be read; a writer of today sets them. An absent optional field is left out of the line.

mod call;
mod session;

use std::fmt;

use serde::{Deserialize, Serialize};

pub use call::{
    CallFailure, CallKind, CallPhase, Effect, HttpCall, HttpResult, LlmCall, LlmChunk,
    StructuredOutput, ToolCall, ToolResult,
};

pub use session::{
    Prompt, SessionFacts, SessionPhase, SessionStatus, SessionTold, TurnCompleted, UpdateKind,
};

use super::digest::Digest;
use super::json::{Json, Text, present};
use crate::call::{ClientFeature, PermissionOption};
use crate::clock::Timestamp;
use crate::config::Durability;
use crate::id::RunId;
use crate::outcome::OutcomeCode;

/// How a run, or the part of it that one process carried out, ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunStatus {
    /// With a result.
    Ok,
    /// With an error.
    Error,
    /// Its caller cancelled it.
    Cancelled,
    /// It waits for something, and can be resumed.
    Suspended,
    /// Its process stopped, and it can be resumed.
    Interrupted,
}

impl RunStatus {
    /// The status as it stands in a ledger.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Error => "error",
            Self::Cancelled => "cancelled",
            Self::Suspended => "suspended",
            Self::Interrupted => "interrupted",
        }
    }

    /// Whether the run can go on after it: only a `run_resumed` may follow.
    pub fn is_resumable(self) -> bool {
        matches!(self, Self::Suspended | Self::Interrupted)
    }
}

/// How urgent a log line is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LogLevel {
    /// Finest detail.
    Trace,
    /// For whoever develops the skill.
    Debug,
    /// What a person may want to know.
    #[default]
    Info,
    /// Something unexpected that did not stop the work.
    Warn,
    /// Something failed.
    Error,
    /// The skill cannot go on.
    Critical,
}

/// Which standard stream a log line was written to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LogStream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// Who decided an approval.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ApprovalSource {
    /// A person at the command line.
    Cli,
    /// A person at a page in a browser, such as the inspector.
    Web,
    /// A client of the MCP server.
    Mcp,
    /// A client of the HTTP interface.
    Api,
    /// Nobody did in time.
    Timeout,
    /// A rule did.
    Auto,
    /// Nobody: the turn in which it was asked was cancelled, or its execution stopped.
    Cancelled,
}

impl fmt::Display for ApprovalSource {
    /// As it stands in a ledger.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

/// The newest line of a ledger: with it at hand, a ledger that lost its end is found out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Head {
    /// The line's number; 0 when there is no line yet.
    pub seq: u64,
    /// The digest of the line's bytes, without the line break.
    pub sha256: Digest,
}

/// The first event of a run.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct RunStarted {
    /// The skill that was asked for.
    pub skill: String,
    /// The language of its handler: `rust`, `ts`, `py`, `prompt`, …
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flavor: Option<String>,
    /// The caller's input as it was spelled, white space between tokens apart.
    #[serde(default)]
    pub input: Json,
    /// SHA-256 over the input's bytes as they came, in hexadecimal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input_digest: Option<String>,
    /// The run that asked for this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_run_id: Option<RunId>,
    /// The run whose first events this ledger repeats.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resumed_from: Option<RunId>,
    /// How many of them there are after this one. With fewer, the ledger was cut off while it was made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repeated_events: Option<u64>,
    /// The W3C trace that the caller is in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace_id: Option<String>,
    /// The span of the caller in it; absent where the trace begins here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_span_id: Option<String>,
    /// Whether the caller said that it does not record its part of the trace.
    #[serde(default, skip_serializing_if = "is_false")]
    pub trace_unsampled: bool,
    /// The digest of the component that is run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub component_digest: Option<String>,
    /// The effective policy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<Json>,
    /// The limits, each with its source.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<Json>,
    /// The variables in the guest's environment, as an array of pairs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub environment: Option<Json>,
    /// The wall time that the run has, from when it is admitted, also by the runs above it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wall_time_ms: Option<u64>,
    /// Whose id and whose beginning the guest is told, when `resumed_from` is there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<RunOrigin>,
    /// What the guest's randomness is generated from, in hexadecimal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<String>,
    /// What an acknowledged append promises. The store sets it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub durability: Option<Durability>,
    /// Which execution the run is, when it is that of an agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<Box<SessionFacts>>,
    /// For which client of a surface it is done, where that has to be known later.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<Box<ClientFacts>>,
}

/// The client on whose behalf a run is done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClientFacts {
    /// Over which surface it came: `mcp`.
    pub surface: String,
    /// Which client that is: the digest of what it showed to be let in, or a word for the only one there can be.
    pub id: String,
    /// The digest of what it asked for, in hexadecimal. Whoever answers a question of the run has to ask for the same.
    pub request_digest: String,
    /// What it can be asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub features: Vec<ClientFeature>,
    /// Whether the client is told of questions in the answer to its request, and answers with another request:
    /// nobody waits meanwhile, so the run needs no instance either.
    #[serde(default, skip_serializing_if = "is_false")]
    pub is_stateless: bool,
    /// What the client knows the run as, when it asked for something that goes on without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<TaskFacts>,
}

/// A run that its client asks after, and does not wait for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskFacts {
    /// Milliseconds from its beginning for which the client can count on it.
    pub ttl_ms: u64,
    /// Whether its result has already the form in which the client is answered.
    #[serde(default, skip_serializing_if = "is_false")]
    pub is_content: bool,
}

/// The run that a guest takes its run for, which is a repetition of that one's beginning.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunOrigin {
    /// Its id.
    pub run_id: RunId,
    /// When it began.
    pub started_at: Timestamp,
}

/// Why a run goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ResumeReason {
    /// Somebody asked for it.
    #[default]
    Asked,
    /// The run that it is inside of goes on.
    Parent,
    /// The process that carried it out is gone, and another one has taken its place.
    Restart,
    /// What it was suspended for has come.
    Decided,
}

/// A run that was cut off goes on.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct RunResumed {
    /// Which resumption this is, from 1.
    #[serde(default)]
    pub attempt: u64,
    /// Why it goes on.
    #[serde(default)]
    pub reason: ResumeReason,
    /// The wall time that this part of the run has, from when it is admitted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wall_time_ms: Option<u64>,
    /// Whether calls that may have had their effect are made again.
    #[serde(default, skip_serializing_if = "is_false")]
    pub retry_ambiguous: bool,
    /// The digest of the component that is run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub component_digest: Option<String>,
    /// The W3C trace that the caller is in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace_id: Option<String>,
    /// The span of the caller in it; absent where the trace begins here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_span_id: Option<String>,
    /// Whether the caller said that it does not record its part of the trace.
    #[serde(default, skip_serializing_if = "is_false")]
    pub trace_unsampled: bool,
    /// Which execution this part of the run is, when it is that of an agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<Box<SessionFacts>>,
}

/// The last event of a run, or of the part of it before a `run_resumed`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunCompleted {
    /// How it ended.
    pub status: RunStatus,
    /// Why. Absent only in ledgers of the original system.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<OutcomeCode>,
    /// The result.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "present"
    )]
    pub output: Option<Json>,
    /// Whether `output` is less than what the skill returned.
    #[serde(default, skip_serializing_if = "is_false")]
    pub truncated: bool,
    /// What failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Text>,
    /// What a person can do about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// The limit that was reached, if that is why: key, value, source and whose it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<Json>,
    /// Microseconds that the run waited for admission; absent when it did not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queued_micros: Option<u64>,
    /// Microseconds of the run, or of this part of it, from admission on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_micros: Option<u64>,
    /// What the calls of models on the lines before it cost together, in US dollars, those included that a guest
    /// reports; absent when there are none. The recorder adds it up, whatever is handed to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
    /// Why an execution was stopped, in the words of whoever did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop_reason: Option<Text>,
    /// The status with which an agent ended itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
}

impl RunCompleted {
    /// An end without a result and without a message.
    pub fn new(status: RunStatus, code: OutcomeCode) -> Self {
        Self {
            status,
            code: Some(code),
            output: None,
            truncated: false,
            error: None,
            hint: None,
            limit: None,
            queued_micros: None,
            duration_micros: None,
            cost_usd: None,
            stop_reason: None,
            exit_code: None,
        }
    }
}

/// A step of the run begins.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct NodeEnter {
    /// `<kind>:<name>#<n>`, counted per run.
    pub node_id: String,
    /// The kind of step.
    #[serde(default)]
    pub node_name: String,
    /// The W3C span of the step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub span_id: Option<String>,
}

/// A step of the run ended.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct NodeExit {
    /// The step.
    pub node_id: String,
    /// Microseconds since it began.
    #[serde(default)]
    pub duration_micros: u64,
    /// Whether it did what it was for.
    #[serde(default)]
    pub success: bool,
}

/// A person is asked.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct ApprovalRequest {
    /// Pairs the question with its answer.
    pub approval_id: String,
    /// The step that the question belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_id: Option<String>,
    /// The question.
    #[serde(default)]
    pub prompt: Text,
    /// What the decision is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload: Option<Json>,
    /// The digest of run id, component, prompt and payload, to which the decision is bound.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub binding: Option<String>,
    /// Seconds until nobody has to answer any more.
    #[serde(default)]
    pub timeout_seconds: u64,
    /// Seconds until a warning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warn_at_seconds: Option<u64>,
    /// What is to be chosen from, where it takes more than yes or no.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<PermissionOption>,
    /// The tool of the host that asks; absent when the skill itself does, which cannot set it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked_by: Option<String>,
    /// Whether a yes is no answer by itself: only who can give one may say it.
    #[serde(default, skip_serializing_if = "is_false")]
    pub needs_answer: bool,
}

/// What was decided.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ApprovalResponse {
    /// Pairs the answer with its question.
    pub approval_id: String,
    /// The step that the question belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_id: Option<String>,
    /// The decision.
    pub approved: bool,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Text>,
    /// The id of what was chosen, where there was a choice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub option: Option<String>,
    /// What was answered, where it takes more than a decision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<Json>,
    /// Who decided.
    pub source: ApprovalSource,
    /// Microseconds from question to answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_micros: Option<u64>,
}

/// The guest was told that time has passed: it waited for something, or looked at a clock.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Timer {
    /// Which of the guest's polls this was, from 1; absent when it looked at a clock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub poll: Option<u64>,
    /// What was ready then, by its place among what was waited for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ready: Vec<u32>,
    /// Which of the guest's looks at a clock this was, from 1; absent when it waited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub look: Option<u64>,
    /// Microseconds that the run, or this part of it, waited for a place and its component before the guest
    /// began; in the first look, where that was long.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay_micros: Option<u64>,
    /// Microseconds that the guest waited.
    #[serde(default)]
    pub duration_micros: u64,
}

/// A line of a log or of a standard stream.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Log {
    /// How urgent it is.
    #[serde(default)]
    pub level: LogLevel,
    /// The line.
    pub message: Text,
    /// Structured detail.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fields: Option<Json>,
    /// The standard stream that it was written to, if it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stream: Option<LogStream>,
    /// How many lines before this one were dropped because a limit was reached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dropped: Option<u64>,
}

/// Something failed.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct ErrorReport {
    /// What.
    pub message: Text,
    /// In which step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_id: Option<String>,
    /// The code with which the run ends because of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<OutcomeCode>,
    /// What a person can do about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

/// The effective policy refused something.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Denied {
    /// The capability that would have allowed it.
    pub capability: String,
    /// The rule that decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// What the guest wanted.
    pub wanted: Text,
    /// The request that was refused, where that came to light only while it was being carried out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call_id: Option<String>,
    /// In which step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_id: Option<String>,
    /// What a person can do about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

/// Something that has no type of its own.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Custom {
    /// What it is.
    pub name: String,
    /// The detail.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Json>,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes fields by reference"
)]
fn is_false(flag: &bool) -> bool {
    !*flag
}
