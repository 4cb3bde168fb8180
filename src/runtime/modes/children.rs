//! Executions that an agent launched, as its tools reach them.

use std::sync::Arc;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use super::settings_host::Host;
use super::tool::{Refusal, RefusalCode};
use crate::call::TurnStop;
use crate::clock::Timestamp;
use crate::id::ExecutionId;
use crate::runtime::{
    EventKind, Execution, ExecutionStatus, LaunchSpec, Metadata, Mode, Runtime, RuntimeError,
};
use crate::telemetry::chain;

/// Bytes of a child's answer that its parent is told. Protects the parent's memory and its ledger.
pub const ANSWER_BYTES_MAX: usize = 256 * 1024;
/// The key of metadata that would set what only a launcher outside may: limits, sessions, folders.
const LAUNCH_REQUEST: &str = "launch_request";
/// The modes that an agent may launch another one in. Looking after skills and limits is given away by people only.
pub(super) const MODES: [Mode; 2] = [Mode::Task, Mode::Office];

/// What an agent launches.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ChildSpec {
    /// The agent: the name of an installed skill.
    pub agent: String,
    /// The first prompt; empty: none is sent.
    pub prompt: String,
    /// The mode of its tools; empty: `task`.
    pub mode: String,
    /// Whatever the launcher wants to find again, and the agent is told.
    pub metadata: Metadata,
}

impl ChildSpec {
    /// Checks that it is one that an agent may launch, whatever the policy says.
    ///
    /// # Errors
    /// It would set what only a launcher outside may, or has a mode that only people give.
    pub fn check(&self) -> Result<(), Refusal> {
        if self.metadata.contains_key(LAUNCH_REQUEST) {
            let problem = format!("metadata.{LAUNCH_REQUEST} is not for agents to set");
            return Err(Refusal::new(RefusalCode::Denied, problem));
        }
        let is_allowed =
            self.mode.is_empty() || MODES.iter().any(|mode| mode.as_str() == self.mode);
        match is_allowed {
            true => Ok(()),
            false => {
                let problem = "this mode is not for agents to give";
                Err(Refusal::new(RefusalCode::Denied, problem))
            }
        }
    }
}

/// An execution that an agent launched.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Child {
    /// The execution.
    pub execution_id: ExecutionId,
    /// The agent.
    pub agent: String,
    /// What it does.
    pub status: ExecutionStatus,
    /// When it was registered.
    pub started_at: Timestamp,
}

/// A turn of a child that ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ChildTurn {
    /// The number of its prompt.
    pub generation: u64,
    /// Why it ended.
    pub stop_reason: TurnStop,
    /// What the child answered, at most [`ANSWER_BYTES_MAX`] bytes of it.
    pub text: String,
    /// Whether there was more.
    pub is_truncated: bool,
    /// What it said, when it ended the turn with an error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// A child that was stopped.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChildStopped {
    /// The execution.
    pub execution_id: ExecutionId,
    /// How it ended: it may have ended by itself in the same moment.
    pub status: ExecutionStatus,
    /// Whether it had to be ended by force.
    pub forced: bool,
}

/// The executions that agents launch. What goes in and comes out is plain data, so that it can be asked for from
/// another process.
///
/// A child is only ever reached by its direct parent; for anyone else there is none of that id. An error is a
/// [`Refusal`], as the parent is told.
#[async_trait]
pub trait Children: Send + Sync {
    /// Launches an execution that ends with `parent`. The spec passed [`ChildSpec::check`].
    async fn launch(&self, parent: &ExecutionId, spec: ChildSpec) -> Result<Child, Refusal>;

    /// Sends a prompt and waits for the end of its turn. Dropping the future takes it back, or cancels the turn.
    async fn prompt(
        &self,
        parent: &ExecutionId,
        child: &str,
        text: &str,
    ) -> Result<ChildTurn, Refusal>;

    /// Stops a child, and waits for its end.
    async fn stop(
        &self,
        parent: &ExecutionId,
        child: &str,
        reason: &str,
    ) -> Result<ChildStopped, Refusal>;

    /// The children of `parent`, newest first, also those that ended lately.
    async fn list(&self, parent: &ExecutionId) -> Result<Vec<Child>, Refusal>;
}

/// The executions of the runtime of this process.
pub struct RuntimeChildren(Arc<dyn Host>);

impl RuntimeChildren {
    /// Reaches them through what the process has put together.
    pub fn new(host: Arc<dyn Host>) -> Self {
        Self(host)
    }

