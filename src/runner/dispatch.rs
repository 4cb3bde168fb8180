//! From the first event of a run to its last.

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures_util::FutureExt;
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;

use super::RunOutcome;
use super::admission::Ticket;
use super::context::RunContext;
use super::error::{FailedRun, RunError};
use super::executor::{Executor, ExecutorError};
use super::json_object::JsonObject;
use super::tool_result::ToolCallResult;
use crate::clock::{Clock, Timestamp};
use crate::config::Durability;
use crate::executor::Failure;
use crate::id::RunId;
use crate::ledger::{
    Appended, ErrorReport, Event, Origin, RecordError, Recorder, RunCompleted, RunStarted,
    RunStatus, Store, StoreError,
};
use crate::outcome::OutcomeCode;

/// A run whose first event is durable and whose work has not begun.
pub(super) struct Dispatch {
    pub(super) cx: RunContext,
    pub(super) opened: Opened,
    pub(super) started_at: Timestamp,
    pub(super) ticket: Ticket,
    pub(super) skill: String,
    pub(super) input: JsonObject,
    /// Bounds the call as a whole, time in the queue apart.
    pub(super) deadline: Duration,
    pub(super) clock: Clock,
    /// Fires when the process shuts down.
    pub(super) shutdown: CancellationToken,
}

/// How the work of a run ended.
enum Ended {
    Answered(ToolCallResult),
    Failed(ExecutorError),
    Cancelled,
    Interrupted,
}

impl Dispatch {
    /// Does the work and records how it ended, before it returns. Should the future be dropped, the run
    /// is recorded as cancelled.
    pub(super) async fn carry_out(self, executor: &dyn Executor) -> Result<RunOutcome, RunError> {
        let Self {
            cx,
            mut opened,
            started_at,
            ticket,
            skill,
            input,
            deadline,
            clock,
            shutdown,
        } = self;
        // Runs inside this one end with it, also when it ends because its future was dropped.
        let runs_inside = cx.cancellation().clone().drop_guard();
        let waiting = clock.stopwatch();
        let mut queued_micros = 0;
        let work = async {
            let _place = ticket.redeem().await;
            queued_micros = waiting.elapsed_micros();
            call(&cx, executor, &skill, input, deadline).await
        };
        let ended = tokio::select! {
            biased;
            () = cx.cancellation().cancelled() => Ended::Cancelled,
            () = shutdown.cancelled() => Ended::Interrupted,
            ended = work => ended,
        };
        drop(runs_inside);
        let duration_micros = waiting.elapsed_micros().saturating_sub(queued_micros);
        let terminal = Terminal::of(ended, queued_micros, duration_micros);
        let outcome = terminal.record(cx.recorder(), started_at).await;
        opened.0 = None;
        outcome
    }
}

/// Calls the skill with the run in scope; a panic becomes a failure like any other.
async fn call(
    cx: &RunContext,
    executor: &dyn Executor,
    skill: &str,
    input: JsonObject,
    deadline: Duration,
) -> Ended {
    let answer = AssertUnwindSafe(executor.call_tool(cx, skill, input)).catch_unwind();
    let answer = match tokio::time::timeout(deadline, cx.scope(answer)).await {
        Ok(Ok(answer)) => answer,
        Ok(Err(panic)) => {
            let message = format!("the executor panicked: {}", panic_text(&*panic));
            Err(Failure::new(OutcomeCode::Internal, message).into())
        }
        Err(_elapsed) => {
            let message = format!(
                "deadline of {} ms reached (set by call)",
                deadline.as_millis()
            );
            Err(Failure::new(OutcomeCode::TimeLimit, message).into())
        }
    };
    match answer {
        Ok(result) => Ended::Answered(result),
        Err(error) => Ended::Failed(error),
    }
}

fn panic_text(panic: &(dyn Any + Send)) -> &str {
    if let Some(text) = panic.downcast_ref::<&str>() {
        text
    } else if let Some(text) = panic.downcast_ref::<String>() {
        text
    } else {
        "without a message"
    }
}

/// What the last events of a run say.
struct Terminal {
    ended: Ended,
    completed: RunCompleted,
}

