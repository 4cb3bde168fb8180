//! Executions of agents, as they are asked for and as they are shown.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::call::{self, TurnStop};
use crate::clock::Timestamp;
use crate::id::{ExecutionId, RunId};
use crate::outcome::OutcomeCode;
use crate::runner::WORKSPACE_GUEST_PATH;
use crate::runtime::{self, LaunchSpec, Metadata, Mode, WorkspaceRef};

/// What is to be launched.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = LaunchExecution)]
pub(crate) struct LaunchExecution {
    /// The agent: the name of an installed skill that is one.
    #[schema(min_length = 1, max_length = 1024, example = "chat")]
    agent_profile_id: String,
    /// The backend that is to carry it out; the configured one when it is absent.
    #[serde(default)]
    #[schema(max_length = 64, example = "in-process")]
    executor_id: String,
    /// The folder that the agent works in.
    #[serde(default)]
    workspace: Workspace,
    /// The first prompt; none is sent when it is absent.
    #[serde(default)]
    #[schema(max_length = 1_048_576, example = "What is on my list today?")]
    prompt: String,
    /// The run whose ledger is taken up: `prior_session` of an execution that was interrupted.
    #[serde(default)]
    #[schema(pattern = "^(run_[0-9a-f]{32})?$")]
    prior_session: String,
    /// The mode of the agent's tools; `task` when it is absent.
    #[serde(default)]
    mcp_mode: Option<McpMode>,
    /// Whatever the launcher wants to find again, and the agent is told. The value of `launch_request`, an
    /// object, is the base of the launch: it has the fields above, which count where they are not set here, and
    /// `session_id`, `task_id` and `retry_ambiguous`.
    #[serde(default)]
    #[schema(value_type = Object)]
    metadata: Metadata,
}

impl LaunchExecution {
    /// The agent's name.
    pub(crate) fn agent(&self) -> &str {
        &self.agent_profile_id
    }
}

impl From<LaunchExecution> for LaunchSpec {
    fn from(asked: LaunchExecution) -> Self {
        Self {
            agent_profile_id: asked.agent_profile_id,
            executor_id: asked.executor_id,
            workspace: WorkspaceRef {
                path: asked.workspace.path,
                repository_id: asked.workspace.repository_id,
                is_ephemeral: asked.workspace.is_ephemeral,
            },
            prompt: asked.prompt,
            prior_session: asked.prior_session,
            mcp_mode: asked
                .mcp_mode
                .map_or_else(String::new, |mode| mode.word().to_owned()),
            metadata: asked.metadata,
            parent: None,
            grants: Vec::new(),
            is_foreign: true,
        }
    }
}

/// Which folder an agent works in.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Workspace {
    /// A folder of the machine that is below one of `runtime.workspaces`; the agent finds it as `/workspace`, if
    /// its manifest asks for that.
    #[serde(default)]
    #[schema(max_length = 4096)]
    path: String,
    /// Whose that folder is, in the words of the launcher.
    #[serde(default)]
    #[schema(max_length = 256)]
    repository_id: String,
    /// Whether, without a path, a folder is made that goes with the execution.
    #[serde(default)]
    is_ephemeral: bool,
}

/// Which tools an execution has.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum McpMode {
    /// Running skills, and children of one's own.
    Task,
    /// Looking after skills and limits.
    Config,
    /// Plans, documents and decisions.
    Office,
}

impl McpMode {
    /// The word that the runtime knows it by.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Task => Mode::Task,
            Self::Config => Mode::Config,
            Self::Office => Mode::Office,
        }
        .as_str()
    }
}

/// What an execution does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ExecutionStatus {
    /// It is being made, and is on no record yet.
    Pending,
    /// It is on record, and its agent starts.
    Starting,
    /// Its agent waits for a prompt.
    Ready,
    /// A turn goes on.
    Running,
    /// Its agent ended by itself.
    Completed,
    /// Its agent trapped, met a limit, or the host failed.
    Failed,
    /// Somebody stopped it, or its process came to an end.
    Stopped,
}

impl From<runtime::ExecutionStatus> for ExecutionStatus {
    fn from(status: runtime::ExecutionStatus) -> Self {
        match status {
            runtime::ExecutionStatus::Pending => Self::Pending,
            runtime::ExecutionStatus::Starting => Self::Starting,
            runtime::ExecutionStatus::Ready => Self::Ready,
            runtime::ExecutionStatus::Running => Self::Running,
            runtime::ExecutionStatus::Completed => Self::Completed,
            runtime::ExecutionStatus::Failed => Self::Failed,
            runtime::ExecutionStatus::Stopped => Self::Stopped,
        }
    }
}

