//! Runs, as they are asked for and as they are shown.

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;

use crate::clock::Timestamp;
use crate::id::RunId;
use crate::ledger::{self, Corruption, Damage, Json, RunCompleted, RunState, Summary};
use crate::outcome::OutcomeCode;
use crate::runner;

/// What is to be run.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = StartRun)]
pub(crate) struct StartRun {
    /// The name of a skill; for a component that follows no world with `.` and the operation behind it.
    #[schema(min_length = 1, max_length = 1024, example = "greet")]
    pub(crate) skill_name: String,
    /// What the skill is given, kept as it is spelled; `{}` when it is absent.
    #[serde(default, deserialize_with = "present")]
    #[schema(value_type = Option<Object>, nullable = false)]
    pub(crate) input: Option<Box<RawValue>>,
}

/// A `null` is a value here, and the wrong one.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Box<RawValue>>, D::Error> {
    Box::<RawValue>::deserialize(deserializer).map(Some)
}

/// A run that is on record and goes on.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct RunAccepted {
    /// The run.
    #[schema(value_type = String, example = "run_0190a0a0a0a07000800000000000abcd")]
    pub(crate) run_id: RunId,
    /// When its first event was recorded.
    #[schema(value_type = String, format = DateTime)]
    pub(crate) started_at: Timestamp,
}

/// The state of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum RunStatus {
    /// Going on or waiting for its turn, or cut off and not closed yet.
    Running,
    /// Ended with a result.
    Ok,
    /// Ended with an error.
    Error,
    /// Cancelled.
    Cancelled,
    /// Waiting for people, with its instance given up.
    Suspended,
    /// Stopped by a shutdown; can be resumed.
    Interrupted,
    /// Its ledger is damaged.
    Corrupt,
}

impl From<RunState> for RunStatus {
    fn from(state: RunState) -> Self {
        match state {
            RunState::Running => Self::Running,
            RunState::Corrupt => Self::Corrupt,
            RunState::Ended(status) => status.into(),
        }
    }
}

impl From<ledger::RunStatus> for RunStatus {
    fn from(status: ledger::RunStatus) -> Self {
        match status {
            ledger::RunStatus::Ok => Self::Ok,
            ledger::RunStatus::Error => Self::Error,
            ledger::RunStatus::Cancelled => Self::Cancelled,
            ledger::RunStatus::Suspended => Self::Suspended,
            ledger::RunStatus::Interrupted => Self::Interrupted,
        }
    }
}

impl From<RunStatus> for RunState {
    fn from(status: RunStatus) -> Self {
        match status {
            RunStatus::Running => Self::Running,
            RunStatus::Corrupt => Self::Corrupt,
            RunStatus::Ok => Self::Ended(ledger::RunStatus::Ok),
            RunStatus::Error => Self::Ended(ledger::RunStatus::Error),
            RunStatus::Cancelled => Self::Ended(ledger::RunStatus::Cancelled),
            RunStatus::Suspended => Self::Ended(ledger::RunStatus::Suspended),
            RunStatus::Interrupted => Self::Ended(ledger::RunStatus::Interrupted),
        }
    }
}

/// The newest line of a ledger: with it at hand, a ledger that lost its end is found out.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Head {
    /// The number of the line; 0 when there is none.
    seq: u64,
    /// SHA-256 of its bytes.
    #[schema(value_type = String)]
    sha256: ledger::Digest,
}

impl From<ledger::Head> for Head {
    fn from(head: ledger::Head) -> Self {
        Self {
            seq: head.seq,
            sha256: head.sha256,
        }
    }
}

/// How a run ended.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = RunOutcome)]
pub(crate) struct Outcome {
    /// The run.
    #[schema(value_type = String)]
    run_id: RunId,
    /// When its first event was recorded.
    #[schema(value_type = String, format = DateTime)]
    started_at: Timestamp,
    /// How it ended.
    status: RunStatus,
    /// Why it ended so.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    code: Option<OutcomeCode>,
    /// The result, as the skill spelled it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<serde_json::Value>, nullable = false)]
    output: Option<Json>,
    /// Whether the result was too large to be kept on record, and is left out.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    truncated: bool,
    /// What failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    error: Option<String>,
    /// What a person can do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    hint: Option<String>,
    /// Microseconds of work, time in the queue apart.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    duration_micros: Option<u64>,
    /// The newest line of its ledger.
    head: Head,
}

