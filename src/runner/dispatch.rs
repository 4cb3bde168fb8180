//! From the first event of a run to its last.

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use tokio_util::sync::CancellationToken;

use super::RunOutcome;
use super::admission::Ticket;
use super::context::RunContext;
use super::error::RunError;
use super::executor::Executor;
use super::json_object::JsonObject;
use super::live::LivePart;
use super::resume::ResumeOptions;
use super::session::Session;
use super::suspend::Woken;
use super::terminal::{Ended, Opened, Terminal};
use crate::clock::{Stopwatch, Timestamp};
use crate::executor::Failure;
use crate::ledger::ResumeReason;
use crate::outcome::OutcomeCode;

/// A run whose first event is durable and whose work has not begun.
pub(super) struct Dispatch {
    /// Lets the run be found by its id.
    pub(super) live: Arc<LivePart>,
    /// Who carries it out.
    pub(super) executor: Arc<dyn Executor>,
    pub(super) cx: RunContext,
    pub(super) opened: Opened,
    pub(super) started_at: Timestamp,
    pub(super) ticket: Ticket,
    pub(super) skill: String,
    pub(super) input: JsonObject,
    /// Runs since the run was asked for.
    pub(super) asked: Stopwatch,
    /// Fires when the process shuts down.
    pub(super) shutdown: CancellationToken,
    /// How the run goes on, should it be suspended.
    pub(super) again: ResumeOptions,
}

impl Dispatch {
    /// Does the work and records how it ended, before it returns. Should the future be dropped, the run
    /// is recorded as cancelled. A run that waits for people for long is suspended meanwhile, with nothing
    /// kept of it but what it waits for; one inside another is so together with that one.
    pub(super) async fn carry_out(self) -> Result<RunOutcome, RunError> {
        let runner = self.cx.runner().clone();
        let (caller, again) = (self.cx.caller().clone(), self.again.clone());
        let _live = Arc::clone(&self.live);
        // On the heap, so that waiting takes no room for working.
        let mut ended = Box::pin(self.work()).await;
        while let Err(RunError::Suspended { run_id, gates }) = ended {
            if caller.budget().is_some() || runner.is_shutting_down() {
                return Err(RunError::Suspended { run_id, gates });
            }
            let again = ResumeOptions {
                reason: ResumeReason::Decided,
                ..again.clone()
            };
            let decided = Box::pin(runner.when_decided(caller.clone(), run_id, &gates, again));
            ended = match decided.await? {
                Woken::GoesOn(dispatch) => Box::pin(dispatch.work()).await,
                Woken::Ended(ended) => return ended,
            };
        }
        ended
    }

    async fn work(self) -> Result<RunOutcome, RunError> {
        let Self {
            live: _live,
            executor,
            cx,
            opened,
            started_at,
            ticket,
            skill,
            input,
            asked,
            shutdown,
            again: _,
        } = self;
        // Runs inside this one end with it, also when it ends because its future was dropped.
        let runs_inside = cx.cancellation().clone().drop_guard();
        let is_queued = ticket.is_queued();
        let mut admitted_micros = None;
        let work = async {
            let _place = ticket.redeem().await;
            admitted_micros = Some(asked.elapsed_micros());
            call(&cx, &*executor, &skill, input).await
        };
        let ended = tokio::select! {
            biased;
            () = cx.cancelled() => Ended::Cancelled,
            () = shutdown.cancelled() => Ended::Interrupted,
            () = cx.halted() => Ended::Interrupted,
            ended = work => ended,
        };
        // It may have been stopped by something that could not wait for its end.
        let ended = match cx.halt_reason() {
            Some(halt) if !matches!(ended, Ended::Cancelled) => Ended::Halted(halt),
            _ => ended,
        };
        let session = cx.session().cloned();
        let stop_reason = session.as_ref().and_then(Session::finish_reason);
        let ended = match ended {
            // It was stopped, and whatever its agent did then changes nothing of that.
            Ended::Answered(_) | Ended::Failed(_) if stop_reason.is_some() => Ended::Cancelled,
            ended => ended,
        };
        match &ended {
            // Runs inside this one see the shutdown themselves, and are interrupted like it.
            Ended::Interrupted | Ended::Halted(_) => drop(runs_inside.disarm()),
            _ => drop(runs_inside),
        }
        let asked_micros = asked.elapsed_micros();
        let queued_micros = if is_queued {
            admitted_micros.unwrap_or(asked_micros)
        } else {
            0
        };
        let duration_micros = asked_micros.saturating_sub(queued_micros);
        let mut terminal = Terminal::of(
            cx.run_id(),
            ended,
            &cx.profile().policy,
            queued_micros,
            duration_micros,
        );
        if let Some(session) = session {
            terminal.of_execution(stop_reason, session.exit_code());
        }
        opened.close(cx.recorder(), terminal, started_at).await
    }
}

/// Calls the skill with the run in scope; a panic becomes a failure like any other.
pub(super) async fn call(
    cx: &RunContext,
    executor: &dyn Executor,
    skill: &str,
    input: JsonObject,
) -> Ended {
    // The call is made inside the future, so that a panic before its first await is caught as well.
    let answer = async { executor.call_tool(cx, skill, input).await };
    let answer = AssertUnwindSafe(answer).catch_unwind();
    let answer = match tokio::time::timeout(cx.deadline(), cx.scope(answer)).await {
        Ok(Ok(answer)) => answer,
        Ok(Err(panic)) => {
            let message = format!("the executor panicked: {}", panic_text(&*panic));
            Err(Failure::new(OutcomeCode::Internal, message).into())
        }
        Err(_elapsed) => Err(past(cx.deadline()).into()),
    };
    match answer {
        Ok(result) => Ended::Answered(result),
        Err(error) => Ended::Failed(error),
    }
}

fn past(deadline: Duration) -> Failure {
    let deadline_ms = deadline.as_millis();
    let message = format!("deadline of {deadline_ms} ms reached (set by call)");
    Failure {
        hint: Some("let the call set a later deadline".to_owned()),
        ..Failure::new(OutcomeCode::TimeLimit, message)
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