impl From<ExecutionStatus> for runtime::ExecutionStatus {
    fn from(status: ExecutionStatus) -> Self {
        match status {
            ExecutionStatus::Pending => Self::Pending,
            ExecutionStatus::Starting => Self::Starting,
            ExecutionStatus::Ready => Self::Ready,
            ExecutionStatus::Running => Self::Running,
            ExecutionStatus::Completed => Self::Completed,
            ExecutionStatus::Failed => Self::Failed,
            ExecutionStatus::Stopped => Self::Stopped,
        }
    }
}

/// An execution that is on record.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ExecutionRef {
    /// The execution.
    #[schema(value_type = String, example = "exec_0190a0a0a0a07000800000000000abcd_1")]
    pub(crate) id: ExecutionId,
    /// The session that it serves.
    session_id: String,
    /// Where it is found.
    agentctl_url: String,
    /// When its first event was recorded.
    #[schema(value_type = String, format = DateTime)]
    started_at: Timestamp,
}

impl From<runtime::ExecutionRef> for ExecutionRef {
    fn from(launched: runtime::ExecutionRef) -> Self {
        Self {
            id: launched.id,
            session_id: launched.session_id,
            agentctl_url: launched.agentctl_url,
            started_at: launched.started_at,
        }
    }
}

/// An execution as it was at one moment.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Execution {
    /// The execution.
    #[schema(value_type = String, example = "exec_0190a0a0a0a07000800000000000abcd_1")]
    id: ExecutionId,
    /// The session that it serves.
    session_id: String,
    /// The task that it is for, when somebody named one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    task_id: Option<String>,
    /// The agent.
    agent_profile_id: String,
    /// The backend that carries it out.
    executor_id: String,
    /// Where the agent finds its folder, when it has one. Where that is on the machine is not told.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, example = "/workspace")]
    workspace_path: Option<&'static str>,
    /// Whose that folder is, in the words of the launcher.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    repository_id: Option<String>,
    /// Whether that folder goes with the execution.
    is_ephemeral: bool,
    /// Where it is found.
    agentctl_url: String,
    /// What it does.
    status: ExecutionStatus,
    /// When its first event was recorded.
    #[schema(value_type = String, format = DateTime)]
    started_at: Timestamp,
    /// When it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime, nullable = false)]
    finished_at: Option<Timestamp>,
    /// The status with which the agent ended itself; 0 when it completed.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    exit_code: Option<i32>,
    /// Why it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    error_message: Option<String>,
    /// The code with which it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, nullable = false, example = "cancelled")]
    code: Option<OutcomeCode>,
    /// Why it was stopped, in the words of whoever did.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    stop_reason: Option<String>,
    /// What a later launch names to take it up, once it was interrupted: the run that is its ledger.
    #[schema(value_type = String, example = "run_0190a0a0a0a07000800000000000abcd")]
    prior_session: RunId,
    /// The mode of its tools.
    mcp_mode: String,
    /// The execution that launched it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, nullable = false)]
    parent_execution_id: Option<ExecutionId>,
    /// The number of its newest prompt; 0 before the first.
    prompt_generation: u64,
    /// How many prompts wait for their turn.
    prompts_queued: usize,
    /// What its launcher wanted to find again.
    #[schema(value_type = Object)]
    metadata: Metadata,
}

