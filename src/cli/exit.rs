//! From how a command ended to the process's exit code and the words that go with it.

use std::process::ExitCode;

use clap::error::ErrorKind;
use serde::Serialize;

use super::display::message;
use super::printer::{OutputClosed, Printer};
use crate::config::ConfigError;
use crate::ledger::{DecideError, StoreError};
use crate::outcome::OutcomeCode;
use crate::registry::{self, InstallError, RegistryError, StateError, UpkeepError};
use crate::runner::{EngineError, ExecutorError, ReplayError, ResumeError, RunError};
use crate::runtime::RuntimeError;
use crate::telemetry::chain;

/// The stable word for a command line, an input or a configuration that is wrong.
const USAGE: &str = "usage";

/// The stable word for a skill that is not the one that was accepted.
const CHANGED: &str = "changed";

/// The stable word for a tool of the skill's author that is missing or failed.
const BUILD: &str = "build";

/// The stable word for something that was settled by somebody else before.
const CONFLICT: &str = "conflict";

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
            OutcomeCode::InvalidInput => Self::Usage,
            OutcomeCode::SkillError
            | OutcomeCode::InvalidOutput
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
    /// How a skill differs from what was accepted.
    change: Option<Box<registry::Change>>,
}

impl Refused {
    /// The command line or the input is wrong.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self {
            exit: Exit::Usage,
            code: USAGE,
            message: message.into(),
            hint: None,
            change: None,
        }
    }

    /// What was to be installed or run is no skill by the rules.
    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self {
            exit: Exit::Failed,
            code: OutcomeCode::LoadError.as_str(),
            ..Self::usage(message)
        }
    }

    /// A skill cannot be built, because a tool for it is missing or failed.
    pub(crate) fn failed(message: impl Into<String>) -> Self {
        Self {
            exit: Exit::Failed,
            code: BUILD,
            ..Self::usage(message)
        }
    }

    /// A skill is not the one that was accepted.
    pub(crate) fn changed(message: impl Into<String>, change: registry::Change) -> Self {
        Self {
            exit: Exit::Failed,
            code: CHANGED,
            change: Some(Box::new(change)),
            ..Self::usage(message)
        }
    }

    /// Somebody else has it, or settled it before.
    pub(crate) fn conflict(message: impl Into<String>) -> Self {
        Self {
            exit: Exit::Failed,
            code: CONFLICT,
            ..Self::usage(message)
        }
    }

    /// The operator does not allow it.
    pub(crate) fn denied(message: impl Into<String>) -> Self {
        Self {
            exit: Exit::Denied,
            code: OutcomeCode::Denied.as_str(),
            ..Self::usage(message)
        }
    }

    /// There is no such thing.
    pub(crate) fn not_found(message: impl Into<String>) -> Self {
        Self {
            exit: Exit::NotFound,
            code: OutcomeCode::NotFound.as_str(),
            ..Self::usage(message)
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
    #[serde(skip_serializing_if = "Option::is_none")]
    change: Option<&'a registry::Change>,
}

/// Says what went wrong, once and whole, and gives the exit code for it.
pub(crate) fn report(error: &anyhow::Error, printer: Printer) -> Exit {
    if error.is::<OutputClosed>() {
        return Exit::Ok;
    }
    let (exit, report) = describe(error);
    say(&report, printer);
    exit
}

/// Answers a command line that asks for help or is wrong.
pub(crate) fn refuse(error: &clap::Error, printer: Printer) -> Exit {
    let exit = if error.use_stderr() {
        Exit::Usage
    } else {
        Exit::Ok
    };
    let is_bare = error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand;
    if exit == Exit::Ok || is_bare && !printer.json() {
        // A reader that went away is no failure.
        let _unread = error.print();
    } else {
        say(&usage_report(&error.render().to_string(), is_bare), printer);
    }
    exit
}

fn say(report: &Report<'_>, printer: Printer) {
    if printer.json() {
        // Were standard output closed as well, there would be nobody left to tell.
        let _unread = printer.value(report);
        return;
    }
    printer.note(&message("error: ", &report.error));
    if let Some(hint) = &report.hint {
        printer.note(&message("hint: ", hint));
    }
    if let Some(run_id) = &report.run_id {
        printer.note(&format!("see: skillrun runs inspect {run_id}"));
    }
}

/// What clap says in paragraphs: what is wrong, and a tip or the usage.
fn usage_report(rendered: &str, is_bare: bool) -> Report<'static> {
    let one_line = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut paragraphs = rendered.split("\n\n").map(one_line);
    let error = match paragraphs.next() {
        Some(error) if !is_bare => error.trim_start_matches("error: ").to_owned(),
        _ => "no command given".to_owned(),
    };
    let hint = paragraphs.find_map(|text| {
        let tip = text.strip_prefix("tip: ").map(str::to_owned);
        tip.or_else(|| Some(format!("usage: {}", text.strip_prefix("Usage: ")?)))
    });
    Report {
        code: USAGE,
        error,
        hint: hint.or_else(|| Some("--help shows what is expected".to_owned())),
        run_id: None,
        change: None,
    }
}

