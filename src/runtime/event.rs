//! What happens in an execution, as whoever watches it is told: at most one event for each line of the ledger.

use serde::{Deserialize, Serialize};

use super::backend::End;
use super::state::{Ending, ExecutionStatus};
use crate::call::{PermissionOption, PlanEntry, SessionUpdate, TurnStop, Usage};
use crate::clock::Timestamp;
use crate::id::{ExecutionId, RunId};
use crate::ledger::{
    self, ApprovalSource, CallFailure, CallKind, Json, Origin, Record, RunCompleted, RunStatus,
    SessionPhase,
};
use crate::outcome::OutcomeCode;

/// Something that happened in an execution.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Event {
    /// The number of its line in the ledger. Numbers rise and have gaps.
    pub seq: u64,
    /// When it was recorded.
    pub time: Timestamp,
    /// The execution.
    pub execution_id: ExecutionId,
    /// The session that it serves.
    pub session_id: String,
    /// The number of the prompt that it belongs to; 0 before the first.
    pub prompt_generation: u64,
    /// What happened.
    #[serde(flatten)]
    pub kind: EventKind,
}

/// How an execution came to its ledger.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LaunchKind {
    /// It began it.
    New,
    /// It took it up.
    Resumed,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum EventKind {
    /// The execution is on record.
    SessionStatus {
        /// How it came to its ledger.
        status: LaunchKind,
        /// The mode of its tools.
        mcp_mode: String,
        /// The number of the prompt whose turn was cut off, and goes on now.
        #[serde(skip_serializing_if = "Option::is_none")]
        turn_goes_on: Option<u64>,
    },
    /// The agent has started, and waits for a prompt. No turn ended.
    BootReady,
    /// A turn is over, and the agent waits for the next prompt.
    Ready,
    /// A turn begins.
    Running {
        /// What the agent is told.
        prompt: String,
    },
    /// A piece of the answer; those of a turn, put together, are the answer.
    MessageChunk {
        /// The text.
        text: String,
    },
    /// How the answer comes about.
    Reasoning {
        /// The text.
        text: String,
    },
    /// The whole plan as it stands now.
    Plan {
        /// Its steps.
        entries: Vec<PlanEntry>,
    },
    /// How full the context of the model is.
    ContextWindow {
        /// Tokens used.
        used: u32,
        /// Tokens there are.
        size: u32,
    },
    /// A tool, or another skill, is called.
    ToolCall {
        /// Pairs the call with its result.
        call_id: String,
        /// The tool.
        name: String,
        /// What is called, where it is not a tool.
        #[serde(skip_serializing_if = "Option::is_none")]
        target: Option<CallKind>,
        /// Its arguments.
        arguments: Json,
        /// The run of the skill that is called, once it is known.
        #[serde(skip_serializing_if = "Option::is_none")]
        child_run_id: Option<RunId>,
    },
    /// What it answered.
    ToolUpdate {
        /// Pairs the result with its call.
        call_id: String,
        /// The answer.
        #[serde(skip_serializing_if = "Option::is_none")]
        output: Option<Json>,
        /// Whether it failed.
        is_error: bool,
        /// Why there is no answer.
        #[serde(skip_serializing_if = "Option::is_none")]
        error: Option<CallFailure>,
    },
    /// Somebody is asked to choose, or to approve.
    PermissionRequest {
        /// Pairs the question with its answer.
        permission_id: String,
        /// The question.
        title: String,
        /// What is to be chosen from; nothing, where yes or no will do.
        options: Vec<PermissionOption>,
        /// What it is about.
        #[serde(skip_serializing_if = "Option::is_none")]
        details: Option<Json>,
        /// Seconds until nobody has to answer any more.
        timeout_seconds: u64,
    },
    /// It was answered.
    PermissionAnswered {
        /// Pairs the answer with its question.
        permission_id: String,
        /// The decision.
        approved: bool,
        /// What was chosen.
        #[serde(skip_serializing_if = "Option::is_none")]
        option: Option<String>,
        /// Why.
        #[serde(skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
        /// Who decided.
        source: ApprovalSource,
    },
    /// Nobody has to answer any more: the turn was cancelled, or the execution stopped.
    PermissionCancelled {
        /// The question.
        permission_id: String,
    },
    /// The tools are those of another mode.
    ModeChanged {
        /// The mode.
        mcp_mode: String,
    },
    /// The agent may call other tools than before.
    ToolsChanged {
        /// The names of those of the mode.
        tools: Vec<String>,
    },
    /// A turn ended.
    Complete {
        /// Why.
        stop_reason: TurnStop,
        /// What the agent said, when it ended the turn with an error.
        #[serde(skip_serializing_if = "Option::is_none")]
        error: Option<String>,
        /// Whether it had to be interrupted, and for the agent never was.
        undone: bool,
        /// What models took in it.
        usage: Usage,
    },
    /// Something failed.
    Error {
        /// What.
        message: String,
        /// The code with which the execution ends because of it.
        #[serde(skip_serializing_if = "Option::is_none")]
        code: Option<OutcomeCode>,
    },
    /// The execution ended. It is the last event.
    Stopped {
        /// How.
        status: ExecutionStatus,
        /// The code with which its run ended.
        code: OutcomeCode,
        /// Why it was stopped, in the words of whoever did.
        #[serde(skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
        /// The status with which the agent ended.
        #[serde(skip_serializing_if = "Option::is_none")]
        exit_code: Option<i32>,
        /// Why it failed.
        #[serde(skip_serializing_if = "Option::is_none")]
        message: Option<String>,
    },
    /// The subscriber is slower than the execution. Nothing is lost: what it has not seen comes from the ledger.
    Lagged {
        /// How many lines it is behind.
        lines: u64,
    },
}

