//! What passes between a live execution and whoever watches it and prompts it.

use serde::{Deserialize, Serialize};

/// How far a step of a plan is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PlanStatus {
    /// Nobody has begun with it.
    Pending,
    /// It is being worked on.
    InProgress,
    /// It is done.
    Completed,
    /// It cannot be done.
    Failed,
}

/// One step of a plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanEntry {
    /// What is to be done.
    pub description: String,
    /// How far it is.
    pub status: PlanStatus,
    /// 0 matters most.
    pub priority: u8,
}

/// One thing that an agent tells whoever watches.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum SessionUpdate {
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
}

/// One choice of a permission request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PermissionOption {
    /// Unique within the request.
    pub id: String,
    /// What a person reads.
    pub label: String,
}

/// What an agent asks whoever watches it to choose.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PermissionRequest {
    /// One line.
    pub title: String,
    /// The choices; at least one.
    pub options: Vec<PermissionOption>,
    /// What it is about, as JSON text.
    pub details: String,
}

/// Why a turn ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TurnStop {
    /// The agent has said what it had to say.
    EndTurn,
    /// A model came to the end of its tokens.
    TokenLimit,
    /// A model, or the agent, declined.
    Refusal,
    /// Somebody cancelled the turn.
    Cancelled,
    /// The agent ended it with an error.
    Error,
}

impl TurnStop {
    /// The word as it stands in a ledger.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::EndTurn => "end_turn",
            Self::TokenLimit => "token_limit",
            Self::Refusal => "refusal",
            Self::Cancelled => "cancelled",
            Self::Error => "error",
        }
    }
}
