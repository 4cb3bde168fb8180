//! Why a runtime did not do what was asked.

use std::sync::Arc;
use std::time::Duration;

use super::backend::BackendError;
use super::workspace::WorkspaceError;
use crate::id::ExecutionId;
use crate::ledger::StoreError;
use crate::outcome::OutcomeCode;

/// Why a runtime did not do what was asked.
#[derive(Debug, Clone, thiserror::Error)]
pub enum RuntimeError {
    /// Something that was handed over is not what it has to be.
    #[error("invalid {field}: {problem}")]
    InvalidArgument {
        /// Where it stands, with dots between names.
        field: String,
        /// What was expected, and what was found.
        problem: String,
    },
    /// There is no such execution; or none that is live, or that is not being stopped, where it takes one.
    #[error("no such live execution: {id:?}")]
    NotFound {
        /// The id as it was given, its beginning if that is long.
        id: String,
    },
    /// The session has an execution.
    #[error("session {session_id:?} is served by {execution_id} already")]
    AlreadyRunning {
        /// The session.
        session_id: String,
        /// Its execution.
        execution_id: ExecutionId,
    },
    /// As many executions are live as may be.
    #[error("no room for another execution: {executions_max} are live (runtime.executions_max)")]
    Full {
        /// How many may be.
        executions_max: usize,
    },
    /// An execution has launched as many that are live as it may, or as many are live below the same root.
    #[error("execution {parent} may launch no other: {live_max} {of} are live")]
    FamilyFull {
        /// Who launches.
        parent: ExecutionId,
        /// Whose the live ones are.
        of: &'static str,
        /// How many may be.
        live_max: usize,
    },
    /// An execution is as far below the one at the root as any may be, and launches nothing.
    #[error("execution {parent} may launch none: it is {depth_max} below the first")]
    TooDeep {
        /// Who launches.
        parent: ExecutionId,
        /// How far below the root one may be.
        depth_max: usize,
    },
    /// As many prompts wait as may.
    #[error("execution {id} is busy: {queued_max} prompts wait")]
    Busy {
        /// The execution.
        id: ExecutionId,
        /// How many may wait.
        queued_max: usize,
    },
    /// The execution was stopped before it came to that.
    #[error("execution {id} was stopped: {reason}")]
    Stopped {
        /// The execution.
        id: ExecutionId,
        /// Why, in the words of whoever stopped it.
        reason: String,
    },
    /// The execution failed before it came to that.
    #[error("execution {id} failed: {message}")]
    Failed {
        /// The execution.
        id: ExecutionId,
        /// With which code.
        code: OutcomeCode,
        /// Why.
        message: String,
    },
    /// The agent ended by itself before it came to that.
    #[error("execution {id} has completed: its agent ended itself")]
    Completed {
        /// The execution.
        id: ExecutionId,
    },
    /// A backend did not end a turn, or an execution, in time.
    #[error("backend of execution {id} did not end {what} within {bound_ms} ms")]
    Unresponsive {
        /// The execution.
        id: ExecutionId,
        /// What was to end.
        what: &'static str,
        /// How long it had, in milliseconds.
        bound_ms: u64,
    },
    /// There is no backend of that name. None takes its place: it might isolate less.
    #[error("unknown executor {name:?}: expected one of {}", .known.join(", "))]
    UnknownExecutor {
        /// The name.
        name: String,
        /// The names that there are.
        known: Vec<String>,
    },
    /// A client of a surface named a backend that isolates less than the one that the operator chose.
    #[error(
        "executor {name:?} isolates less than {default_backend:?}, and is not for clients to name"
    )]
    LessIsolated {
        /// The name.
        name: String,
        /// The backend of launches that name none.
        default_backend: String,
    },
    /// There is no such mode.
    #[error("unknown mode {mode:?}: expected task, config or office")]
    UnknownMode {
        /// The mode as it was given, its beginning if that is long.
        mode: String,
    },
    /// The runtime comes to its end, and launches nothing any more.
    #[error("shutting down: nothing is launched")]
    ShuttingDown,
    /// The execution could not be begun.
    #[error("cannot launch agent {agent:?}")]
    Launch {
        /// The agent.
        agent: String,
        /// Why not.
        source: Arc<BackendError>,
    },
    /// The agent cannot be given its folder.
    #[error("cannot use the workspace")]
    Workspace(#[source] Arc<WorkspaceError>),
    /// The mode cannot be changed. It is as it was.
    #[error("cannot change the mode of execution {id}")]
    Mode {
        /// The execution.
        id: ExecutionId,
        /// Why not.
        source: Arc<BackendError>,
    },
    /// The ledgers cannot be read.
    #[error("cannot read the record")]
    Record(#[source] Arc<StoreError>),
}

/// Characters of foreign text that an error repeats.
const SHOWN_CHARS_MAX: usize = 80;

/// The beginning of a foreign text.
pub(super) fn shown(text: &str) -> String {
    text.chars().take(SHOWN_CHARS_MAX).collect()
}

impl From<StoreError> for RuntimeError {
    fn from(error: StoreError) -> Self {
        Self::Record(Arc::new(error))
    }
}

impl From<WorkspaceError> for RuntimeError {
    fn from(error: WorkspaceError) -> Self {
        Self::Workspace(Arc::new(error))
    }
}

impl RuntimeError {
    pub(super) fn invalid(field: impl Into<String>, problem: impl Into<String>) -> Self {
        Self::InvalidArgument {
            field: field.into(),
            problem: problem.into(),
        }
    }

    pub(super) fn not_found(id: &str) -> Self {
        Self::NotFound { id: shown(id) }
    }

    pub(super) fn unresponsive(id: ExecutionId, what: &'static str, bound: Duration) -> Self {
        let bound_ms = u64::try_from(bound.as_millis()).unwrap_or(u64::MAX);
        Self::Unresponsive { id, what, bound_ms }
    }

    /// The outcome code, the same on every surface.
    pub fn code(&self) -> OutcomeCode {
        match self {
            Self::InvalidArgument { .. }
            | Self::UnknownExecutor { .. }
            | Self::UnknownMode { .. }
            | Self::Workspace(_) => OutcomeCode::InvalidInput,
            Self::NotFound { .. } => OutcomeCode::NotFound,
            Self::AlreadyRunning { .. }
            | Self::Full { .. }
            | Self::FamilyFull { .. }
            | Self::Busy { .. }
            | Self::ShuttingDown => OutcomeCode::Busy,
            Self::TooDeep { .. } | Self::LessIsolated { .. } => OutcomeCode::Denied,
            Self::Stopped { .. } | Self::Completed { .. } => OutcomeCode::Cancelled,
            Self::Failed { code, .. } => *code,
            Self::Launch { source, .. } | Self::Mode { source, .. } => source.code(),
            Self::Unresponsive { .. } | Self::Record(_) => OutcomeCode::Internal,
        }
    }

    /// What to do about it, when there is something to do.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Full { .. } => {
                Some("stop an execution, or raise runtime.executions_max in config.toml".to_owned())
            }
            Self::LessIsolated { name, .. } => Some(format!(
                "name none, or let the operator set runtime.default_backend = {name:?} in config.toml"
            )),
            Self::FamilyFull { .. } => Some("stop one of them".to_owned()),
            Self::Busy { .. } => Some("wait for the end of a turn".to_owned()),
            Self::Launch { source, .. } | Self::Mode { source, .. } => source.hint(),
            _ => None,
        }
    }
}
