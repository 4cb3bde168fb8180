//! What a runtime asks of whoever carries executions out.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::BoxFuture;
use serde::{Deserialize, Serialize};

use super::state::Ending;
use crate::clock::Timestamp;
use crate::id::RunId;
use crate::ledger::{RecordError, SessionFacts, StoreError};
use crate::outcome::OutcomeCode;
use crate::runner::{
    ExecutorError, JsonObject, PromptRefused, RunError, SessionObserver, Terms, ToolSurface,
};

/// Carries out executions of agents, each of which leaves a ledger in the store of the runtime.
#[async_trait]
pub trait Backend: Send + Sync {
    /// The name by which launches ask for it; the same at all times.
    fn name(&self) -> &str;

    /// How far what it carries out is kept from this process. One that says nothing counts as the least.
    fn isolation(&self) -> Isolation {
        Isolation::Sandbox
    }

    /// Whether it can carry anything out now.
    async fn health(&self) -> BackendHealth;

    /// Begins an execution and returns once its first event is durable. Nothing is left of it when this fails,
    /// and when the future is dropped.
    ///
    /// # Errors
    /// It cannot be begun.
    async fn create(&self, request: CreateRequest) -> Result<Created, BackendError>;

    /// Looks after executions of an earlier process: when this returns, none seems to go on that nobody carries
    /// out, and nothing of them is left that runs. It is called on start and can be called again.
    ///
    /// # Errors
    /// Not all of that could be done.
    async fn recover(&self) -> Result<(), BackendError>;

    /// Lets everything that it carries out end as interrupted, to be taken up by another process. It does not
    /// wait.
    fn interrupt(&self);
}

/// How far an execution is kept from the process of the runtime; what comes later keeps it farther.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Isolation {
    /// By the sandbox of its agent.
    Sandbox,
    /// By a process of its own, too.
    Process,
}

/// Whether a backend can carry anything out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BackendHealth {
    /// It can.
    Healthy,
    /// It cannot, for this reason.
    Unhealthy(String),
}

/// Which ledger an execution has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LedgerPart {
    /// A new one.
    Begin,
    /// One that is taken up.
    TakeUp {
        /// Whether calls are made again that may have had their effect.
        retry_ambiguous: bool,
    },
}

/// Which execution is to begin.
pub struct CreateRequest {
    /// The run that it is.
    pub run_id: RunId,
    /// Whether that has a ledger.
    pub part: LedgerPart,
    /// What goes on record of it.
    pub facts: SessionFacts,
    /// What the agent is told of the launcher's own.
    pub metadata: JsonObject,
    /// Limits and grants for it alone.
    pub terms: Terms,
    /// Its tools at the start.
    pub surface: ToolSurface,
    /// How long a cancelled turn has to end by itself, and a stopped execution to finish.
    pub grace: Duration,
    /// Who is told what becomes of it, also before [`Backend::create`] returns. Signals come in the order in
    /// which things happen; none comes after the end.
    pub observer: Arc<dyn SessionObserver>,
}

/// An execution that has begun.
pub struct Created {
    /// The way to it.
    pub instance: Arc<dyn Instance>,
    /// When its first event was recorded.
    pub started_at: Timestamp,
    /// Ready when its last event is on record, and never before the last signal. Whoever has this has to await
    /// it.
    pub ended: BoxFuture<'static, End>,
}

/// An execution that goes on. When the last handle of it is dropped, it is ended by force.
#[async_trait]
pub trait Instance: Send + Sync {
    /// Sends a prompt, which begins a turn of this number. It neither waits nor tells the observer anything.
    ///
    /// # Errors
    /// There is one already that has not begun, or the execution is ending.
    fn prompt(&self, generation: u64, text: String) -> Result<(), PromptRefused>;

    /// Cancels the turn of that number, or takes its prompt back. A turn that does not end within the grace is
    /// interrupted. A turn of another number goes on. It does not wait; the observer is told of the end of the
    /// turn.
    fn cancel_turn(&self, generation: u64);

    /// Gives it other tools, as a whole. The change is on record when this returns.
    ///
    /// # Errors
    /// It cannot be recorded; the tools are as they were.
    async fn set_surface(&self, surface: ToolSurface) -> Result<(), BackendError>;

    /// Lets it end within the grace: its turn is cancelled, and its agent may finish. It does not wait. The first
    /// reason counts.
    fn finish(&self, reason: &str);

    /// Ends it at once. It does not wait.
    fn stop(&self);
}

/// How an execution ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct End {
    /// In which way.
    pub ending: Ending,
    /// The code with which its run ended.
    pub code: OutcomeCode,
    /// Why it failed; empty when it did not.
    pub message: String,
    /// Why it was stopped; empty when it was not.
    pub stop_reason: String,
    /// The status with which the agent ended itself; 0 when it completed.
    pub exit_code: Option<i32>,
    /// What went wrong when it was told to end.
    pub teardown_error: Option<String>,
}

impl End {
    /// The end of an execution that failed.
    pub fn failed(code: OutcomeCode, message: impl Into<String>) -> Self {
        Self {
            ending: Ending::Failed,
            code,
            message: message.into(),
            stop_reason: String::new(),
            exit_code: None,
            teardown_error: None,
        }
    }

    /// The end of an execution that was stopped.
    pub fn stopped(code: OutcomeCode, reason: impl Into<String>) -> Self {
        Self {
            ending: Ending::Stopped,
            message: String::new(),
            stop_reason: reason.into(),
            ..Self::failed(code, "")
        }
    }

    /// The end of an execution whose agent ended by itself.
    pub fn completed() -> Self {
        Self {
            ending: Ending::Completed,
            exit_code: Some(0),
            ..Self::failed(OutcomeCode::Ok, "")
        }
    }
}

/// Why a backend did not do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum BackendError {
    /// The run that the execution is was refused.
    #[error(transparent)]
    Run(Box<RunError>),
    /// The ledgers cannot be read or written.
    #[error("cannot look after the ledgers")]
    Store(#[from] StoreError),
    /// The agent cannot be carried out.
    #[error(transparent)]
    Agent(#[from] ExecutorError),
    /// The change cannot be put on record.
    #[error("cannot record it")]
    Record(#[from] RecordError),
    /// Whoever was to carry it out refused to.
    #[error("{message}")]
    Refused {
        /// The outcome code.
        code: OutcomeCode,
        /// Why.
        message: String,
        /// What to do about it.
        hint: Option<String>,
    },
    /// The execution is over.
    #[error("the execution is over")]
    Over,
    /// The backend cannot do its work.
    #[error("backend {name} cannot do its work: {reason}")]
    Unavailable {
        /// The backend.
        name: String,
        /// Why not.
        reason: String,
    },
}

impl From<RunError> for BackendError {
    fn from(error: RunError) -> Self {
        Self::Run(Box::new(error))
    }
}

impl BackendError {
    /// The outcome code, the same on every surface.
    pub fn code(&self) -> OutcomeCode {
        match self {
            Self::Run(error) => error.code(),
            Self::Agent(error) => error.code(),
            Self::Refused { code, .. } => *code,
            Self::Over => OutcomeCode::NotFound,
            Self::Store(_) | Self::Record(_) | Self::Unavailable { .. } => OutcomeCode::Internal,
        }
    }

    /// What to do about it, when there is something to do.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Run(error) => error.hint(),
            Self::Agent(error) => error.hint(),
            Self::Refused { hint, .. } => hint.clone(),
            _ => None,
        }
    }
}
