//! From how a command ended to the process's exit code and the words that go with it.

use std::process::ExitCode;

use serde::Serialize;

use super::printer::{OutputClosed, Printer};
use crate::ledger::StoreError;
use crate::outcome::OutcomeCode;
use crate::registry;
use crate::runner::RunError;
use crate::telemetry::chain;

/// The exit codes, one meaning each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// The command did what it was asked.
    Ok = 0,
    /// The skill failed, or the host did.
    Failed = 1,
    /// The command line or the input is wrong.
    Usage = 2,
    /// The policy denied something, or a person rejected it.
    Denied = 3,
    /// A limit was reached.
    Limit = 4,
    /// There is no such skill or run.
    NotFound = 5,
    /// The run was cancelled or interrupted.
    Interrupted = 130,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

impl From<OutcomeCode> for Exit {
    fn from(code: OutcomeCode) -> Self {
        match code {
            OutcomeCode::Ok => Self::Ok,
            OutcomeCode::SkillError
            | OutcomeCode::Trap
            | OutcomeCode::Panic
            | OutcomeCode::Diverged
            | OutcomeCode::AmbiguousCall
            | OutcomeCode::LoadError
            | OutcomeCode::Busy
            | OutcomeCode::Internal => Self::Failed,
            OutcomeCode::FuelLimit
            | OutcomeCode::TimeLimit
            | OutcomeCode::MemoryLimit
            | OutcomeCode::OutputLimit
            | OutcomeCode::HostCallLimit => Self::Limit,
            OutcomeCode::Denied => Self::Denied,
            OutcomeCode::NotFound => Self::NotFound,
            OutcomeCode::Cancelled | OutcomeCode::Interrupted => Self::Interrupted,
        }
    }
}

/// A request that the command line itself refuses.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub(crate) struct Refused {
    exit: Exit,
    /// A stable word for programs.
    code: &'static str,
    message: String,
    hint: Option<String>,
}

impl Refused {
    /// The command line or the input is wrong.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self {
            exit: Exit::Usage,
            code: "usage",
            message: message.into(),
            hint: None,
        }
    }

    /// There is no such thing.
    pub(crate) fn not_found(message: impl Into<String>) -> Self {
        Self {
            exit: Exit::NotFound,
            code: OutcomeCode::NotFound.as_str(),
            message: message.into(),
            hint: None,
        }
    }

    /// Adds what to do about it.
    #[must_use]
    pub(crate) fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

/// What is said about a command that failed.
#[derive(Debug, Serialize)]
struct Report<'a> {
    code: &'a str,
    error: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    run_id: Option<String>,
}

/// Says what went wrong, once and whole, and gives the exit code for it.
pub(crate) fn report(error: &anyhow::Error, printer: Printer) -> Exit {
    if error.is::<OutputClosed>() {
        return Exit::Ok;
    }
    let (exit, report) = describe(error);
    if printer.json() {
        // Were standard output closed as well, there would be nobody left to tell.
        let _unread = printer.value(&report);
        return exit;
    }
    printer.note(&format!("error: {}", report.error));
    if let Some(hint) = &report.hint {
        printer.note(&format!("hint: {hint}"));
    }
    if let Some(run_id) = &report.run_id {
        printer.note(&format!("see: skillrun runs inspect {run_id}"));
    }
    exit
}

fn describe(error: &anyhow::Error) -> (Exit, Report<'_>) {
    let mut report = Report {
        code: OutcomeCode::Internal.as_str(),
        error: chain(error.as_ref()),
        hint: None,
        run_id: None,
    };
    let mut exit = Exit::Failed;
    if let Some(refused) = error.downcast_ref::<Refused>() {
        exit = refused.exit;
        report.code = refused.code;
        report.hint.clone_from(&refused.hint);
    } else if let Some(run) = error.downcast_ref::<RunError>() {
        exit = Exit::from(run.code());
        report.code = run.code().as_str();
        report.hint = run.hint();
        report.run_id = run.run_id().map(ToString::to_string);
    } else if error.is::<registry::LoadError>() {
        report.code = OutcomeCode::LoadError.as_str();
    } else if let Some(StoreError::NotFound { .. }) = error.downcast_ref::<StoreError>() {
        exit = Exit::NotFound;
        report.code = OutcomeCode::NotFound.as_str();
        report.hint = Some("skillrun runs list shows the runs there are".to_owned());
    } else if error.is::<crate::config::ConfigError>() {
        exit = Exit::Usage;
        report.code = "usage";
    }
    (exit, report)
}
