//! What the events of a long-lived execution carry.

use serde::{Deserialize, Serialize};

use super::is_false;
use crate::call::{PlanEntry, SessionUpdate, TurnStop, Usage};
use crate::id::ExecutionId;
use crate::ledger::json::{Json, Text};

/// Which execution a ledger, or a stretch of it, is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SessionFacts {
    /// The execution.
    pub execution_id: ExecutionId,
    /// The session that it serves, in the words of whoever launched it.
    pub session_id: String,
    /// The task that it is for, likewise; absent when nobody named one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_id: Option<String>,
    /// The agent: the name of an installed skill.
    pub agent_profile_id: String,
    /// The backend that carries it out.
    pub executor_id: String,
    /// The folder that the guest sees as `/workspace`; absent when it has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace_path: Option<String>,
    /// Whose that folder is, in the words of whoever launched it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repository_id: Option<String>,
    /// Whether that folder was made for it, and goes with it.
    #[serde(default, skip_serializing_if = "is_false")]
    pub is_ephemeral: bool,
    /// The mode of its tools when it was launched.
    pub mcp_mode: String,
    /// The execution that launched it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_execution_id: Option<ExecutionId>,
    /// Whatever else the launcher wants to find again: a JSON object.
    #[serde(default)]
    pub metadata: Json,
}

/// A turn of an execution begins.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Prompt {
    /// Which prompt of this ledger it is, from 1. What belongs to a turn has the number of its prompt.
    pub generation: u64,
    /// What the agent is told.
    pub text: Text,
}

/// A turn of an execution ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TurnCompleted {
    /// The number of its prompt.
    pub generation: u64,
    /// Why it ended.
    pub stop_reason: TurnStop,
    /// What the agent said, when it ended the turn with an error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Text>,
    /// Whether the turn had to be interrupted. For the agent it never was: its memory is what it was before
    /// the prompt, and the events of the turn are passed over when the ledger is replayed.
    #[serde(default, skip_serializing_if = "is_false")]
    pub undone: bool,
    /// What models took in the turn.
    #[serde(default)]
    pub usage: Usage,
    /// Microseconds since the prompt.
    #[serde(default)]
    pub duration_micros: u64,
}

/// What kind of thing an agent tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UpdateKind {
    /// A piece of the answer.
    MessageChunk,
    /// How the answer comes about.
    Reasoning,
    /// The whole plan.
    Plan,
    /// How full the context of the model is.
    ContextWindow,
}

/// An agent tells something to whoever watches.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SessionTold {
    /// What kind of thing.
    pub kind: UpdateKind,
    /// The text, of a kind that has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<Text>,
    /// The steps of a plan, as an array.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entries: Option<Json>,
    /// Tokens used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub used: Option<u32>,
    /// Tokens there are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<u32>,
}

impl From<SessionUpdate> for SessionTold {
    fn from(update: SessionUpdate) -> Self {
        let told = |kind| Self {
            kind,
            text: None,
            entries: None,
            used: None,
            size: None,
        };
        match update {
            SessionUpdate::MessageChunk { text } => Self {
                text: Some(text.into()),
                ..told(UpdateKind::MessageChunk)
            },
            SessionUpdate::Reasoning { text } => Self {
                text: Some(text.into()),
                ..told(UpdateKind::Reasoning)
            },
            SessionUpdate::Plan { entries } => Self {
                entries: Json::from_serialize(&entries).ok(),
                ..told(UpdateKind::Plan)
            },
            SessionUpdate::ContextWindow { used, size } => Self {
                used: Some(used),
                size: Some(size),
                ..told(UpdateKind::ContextWindow)
            },
        }
    }
}

impl SessionTold {
    /// The update that it is; none when a field is missing that its kind has. Large values have to be in
    /// their places.
    pub fn update(&self) -> Option<SessionUpdate> {
        let text = || Some(self.text.as_ref()?.as_str().to_owned());
        Some(match self.kind {
            UpdateKind::MessageChunk => SessionUpdate::MessageChunk { text: text()? },
            UpdateKind::Reasoning => SessionUpdate::Reasoning { text: text()? },
            UpdateKind::Plan => {
                let entries = self.entries.as_ref()?;
                let entries: Vec<PlanEntry> = serde_json::from_str(entries.as_str()).ok()?;
                SessionUpdate::Plan { entries }
            }
            UpdateKind::ContextWindow => SessionUpdate::ContextWindow {
                used: self.used?,
                size: self.size?,
            },
        })
    }
}

/// What became of an execution beside its turns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SessionPhase {
    /// The agent has started and waits for its first prompt, or, taken up again, for its next.
    BootReady,
    /// A turn is over and the agent waits for the next prompt.
    Ready,
    /// The tools are those of another mode.
    ModeChanged,
    /// The agent may call other tools than before.
    ToolsChanged,
    /// The agent was told to end, and finishes.
    Finishing,
}

/// An execution came to another state, or to other tools.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SessionStatus {
    /// What it came to.
    pub status: SessionPhase,
    /// The mode, where it changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mcp_mode: Option<String>,
    /// The names of the tools of the mode that the agent may call, where they changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tools: Option<Vec<String>>,
}

impl SessionStatus {
    /// A status without anything else.
    pub fn new(status: SessionPhase) -> Self {
        Self {
            status,
            mcp_mode: None,
            tools: None,
        }
    }
}
