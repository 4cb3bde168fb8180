//! What comes of doing a run again from its record alone.

use crate::capability::Capability;
use crate::id::RunId;
use crate::ledger::{Difference, Json, StoreError};
use crate::outcome::OutcomeCode;
use crate::runner::error::RunError;
use crate::runner::executor::ExecutorError;

/// How a run is done again from its record alone.
#[derive(Debug, Clone, Default)]
pub struct ReplayOptions {
    /// The name under which the executor has the skill, when that is not the recorded one.
    pub skill: Option<String>,
    /// Folders of the host, `fs:` capabilities, that the guest is given again: as far as it had them by the
    /// record, wherever they are now, and read-only whatever they say.
    pub folders: Vec<Capability>,
    /// Take another component than the recorded one, to see whether it does the same.
    pub any_component: bool,
}

/// Whether a run did again what is on record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReplayVerdict {
    /// It did all of it, and came to the same end with the same result.
    Same,
    /// It did what is on record, which does not tell how the run would have ended: it was cut off, cancelled,
    /// or out of time.
    SameSoFar {
        /// What would come next.
        next: String,
    },
    /// It did something else.
    Diverged(Difference),
}

impl ReplayVerdict {
    /// The verdict in a word, the same on every surface.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Same => "same",
            Self::SameSoFar { .. } => "same_so_far",
            Self::Diverged(_) => "diverged",
        }
    }
}

/// What came of doing a run again.
#[derive(Debug, Clone, PartialEq)]
pub struct ReplayReport {
    /// The run.
    pub run_id: RunId,
    /// The skill, as it was called.
    pub skill: String,
    /// Whether it was the same.
    pub verdict: ReplayVerdict,
    /// Events on record.
    pub events: u64,
    /// How the run ended now; none when it was stopped where the record ends, or differs.
    pub code: Option<OutcomeCode>,
    /// Its result now, likewise.
    pub output: Option<Json>,
    /// Runs inside it. Each has a record of its own, and this one only says what they answered.
    pub runs_inside: usize,
    /// Folders that the run had by the record and that were not given again.
    pub folders_missing: Vec<Capability>,
}

/// Why a run cannot be done again from its record.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// The record cannot be read.
    #[error("cannot read the record of run {run_id}")]
    Record {
        /// The run.
        run_id: RunId,
        /// Why not.
        source: StoreError,
    },
    /// The record does not say what it takes.
    #[error("run {run_id} cannot be done again: its record has no {what}")]
    NotRecorded {
        /// The run.
        run_id: RunId,
        /// What is missing.
        what: &'static str,
    },
    /// The record says something that cannot be.
    #[error("run {run_id} cannot be done again: its record has unusable {what}: {problem}")]
    Unusable {
        /// The run.
        run_id: RunId,
        /// What it is.
        what: &'static str,
        /// What is wrong with it.
        problem: String,
    },
    /// The skill is another one than it was.
    #[error(
        "run {run_id} was made with component {recorded} of skill {skill:?}, which now is {now}"
    )]
    ComponentChanged {
        /// The run.
        run_id: RunId,
        /// The skill.
        skill: String,
        /// SHA-256 of the component that was run, or a word for its absence.
        recorded: String,
        /// SHA-256 of the one there is now, or a word for its absence.
        now: String,
    },
    /// Only folders can be given to a run that is done again.
    #[error("{capability} cannot be given to a replay: expected a folder, as fs:ro:PATH=PATH")]
    NotAFolder {
        /// What was to be given.
        capability: Capability,
    },
    /// There is no place for it, or the process is shutting down.
    #[error(transparent)]
    NoPlace(Box<RunError>),
    /// The skill cannot be run, or the host failed.
    #[error(transparent)]
    Executor(#[from] ExecutorError),
    /// It took longer than the run had, so that nobody can say how it would have ended.
    #[error("run {run_id} took too long to be done again: {reached}")]
    TooSlow {
        /// The run.
        run_id: RunId,
        /// The limit.
        reached: ExecutorError,
    },
    /// The record cannot be followed.
    #[error("run {run_id} cannot be done again: {reason}")]
    Stuck {
        /// The run.
        run_id: RunId,
        /// Why not.
        reason: String,
    },
}

impl From<RunError> for ReplayError {
    fn from(error: RunError) -> Self {
        Self::NoPlace(Box::new(error))
    }
}

impl ReplayError {
    /// The outcome code, the same on every surface.
    pub fn code(&self) -> OutcomeCode {
        match self {
            Self::ComponentChanged { .. } => OutcomeCode::Diverged,
            Self::NotAFolder { .. } => OutcomeCode::Denied,
            Self::NoPlace(error) => error.code(),
            Self::Executor(error) | Self::TooSlow { reached: error, .. } => error.code(),
            Self::Record { .. }
            | Self::NotRecorded { .. }
            | Self::Unusable { .. }
            | Self::Stuck { .. } => OutcomeCode::Internal,
        }
    }

    /// What to do about it, when there is something to do.
    pub fn hint(&self) -> Option<String> {
        Some(match self {
            Self::ComponentChanged { .. } => {
                "name the recorded component with --skill; skillrun test --from-run tries another one against the record".to_owned()
            }
            Self::NotRecorded { .. } => "only runs of this version of skillrun can be done again".to_owned(),
            Self::NoPlace(error) => return error.hint(),
            Self::Executor(error) => return error.hint(),
            Self::TooSlow { .. } => "a machine that is less busy gets further in the same time".to_owned(),
            _ => return None,
        })
    }
}
