//! What a run does, once: told from its record for as long as that lasts, and put on record from then on.

use futures_util::future::pending;

use super::Journal;
use super::provided::CallId;
use crate::clock::Timestamp;
use crate::executor::{CallError, RecordRefused};
use crate::ledger::{CallFailure, Effect, Event, Origin, Recalled, RecordedCall};
use crate::runner::replay::Halt;

/// What is on record of a call that the guest makes.
pub(super) enum Recall {
    /// Nothing: it is made now, and recorded.
    New,
    /// The call and no answer.
    Open(Box<Recalled>),
    /// The call, which was made then, and the answer whole.
    Answered(Timestamp, Box<Recalled>),
}

impl Journal {
    /// Ends the run where it is. Whoever waits for this waits until the run is gone.
    pub(super) async fn stop<T>(&self, halt: Halt) -> T {
        self.cx.halt(halt);
        pending().await
    }

    /// As [`Journal::stop`], where nobody can wait.
    pub(super) fn refuse(&self, halt: Halt) -> RecordRefused {
        self.cx.halt(halt);
        RecordRefused::Unavailable
    }

    /// Something that the guest's own thread did: found on record, or recorded.
    pub(super) fn step(
        &self,
        origin: Origin,
        event: impl Into<Event>,
    ) -> Result<u64, RecordRefused> {
        let event = event.into();
        if let Some(replay) = self.cx.replay()
            && !replay.is_over_and_open()
        {
            let event = self.recorder.redacted(event.clone());
            let event = event.map_err(|error| RecordRefused::Invalid {
                reason: error.to_string(),
            })?;
            let found = replay.step(origin, &event);
            if let Some(found) = found.map_err(|halt| self.refuse(halt))? {
                self.time.fix(found.time);
                return Ok(found.seq);
            }
        }
        self.record(origin, event)
    }

    /// Looks for a call that the guest makes; `now` is what is recorded of it if it is not there.
    pub(super) async fn recall(
        &self,
        id: &CallId,
        now: impl FnOnce() -> Event,
    ) -> Result<Recall, CallError> {
        let Some(replay) = self.cx.replay() else {
            return Ok(Recall::New);
        };
        let is_new = self.is_inner() || replay.is_over_and_open();
        if id.recorded.is_none() && is_new {
            return Ok(Recall::New);
        }
        let now = self.recorder.redacted(now());
        let now = now.map_err(|error| CallError::Invalid(error.to_string()))?;
        let found = (|| {
            let call = id.recorded.as_ref().and_then(|recorded| recorded.call);
            let shown = || crate::ledger::shown_now(Origin::Host, &now);
            let made = id.recorded.as_ref().filter(|_| call.is_some());
            if !self.is_inner() {
                replay.check_order(made.map(RecordedCall::seq), shown)?;
            }
            let (Some(recorded), Some(call)) = (&id.recorded, call) else {
                return Ok(Recall::New);
            };
            let call = replay.recorded().read(call)?;
            call.check(Origin::Host, &now).map_err(Halt::Diverged)?;
            Ok(match recorded.result {
                Some(result) => Recall::Answered(call.time, Box::new(replay.answer(result)?)),
                None => Recall::Open(Box::new(call)),
            })
        })();
        match found {
            Ok(found) => {
                if let Recall::Answered(_, answer) = &found {
                    self.knows(answer.time);
                }
                Ok(found)
            }
            Err(halt) => self.stop(halt).await,
        }
    }

    /// As [`Journal::recall`], for a call that is made again if there is no answer and that does no harm.
    pub(super) async fn recall_answer(
        &self,
        id: &CallId,
        now: impl FnOnce() -> Event,
    ) -> Result<Option<Event>, CallError> {
        match self.recall(id, now).await? {
            Recall::New => Ok(None),
            Recall::Answered(_, answer) => Ok(Some(answer.event)),
            Recall::Open(call) => {
                self.check_repetition(id, &call.event).await;
                Ok(None)
            }
        }
    }

    /// Ends the run if the call must not be made again.
    pub(super) async fn check_repetition(&self, id: &CallId, call: &Event) {
        let Some(replay) = self.cx.replay() else {
            return;
        };
        let (effect, name) = match call {
            Event::ToolCall(call) => (call.effect, call.name.as_str()),
            Event::LlmCall(call) => (call.effect.unwrap_or(Effect::Read), call.model.as_str()),
            Event::HttpCall(call) => (call.effect, call.url.as_str()),
            _ => (Effect::Write, call.kind()),
        };
        if let Err(halt) = replay.check_repetition(effect, &id.call_id, name) {
            self.stop_alone::<()>(halt).await;
        }
    }

    /// A call that is refused before anything of it is on record. Were something on record, it would not be
    /// the same call.
    pub(super) async fn refused<T>(&self, id: &CallId, error: CallError) -> Result<T, CallError> {
        let recorded = id.recorded.as_ref().and_then(|recorded| recorded.call);
        let (Some(replay), Some(place)) = (self.cx.replay(), recorded) else {
            return Err(error);
        };
        let halt = match replay.recorded().read(place) {
            Ok(recalled) => Halt::Diverged(crate::ledger::Difference {
                seq: recalled.seq,
                recorded: recalled.shown(),
                now: format!("{}, which is refused: {error:?}", id.call_id),
            }),
            Err(error) => error.into(),
        };
        self.stop(halt).await
    }

    /// Puts the answer of a call on record and gives it as it is recorded, which is what the guest may have.
    /// One that the ledger has no room for is left out.
    pub(super) fn conclude(
        &self,
        event: impl Into<Event>,
        without_answer: impl FnOnce(CallFailure) -> Event,
    ) -> Result<Event, CallError> {
        let recorded = match self.recorder.redacted(event.into()) {
            Ok(event) => self.record(Origin::Host, event.clone()).map(|_seq| event),
            Err(error) => Err(RecordRefused::Invalid {
                reason: crate::telemetry::chain(&error),
            }),
        };
        match recorded {
            Ok(event) => Ok(event),
            Err(RecordRefused::Invalid { reason }) => {
                let message = format!("the answer cannot be recorded: {reason}");
                let event = without_answer(CallFailure::Exhausted { message });
                self.record(Origin::Host, event.clone())
                    .map_err(CallError::Unrecorded)?;
                Ok(event)
            }
            Err(unavailable @ RecordRefused::Unavailable) => {
                Err(CallError::Unrecorded(unavailable))
            }
        }
    }
}

impl From<CallFailure> for CallError {
    fn from(failure: CallFailure) -> Self {
        match failure {
            CallFailure::NotFound { name } => Self::NotFound(name),
            CallFailure::Invalid { message } => Self::Invalid(message),
            CallFailure::Ambiguous { names } => Self::Ambiguous(names),
            CallFailure::Failed { message } => Self::Failed(message),
            CallFailure::TimedOut { limit_ms } => Self::TimedOut { limit_ms },
            CallFailure::Exhausted { message } => Self::Exhausted(message),
            CallFailure::Cancelled => Self::Cancelled,
        }
    }
}
