//! Errors of the parts below, as problems. What names a path of this machine, or says how the host is made, goes to
//! the log instead.

use axum::http::HeaderValue;
use axum::http::header::RETRY_AFTER;

use super::dto::run::corruption;
use super::extract::{no_such_execution, no_such_run};
use super::problem::{Problem, ProblemCode};
use crate::ledger::{DecideError, StoreError};
use crate::outcome::OutcomeCode;
use crate::runner::{ExecutorError, ReplayError, ResumeError, RunError, without_host_dir};
use crate::runtime::{BackendError, RuntimeError};

/// Seconds after which a caller who was refused for want of room may ask again.
pub(super) const RETRY_AFTER_VALUE: HeaderValue = HeaderValue::from_static("1");

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        (&error).into()
    }
}

impl From<&StoreError> for Problem {
    fn from(error: &StoreError) -> Self {
        match error {
            StoreError::NotFound { run_id } => no_such_run(run_id.as_str()),
            StoreError::Record { .. } | StoreError::Unavailable(_) => unwritten(error),
            StoreError::Exists { .. }
            | StoreError::Locked { .. }
            | StoreError::Ended { .. }
            | StoreError::ReadOnly { .. }
            | StoreError::NeverStarted { .. }
            | StoreError::Blob { .. }
            | StoreError::BlobContent { .. } => Self::new(ProblemCode::Conflict, error.to_string()),
            StoreError::Corrupt {
                run_id,
                corruption: found,
            } => {
                let detail = format!("the ledger of {run_id} is damaged: {}", corruption(found));
                Self::new(ProblemCode::Conflict, detail)
            }
            StoreError::ShutDown => Self::new(ProblemCode::ShuttingDown, error.to_string()),
            _ => Self::internal(error),
        }
    }
}