impl Terminal {
    fn of(ended: Ended, queued_micros: u64, duration_micros: u64) -> Self {
        let (status, code) = match &ended {
            Ended::Answered(result) if result.is_error => {
                (RunStatus::Error, OutcomeCode::SkillError)
            }
            Ended::Answered(_) => (RunStatus::Ok, OutcomeCode::Ok),
            Ended::Failed(error) => (RunStatus::Error, error.code()),
            Ended::Cancelled => (RunStatus::Cancelled, OutcomeCode::Cancelled),
            Ended::Interrupted => (RunStatus::Interrupted, OutcomeCode::Interrupted),
        };
        let (error, hint) = match &ended {
            Ended::Answered(result) if result.is_error => (Some(result.joined_text()), None),
            Ended::Failed(error) => (Some(error.to_string()), error.hint()),
            _ => (None, None),
        };
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
            queued_micros: Some(queued_micros).filter(|&micros| micros > 0),
            duration_micros: Some(duration_micros),
        };
        Self { ended, completed }
    }

    async fn record(
        self,
        recorder: &Recorder,
        started_at: Timestamp,
    ) -> Result<RunOutcome, RunError> {
        let run_id = recorder.run_id().clone();
        let Self { ended, completed } = self;
        let code = completed.code.unwrap_or(OutcomeCode::Internal);
        let duration_micros = completed.duration_micros.unwrap_or_default();
        write(recorder, completed)
            .await
            .map_err(|source| RunError::LedgerUnavailable {
                run_id: run_id.clone(),
                source,
            })?;
        match ended {
            Ended::Answered(result) => Ok(RunOutcome {
                run_id,
                started_at,
                code,
                result,
                duration_micros,
                head: recorder.head(),
            }),
            Ended::Failed(error) => Err(FailedRun { run_id, error }.into()),
            Ended::Cancelled => Err(RunError::Cancelled { run_id }),
            Ended::Interrupted => Err(RunError::Interrupted { run_id }),
        }
    }
}

/// Writes the `error` event, when there is an error, and the terminal event.
async fn write(recorder: &Recorder, completed: RunCompleted) -> Result<(), RecordError> {
    if let Some(message) = &completed.error {
        let report = ErrorReport {
            message: message.clone(),
            node_id: None,
            code: completed.code,
            hint: completed.hint.clone(),
        };
        recorder.record(Origin::Host, &report.into())?;
    }
    let completed = Event::from(completed);
    recorder.record_durable(Origin::Host, &completed).await?;
    Ok(())
}

/// The ledger of a run that is not over. Should it be dropped before the run has its terminal event,
/// because the caller's future was, the run is recorded as cancelled.
pub(super) struct Opened(Option<Recorder>);

impl Opened {
    /// Makes the ledger. The caller's future can be dropped at any time: what was made by then has an
    /// end.
    pub(super) async fn create(
        store: &Store,
        run_id: RunId,
        started: RunStarted,
    ) -> Result<(Self, Recorder, Appended), StoreError> {
        let create = {
            let store = store.clone();
            async move {
                let (recorder, appended) = store.create(run_id, started).await?;
                Ok((Self(Some(recorder.clone())), recorder, appended))
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
}

impl Drop for Opened {
    fn drop(&mut self) {
        let Some(recorder) = self.0.take() else {
            return;
        };
        let completed = Terminal::of(Ended::Cancelled, 0, 0).completed;
        match Handle::try_current() {
            Ok(runtime) => {
                runtime.spawn(async move { report(&recorder, write(&recorder, completed).await) });
            }
            // Without a runtime there is no task to leave the work to.
            Err(_) => {
                let written = recorder.record(Origin::Host, &completed.into());
                report(&recorder, written.map(|_appended| ()));
            }
        }
    }
}

fn report(recorder: &Recorder, written: Result<(), RecordError>) {
    match written {
        // The terminal event was on its way when the future was dropped.
        Ok(()) | Err(RecordError::Ended { .. }) => {}
        Err(error) => {
            tracing::error!(run_id = %recorder.run_id(), %error, "cannot record a cancellation");
        }
    }
}
