//! The end of a run: what is written last, and that it is written.

use std::sync::Arc;

use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::task_tracker::TaskTrackerToken;

use super::RunOutcome;
use super::error::{FailedRun, RunError};
use super::executor::ExecutorError;
use super::replay::Halt;
use super::statistics::Counters;
use super::tool_result::ToolCallResult;
use crate::capability::{Capability, Policy};
use crate::clock::Timestamp;
use crate::config::Durability;
use crate::id::RunId;
use crate::ledger::{
    Appended, ErrorReport, Event, Json, Origin, RecordError, Recorder, RunCompleted, RunStarted,
    RunStatus, Store, StoreError,
};
use crate::outcome::OutcomeCode;

/// Why an execution was stopped of which nobody said why.
const CANCELLED: &str = "cancelled";

/// How the work of a run ended.
pub(super) enum Ended {
    Answered(ToolCallResult),
    Failed(ExecutorError),
    Cancelled,
    Interrupted,
    /// It was done again and stopped where its record is no help. It can be resumed.
    Halted(Halt),
}

impl Ended {
    /// How the run ended, and why.
    fn status_and_code(&self) -> (RunStatus, OutcomeCode) {
        match self {
            Self::Answered(result) if result.is_error => {
                (RunStatus::Error, OutcomeCode::SkillError)
            }
            Self::Answered(_) => (RunStatus::Ok, OutcomeCode::Ok),
            Self::Failed(error) => (RunStatus::Error, error.code()),
            Self::Cancelled => (RunStatus::Cancelled, OutcomeCode::Cancelled),
            Self::Interrupted => (RunStatus::Interrupted, OutcomeCode::Interrupted),
            Self::Halted(Halt::Suspended(_)) => (RunStatus::Suspended, OutcomeCode::Interrupted),
            Self::Halted(halt) => (
                RunStatus::Interrupted,
                match halt {
                    Halt::Diverged(_) => OutcomeCode::Diverged,
                    Halt::Ambiguous(_) => OutcomeCode::AmbiguousCall,
                    Halt::RecordEnds(_) | Halt::Suspended(_) => OutcomeCode::Interrupted,
                    Halt::Failed(_) => OutcomeCode::Internal,
                },
            ),
        }
    }
}

/// What the last events of a run say.
pub(super) struct Terminal {
    ended: Ended,
    completed: RunCompleted,
}

impl Terminal {
    pub(super) fn of(
        run_id: &RunId,
        ended: Ended,
        policy: &Policy,
        queued_micros: u64,
        duration_micros: u64,
    ) -> Self {
        let (status, code) = ended.status_and_code();
        let (error, hint) = match &ended {
            Ended::Answered(result) if result.is_error => {
                (Some(result.joined_text()), missing(policy))
            }
            Ended::Failed(error) => (Some(error.to_string()), error.hint()),
            Ended::Halted(Halt::Suspended(_)) => (None, None),
            Ended::Halted(halt) => {
                let error = halted(run_id, halt.clone());
                (Some(error.to_string()), error.hint())
            }
            _ => (None, None),
        };
        let limit = match &ended {
            Ended::Failed(error) => error.limit(),
            _ => None,
        };
        let limit = limit.and_then(|limit| Json::from_serialize(&limit).ok());
        let output = match &ended {
            Ended::Answered(result) => Some(result.output()),
            _ => None,
        };
        let completed = RunCompleted {
            status,
            code: Some(code),
            output,
            truncated: false,
            error: error.map(Into::into),
            hint,
            limit,
            queued_micros: Some(queued_micros).filter(|&micros| micros > 0),
            duration_micros: Some(duration_micros),
            cost_usd: None,
            stop_reason: None,
            exit_code: None,
        };
        Self { ended, completed }
    }

    /// Says of the execution that the run is why it was stopped, or with which status its agent ended itself. One
    /// that was stopped can be taken up again.
    pub(super) fn of_execution(&mut self, stop_reason: Option<String>, exit_code: Option<i32>) {
        if self.completed.status == RunStatus::Cancelled {
            let reason = stop_reason.unwrap_or_else(|| CANCELLED.to_owned());
            self.completed.status = RunStatus::Interrupted;
            self.completed.stop_reason = Some(reason.into());
        }
        self.completed.exit_code = exit_code;
    }