/// Why an execution was stopped that nobody gave a reason for: its run was cancelled.
pub(super) const REASON_CANCELLED: &str = "cancelled";
/// The same, where its process came to an end.
pub(super) const REASON_INTERRUPTED: &str = "interrupted";

/// How an execution ended, as the last line of its part says.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct RecordedEnd {
    pub(super) status: ExecutionStatus,
    pub(super) code: OutcomeCode,
    pub(super) reason: Option<String>,
    pub(super) exit_code: Option<i32>,
    pub(super) message: Option<String>,
}

impl From<RunCompleted> for RecordedEnd {
    fn from(end: RunCompleted) -> Self {
        let code = end.code.unwrap_or(OutcomeCode::Internal);
        let text = |text: ledger::Text| text.as_str().to_owned();
        let (status, reason) = match end.status {
            RunStatus::Ok => (ExecutionStatus::Completed, None),
            RunStatus::Cancelled => {
                let reason = end.stop_reason.map(text);
                let reason = reason.unwrap_or_else(|| REASON_CANCELLED.to_owned());
                (ExecutionStatus::Stopped, Some(reason))
            }
            // It can be taken up.
            RunStatus::Interrupted if code == OutcomeCode::Cancelled => {
                let reason = end.stop_reason.map(text);
                let reason = reason.unwrap_or_else(|| REASON_CANCELLED.to_owned());
                (ExecutionStatus::Stopped, Some(reason))
            }
            // One that its own record stopped cannot be taken up as it is.
            RunStatus::Interrupted if code != OutcomeCode::Interrupted => {
                (ExecutionStatus::Failed, None)
            }
            RunStatus::Interrupted | RunStatus::Suspended => {
                let reason = Some(REASON_INTERRUPTED.to_owned());
                (ExecutionStatus::Stopped, reason)
            }
            RunStatus::Error => (ExecutionStatus::Failed, None),
        };
        let is_completed = status == ExecutionStatus::Completed;
        let is_failed = status == ExecutionStatus::Failed;
        Self {
            status,
            code,
            reason,
            exit_code: end.exit_code.or(is_completed.then_some(0)),
            message: end.error.map(text).filter(|_| is_failed),
        }
    }
}

impl From<&End> for RecordedEnd {
    fn from(end: &End) -> Self {
        Self {
            status: end.ending.into(),
            code: end.code,
            reason: (end.ending == Ending::Stopped).then(|| end.stop_reason.clone()),
            exit_code: end.exit_code,
            message: (end.ending == Ending::Failed).then(|| end.message.clone()),
        }
    }
}

impl From<RecordedEnd> for EventKind {
    fn from(end: RecordedEnd) -> Self {
        Self::Stopped {
            status: end.status,
            code: end.code,
            reason: end.reason,
            exit_code: end.exit_code,
            message: end.message,
        }
    }
}

