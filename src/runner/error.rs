//! Why a run has no answer.

use crate::executor::Failure;
use crate::id::RunId;
use crate::ledger::{RecordError, StoreError};
use crate::limits::{LimitError, LimitReached};
use crate::outcome::OutcomeCode;

use super::executor::ExecutorError;

/// Why a run has no answer. Without a run id nothing was written.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// No skill was named.
    #[error("no skill named: expected the name of a skill")]
    NoSkill,
    /// The call's own limits are refused.
    #[error(transparent)]
    InvalidLimits(#[from] LimitError),
    /// Runs nest more deeply than they may.
    #[error(transparent)]
    TooDeep(LimitReached),
    /// As many runs as may be are going on, and as many as may be wait.
    #[error("busy: {at_once_max} runs are going on and {queue_max} wait")]
    Busy {
        /// How many may go on at once.
        at_once_max: usize,
        /// How many may wait.
        queue_max: usize,
    },
    /// The process is shutting down and takes no more runs.
    #[error("shutting down: no new runs are taken")]
    ShuttingDown,
    /// The ledger could not be opened, so nothing was run.
    #[error("cannot open the ledger of run {run_id}")]
    NoLedger {
        /// The id that the run would have had.
        run_id: RunId,
        /// Why not.
        source: StoreError,
    },
    /// The run ended without an answer, and is on record.
    #[error(transparent)]
    Failed(#[from] FailedRun),
    /// The run was cancelled, and is on record.
    #[error("run {run_id} was cancelled")]
    Cancelled {
        /// The run.
        run_id: RunId,
    },
    /// The process stopped the run, which can be resumed.
    #[error("run {run_id} was interrupted by a shutdown")]
    Interrupted {
        /// The run.
        run_id: RunId,
    },
    /// The run's end could not be recorded: whatever it answered is not to be relied on.
    #[error("ledger of run {run_id} is unavailable")]
    LedgerUnavailable {
        /// The run.
        run_id: RunId,
        /// What failed.
        source: RecordError,
    },
}

/// A run that ended without an answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{error}")]
pub struct FailedRun {
    /// The run.
    pub run_id: RunId,
    /// How it ended.
    pub error: ExecutorError,
}

impl RunError {
    /// The outcome code, the same on every surface.
    pub fn code(&self) -> OutcomeCode {
        match self {
            Self::NoSkill => OutcomeCode::NotFound,
            Self::InvalidLimits(_) | Self::NoLedger { .. } | Self::LedgerUnavailable { .. } => {
                OutcomeCode::Internal
            }
            Self::TooDeep(reached) => Failure::from(*reached).code,
            Self::Busy { .. } | Self::ShuttingDown => OutcomeCode::Busy,
            Self::Failed(failed) => failed.error.code(),
            Self::Cancelled { .. } => OutcomeCode::Cancelled,
            Self::Interrupted { .. } => OutcomeCode::Interrupted,
        }
    }

    /// The run that is on record, if one is.
    pub fn run_id(&self) -> Option<&RunId> {
        match self {
            Self::Failed(FailedRun { run_id, .. })
            | Self::Cancelled { run_id }
            | Self::Interrupted { run_id }
            | Self::LedgerUnavailable { run_id, .. } => Some(run_id),
            _ => None,
        }
    }

    /// What to do about it, when there is something to do.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::TooDeep(reached) => Some(reached.hint()),
            Self::Busy { .. } => Some(
                "try again later, or raise runs.at_once_max or runs.queue_max in config.toml"
                    .to_owned(),
            ),
            Self::Failed(failed) => failed.error.hint(),
            _ => None,
        }
    }
}