    /// What the last event says.
    pub(super) fn completed(&self) -> &RunCompleted {
        &self.completed
    }

    /// What the caller is told, once the events are written.
    fn outcome(self, recorder: &Recorder, started_at: Timestamp) -> Result<RunOutcome, RunError> {
        let run_id = recorder.run_id().clone();
        match self.ended {
            Ended::Answered(result) => Ok(RunOutcome {
                run_id,
                started_at,
                code: self.completed.code.unwrap_or(OutcomeCode::Internal),
                result,
                hint: self.completed.hint,
                duration_micros: self.completed.duration_micros.unwrap_or_default(),
                head: recorder.head(),
            }),
            Ended::Failed(error) => Err(FailedRun { run_id, error }.into()),
            Ended::Cancelled => Err(RunError::Cancelled { run_id }),
            Ended::Interrupted => Err(RunError::Interrupted { run_id }),
            Ended::Halted(halt) => Err(halted(&run_id, halt)),
        }
    }
}

/// What the caller is told of a run that stopped in the middle of its record.
fn halted(run_id: &RunId, halt: Halt) -> RunError {
    let run_id = run_id.clone();
    match halt {
        Halt::Diverged(difference) => RunError::Diverged {
            run_id,
            difference: Box::new(difference),
        },
        Halt::Ambiguous(call) => RunError::Ambiguous { run_id, call },
        Halt::Suspended(gates) => RunError::Suspended { run_id, gates },
        Halt::RecordEnds(next) => RunError::RecordEnds { run_id, next },
        Halt::Failed(reason) => RunError::Stuck { run_id, reason },
    }
}

/// What a skill that failed by its own account may have lacked: the part of its request that was not
/// granted.
fn missing(policy: &Policy) -> Option<String> {
    let (mut absent, mut told) = (Vec::new(), Vec::new());
    for wish in policy.missing() {
        let is_part = |got: &&Capability| wish.intersection(got).is_some();
        let parts: Vec<String> = policy
            .effective
            .iter()
            .filter(is_part)
            .map(ToString::to_string)
            .collect();
        match parts.as_slice() {
            [] => absent.push(wish.to_string()),
            parts => told.push(format!("of {wish} only {} was granted", parts.join(", "))),
        }
    }
    if !absent.is_empty() {
        let absent = absent.join(", ");
        told.insert(0, format!("it asked for {absent} and was not granted that"));
    }
    (!told.is_empty()).then(|| told.join("; "))
}

/// Writes the `error` event, when there is an error, and the terminal event. A run has an end whatever
/// its answer is: one for which the ledger has no room is left out, and the end says so.
async fn write(recorder: &Recorder, completed: RunCompleted) -> Result<(), RecordError> {
    if let Some(message) = &completed.error {
        let report = ErrorReport {
            message: message.clone(),
            node_id: None,
            code: completed.code,
            hint: completed.hint.clone(),
        };
        if let Err(error) = recorder.record(Origin::Host, &report.into()) {
            tracing::warn!(run_id = %recorder.run_id(), %error, "cannot record an error");
        }
    }
    let bare = RunCompleted {
        output: None,
        truncated: true,
        hint: None,
        error: completed
            .error
            .as_ref()
            .map(|error| cut(error.as_str()).into()),
        ..completed.clone()
    };
    match recorder
        .record_durable(Origin::Host, &completed.into())
        .await
    {
        Err(
            RecordError::BlobLimit { .. }
            | RecordError::TooLong { .. }
            | RecordError::NotWritable { .. }
            | RecordError::Illegal(_),
        ) => recorder.record_durable(Origin::Host, &bare.into()).await,
        written => written,
    }
    .map(|_appended| ())
}

/// The beginning of an error text, short enough for any line.
fn cut(text: &str) -> &str {
    const BYTES_MAX: usize = 4 * 1024;
    text.get(..text.floor_char_boundary(BYTES_MAX))
        .unwrap_or(text)
}

/// The ledger of a run that is not over. Should it be dropped before the run has its terminal event,
/// because the caller's future was, the run is recorded as cancelled; or as interrupted, when that
/// happened because the process shuts down.
pub(super) struct Opened {
    recorder: Option<Recorder>,
    /// It is that of an agent.
    is_execution: bool,
    ends: Ends,
}

