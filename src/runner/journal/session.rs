//! What an execution does beside the calls of its agent: prompts, turns, and what the agent tells.

use std::sync::PoisonError;

use tokio_util::sync::CancellationToken;

use super::Journal;
use super::flight::InFlight;
use super::provided::CallId;
use crate::call::{PermissionRequest, Question, SessionUpdate, Usage};
use crate::clock::Timestamp;
use crate::executor::{CallError, RecordRefused};
use crate::ledger::{
    ApprovalSource, ErrorReport, Event, Origin, Prompt, SessionPhase, SessionStatus, SessionTold,
    TurnCompleted, prompt_id,
};
use crate::limits::Pause;
use crate::runner::replay::{Halt, Replay};
use crate::runner::session::Session;

/// The turn that calls are counted in which the agent makes while it finishes: after all others.
const FINISH_GENERATION: u64 = u64::MAX;

/// A prompt as it stands on record.
pub(in crate::runner) struct PromptOnRecord {
    pub(in crate::runner) generation: u64,
    pub(in crate::runner) text: String,
    pub(in crate::runner) at: Timestamp,
    pub(in crate::runner) seq: u64,
    /// So does the end of its turn.
    pub(in crate::runner) is_over: bool,
}

impl Journal {
    pub(super) fn told(&self, update: &SessionUpdate) -> Result<(), RecordRefused> {
        if self.cx.session().is_none() {
            let reason = "this run is no execution: nobody watches it".to_owned();
            return Err(RecordRefused::Invalid { reason });
        }
        let told = SessionTold::from(update.clone());
        self.step(Origin::Guest, told).map(|_seq| ())
    }

    /// The prompt that comes next on record, after that of this number.
    pub(in crate::runner) fn prompt_on_record(
        &self,
        after: u64,
    ) -> Result<Option<PromptOnRecord>, RecordRefused> {
        let Some(replay) = self.cx.replay() else {
            return Ok(None);
        };
        let recorded = replay.recorded();
        let Some((generation, place)) = recorded.prompt_after(after) else {
            return Ok(None);
        };
        replay.claim(&prompt_id(generation));
        let waits = || "the agent waits for a prompt".to_owned();
        let order = replay.check_order(Some(place.seq), waits);
        let prompt = order.and_then(|()| replay.answer(place));
        let prompt = prompt.map_err(|halt| self.refuse(halt))?;
        let Event::Prompt(Prompt { text, .. }) = prompt.event else {
            let reason = format!("event {} is no prompt", place.seq);
            return Err(RecordRefused::Invalid { reason });
        };
        let (newest, is_open) = recorded.newest_prompt();
        Ok(Some(PromptOnRecord {
            generation,
            text: text.as_str().to_owned(),
            at: prompt.time,
            seq: place.seq,
            is_over: generation != newest || !is_open,
        }))
    }

    /// The number of the newest prompt, when the agent has taken the one numbered `taken`; turns that were
    /// undone count.
    pub(in crate::runner) fn newest_prompt(&self, taken: u64) -> u64 {
        let recorded = self
            .cx
            .replay()
            .map(|replay| replay.recorded().newest_prompt().0);
        recorded.unwrap_or_default().max(taken)
    }

    pub(in crate::runner) fn is_record_only(&self) -> bool {
        self.cx.is_record_only()
    }

    /// Stops an execution that is only done again where its record ends without an end of its own.
    pub(in crate::runner) async fn check_waits(&self, session: &Session) {
        if self.is_record_only() && session.finish_reason().is_none() {
            let ends = Halt::RecordEnds("the next prompt".to_owned());
            self.stop::<()>(ends).await;
        }
    }

    /// A time that does not count as the execution's.
    pub(in crate::runner) fn pause(&self) -> Pause {
        self.cx.budget().pause()
    }

    /// Puts it on record that the execution takes a prompt.
    pub(in crate::runner) fn record_phase(
        &self,
        phase: SessionPhase,
    ) -> Result<u64, RecordRefused> {
        if let Some(replay) = self.cx.replay() {
            let waits = || "the agent waits for a prompt".to_owned();
            let order = replay.check_order(None, waits);
            order.map_err(|halt| self.refuse(halt))?;
        }
        let status = SessionStatus::new(phase).into();
        let recorded = self.recorder.record(Origin::Host, &status);
        Ok(self.recorded(recorded)?.seq)
    }

    /// Puts a prompt on record, and gives it as it stands there.
    pub(in crate::runner) fn record_prompt(
        &self,
        generation: u64,
        text: String,
    ) -> Result<PromptOnRecord, RecordRefused> {
        let text = text.into();
        let prompt = self.recorder.redacted(Prompt { generation, text }.into());
        let prompt = prompt.map_err(|error| RecordRefused::Invalid {
            reason: error.to_string(),
        })?;
        let appended = self.recorded(self.recorder.record(Origin::Host, &prompt))?;
        let Event::Prompt(Prompt { text, .. }) = prompt else {
            return Err(RecordRefused::Unavailable);
        };
        Ok(PromptOnRecord {
            generation,
            text: text.as_str().to_owned(),
            at: appended.time,
            seq: appended.seq,
            is_over: false,
        })
    }