/// A ledger could not be written.
fn unwritten(error: &(dyn std::error::Error + 'static)) -> Problem {
    tracing::error!(
        error = crate::telemetry::chain(error),
        "ledgers cannot be written"
    );
    Problem::new(
        ProblemCode::Unavailable,
        "the folder of ledgers cannot be written",
    )
}

impl From<DecideError> for Problem {
    fn from(error: DecideError) -> Self {
        let detail = error.to_string();
        match error {
            DecideError::NoSuchApproval { .. } | DecideError::NonePending { .. } => {
                Self::new(ProblemCode::NotFound, detail)
            }
            DecideError::SeveralPending { ids, .. } => {
                Self::new(ProblemCode::SeveralPending, detail).with_approval_ids(ids)
            }
            DecideError::NoSuchOption { .. }
            | DecideError::NeedsAnswer { .. }
            | DecideError::ReasonTooLong { .. }
            | DecideError::AnswerTooLong { .. } => Self::new(ProblemCode::InvalidInput, detail),
            DecideError::Decided { first, .. } => {
                Self::new(ProblemCode::Conflict, detail).with_decision(first)
            }
            DecideError::Over { .. } => Self::new(ProblemCode::Conflict, detail),
            DecideError::Store(error) => error.into(),
        }
    }
}

impl From<&ResumeError> for Problem {
    fn from(error: &ResumeError) -> Self {
        let detail = match error {
            // Grants name folders of the machine.
            ResumeError::GrantsMissing { run_id, grants } => ResumeError::GrantsMissing {
                run_id: run_id.clone(),
                grants: grants.iter().map(|grant| shown_grant(grant)).collect(),
            }
            .to_string(),
            error => error.to_string(),
        };
        let code = match error {
            ResumeError::Ledger { source, .. } => return source.into(),
            ResumeError::NotRecorded { .. }
            | ResumeError::NotRepeated { .. }
            | ResumeError::IsExecution { .. }
            | ResumeError::NoExecution { .. }
            | ResumeError::OtherPart { .. } => ProblemCode::Conflict,
            ResumeError::ComponentChanged { .. } => ProblemCode::Diverged,
            ResumeError::GrantsMissing { .. } => ProblemCode::Denied,
            ResumeError::NoSuchNode { .. } => ProblemCode::NotFound,
        };
        Self::new(code, detail)
    }
}

/// Of a run that cannot be done again from its record.
impl From<ReplayError> for Problem {
    fn from(error: ReplayError) -> Self {
        let hint = error.hint();
        let code = match &error {
            ReplayError::Record { source, .. } => return source.into(),
            ReplayError::NoPlace(error) => return (&**error).into(),
            ReplayError::Executor(error) => return error.into(),
            ReplayError::NotAFolder { .. } => ProblemCode::InvalidInput,
            ReplayError::ComponentChanged { .. } => ProblemCode::Diverged,
            ReplayError::TooSlow { .. } => ProblemCode::Timeout,
            ReplayError::NotRecorded { .. }
            | ReplayError::Unusable { .. }
            | ReplayError::Stuck { .. } => ProblemCode::Conflict,
        };
        let problem = Self::new(code, error.to_string());
        match hint {
            Some(hint) => problem.with_hint(hint),
            None => problem,
        }
    }
}

/// A grant as it stands in a ledger, without the folder.
fn shown_grant(grant: &str) -> String {
    match grant.parse() {
        Ok(capability) => without_host_dir(&capability),
        // Of a ledger that another version, or a stranger, has written.
        Err(_) => grant.split(':').next().unwrap_or_default().to_owned(),
    }
}

/// Of a run that was not started. One that was has its outcome, which is no problem of the request.
impl From<RunError> for Problem {
    fn from(error: RunError) -> Self {
        (&error).into()
    }
}

impl From<&RunError> for Problem {
    fn from(error: &RunError) -> Self {
        let detail = error.to_string();
        match error {
            RunError::NoSkill | RunError::InvalidLimits(_) => {
                Self::new(ProblemCode::InvalidInput, detail)
            }
            RunError::TooDeep(_) => Self::new(ProblemCode::Denied, detail),
            RunError::Busy { .. } => {
                Self::new(ProblemCode::Busy, detail).with_header(RETRY_AFTER, RETRY_AFTER_VALUE)
            }
            RunError::ShuttingDown => Self::new(ProblemCode::ShuttingDown, detail),
            RunError::NoLedger {
                source: StoreError::Io { .. },
                ..
            } => unwritten(error),
            RunError::NoLedger { source, .. } => source.into(),
            RunError::NotResumed(error) => error.into(),
            RunError::LedgerUnavailable { .. } => unwritten(error),
            _ => Self::internal(error),
        }
    }
}

/// Of a skill that cannot be run, which is known before a run of it is begun.
impl From<ExecutorError> for Problem {
    fn from(error: ExecutorError) -> Self {
        (&error).into()
    }
}

impl From<&ExecutorError> for Problem {
    fn from(error: &ExecutorError) -> Self {
        let code = match error {
            ExecutorError::NotFound { .. } => ProblemCode::NotFound,
            ExecutorError::PromptOnly { .. }
            | ExecutorError::Disabled { .. }
            | ExecutorError::IsAgent { .. }
            | ExecutorError::NoAgent { .. } => ProblemCode::NotRunnable,
            // The reason names files of the machine.
            ExecutorError::Load { name, hint, .. } => {
                tracing::warn!(
                    error = crate::telemetry::chain(error),
                    "skill cannot be run"
                );
                let detail = format!("skill {name:?} was refused when it was read");
                let hint = hint.clone().unwrap_or_else(|| {
                    format!("skillrun skills validate {name} shows what is wrong with it")
                });
                return Self::new(ProblemCode::NotRunnable, detail).with_hint(hint);
            }
            _ => return Self::internal(error),
        };
        let (detail, hint) = (error.to_string(), error.hint());
        let problem = Self::new(code, detail);
        match hint {
            Some(hint) => problem.with_hint(hint),
            None => problem,
        }
    }
}

/// Of an execution that was not launched, or of which something else was asked than can be.
impl From<RuntimeError> for Problem {
    fn from(error: RuntimeError) -> Self {
        let (detail, hint) = (error.to_string(), error.hint());
        let ended = |id| Self::new(ProblemCode::Ended, detail.clone()).with_execution_id(id);
        let problem = match error {
            RuntimeError::InvalidArgument { .. }
            | RuntimeError::UnknownExecutor { .. }
            | RuntimeError::UnknownMode { .. } => Self::new(ProblemCode::InvalidInput, detail),
            RuntimeError::Workspace(error) => {
                let detail = crate::telemetry::chain(&*error);
                Self::new(ProblemCode::InvalidInput, detail)
            }
            RuntimeError::NotFound { id } => no_such_execution(&id),
            RuntimeError::AlreadyRunning { execution_id, .. } => {
                Self::new(ProblemCode::Conflict, detail).with_execution_id(execution_id)
            }
            RuntimeError::Full { .. }
            | RuntimeError::FamilyFull { .. }
            | RuntimeError::Busy { .. } => {
                Self::new(ProblemCode::Busy, detail).with_header(RETRY_AFTER, RETRY_AFTER_VALUE)
            }
            RuntimeError::TooDeep { .. } | RuntimeError::LessIsolated { .. } => {
                Self::new(ProblemCode::Denied, detail)
            }
            RuntimeError::Stopped { id, .. }
            | RuntimeError::Failed { id, .. }
            | RuntimeError::Completed { id } => ended(id),
            RuntimeError::ShuttingDown => Self::new(ProblemCode::ShuttingDown, detail),
            RuntimeError::Launch { source, .. } | RuntimeError::Mode { source, .. } => {
                (&*source).into()
            }
            RuntimeError::Record(error) => (&*error).into(),
            RuntimeError::Unresponsive { .. } => Self::internal(&error),
        };
        match hint {
            Some(hint) => problem.with_hint(hint),
            None => problem,
        }
    }
}

impl From<&BackendError> for Problem {
    fn from(error: &BackendError) -> Self {
        match error {
            BackendError::Agent(error) => error.into(),
            BackendError::Run(error) => (&**error).into(),
            BackendError::Record(_) => unwritten(error),
            BackendError::Refused { code, message, .. } => {
                let code = match code {
                    OutcomeCode::NotFound => ProblemCode::NotFound,
                    OutcomeCode::Denied => ProblemCode::Denied,
                    OutcomeCode::InvalidInput => ProblemCode::InvalidInput,
                    OutcomeCode::Diverged => ProblemCode::Diverged,
                    OutcomeCode::LoadError => ProblemCode::NotRunnable,
                    OutcomeCode::Busy => ProblemCode::Busy,
                    _ => return Self::internal(error),
                };
                Self::new(code, message)
            }
            BackendError::Store(error) => error.into(),
            BackendError::Over => Self::new(ProblemCode::Ended, error.to_string()),
            BackendError::Unavailable { .. } => Self::internal(error),
        }
    }
}
