//! Executions as documents: read from the daemon's answers, or made here from the ledgers, and the same either way.

use serde::{Deserialize, Serialize};

use crate::clock::Timestamp;
use crate::id::{ExecutionId, RunId};
use crate::outcome::OutcomeCode;
use crate::runner::WORKSPACE_GUEST_PATH;
use crate::runtime::{Execution, ExecutionStatus, Executions, Metadata};

/// An execution, as `--json` prints it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct ExecutionDocument {
    pub(super) id: ExecutionId,
    pub(super) session_id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) task_id: Option<String>,
    pub(super) agent_profile_id: String,
    pub(super) executor_id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) workspace_path: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) repository_id: Option<String>,
    pub(super) is_ephemeral: bool,
    pub(super) agentctl_url: String,
    pub(super) status: ExecutionStatus,
    pub(super) started_at: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) finished_at: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) exit_code: Option<i32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) error_message: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) code: Option<OutcomeCode>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) stop_reason: Option<String>,
    pub(super) prior_session: RunId,
    pub(super) mcp_mode: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) parent_execution_id: Option<ExecutionId>,
    pub(super) prompt_generation: u64,
    pub(super) prompts_queued: usize,
    pub(super) metadata: Metadata,
}

impl From<Execution> for ExecutionDocument {
    fn from(execution: Execution) -> Self {
        Self {
            id: execution.id,
            session_id: execution.session_id,
            task_id: execution.task_id,
            agent_profile_id: execution.agent_profile_id,
            executor_id: execution.executor_id,
            // As the daemon shows it, so that it does not depend on whether there is one.
            workspace_path: execution
                .workspace_path
                .map(|_| WORKSPACE_GUEST_PATH.to_owned()),
            repository_id: execution.repository_id,
            is_ephemeral: execution.is_ephemeral,
            agentctl_url: execution.agentctl_url,
            status: execution.status,
            started_at: execution.started_at,
            finished_at: execution.finished_at,
            exit_code: execution.exit_code,
            error_message: execution.error_message,
            code: execution.code,
            stop_reason: execution.stop_reason,
            prior_session: execution.prior_session,
            mcp_mode: execution.mcp_mode,
            parent_execution_id: execution.parent,
            prompt_generation: execution.prompt_generation,
            prompts_queued: execution.prompts_queued,
            metadata: execution.metadata,
        }
    }
}

/// A page of executions.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct PageDocument {
    pub(super) executions: Vec<ExecutionDocument>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) next_cursor: Option<String>,
}

impl From<Executions> for PageDocument {
    fn from(page: Executions) -> Self {
        Self {
            executions: page.executions.into_iter().map(Into::into).collect(),
            next_cursor: page.next.map(|next| next.to_string()),
        }
    }
}