impl EventKind {
    /// The word for it.
    pub fn name(&self) -> &'static str {
        match self {
            Self::SessionStatus { .. } => "session_status",
            Self::BootReady => "boot_ready",
            Self::Ready => "ready",
            Self::Running { .. } => "running",
            Self::MessageChunk { .. } => "message_chunk",
            Self::Reasoning { .. } => "reasoning",
            Self::Plan { .. } => "plan",
            Self::ContextWindow { .. } => "context_window",
            Self::ToolCall { .. } => "tool_call",
            Self::ToolUpdate { .. } => "tool_update",
            Self::PermissionRequest { .. } => "permission_request",
            Self::PermissionAnswered { .. } => "permission_answered",
            Self::PermissionCancelled { .. } => "permission_cancelled",
            Self::ModeChanged { .. } => "mode_changed",
            Self::ToolsChanged { .. } => "tools_changed",
            Self::Complete { .. } => "complete",
            Self::Error { .. } => "error",
            Self::Stopped { .. } => "stopped",
            Self::Lagged { .. } => "lagged",
        }
    }

    /// Every word that [`EventKind::name`] gives, in the order of declaration.
    pub const NAMES: [&str; 19] = [
        "session_status",
        "boot_ready",
        "ready",
        "running",
        "message_chunk",
        "reasoning",
        "plan",
        "context_window",
        "tool_call",
        "tool_update",
        "permission_request",
        "permission_answered",
        "permission_cancelled",
        "mode_changed",
        "tools_changed",
        "complete",
        "error",
        "stopped",
        "lagged",
    ];

    /// Whether the line of a ledger is an event, as far as its type tells. Only then are its large values
    /// looked up.
    pub(super) fn is_event(record: &Record) -> bool {
        let host_only = matches!(
            record.kind.as_str(),
            "run_started"
                | "run_resumed"
                | "run_completed"
                | "tool_call"
                | "tool_result"
                | "approval_request"
                | "approval_response"
                | "error"
                | "prompt"
                | "turn_completed"
                | "session_status"
        );
        record.kind == "session_update" || (host_only && record.origin == Origin::Host)
    }

    /// What a line tells, its large values in their places; none when it is no event. `open_turn` is the number of
    /// a turn before it that has no end.
    pub(super) fn of(line: ledger::Event, open_turn: Option<u64>) -> Option<Self> {
        let text = |text: ledger::Text| text.as_str().to_owned();
        Some(match line {
            ledger::Event::RunStarted(started) => Self::SessionStatus {
                status: LaunchKind::New,
                mcp_mode: started.session?.mcp_mode,
                turn_goes_on: None,
            },
            ledger::Event::RunResumed(resumed) => Self::SessionStatus {
                status: LaunchKind::Resumed,
                mcp_mode: resumed.session?.mcp_mode,
                turn_goes_on: open_turn,
            },
            ledger::Event::Prompt(prompt) => Self::Running {
                prompt: text(prompt.text),
            },
            ledger::Event::TurnCompleted(turn) => Self::Complete {
                stop_reason: turn.stop_reason,
                error: turn.error.map(text),
                undone: turn.undone,
                usage: turn.usage,
            },
            ledger::Event::SessionUpdate(told) => told.update()?.into(),
            ledger::Event::SessionStatus(status) => match status.status {
                SessionPhase::BootReady => Self::BootReady,
                SessionPhase::Ready => Self::Ready,
                SessionPhase::ModeChanged => Self::ModeChanged {
                    mcp_mode: status.mcp_mode?,
                },
                SessionPhase::ToolsChanged => Self::ToolsChanged {
                    tools: status.tools.unwrap_or_default(),
                },
                SessionPhase::Finishing => return None,
            },
            ledger::Event::ToolCall(call) => Self::ToolCall {
                call_id: call.call_id,
                name: call.name,
                target: call.kind,
                arguments: call.arguments,
                child_run_id: call.child_run_id,
            },
            ledger::Event::ToolResult(result) => Self::ToolUpdate {
                call_id: result.call_id,
                output: result.output,
                is_error: result.is_error,
                error: result.error,
            },
            ledger::Event::ApprovalRequest(request) => Self::PermissionRequest {
                permission_id: request.approval_id,
                title: text(request.prompt),
                options: request.options,
                details: request.payload,
                timeout_seconds: request.timeout_seconds,
            },
            ledger::Event::ApprovalResponse(response) => Self::answered(response),
            ledger::Event::Error(error) => Self::Error {
                message: text(error.message),
                code: error.code,
            },
            ledger::Event::RunCompleted(end) => RecordedEnd::from(end).into(),
            _ => return None,
        })
    }

    fn answered(response: ledger::ApprovalResponse) -> Self {
        if response.source == ApprovalSource::Cancelled {
            return Self::PermissionCancelled {
                permission_id: response.approval_id,
            };
        }
        Self::PermissionAnswered {
            permission_id: response.approval_id,
            approved: response.approved,
            option: response.option,
            reason: response.reason.map(|reason| reason.as_str().to_owned()),
            source: response.source,
        }
    }
}

impl From<SessionUpdate> for EventKind {
    fn from(update: SessionUpdate) -> Self {
        match update {
            SessionUpdate::MessageChunk { text } => Self::MessageChunk { text },
            SessionUpdate::Reasoning { text } => Self::Reasoning { text },
            SessionUpdate::Plan { entries } => Self::Plan { entries },
            SessionUpdate::ContextWindow { used, size } => Self::ContextWindow { used, size },
        }
    }
}