    /// Lets a turn begin that has its prompt on record: its calls are counted, and its time runs, from here.
    pub(in crate::runner) fn begin_turn(&self, generation: u64, at: Timestamp) {
        self.calls.begin_turn(generation);
        let (_, (part, _)) = self.part();
        self.time.begin_turn(at, part);
        self.cx.budget().begin_turn();
        let mut turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        turn.usage = Usage::default();
        turn.since = Some(self.stopwatch());
    }

    /// Adds to what models took in the turn.
    pub(super) fn note_usage(&self, usage: &Usage) {
        let mut turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let sum = &mut turn.usage;
        sum.input_tokens = sum.input_tokens.saturating_add(usage.input_tokens);
        sum.output_tokens = sum.output_tokens.saturating_add(usage.output_tokens);
        sum.cache_read_tokens = sum
            .cache_read_tokens
            .saturating_add(usage.cache_read_tokens);
        sum.cache_write_tokens = sum
            .cache_write_tokens
            .saturating_add(usage.cache_write_tokens);
        sum.cost_usd += usage.cost_usd;
    }

    /// What models took in the turn so far.
    pub(in crate::runner) fn turn_usage(&self) -> Usage {
        self.turn
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .usage
    }

    /// Microseconds since the turn began, or was taken up.
    pub(in crate::runner) fn turn_micros(&self) -> u64 {
        let turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        turn.since
            .as_ref()
            .map_or(0, |since| since.elapsed_micros())
    }

    /// Puts the end of a turn on record, and gives its number; none when it was there.
    pub(in crate::runner) fn end_turn(
        &self,
        turn: &TurnCompleted,
    ) -> Result<Option<u64>, RecordRefused> {
        // One that had to be interrupted is on no record that is replayed.
        let is_new = turn.undone || self.cx.replay().is_none_or(Replay::is_over_and_open);
        if !is_new {
            return self.step(Origin::Host, turn.clone()).map(|_seq| None);
        }
        self.record(Origin::Host, turn.clone()).map(Some)
    }

    /// Puts it on record that the agent finishes.
    pub(in crate::runner) fn begin_finish(&self) -> Result<(), RecordRefused> {
        let (_, (part, _)) = self.part();
        // Each part may end in another way, and nothing of that is the next one's.
        self.calls
            .begin_turn(FINISH_GENERATION.saturating_sub(part));
        self.cx.budget().begin_turn();
        if self.is_record_only() {
            return Ok(());
        }
        self.note(SessionStatus::new(SessionPhase::Finishing))
    }

    /// Puts on record what went wrong when everything else is over.
    pub(in crate::runner) fn note_error(&self, message: &str) {
        if self.is_record_only() {
            return;
        }
        let report = ErrorReport {
            message: message.into(),
            ..ErrorReport::default()
        };
        let _kept_by_the_recorder = self.note(report);
    }

    /// Fires when the turn that goes on is cancelled; never in a run.
    pub(super) fn turn_cancellation(&self) -> CancellationToken {
        let session = self.cx.session();
        session.map(Session::turn_cancellation).unwrap_or_default()
    }

    /// Waits for `work`, and no longer than until the turn is cancelled.
    pub(super) async fn unless_cancelled<T>(
        &self,
        work: impl Future<Output = T>,
    ) -> Result<T, CallError> {
        let cancellation = self.turn_cancellation();
        tokio::select! {
            biased;
            () = cancellation.cancelled() => Err(CallError::Cancelled),
            done = work => Ok(done),
        }
    }

    /// Asks whoever watches to choose.
    pub(super) async fn permission(
        &self,
        id: CallId,
        request: PermissionRequest,
        in_flight: &InFlight,
    ) -> Result<String, CallError> {
        if self.cx.session().is_none() {
            let message = "this run is no execution: nobody watches it".to_owned();
            return self.refused(&id, CallError::Failed(message)).await;
        }
        if request.options.is_empty() {
            let message = "no options: expected at least one".to_owned();
            return self.refused(&id, CallError::Invalid(message)).await;
        }
        let question = Question {
            prompt: request.title,
            payload: request.details,
            timeout_ms: None,
            needs_answer: false,
        };
        let response = self
            .response(id, question, request.options, in_flight)
            .await?;
        match (response.option, response.source) {
            (Some(option), _) if response.approved => Ok(option),
            (_, ApprovalSource::Cancelled) => Err(CallError::Cancelled),
            (_, source) => {
                let reason = response.reason.unwrap_or_default();
                let word = match source {
                    ApprovalSource::Timeout => "nobody answered",
                    _ => "rejected",
                };
                Err(CallError::Failed(format!("{word}: {}", reason.as_str())))
            }
        }
    }
}