/// What the end of a run has to do with the runner.
pub(super) struct Ends {
    /// Fires when the process shuts down.
    pub(super) shutdown: CancellationToken,
    /// Where it is counted.
    pub(super) counters: Arc<Counters>,
    /// Makes a shutdown wait for the terminal event.
    pub(super) work: TaskTrackerToken,
}

impl Opened {
    /// Makes the ledger. The caller's future can be dropped at any time: what was made by then has an
    /// end.
    pub(super) async fn create(
        store: &Store,
        run_id: RunId,
        started: RunStarted,
        ends: Ends,
    ) -> Result<(Self, Recorder, Appended), StoreError> {
        let is_execution = started.session.is_some();
        let create = {
            let store = store.clone();
            async move {
                let (recorder, appended) = store.create(run_id, started).await?;
                let opened = Self {
                    recorder: Some(recorder.clone()),
                    is_execution,
                    ends,
                };
                Ok((opened, recorder, appended))
            }
        };
        match store.durability() {
            // It is made without a pause in which the future could be dropped.
            Durability::Relaxed => create.await,
            Durability::Sync => tokio::spawn(create)
                .await
                .unwrap_or(Err(StoreError::ShutDown)),
        }
    }

    /// Goes on with a ledger that was taken up and has its `run_resumed`.
    pub(super) fn again(recorder: Recorder, is_execution: bool, ends: Ends) -> Self {
        Self {
            recorder: Some(recorder),
            is_execution,
            ends,
        }
    }

    /// Writes the last events and gives what the caller is told.
    pub(super) async fn close(
        mut self,
        recorder: &Recorder,
        terminal: Terminal,
        started_at: Timestamp,
    ) -> Result<RunOutcome, RunError> {
        let written = write(recorder, terminal.completed.clone()).await;
        self.recorder = None;
        self.ends.counters.ended(&terminal.completed);
        match written {
            Ok(()) => terminal.outcome(recorder, started_at),
            Err(source) => Err(RunError::LedgerUnavailable {
                run_id: recorder.run_id().clone(),
                source,
            }),
        }
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        let Some(recorder) = self.recorder.take() else {
            return;
        };
        let ended = if self.ends.shutdown.is_cancelled() {
            Ended::Interrupted
        } else {
            Ended::Cancelled
        };
        let mut terminal = Terminal::of(recorder.run_id(), ended, &Policy::default(), 0, 0);
        if self.is_execution {
            terminal.of_execution(None, None);
        }
        self.ends.counters.ended(&terminal.completed);
        let closing = Closing {
            recorder,
            event: terminal.completed.into(),
            _work: self.ends.work.clone(),
        };
        // Making it durable takes too long for a thread that others wait for. A runtime that is going
        // away drops the closure without calling it, which writes the event as well.
        match Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn_blocking(move || drop(closing))),
            Err(_no_runtime) => drop(closing),
        }
    }
}

/// A terminal event that is written when this is dropped, wherever that happens.
struct Closing {
    recorder: Recorder,
    event: Event,
    _work: TaskTrackerToken,
}

impl Drop for Closing {
    fn drop(&mut self) {
        match self.recorder.record(Origin::Host, &self.event) {
            // The terminal event was on its way when the future was dropped.
            Ok(_) | Err(RecordError::Ended { .. }) => {}
            Err(error) => {
                tracing::error!(run_id = %self.recorder.run_id(), %error, "cannot record an end");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::missing;
    use crate::capability::{Capability, Grant, GrantSource, Policy};

    fn hint(granted: &[&str]) -> Option<String> {
        let parse = |text: &&str| text.parse::<Capability>().unwrap();
        let grant = |text| Grant {
            capability: parse(text),
            source: GrantSource::Config,
        };
        let requested = ["approval", "llm:*/*"].iter().map(parse).collect();
        missing(&Policy::new(requested, granted.iter().map(grant).collect()))
    }

    #[test]
    fn a_part_that_was_granted_is_told_from_what_was_not_granted_at_all() {
        let whole = "it asked for approval, llm:*/* and was not granted that";
        assert_eq!(hint(&[]).as_deref(), Some(whole));
        let both =
            "it asked for approval and was not granted that; of llm:*/* only llm:a/* was granted";
        assert_eq!(hint(&["llm:a/*"]).as_deref(), Some(both));
        assert_eq!(hint(&["approval", "llm:*/*"]), None);
    }
}