impl From<runtime::Execution> for Execution {
    fn from(execution: runtime::Execution) -> Self {
        Self {
            id: execution.id,
            session_id: execution.session_id,
            task_id: execution.task_id,
            agent_profile_id: execution.agent_profile_id,
            executor_id: execution.executor_id,
            workspace_path: execution.workspace_path.map(|_| WORKSPACE_GUEST_PATH),
            repository_id: execution.repository_id,
            is_ephemeral: execution.is_ephemeral,
            agentctl_url: execution.agentctl_url,
            status: execution.status.into(),
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

/// A page of executions, those of the newest session first.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ExecutionPage {
    /// The executions.
    pub(crate) executions: Vec<Execution>,
    /// What `cursor` has to be for the next page; absent when there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub(crate) next_cursor: Option<String>,
}

/// What an agent is told.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = PromptExecution)]
pub(crate) struct PromptExecution {
    /// The text.
    #[schema(min_length = 1, max_length = 1_048_576, example = "And tomorrow?")]
    pub(crate) prompt: String,
}

/// A prompt that waits for its turn, or whose turn goes on.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct PromptAccepted {
    /// The execution.
    #[schema(value_type = String, example = "exec_0190a0a0a0a07000800000000000abcd_1")]
    pub(crate) id: ExecutionId,
    /// Always `accepted`.
    pub(crate) status: &'static str,
}

/// Why a turn ended.
#[derive(Debug, Clone, Copy, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum TurnStopReason {
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

impl From<TurnStop> for TurnStopReason {
    fn from(stop: TurnStop) -> Self {
        match stop {
            TurnStop::EndTurn => Self::EndTurn,
            TurnStop::TokenLimit => Self::TokenLimit,
            TurnStop::Refusal => Self::Refusal,
            TurnStop::Cancelled => Self::Cancelled,
            TurnStop::Error => Self::Error,
        }
    }
}

/// What models took in a turn.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct TurnUsage {
    /// Tokens of the requests, those from a cache included.
    input_tokens: u64,
    /// Tokens of the answers.
    output_tokens: u64,
    /// Tokens of the requests that the provider had in its cache.
    cache_read_tokens: u64,
    /// Tokens of the requests that the provider put into its cache.
    cache_write_tokens: u64,
    /// US dollars; 0 when there is no price for the model.
    cost_usd: f64,
}

impl From<call::Usage> for TurnUsage {
    fn from(usage: call::Usage) -> Self {
        Self {
            input_tokens: usage.input_tokens,
            output_tokens: usage.output_tokens,
            cache_read_tokens: usage.cache_read_tokens,
            cache_write_tokens: usage.cache_write_tokens,
            cost_usd: usage.cost_usd,
        }
    }
}

/// How a turn ended.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Turn {
    /// The number of its prompt.
    prompt_generation: u64,
    /// Why it ended.
    stop_reason: TurnStopReason,
    /// What the agent said, when it ended the turn with an error.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    error: Option<String>,
    /// Whether it had to be interrupted, and for the agent never was.
    undone: bool,
    /// What models took in it.
    usage: TurnUsage,
}

impl From<runtime::TurnEnd> for Turn {
    fn from(turn: runtime::TurnEnd) -> Self {
        Self {
            prompt_generation: turn.generation,
            stop_reason: turn.stop_reason.into(),
            error: turn.error,
            undone: turn.undone,
            usage: turn.usage.into(),
        }
    }
}

/// What became of the turn that was to be cancelled.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct TurnCancelled {
    /// The execution, which takes the next prompt.
    #[schema(value_type = String, example = "exec_0190a0a0a0a07000800000000000abcd_1")]
    pub(crate) id: ExecutionId,
    /// How the turn ended; absent when none went on.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub(crate) turn: Option<Turn>,
}

/// Why an execution is stopped.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = StopExecution)]
pub(crate) struct StopExecution {
    /// The reason, which is kept and steers nothing.
    #[serde(default)]
    #[schema(max_length = 1024, example = "the task is done")]
    pub(crate) reason: Option<String>,
}

/// An execution that was stopped.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ExecutionStopped {
    /// The execution.
    #[schema(value_type = String, example = "exec_0190a0a0a0a07000800000000000abcd_1")]
    id: ExecutionId,
    /// How it ended: an agent may have ended by itself in the same moment.
    status: ExecutionStatus,
    /// Whether it had to be ended by force.
    forced: bool,
    /// What went wrong when it was told to end.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    teardown_error: Option<String>,
}

impl From<runtime::Stopped> for ExecutionStopped {
    fn from(stopped: runtime::Stopped) -> Self {
        Self {
            id: stopped.id,
            status: stopped.status.into(),
            forced: stopped.forced,
            teardown_error: stopped.teardown_error,
        }
    }
}

/// Executions that were stopped.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ExecutionsStopped {
    /// Each of them.
    pub(crate) stopped: Vec<ExecutionStopped>,
}

/// Which tools an execution is to have.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = SetMode)]
pub(crate) struct SetMode {
    /// The mode.
    pub(crate) mode: McpMode,
}

/// Which tools an execution has.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ModeSet {
    /// The execution.
    #[schema(value_type = String, example = "exec_0190a0a0a0a07000800000000000abcd_1")]
    pub(crate) id: ExecutionId,
    /// The mode.
    pub(crate) mcp_mode: McpMode,
    /// Whether it had other tools before.
    pub(crate) changed: bool,
}
