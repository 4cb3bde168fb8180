//! What happens in an execution, as it is shown: read from the daemon's stream, or made from the runtime's events.

use anyhow::Context as _;
use serde::Deserialize;
use serde_json::Value;

use crate::call::{PermissionOption, PlanEntry, PlanStatus, TurnStop, Usage};
use crate::cli::display::shown;
use crate::cli::exit::Exit;
use crate::outcome::OutcomeCode;
use crate::runtime::{self, ExecutionStatus};

/// Something that happened.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct AgentEvent {
    pub(super) prompt_generation: u64,
    #[serde(flatten)]
    pub(super) told: Told,
}

/// What happened.
#[derive(Debug, Clone, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Told {
    SessionStatus {
        status: String,
        mcp_mode: String,
    },
    BootReady,
    Ready,
    Running {
        prompt: String,
    },
    MessageChunk {
        text: String,
    },
    Reasoning {
        text: String,
    },
    Plan {
        entries: Vec<PlanEntry>,
    },
    ContextWindow {
        used: u32,
        size: u32,
    },
    ToolCall {
        call_id: String,
        name: String,
        arguments: Value,
    },
    ToolUpdate {
        call_id: String,
        #[serde(default)]
        output: Option<Value>,
        is_error: bool,
        #[serde(default)]
        error: Option<Value>,
    },
    PermissionRequest {
        permission_id: String,
        title: String,
        options: Vec<PermissionOption>,
        #[serde(default)]
        details: Option<Value>,
    },
    PermissionAnswered {
        permission_id: String,
        approved: bool,
        #[serde(default)]
        option: Option<String>,
    },
    PermissionCancelled {
        permission_id: String,
    },
    ModeChanged {
        mcp_mode: String,
    },
    ToolsChanged {
        tools: Vec<String>,
    },
    Complete {
        stop_reason: TurnStop,
        #[serde(default)]
        error: Option<String>,
        undone: bool,
        usage: Usage,
    },
    Error {
        message: String,
    },
    Stopped {
        status: ExecutionStatus,
        code: String,
        #[serde(default)]
        reason: Option<String>,
        #[serde(default)]
        message: Option<String>,
    },
    /// One of a later version, or what the stream says about itself.
    #[serde(other)]
    Other,
}

impl AgentEvent {
    /// # Errors
    /// It has another form than an event of this version's.
    pub(super) fn parse(text: &str) -> anyhow::Result<Self> {
        serde_json::from_str(text).context("an event cannot be read")
    }

    /// The same of an event of this process's.
    ///
    /// # Errors
    /// It cannot be spelled.
    pub(super) fn of(event: &runtime::Event) -> anyhow::Result<Self> {
        Self::parse(&serde_json::to_string(event)?)
    }
}

/// Whether a call is the one by which an agent asks which tools there are. It is on record as others are, calls no
/// tool, and has the name of none.
pub(super) fn is_listing(call_id: &str) -> bool {
    call_id.starts_with("tools#")
}

/// A value on one line.
pub(super) fn value(value: &Value) -> String {
    match value {
        Value::String(text) => shown(text),
        Value::Null => String::new(),
        other => shown(&other.to_string()),
    }
}

/// What came of a call, on one line.
pub(super) fn outcome(output: Option<&Value>, is_error: bool, error: Option<&Value>) -> String {
    let what = output.or(error).map(value).unwrap_or_default();
    match is_error || error.is_some() {
        true => format!("failed: {what}"),
        false => what,
    }
}

/// The steps of a plan, one a line.
pub(super) fn steps(entries: &[PlanEntry]) -> Vec<String> {
    let step = |entry: &PlanEntry| {
        let mark = match entry.status {
            PlanStatus::Pending => "[ ]",
            PlanStatus::InProgress => "[>]",
            PlanStatus::Completed => "[x]",
            PlanStatus::Failed => "[!]",
        };
        format!("{mark} {}", shown(&entry.description))
    };
    entries.iter().map(step).collect()
}

impl Told {
    /// The word for it.
    pub(super) fn name(&self) -> &'static str {
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
            Self::Other => "unknown",
        }
    }

    /// What it says, on one line.
    pub(super) fn described(&self) -> String {
        match self {
            Self::SessionStatus { status, mcp_mode } => {
                format!("{}, mode {}", shown(status), shown(mcp_mode))
            }
            Self::BootReady | Self::Ready | Self::Other => String::new(),
            Self::Running { prompt: text }
            | Self::MessageChunk { text }
            | Self::Reasoning { text }
            | Self::PermissionCancelled {
                permission_id: text,
            }
            | Self::ModeChanged { mcp_mode: text }
            | Self::Error { message: text } => shown(text),
            Self::Plan { entries } => steps(entries).join(" "),
            Self::ContextWindow { used, size } => format!("{used} of {size} tokens"),
            Self::ToolCall {
                call_id,
                name,
                arguments,
            } => format!("{} {} {}", shown(call_id), shown(name), value(arguments)),
            Self::ToolUpdate {
                call_id,
                output,
                is_error,
                error,
            } => {
                let outcome = outcome(output.as_ref(), *is_error, error.as_ref());
                format!("{} {outcome}", shown(call_id))
            }
            Self::PermissionRequest {
                permission_id,
                title,
                ..
            } => format!("{} {}", shown(permission_id), shown(title)),
            Self::PermissionAnswered {
                permission_id,
                approved,
                option,
            } => answered(permission_id, *approved, option.as_deref()),
            Self::ToolsChanged { tools } => shown(&tools.join(", ")),
            Self::Complete {
                stop_reason,
                error,
                undone,
                usage,
            } => ended(*stop_reason, error.as_deref(), *undone, usage),
            Self::Stopped {
                status,
                code,
                reason,
                message,
            } => stopped(*status, code, reason.as_deref().or(message.as_deref())),
        }
    }
}

fn answered(permission_id: &str, approved: bool, option: Option<&str>) -> String {
    let word = if approved { "approved" } else { "rejected" };
    let chosen = option.map_or_else(|| word.to_owned(), shown);
    format!("{} {chosen}", shown(permission_id))
}

fn stopped(status: ExecutionStatus, code: &str, why: Option<&str>) -> String {
    let why = why.map(|why| format!(": {}", shown(why)));
    format!("{status}, {}{}", shown(code), why.unwrap_or_default())
}

/// The exit code of a turn that ended so.
pub(super) fn exit_of(stop: TurnStop) -> Exit {
    Exit::from(match stop {
        TurnStop::EndTurn => OutcomeCode::Ok,
        TurnStop::TokenLimit => OutcomeCode::OutputLimit,
        TurnStop::Refusal => OutcomeCode::Denied,
        TurnStop::Cancelled => OutcomeCode::Cancelled,
        TurnStop::Error => OutcomeCode::SkillError,
    })
}

fn ended(stop: TurnStop, error: Option<&str>, undone: bool, usage: &Usage) -> String {
    let undone = if undone { ", undone" } else { "" };
    let error = error.map(|error| format!(": {}", shown(error)));
    let error = error.unwrap_or_default();
    let tokens = match (usage.input_tokens, usage.output_tokens) {
        (0, 0) => String::new(),
        (input, output) => format!(", {input}+{output} tokens"),
    };
    format!("{}{undone}{tokens}{error}", stop.as_str())
}
