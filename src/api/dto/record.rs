//! What a ledger says of its run as a whole: why it ended, whether it is in order, and whether it can be done again.

use serde::Serialize;
use utoipa::ToSchema;

use super::run::{Head, RunStatus, corruption};
use crate::id::RunId;
use crate::ledger::{self, Cause, Json, VerifyReport};
use crate::outcome::OutcomeCode;
use crate::runner::{ReplayReport, ReplayVerdict, without_host_dir};

/// Why a run ended as it did.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = RunExplanation)]
pub(crate) struct Explanation {
    /// The run.
    #[schema(value_type = String)]
    run_id: RunId,
    /// What was asked for: a skill, maybe with an operation.
    skill: Option<String>,
    /// Its state.
    #[schema(value_type = RunStatus)]
    status: &'static str,
    /// Why it ended so, in one word.
    code: Option<OutcomeCode>,
    /// What it said about itself.
    message: Option<String>,
    /// What decided.
    cause: CauseKind,
    /// The same in words.
    #[schema(example = "limit wall_time_ms = 5000, set by config")]
    decided: String,
    /// The event that shows it.
    seq: Option<u64>,
    /// Calls that were refused in the whole run, whether they decided or not.
    denials: u64,
    /// The settings to change, each with the value that it needs; none when no setting would help.
    settings: Vec<Setting>,
    /// What to do about it.
    hint: Option<String>,
}

/// What decided about the end of a run.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = RunCause)]
enum CauseKind {
    /// It has no end yet.
    Unfinished,
    /// It has a result.
    Done,
    /// A limit was reached.
    Limit,
    /// The policy refused a call.
    Capability,
    /// A person or a rule said no.
    Approval,
    /// The input does not fit the schema of the skill.
    Input,
    /// The skill says itself that it failed, or broke its own promise.
    Skill,
    /// A bound was reached that no limit of the run is.
    Bound,
    /// The guest broke down.
    Guest,
    /// The skill was not found, or could not be loaded.
    Load,
    /// Somebody cancelled it, or stopped the execution that it is.
    Cancelled,
    /// Its process ended before it did.
    Stopped,
    /// It waits for people.
    Waiting,
    /// Its record does not say how it goes on.
    Record,
    /// The host failed, or had no room.
    Host,
}

impl From<&Cause> for CauseKind {
    fn from(cause: &Cause) -> Self {
        match cause {
            Cause::Unfinished => Self::Unfinished,
            Cause::Done => Self::Done,
            Cause::Limit { .. } => Self::Limit,
            Cause::Capability { .. } => Self::Capability,
            Cause::Approval { .. } => Self::Approval,
            Cause::Input => Self::Input,
            Cause::Skill => Self::Skill,
            Cause::Bound => Self::Bound,
            Cause::Guest => Self::Guest,
            Cause::Load => Self::Load,
            Cause::Cancelled => Self::Cancelled,
            Cause::Stopped => Self::Stopped,
            Cause::Waiting => Self::Waiting,
            Cause::Record => Self::Record,
            Cause::Host => Self::Host,
        }
    }
}

/// A setting and the value that it needs.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = RunSetting)]
struct Setting {
    /// The file, or the command whose flag it is.
    #[schema(example = "config.toml")]
    place: &'static str,
    /// The key in it.
    key: String,
    /// What to set it to; in a list of capabilities, what to add.
    value: String,
    /// The same in words.
    #[schema(example = "add \"approval\" to capabilities.grant")]
    change: String,
}

impl From<ledger::Setting> for Setting {
    fn from(setting: ledger::Setting) -> Self {
        Self {
            change: setting.to_string(),
            place: setting.place,
            key: setting.key,
            value: setting.value,
        }
    }
}

impl From<ledger::Explanation> for Explanation {
    fn from(explanation: ledger::Explanation) -> Self {
        Self {
            cause: (&explanation.cause).into(),
            decided: explanation.cause.to_string(),
            run_id: explanation.run_id,
            skill: explanation.skill,
            status: explanation.status,
            code: explanation.code,
            message: explanation.message,
            seq: explanation.seq,
            denials: explanation.denials,
            settings: explanation.settings.into_iter().map(Into::into).collect(),
            hint: explanation.hint,
        }
    }
}

/// What a ledger was found to be.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = RunVerification)]
pub(crate) struct Verification {
    /// The run.
    #[schema(value_type = String)]
    run_id: RunId,
    /// In one word: `ok`, `running`, `unchained`, `blobs_missing`, `torn` or `corrupt`.
    #[schema(example = "ok")]
    verdict: &'static str,
    /// What is wrong.
    problem: Option<String>,
    /// The first bad line; nothing after it was looked at.
    line: Option<u64>,
    /// The newest good line.
    head: Head,
    /// Whether the lines are chained.
    chained: bool,
    /// Values that are stored beside the ledger and are what the lines say.
    blobs: u64,
}

impl From<VerifyReport> for Verification {
    fn from(report: VerifyReport) -> Self {
        let found = report.corruption.as_ref();
        Self {
            verdict: report.verdict().as_str(),
            problem: found.map(corruption).or_else(|| report.problem()),
            line: found.map(|corruption| corruption.line),
            head: report.head.into(),
            chained: report.is_chained,
            blobs: report.blobs.saturating_sub(report.blobs_missing),
            run_id: report.run_id,
        }
    }
}

/// What came of doing a run again from its ledger.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = RunReplay)]
pub(crate) struct Replay {
    /// The run.
    #[schema(value_type = String)]
    run_id: RunId,
    /// What was run.
    skill: String,
    /// `same`; `same_so_far` where the record ends before the run does; or `diverged`.
    #[schema(example = "same")]
    verdict: &'static str,
    /// Events on record.
    events: u64,
    /// The event that is another one now.
    event: Option<u64>,
    /// What is on record there.
    recorded: Option<String>,
    /// What would be there now.
    now: Option<String>,
    /// What would come after the record.
    next: Option<String>,
    /// How the run ended now.
    code: Option<OutcomeCode>,
    /// Its result now, as the skill spelled it.
    #[schema(value_type = Option<serde_json::Value>)]
    output: Option<Json>,
    /// Runs inside it. Each has a ledger of its own.
    runs_inside: usize,
    /// Folders that the run had and that a replay has not.
    folders_missing: Vec<String>,
}

impl From<ReplayReport> for Replay {
    fn from(report: ReplayReport) -> Self {
        let verdict = report.verdict.as_str();
        let (difference, next) = match report.verdict {
            ReplayVerdict::Same => (None, None),
            ReplayVerdict::SameSoFar { next } => (None, Some(next)),
            ReplayVerdict::Diverged(difference) => (Some(difference), None),
        };
        let (event, recorded, now) = match difference {
            Some(it) => (Some(it.seq), Some(it.recorded), Some(it.now)),
            None => (None, None, None),
        };
        let folders = report.folders_missing.iter();
        Self {
            run_id: report.run_id,
            skill: report.skill,
            verdict,
            events: report.events,
            event,
            recorded,
            now,
            next,
            code: report.code,
            output: report.output,
            runs_inside: report.runs_inside,
            folders_missing: folders.map(without_host_dir).collect(),
        }
    }
}
