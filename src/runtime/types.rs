//! What is handed to a runtime, and what it hands back.

use serde_json::{Map, Value};

use super::event::RecordedEnd;
use super::state::ExecutionStatus;
use crate::capability::Capability;
use crate::clock::Timestamp;
use crate::id::{ExecutionId, RunId};
use crate::ledger::{Cursor, SessionFacts};
use crate::outcome::OutcomeCode;

/// Executions of one page of a list. Protects the host, which reads the ledger of each.
pub const LIST_EXECUTIONS_MAX: usize = 200;
/// Bytes of one prompt. Protects ledgers and guests, each of which holds it whole.
pub const PROMPT_BYTES_MAX: usize = 1024 * 1024;

/// Whatever a launcher wants to find again.
pub type Metadata = Map<String, Value>;

/// What is to be launched. A field that is empty is not set.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LaunchSpec {
    /// The agent: the name of an installed skill.
    pub agent_profile_id: String,
    /// The backend that is to carry it out; empty: the configured one.
    pub executor_id: String,
    /// The folder that the agent works in.
    pub workspace: WorkspaceRef,
    /// The first prompt; empty: none is sent.
    pub prompt: String,
    /// The run whose ledger is taken up: [`Execution::prior_session`] of an execution that ended and can go on;
    /// empty: a new one is begun.
    pub prior_session: String,
    /// The mode of the agent's tools; empty: `task`.
    pub mcp_mode: String,
    /// Whatever the launcher wants to find again, and the agent is told. The value of `launch_request`, an
    /// object, is taken out: it has the fields above by their names, which count where they are not set here, and
    /// `session_id`, `task_id`, `retry_ambiguous` and `limits`.
    pub metadata: Metadata,
    /// The execution that launches this one. Its end is the end of this one, too. Only the host says this.
    pub parent: Option<ExecutionId>,
    /// What is granted to this execution beside what the configuration says. Only the host says this: it comes from a
    /// command line or an embedder and never over a network.
    pub grants: Vec<Capability>,
    /// Whether it is not the host that asks for it, but a client of a surface. It has no say in limits, names no
    /// folder but those below the ones that the operator opened for that, and no backend that isolates less than the
    /// configured one.
    pub is_foreign: bool,
}

/// Which folder an agent works in.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WorkspaceRef {
    /// An absolute path to a folder that exists. The agent finds it at `/workspace`, if its manifest asks for
    /// that. Empty: none.
    pub path: String,
    /// Whose folder that is, in the words of the launcher.
    pub repository_id: String,
    /// Whether, without a path, a folder is made that goes with the execution.
    pub is_ephemeral: bool,
}

/// An execution that was launched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExecutionRef {
    /// The execution.
    pub id: ExecutionId,
    /// The session that it serves.
    pub session_id: String,
    /// Where it is found on the daemon's HTTP interface; empty without one.
    pub agentctl_url: String,
    /// When it was registered.
    pub started_at: Timestamp,
}

/// An execution as it was at one moment.
#[derive(Debug, Clone, PartialEq)]
pub struct Execution {
    /// The execution.
    pub id: ExecutionId,
    /// The session that it serves.
    pub session_id: String,
    /// The task that it is for; none when nobody named one.
    pub task_id: Option<String>,
    /// The agent.
    pub agent_profile_id: String,
    /// The backend that carries it out.
    pub executor_id: String,
    /// The folder that the agent finds as `/workspace`; none when it has none.
    pub workspace_path: Option<String>,
    /// Whose that folder is, in the words of the launcher.
    pub repository_id: Option<String>,
    /// Whether that folder goes with the execution.
    pub is_ephemeral: bool,
    /// Where it is found on the daemon's HTTP interface; empty without one.
    pub agentctl_url: String,
    /// What it does.
    pub status: ExecutionStatus,
    /// When it was registered.
    pub started_at: Timestamp,
    /// When it ended.
    pub finished_at: Option<Timestamp>,
    /// The status with which the agent ended; 0 when it completed.
    pub exit_code: Option<i32>,
    /// Why it failed.
    pub error_message: Option<String>,
    /// The code with which its run ended.
    pub code: Option<OutcomeCode>,
    /// Why it was stopped, in the words of whoever did.
    pub stop_reason: Option<String>,
    /// What a later launch names to take it up: its ledger.
    pub prior_session: RunId,
    /// The mode of its tools.
    pub mcp_mode: String,
    /// The execution that launched it.
    pub parent: Option<ExecutionId>,
    /// The number of its newest prompt; 0 before the first.
    pub prompt_generation: u64,
    /// How many prompts wait for their turn.
    pub prompts_queued: usize,
    /// What its launcher wanted to find again.
    pub metadata: Metadata,
}

impl Execution {
    /// An execution of which nothing is known but what it began with.
    pub(super) fn of(facts: &SessionFacts, started_at: Timestamp) -> Self {
        Self {
            id: facts.execution_id.clone(),
            session_id: facts.session_id.clone(),
            task_id: facts.task_id.clone(),
            agent_profile_id: facts.agent_profile_id.clone(),
            executor_id: facts.executor_id.clone(),
            workspace_path: facts.workspace_path.clone(),
            repository_id: facts.repository_id.clone(),
            is_ephemeral: facts.is_ephemeral,
            agentctl_url: String::new(),
            status: ExecutionStatus::Starting,
            started_at,
            finished_at: None,
            exit_code: None,
            error_message: None,
            code: None,
            stop_reason: None,
            prior_session: facts.execution_id.run_id().clone(),
            mcp_mode: facts.mcp_mode.clone(),
            parent: facts.parent_execution_id.clone(),
            prompt_generation: 0,
            prompts_queued: 0,
            metadata: Metadata::new(),
        }
    }

    /// The same after its end.
    pub(super) fn ended(self, end: RecordedEnd) -> Self {
        Self {
            status: end.status,
            code: Some(end.code),
            stop_reason: end.reason,
            exit_code: end.exit_code,
            error_message: end.message,
            prompts_queued: 0,
            ..self
        }
    }
}

/// Which executions are wanted. Conditions that are absent let every one pass.
#[derive(Debug, Clone, Default)]
pub struct ExecutionFilter {
    /// Those of this session.
    pub session_id: Option<String>,
    /// Those in this state.
    pub status: Option<ExecutionStatus>,
    /// Those that this one launched.
    pub parent: Option<ExecutionId>,
    /// Those after the last one of an earlier page.
    pub after: Option<Cursor>,
    /// How many are looked at; 0 and more than [`LIST_EXECUTIONS_MAX`] count as that.
    pub limit: usize,
}

/// A page of executions.
#[derive(Debug, Clone, Default)]
pub struct Executions {
    /// The executions.
    pub executions: Vec<Execution>,
    /// Where the next page begins; absent when there are no further ones. A page that is shorter than asked for
    /// says nothing.
    pub next: Option<Cursor>,
}

/// An execution that was stopped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stopped {
    /// The execution.
    pub id: ExecutionId,
    /// How it ended: an agent may have ended by itself in the same moment.
    pub status: ExecutionStatus,
    /// Whether it had to be ended by force.
    pub forced: bool,
    /// What went wrong when it was told to end.
    pub teardown_error: Option<String>,
}
