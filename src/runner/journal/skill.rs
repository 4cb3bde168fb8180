//! Work that is handed to another skill: a run of its own, inside this one.

use super::Journal;
use super::provided::{CallId, failure};
use crate::capability::{Capability, SkillName};
use crate::executor::CallError;
use crate::id::RunId;
use crate::ledger::{self, CallFailure, CallKind, Effect, Head, Json};
use crate::outcome::OutcomeCode;
use crate::runner::{Caller, JsonObject, RunError, RunOutcome, StartOptions, Terms};

impl Journal {
    pub(super) async fn skill(
        &self,
        id: CallId,
        skill: &str,
        input: &str,
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
        self.check_allowed(&Capability::Skill { name }, skill)?;
        let input = JsonObject::parse(input);
        let input = input.map_err(|error| CallError::Invalid(format!("input: {error}")))?;
        self.charge_call(skill.len().saturating_add(input.as_str().len()))?;
        let child = RunId::generate();
        let call = ledger::ToolCall {
            call_id: id.call_id.clone(),
            node_id: id.node_id.clone(),
            name: skill.to_owned(),
            arguments: input.json().clone(),
            // What a repetition of the whole run would do is not known.
            effect: Effect::Write,
            kind: Some(CallKind::Skill),
            child_run_id: Some(child.clone()),
            ..ledger::ToolCall::default()
        };
        self.record_call(Effect::Write, call).await?;
        let since = self.stopwatch();
        let outcome = self.run_inside(&child, skill, input).await;
        if outcome.is_err() && self.cx.runner().is_shutting_down() {
            // This run is interrupted as well. How the other ended is no answer that a resumption could
            // find on record: it goes on then, too.
            return std::future::pending().await;
        }
        let head = self.head_of(&child, &outcome);
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
        let answer = answer(skill, outcome);
        match &answer {
            Ok(output) => {
                self.charge_answer(output.as_str().len());
                self.record_answer(result(None, Some(output.clone())), without)?;
            }
            Err(error) => {
                if let Some(failure) = failure(error) {
                    self.record_answer(result(Some(failure), None), without)?;
                }
            }
        }
        answer.map(|output| output.as_str().to_owned())
    }

    /// Runs it in a task of its own, so that several go on at the same time on several threads. When this
    /// run ends before it does, it is cancelled.
    async fn run_inside(
        &self,
        child: &RunId,
        skill: &str,
        input: JsonObject,
    ) -> Result<RunOutcome, RunError> {
        let options = StartOptions {
            run_id: Some(child.clone()),
            terms: Terms {
                // Whoever answers for this run answers for those inside it.
                approvals: Some(self.cx.profile().approvals.policy),
                ..Terms::default()
            },
            ..StartOptions::new(skill, input)
        };
        let caller = Caller::within(&self.cx);
        let started = self.cx.runner().start(caller, options).await?;
        started.handle.wait().await
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