fn describe(error: &anyhow::Error) -> (Exit, Report<'_>) {
    let mut exit = Exit::Failed;
    let mut report = Report {
        code: OutcomeCode::Internal.as_str(),
        error: chain(error.as_ref()),
        hint: None,
        run_id: None,
        change: None,
    };
    if let Some(refused) = error.downcast_ref::<Refused>() {
        exit = refused.exit;
        report.code = refused.code;
        report.hint.clone_from(&refused.hint);
        report.change = refused.change.as_deref();
    } else if let Some(run) = error.downcast_ref::<RunError>() {
        (exit, report.code, report.hint) = run_class(run);
        report.run_id = run.run_id().map(ToString::to_string);
    } else if let Some(replay) = error.downcast_ref::<ReplayError>() {
        (exit, report.code, report.hint) = replay_class(replay);
    } else if let Some(executor) = error.downcast_ref::<ExecutorError>() {
        exit = Exit::from(executor.code());
        report.code = executor.code().as_str();
        report.hint = executor.hint();
    } else if let Some(load) = error.downcast_ref::<registry::LoadError>() {
        let path = load.path.display();
        report.code = OutcomeCode::LoadError.as_str();
        report.hint = Some(format!(
            "skillrun skills validate {path} shows all that is wrong"
        ));
    } else if let Some(state) = state_of(error) {
        report.hint = Some(state_hint(state));
    } else if let Some(store) = error.downcast_ref::<StoreError>() {
        (exit, report.code, report.hint) = store_class(store);
    } else if let Some(decide) = error.downcast_ref::<DecideError>() {
        (exit, report.code, report.hint) = decide_class(decide);
    } else if let Some(runtime) = error.downcast_ref::<RuntimeError>() {
        exit = Exit::from(runtime.code());
        report.code = runtime.code().as_str();
        report.hint = runtime.hint();
    } else if let Some(engine) = error.downcast_ref::<EngineError>() {
        report.hint = Some(engine.hint());
    } else if error.is::<ConfigError>() {
        (exit, report.code) = (Exit::Usage, USAGE);
    }
    (exit, report)
}

/// The state of the skills, when it is what failed.
fn state_of(error: &anyhow::Error) -> Option<&StateError> {
    if let Some(RegistryError::State(state)) = error.downcast_ref() {
        Some(state)
    } else if let Some(InstallError::State(state)) = error.downcast_ref() {
        Some(state)
    } else if let Some(UpkeepError::State(state)) = error.downcast_ref() {
        Some(state)
    } else {
        error.downcast_ref()
    }
}

fn state_hint(error: &StateError) -> String {
    match error {
        StateError::Damaged { .. } => {
            "restore the file, or remove it: then all skills are enabled, and each is accepted as it is when it is run next"
        }
        StateError::Full { .. } => "skillrun skills remove makes room",
        _ => "check that skills/ in the home folder can be read and written and has room",
    }
    .to_owned()
}

