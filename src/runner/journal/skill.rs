//! Work that is handed to another skill: a run of its own, inside this one.

use super::Journal;
use super::flight::InFlight;
use super::provided::{CallId, failure};
use super::recall::Recall;
use crate::capability::{Capability, SkillName};
use crate::executor::CallError;
use crate::id::RunId;
use crate::ledger::{self, CallFailure, CallKind, Effect, Event, Head, Json, StoreError};
use crate::outcome::OutcomeCode;
use crate::runner::replay::Halt;
use crate::runner::resume::Inside;
use crate::runner::suspend::Suspended;
use crate::runner::{Caller, JsonObject, RunContext, RunError, RunOutcome, StartOptions, Terms};

impl Journal {
    pub(super) async fn skill(
        &self,
        id: CallId,
        skill: &str,
        input: &str,
        in_flight: &InFlight,
    ) -> Result<String, CallError> {
        // An operation of a component that follows no world is named behind a dot.
        let name = skill.split_once('.').map_or(skill, |(name, _)| name);
        let Ok(name) = name.parse::<SkillName>() else {
            // Nobody can have granted it.
            let capability = format!("skill:{name}");
            return Err(CallError::Denied {
                rule: self.policy().rule(&capability),
                capability,
                wanted: skill.to_owned(),
            });
        };
        let allowed = self.check_allowed(&Capability::Skill { name }, skill);
        if id.recorded.is_none() {
            allowed.clone()?;
        }
        let input = match JsonObject::parse(input) {
            Ok(input) => input,
            Err(error) => {
                let error = CallError::Invalid(format!("input: {error}"));
                return self.refused(&id, error).await;
            }
        };
        self.charge_call(skill.len().saturating_add(input.as_str().len()))?;
        let call = |child: Option<RunId>| ledger::ToolCall {
            call_id: id.call_id.clone(),
            node_id: id.node_id.clone(),
            name: skill.to_owned(),
            arguments: input.json().clone(),
            // What a repetition of the whole run would do is not known.
            effect: Effect::Write,
            kind: Some(CallKind::Skill),
            child_run_id: child,
            ..ledger::ToolCall::default()
        };
        let begun = match self.recall(&id, || call(None).into()).await? {
            Recall::Answered(_, answer) => return self.skill_answer(answer.event),
            // The other run has a ledger of its own, and is taken up by that.
            Recall::Open(opened) => {
                allowed?;
                self.child_of(&id, skill, opened.event).await
            }
            Recall::New => None,
        };
        let child = match begun {
            Some(child) => child,
            None => {
                let child = RunId::generate();
                self.record_call(Effect::Write, call(Some(child.clone())))
                    .await?;
                child
            }
        };
        let recorded = self
            .child_answer(&id, &child, StartOptions::new(skill, input), in_flight)
            .await?;
        self.skill_answer(recorded)
    }

    /// Carries a run inside this one out, to its end, and puts that on record.
    async fn child_answer(
        &self,
        id: &CallId,
        child: &RunId,
        options: StartOptions,
        in_flight: &InFlight,
    ) -> Result<Event, CallError> {
        let skill = options.skill.clone();
        let since = self.stopwatch();
        let call_id = &id.call_id;
        let outcome = self.run_inside(call_id, child, options, in_flight).await;
        let outcome = match outcome {
            Err(_) if self.cx.runner().is_shutting_down() => {
                // This run is interrupted as well. How the other ended is no answer that a resumption could
                // find on record: it goes on then, too.
                return std::future::pending().await;
            }
            Err(error) => match error.halt_above() {
                // It stays where it is until somebody looks, and so does this one.
                Some(halt) => return self.stop_alone(halt).await,
                None => Err(error),
            },
            outcome => outcome,
        };
        let head = self.head_of(child, &outcome);
        let result = |error: Option<CallFailure>, output: Option<Json>| ledger::ToolResult {
            call_id: id.call_id.clone(),
            node_id: id.node_id.clone(),
            output,
            is_error: error.is_some(),
            error,
            duration_micros: Some(since.elapsed_micros()),
            child_run_id: head.map(|_| child.clone()),
            child_head: head,
            ..ledger::ToolResult::default()
        };
        let without = |failure| result(Some(failure), None).into();
        match answer(&skill, outcome) {
            Ok(output) => self.conclude(result(None, Some(output)), without),
            Err(error) => match failure(&error) {
                Some(failure) => self.conclude(result(Some(failure), None), without),
                None => Err(error),
            },
        }
    }

    /// What the guest is told of an answer that is on record.
    fn skill_answer(&self, answer: Event) -> Result<String, CallError> {
        let Event::ToolResult(answer) = answer else {
            return Err(CallError::Failed("no answer of a skill".to_owned()));
        };
        if let Some(failure) = answer.error {
            return Err(failure.into());
        }
        let output = answer.output.unwrap_or_default();
        self.charge_answer(output.as_str().len());
        Ok(output.as_str().to_owned())
    }

