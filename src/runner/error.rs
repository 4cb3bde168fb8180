//! Why a run has no answer.

use crate::executor::Failure;
use crate::id::{ExecutionId, RunId};
use crate::ledger::{Difference, RecordError, StoreError};
use crate::limits::{LimitError, LimitReached};
use crate::outcome::OutcomeCode;

use super::executor::ExecutorError;
use super::replay::{AmbiguousCall, Halt};
use super::suspend::Gate;
use crate::telemetry::chain;

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
    /// The run waits for people, and is not carried out meanwhile. It can be resumed.
    #[error("run {run_id} waits for {}", spelled(.gates))]
    Suspended {
        /// The run.
        run_id: RunId,
        /// What it waits for, in itself or in runs inside it.
        gates: Vec<Gate>,
    },
    /// The run was done again and did something else than what is on record. It can be resumed, should
    /// what is different become what it was.
    #[error("run {run_id} does not do what is on record: event {} is {}, and now comes {}", .difference.seq, .difference.recorded, .difference.now)]
    Diverged {
        /// The run.
        run_id: RunId,
        /// Both sides.
        difference: Box<Difference>,
    },
    /// The run was done again and came to a call that may or may not have had its effect. It can be resumed.
    #[error("run {run_id} cannot go on: {call}")]
    Ambiguous {
        /// The run.
        run_id: RunId,
        /// The call.
        call: AmbiguousCall,
    },
    /// The run was done again and cannot go on: its record cannot be read, or that of a run inside it. It
    /// can be resumed.
    #[error("run {run_id} cannot go on: {reason}")]
    Stuck {
        /// The run.
        run_id: RunId,
        /// Why not.
        reason: String,
    },
    /// The run was only to do what is on record, and there is no more of it.
    #[error("the record of run {run_id} ends before {next}")]
    RecordEnds {
        /// The run.
        run_id: RunId,
        /// What would come next.
        next: String,
    },
    /// A run was not taken up. Its ledger is as it was.
    #[error(transparent)]
    NotResumed(#[from] ResumeError),
    /// The run's end could not be recorded: whatever it answered is not to be relied on.
    #[error("ledger of run {run_id} is unavailable")]
    LedgerUnavailable {
        /// The run.
        run_id: RunId,
        /// What failed.
        source: RecordError,
    },
}

fn spelled(gates: &[Gate]) -> String {
    let gates = gates
        .iter()
        .map(|gate| format!("{} of run {}", gate.approval_id, gate.run_id));
    gates.collect::<Vec<_>>().join(", ")
}

/// Why a run was not taken up.
#[derive(Debug, thiserror::Error)]
pub enum ResumeError {
    /// The ledger cannot be taken up: there is none, it has an end, another process has it, or it is damaged.
    #[error("cannot resume run {run_id}")]
    Ledger {
        /// The run.
        run_id: RunId,
        /// Why not.
        source: StoreError,
    },
    /// The ledger does not say what it takes to do the run again.
    #[error("run {run_id} cannot be done again: its ledger has no {what}")]
    NotRecorded {
        /// The run.
        run_id: RunId,
        /// What is missing.
        what: &'static str,
    },
    /// The ledger was cut off while the beginning of another run was copied into it. What would come next was
    /// done by that run.
    #[error("run {run_id} cannot go on: its ledger does not hold all of the run that it repeats")]
    NotRepeated {
        /// The run.
        run_id: RunId,
    },
    /// The skill is another one than it was.
    #[error(
        "run {run_id} was begun with component {recorded} of skill {skill:?}, which now is {now}"
    )]
    ComponentChanged {
        /// The run.
        run_id: RunId,
        /// The skill.
        skill: String,
        /// SHA-256 of the component that was run.
        recorded: String,
        /// SHA-256 of the one there is now, or a word for why there is none.
        now: String,
    },
    /// What was granted to the run by its caller has to be granted by whoever resumes it.
    #[error("run {run_id} was granted {}, which it would not have now: expected the same grants again", .grants.join(", "))]
    GrantsMissing {
        /// The run.
        run_id: RunId,
        /// The capabilities.
        grants: Vec<String>,
    },
    /// The run is an execution of an agent, which nobody goes on with but who launches it again.
    #[error("run {run_id} is an execution of an agent: it is launched again, and not resumed")]
    IsExecution {
        /// The run.
        run_id: RunId,
    },
    /// The run is no execution of an agent, and is not launched.
    #[error("run {run_id} is no execution of an agent: it is resumed, and not launched again")]
    NoExecution {
        /// The run.
        run_id: RunId,
    },
    /// The execution is named after another part of the ledger than the one that comes next.
    #[error("run {run_id} goes on with part {part}, which is not that of execution {execution_id}")]
    OtherPart {
        /// The run.
        run_id: RunId,
        /// The execution.
        execution_id: ExecutionId,
        /// The part that comes next.
        part: u64,
    },
    /// There is no such step and no such call.
    #[error("run {run_id} has no step and no call {node:?}")]
    NoSuchNode {
        /// The run.
        run_id: RunId,
        /// What was named.
        node: String,
    },
}