/// Exit code, stable word and hint.
type Class = (Exit, &'static str, Option<String>);

fn run_class(error: &RunError) -> Class {
    match error {
        RunError::InvalidLimits(_) => (Exit::Usage, USAGE, None),
        RunError::NoLedger { source, .. } => store_class(source),
        RunError::NotResumed(ResumeError::Ledger {
            source: StoreError::Ended { .. },
            ..
        }) => (Exit::Failed, CONFLICT, error.hint()),
        RunError::NotResumed(ResumeError::Ledger { source, .. })
            if !matches!(source, StoreError::Locked { .. }) =>
        {
            store_class(source)
        }
        RunError::LedgerUnavailable { .. } => unwritten(),
        _ => (
            Exit::from(error.code()),
            error.code().as_str(),
            error.hint(),
        ),
    }
}

fn replay_class(error: &ReplayError) -> Class {
    match error {
        ReplayError::NoPlace(run) => run_class(run),
        ReplayError::NotAFolder { .. } => (Exit::Usage, USAGE, None),
        _ => (
            Exit::from(error.code()),
            error.code().as_str(),
            error.hint(),
        ),
    }
}

fn decide_class(error: &DecideError) -> Class {
    let shows = "skillrun runs approvals shows what runs wait for";
    match error {
        DecideError::NoSuchApproval { .. } | DecideError::NonePending { .. } => (
            Exit::NotFound,
            OutcomeCode::NotFound.as_str(),
            Some(shows.to_owned()),
        ),
        DecideError::SeveralPending { .. } => {
            (Exit::Usage, USAGE, Some("--approval names one".to_owned()))
        }
        DecideError::Decided { .. } | DecideError::Over { .. } => (Exit::Failed, CONFLICT, None),
        DecideError::NoSuchOption { .. } => (
            Exit::Usage,
            USAGE,
            Some("--option names one, with --decision approve".to_owned()),
        ),
        DecideError::NeedsAnswer { .. } => (
            Exit::Usage,
            USAGE,
            Some("--decision reject declines it".to_owned()),
        ),
        DecideError::ReasonTooLong { .. } | DecideError::AnswerTooLong { .. } => {
            (Exit::Usage, USAGE, None)
        }
        DecideError::Store(store) => store_class(store),
    }
}

fn store_class(error: &StoreError) -> Class {
    match error {
        StoreError::NotFound { .. } => (
            Exit::NotFound,
            OutcomeCode::NotFound.as_str(),
            Some("skillrun runs list shows the runs there are".to_owned()),
        ),
        StoreError::Exists { .. } | StoreError::ReadOnly { .. } => (
            Exit::Usage,
            USAGE,
            Some("without --run-id the run gets an id of its own".to_owned()),
        ),
        StoreError::NotALedger { .. } | StoreError::NotARecord { .. } => (Exit::Usage, USAGE, None),
        StoreError::Record { .. } | StoreError::Unavailable(_) => unwritten(),
        _ => (Exit::Failed, OutcomeCode::Internal.as_str(), None),
    }
}

/// A ledger could not be written.
fn unwritten() -> Class {
    (
        Exit::Failed,
        OutcomeCode::Internal.as_str(),
        Some("check that runs/ in the home folder can be written and has room".to_owned()),
    )
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::{Report, usage_report};
    use crate::cli::args::Cli;

    fn refused(arguments: &[&str]) -> Report<'static> {
        let error = Cli::try_parse_from(arguments).unwrap_err();
        usage_report(&error.render().to_string(), arguments.len() == 1)
    }

    #[test]
    fn a_wrong_command_line_is_told_in_one_line() {
        let report = refused(&["skillrun", "rum", "x"]);
        assert_eq!(report.error, "unrecognized subcommand 'rum'");
        assert!(report.hint.unwrap().contains("'run'"));
        let report = refused(&["skillrun", "run"]);
        assert!(
            report.error.ends_with("not provided: <SKILL>"),
            "{report:?}"
        );
        assert_eq!(refused(&["skillrun"]).error, "no command given");
    }
}