    /// The run inside this one that a call on record began; none when another is to be begun.
    async fn child_of(&self, id: &CallId, skill: &str, opened: Event) -> Option<RunId> {
        if self.cx.is_record_only() {
            let ends = Halt::RecordEnds(format!("the answer to {}", id.call_id));
            return self.stop(ends).await;
        }
        match opened {
            Event::ToolCall(ledger::ToolCall {
                child_run_id: Some(ref child),
                ..
            }) if self.began(child, skill) => Some(child.clone()),
            other => {
                self.check_repetition(id, &other).await;
                None
            }
        }
    }

    /// Whether a run can be one that this run began, for that skill. In a record that was copied or made up,
    /// it is a run of somebody else, which is neither taken up nor read.
    fn began(&self, child: &RunId, skill: &str) -> bool {
        match self.cx.runner().store().summary(child) {
            Ok(summary) => match summary.skill {
                Some(name) => {
                    name == skill && summary.parent_run_id.as_ref() == Some(self.cx.run_id())
                }
                // Nothing of it was done before its process was gone.
                None => true,
            },
            // There is none yet, or it says itself why it cannot be taken up.
            Err(_) => true,
        }
    }

    /// Runs it in a task of its own, so that several go on at the same time on several threads. When this
    /// run ends before it does, it is cancelled. While it is suspended, it only waits.
    async fn run_inside(
        &self,
        call_id: &str,
        child: &RunId,
        options: StartOptions,
        in_flight: &InFlight,
    ) -> Result<RunOutcome, RunError> {
        let options = StartOptions {
            run_id: Some(child.clone()),
            terms: Terms {
                // Whoever answers for this run answers for those inside it.
                approvals: Some(self.cx.profile().approvals.policy),
                ..Terms::default()
            },
            ..options
        };
        let runner = self.cx.runner();
        loop {
            // In a task of its own: if this run stops meanwhile, to go on later, the other goes on till then.
            let begun = tokio::spawn(begin_inside(
                self.cx.clone(),
                call_id.to_owned(),
                child.clone(),
                options.clone(),
            ));
            let started = match begun.await.unwrap_or(Err(RunError::ShuttingDown))? {
                Inside::GoesOn(started) => *started,
                Inside::Ended(outcome) => return outcome,
            };
            let cancelled = self.turn_cancellation();
            match started.handle.wait_or_cancel(cancelled).await {
                Err(RunError::Suspended { gates, .. }) if !runner.is_shutting_down() => {
                    let suspended = Suspended::inside(&self.cx, child);
                    self.rest(in_flight, &gates).await;
                    suspended.end();
                }
                ended => return ended,
            }
        }
    }

    /// The newest line of the other run's ledger, if it has one.
    fn head_of(&self, child: &RunId, outcome: &Result<RunOutcome, RunError>) -> Option<Head> {
        match outcome {
            Ok(outcome) => Some(outcome.head),
            Err(error) => {
                error.run_id()?;
                let summary = self.cx.runner().store().summary(child);
                summary.ok().map(|summary| summary.head)
            }
        }
    }
}

/// Begins a run inside another, or goes on with it.
async fn begin_inside(
    cx: RunContext,
    call_id: String,
    child: RunId,
    options: StartOptions,
) -> Result<Inside, RunError> {
    let caller = Caller::within(&cx).with_trace(cx.trace_of(Some(&call_id)));
    let runner = cx.runner();
    match runner.store().summary(&child) {
        Err(StoreError::NotFound { .. }) => {
            let started = runner.start(caller, options).await?;
            Ok(Inside::GoesOn(Box::new(started)))
        }
        // It is there already: it was suspended, or the run that it is inside of was cut off.
        _ => runner.resume_inside(caller, &child, &cx, options).await,
    }
}

fn answer(skill: &str, outcome: Result<RunOutcome, RunError>) -> Result<Json, CallError> {
    let error = match outcome {
        Ok(outcome) if outcome.result.is_error => {
            return Err(CallError::Failed(outcome.result.joined_text()));
        }
        Ok(outcome) => return Ok(outcome.result.output()),
        Err(error) => error,
    };
    Err(match (&error, error.code()) {
        (RunError::TooDeep(_) | RunError::Busy { .. }, _) => {
            CallError::Exhausted(error.to_string())
        }
        (_, OutcomeCode::Cancelled | OutcomeCode::Interrupted) => CallError::Cancelled,
        (RunError::Failed(_), OutcomeCode::NotFound) => CallError::NotFound(skill.to_owned()),
        (RunError::Failed(failed), OutcomeCode::InvalidInput) => {
            CallError::Invalid(failed.error.to_string())
        }
        (_, code) => CallError::Failed(format!("{code}: {error}")),
    })
}