impl ResumeError {
    /// The outcome code, the same on every surface.
    pub fn code(&self) -> OutcomeCode {
        match self {
            Self::ComponentChanged { .. } => OutcomeCode::Diverged,
            Self::GrantsMissing { .. } => OutcomeCode::Denied,
            Self::Ledger {
                source: StoreError::NotFound { .. },
                ..
            }
            | Self::NoSuchNode { .. } => OutcomeCode::NotFound,
            Self::Ledger {
                source: StoreError::Locked { .. },
                ..
            }
            | Self::OtherPart { .. } => OutcomeCode::Busy,
            Self::Ledger { .. }
            | Self::NotRecorded { .. }
            | Self::NotRepeated { .. }
            | Self::IsExecution { .. }
            | Self::NoExecution { .. } => OutcomeCode::Internal,
        }
    }

    /// What to do about it, when there is something to do.
    pub fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Ledger {
                source: StoreError::Ended { run_id },
                ..
            } => format!(
                "skillrun runs resume {run_id} --from-node NODE begins a new run from a step of it"
            ),
            Self::Ledger {
                source: StoreError::Locked { run_id, .. },
                ..
            } => format!("skillrun runs tail {run_id} shows what it does"),
            Self::ComponentChanged { skill, .. } => format!(
                "put the recorded component back, or name it with --skill; skillrun skills pin {skill} shows what is installed"
            ),
            Self::GrantsMissing { grants, .. } => {
                // As a shell takes them: patterns have stars in them, and paths may have anything.
                let flag = |grant: &String| format!("--grant '{}'", grant.replace('\'', r"'\''"));
                let flags: Vec<_> = grants.iter().map(flag).collect();
                format!("resume it with {}", flags.join(" "))
            }
            Self::IsExecution { run_id } => {
                format!("skillrun agent launch --prior-session {run_id} takes it up")
            }
            Self::NoExecution { run_id } => {
                format!("skillrun runs resume {run_id} goes on with it")
            }
            Self::NoSuchNode { run_id, .. } => {
                format!("skillrun runs inspect {run_id} shows its steps and calls")
            }
            _ => return None,
        })
    }
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
            Self::Interrupted { .. } | Self::Suspended { .. } | Self::RecordEnds { .. } => {
                OutcomeCode::Interrupted
            }
            Self::Diverged { .. } => OutcomeCode::Diverged,
            Self::Ambiguous { .. } => OutcomeCode::AmbiguousCall,
            Self::Stuck { .. } => OutcomeCode::Internal,
            Self::NotResumed(error) => error.code(),
        }
    }

    /// The run that is on record, if one is.
    pub fn run_id(&self) -> Option<&RunId> {
        match self {
            Self::Failed(FailedRun { run_id, .. })
            | Self::Cancelled { run_id }
            | Self::Interrupted { run_id }
            | Self::Suspended { run_id, .. }
            | Self::Diverged { run_id, .. }
            | Self::Ambiguous { run_id, .. }
            | Self::Stuck { run_id, .. }
            | Self::RecordEnds { run_id, .. }
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
            Self::Diverged { run_id, .. } => Some(format!(
                "files and the text of SKILL.md are on no record, and a skill that reads one that has changed goes another way; skillrun runs inspect {run_id} shows what was done"
            )),
            Self::Suspended { run_id, .. } => Some(format!(
                "skillrun runs approvals shows what runs wait for; when that is answered, skillrun runs resume {run_id} goes on"
            )),
            Self::Interrupted { run_id } => {
                Some(format!("skillrun runs resume {run_id} goes on with it"))
            }
            Self::Ambiguous { run_id, call } => Some(format!(
                "look whether {} did its work; skillrun runs resume {run_id} --retry-ambiguous calls it again",
                call.name
            )),
            Self::NotResumed(error) => error.hint(),
            _ => None,
        }
    }

    /// Whether a run that this one is inside of stops with it, to be resumed with it.
    pub(super) fn halt_above(&self) -> Option<Halt> {
        Some(match self {
            Self::Diverged { run_id, difference } => Halt::Diverged(Difference {
                seq: difference.seq,
                recorded: format!("{} (of run {run_id})", difference.recorded),
                now: difference.now.clone(),
            }),
            Self::Ambiguous { run_id, call } => Halt::Ambiguous(AmbiguousCall {
                call_id: format!("{} of run {run_id}", call.call_id),
                name: call.name.clone(),
            }),
            Self::Stuck { .. } => Halt::Failed(self.to_string()),
            Self::NotResumed(_) => Halt::Failed(chain(self)),
            Self::RecordEnds { next, .. } => Halt::RecordEnds(next.clone()),
            _ => return None,
        })
    }
}