    fn runtime(&self) -> Result<Arc<dyn Runtime>, Refusal> {
        let ending = || Refusal::new(RefusalCode::Full, "shutting down: nothing is launched");
        self.0.runtime().ok_or_else(ending)
    }

    /// What `child` has answered to that prompt.
    async fn answer(
        runtime: &dyn Runtime,
        child: &str,
        generation: u64,
    ) -> Result<(String, bool), RuntimeError> {
        let mut events = runtime.subscribe_events(child, None).await?;
        let mut text = String::new();
        while let Some(event) = events.next().await? {
            if event.prompt_generation > generation {
                break;
            }
            if event.prompt_generation < generation {
                continue;
            }
            match event.kind {
                EventKind::MessageChunk { text: chunk } => {
                    let room = ANSWER_BYTES_MAX.saturating_sub(text.len());
                    let whole = chunk.floor_char_boundary(room);
                    text.push_str(chunk.get(..whole).unwrap_or_default());
                    if whole < chunk.len() {
                        return Ok((text, true));
                    }
                }
                EventKind::Complete { .. } => break,
                _ => {}
            }
        }
        Ok((text, false))
    }
}

fn child(execution: Execution) -> Child {
    Child {
        execution_id: execution.id,
        agent: execution.agent_profile_id,
        status: execution.status,
        started_at: execution.started_at,
    }
}

#[async_trait]
impl Children for RuntimeChildren {
    async fn launch(&self, parent: &ExecutionId, spec: ChildSpec) -> Result<Child, Refusal> {
        let agent = spec.agent.clone();
        let runtime = self.runtime()?;
        let launched = runtime.launch(LaunchSpec {
            agent_profile_id: spec.agent,
            prompt: spec.prompt,
            mcp_mode: spec.mode,
            metadata: spec.metadata,
            parent: Some(parent.clone()),
            ..LaunchSpec::default()
        });
        let launched = launched.await?;
        Ok(Child {
            execution_id: launched.id,
            agent,
            status: ExecutionStatus::Pending,
            started_at: launched.started_at,
        })
    }

    async fn prompt(
        &self,
        parent: &ExecutionId,
        child: &str,
        text: &str,
    ) -> Result<ChildTurn, Refusal> {
        let runtime = self.runtime()?;
        if runtime.get_execution(child).await?.parent.as_ref() != Some(parent) {
            return Err(RuntimeError::not_found(child).into());
        }
        let turn = runtime.resume(child, text).await?;
        // Of a turn that was undone nothing may be on record, not even its beginning.
        let (text, is_truncated) = match turn.undone {
            true => (String::new(), false),
            false => Self::answer(&*runtime, child, turn.generation).await?,
        };
        Ok(ChildTurn {
            generation: turn.generation,
            stop_reason: turn.stop_reason,
            text,
            is_truncated,
            error: turn.error,
        })
    }

    async fn stop(
        &self,
        parent: &ExecutionId,
        child: &str,
        reason: &str,
    ) -> Result<ChildStopped, Refusal> {
        let stopped = self.runtime()?;
        let stopped = stopped
            .stop_child(&parent.to_string(), child, reason)
            .await?;
        Ok(ChildStopped {
            execution_id: stopped.id,
            status: stopped.status,
            forced: stopped.forced,
        })
    }

    async fn list(&self, parent: &ExecutionId) -> Result<Vec<Child>, Refusal> {
        let children = self.runtime()?.list_children(&parent.to_string()).await?;
        Ok(children.into_iter().map(child).collect())
    }
}

impl From<RuntimeError> for Refusal {
    /// What is below the error may name folders of the host, and is only logged.
    fn from(error: RuntimeError) -> Self {
        let code = match &error {
            RuntimeError::InvalidArgument { .. }
            | RuntimeError::UnknownExecutor { .. }
            | RuntimeError::UnknownMode { .. } => RefusalCode::Invalid,
            RuntimeError::NotFound { .. } => RefusalCode::NotFound,
            RuntimeError::AlreadyRunning { .. } => RefusalCode::Conflict,
            RuntimeError::Full { .. }
            | RuntimeError::FamilyFull { .. }
            | RuntimeError::Busy { .. }
            | RuntimeError::ShuttingDown => RefusalCode::Full,
            RuntimeError::TooDeep { .. } | RuntimeError::LessIsolated { .. } => RefusalCode::Denied,
            _ => RefusalCode::Failed,
        };
        if code == RefusalCode::Failed {
            tracing::warn!(error = chain(&error), "a child is of no use");
        }
        Self::new(code, format!("{error} ({})", error.code().as_str()))
    }
}