impl Outcome {
    /// The end of a run, as its ledger has it.
    pub(crate) fn recorded(
        run_id: RunId,
        started_at: Timestamp,
        head: ledger::Head,
        completed: RunCompleted,
    ) -> Self {
        Self {
            run_id,
            started_at,
            status: completed.status.into(),
            code: completed.code,
            output: completed.output,
            truncated: completed.truncated,
            error: completed.error.map(|error| error.as_str().to_owned()),
            hint: completed.hint,
            duration_micros: completed.duration_micros,
            head: head.into(),
        }
    }
}

impl From<runner::RunOutcome> for Outcome {
    fn from(outcome: runner::RunOutcome) -> Self {
        let is_error = outcome.result.is_error;
        Self {
            run_id: outcome.run_id,
            started_at: outcome.started_at,
            status: match is_error {
                true => RunStatus::Error,
                false => RunStatus::Ok,
            },
            code: Some(outcome.code),
            output: Some(outcome.result.output()),
            truncated: false,
            error: is_error.then(|| outcome.result.joined_text()),
            hint: outcome.hint,
            duration_micros: Some(outcome.duration_micros),
            head: outcome.head.into(),
        }
    }
}

/// A run at a glance.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Run)]
pub(crate) struct RunRow {
    /// The run.
    #[schema(value_type = String)]
    run_id: RunId,
    /// Its state.
    status: RunStatus,
    /// Why it ended so.
    code: Option<OutcomeCode>,
    /// What was asked for: a skill, maybe with an operation.
    skill: Option<String>,
    /// The language of its handler.
    flavor: Option<String>,
    /// The run that asked for it.
    #[schema(value_type = Option<String>)]
    parent_run_id: Option<RunId>,
    /// When its first event was recorded.
    #[schema(value_type = Option<String>, format = DateTime)]
    started_at: Option<Timestamp>,
    /// When it ended.
    #[schema(value_type = Option<String>, format = DateTime)]
    ended_at: Option<Timestamp>,
    /// What failed; the beginning only, if that text is long.
    error: Option<String>,
    /// What its calls of models cost, in US dollars; known once it has ended, and of runs that asked models.
    cost_usd: Option<f64>,
    /// The newest line of its ledger, whose number is that of the events.
    head: Head,
    /// Whether the lines of its ledger are chained.
    chained: bool,
    /// What is wrong with its ledger.
    corruption: Option<String>,
}

impl From<Summary> for RunRow {
    fn from(run: Summary) -> Self {
        Self {
            run_id: run.run_id,
            status: run.state.into(),
            code: run.code,
            skill: run.skill,
            flavor: run.flavor,
            parent_run_id: run.parent_run_id,
            started_at: run.started_at,
            ended_at: run.ended_at,
            error: run.error,
            cost_usd: run.cost_usd,
            head: run.head.into(),
            chained: run.is_chained,
            corruption: run.corruption.as_ref().map(corruption),
        }
    }
}

/// What is wrong, without what the operating system said, which names files of the machine.
pub(crate) fn corruption(corruption: &Corruption) -> String {
    match &corruption.damage {
        Damage::Unreadable { .. } if corruption.line == 0 => "the ledger cannot be read".to_owned(),
        _ => corruption.to_string(),
    }
}

/// Some runs, newest first.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct RunPage {
    /// The runs, damaged ones included.
    pub(crate) runs: Vec<RunRow>,
    /// What to hand over as `cursor` for the next page; absent when there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub(crate) next_cursor: Option<String>,
}

/// A run and some of its events.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct RunDetail {
    /// The run.
    pub(crate) run: RunRow,
    /// Its events, each as its line stands in the ledger. One that cannot be read is `{"damaged", "line"}`.
    #[schema(value_type = Vec<Object>)]
    pub(crate) events: Vec<Box<RawValue>>,
    /// What to hand over as `after` for the next page; absent when there is none yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub(crate) next_after: Option<u64>,
}

/// A line that cannot be read.
#[derive(Debug, Serialize)]
pub(crate) struct DamagedLine {
    /// What is wrong with it.
    damaged: String,
    /// Its number, from 1.
    line: u64,
}

impl From<&Corruption> for DamagedLine {
    fn from(corruption: &Corruption) -> Self {
        Self {
            damaged: corruption.to_string(),
            line: corruption.line,
        }
    }
}

/// A run that is about to end.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct RunCancelling {
    /// The run.
    #[schema(value_type = String)]
    pub(crate) run_id: RunId,
    /// Always `cancelling`: its end is on record soon after.
    pub(crate) status: &'static str,
}
