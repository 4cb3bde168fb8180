//! An answer of a model that came in pieces, told again from the record.

use super::Journal;
use super::model::{Asking, tokens};
use crate::call::{ModelChunk, Usage};
use crate::executor::{Answer, CallError, ModelAnswer};
use crate::ledger::{CallFailure, Difference, Effect, Event, Origin, Place};
use crate::runner::replay::Halt;

/// What the guest is told of an answer that broke off when its run was cut off, in the middle of what it
/// had heard.
const BROKEN: &str = "the answer broke off when the run was interrupted";

/// An answer that is on record, whole or in part.
struct FromRecord {
    journal: Journal,
    asking: Asking,
    /// Pieces handed over.
    told: usize,
    is_over: bool,
}

impl Journal {
    pub(super) fn answer_from_record(&self, asking: Asking) -> Box<dyn ModelAnswer> {
        Box::new(FromRecord {
            journal: self.clone(),
            asking,
            told: 0,
            is_over: false,
        })
    }

    /// Whether the guest had some of the answer and did anything then.
    pub(super) fn acted_on_pieces(&self, asking: &Asking) -> bool {
        let first = asking
            .id
            .recorded
            .as_ref()
            .and_then(|call| call.pieces.first());
        let replay = self.cx.replay();
        first.is_some_and(|first| {
            replay.is_some_and(|replay| replay.recorded().acts_after(first.seq))
        })
    }

    /// Ends the run unless it is said that calls are made again of which it is not known what came of them:
    /// the rest of the answer is lost, and another answer has another rest. An execution goes on: its turn ends with
    /// an error, nobody is asked again, and whoever talks with it sees that and can.
    pub(super) async fn check_stream(&self, asking: &Asking) {
        let Some(replay) = self.cx.replay() else {
            return;
        };
        let (id, model) = (&asking.id.call_id, &asking.call.model);
        let effect = match self.cx.is_execution() {
            true => Effect::Read,
            false => Effect::Write,
        };
        if let Err(halt) = replay.check_repetition(effect, id, model) {
            self.stop_alone::<()>(halt).await;
        }
    }

    /// What a question took that a process asked which is gone, about. Whatever came of it was paid for, and
    /// nobody was told how much that was.
    pub(super) fn usage_before(&self, asking: &Asking) -> Usage {
        let recorded = asking.id.recorded.as_ref();
        let pieces = recorded.map_or(&[][..], |call| &call.pieces);
        let pieces =
            pieces
                .iter()
                .filter_map(|&place| match self.cx.replay()?.answer(place).ok()?.event {
                    Event::LlmChunk(chunk) => {
                        let tool = chunk.tool_use.map_or(0, |tool| tool.as_str().len());
                        Some(chunk.delta.as_str().len().saturating_add(tool))
                    }
                    _ => None,
                });
        Usage {
            input_tokens: asking.input_tokens(),
            output_tokens: tokens(pieces.sum()),
            ..Usage::default()
        }
    }

    /// What the guest is told of a piece that is on record.
    pub(super) fn piece(&self, chunk: &Event) -> Result<ModelChunk, CallError> {
        let Event::LlmChunk(chunk) = chunk else {
            return Err(CallError::Failed("no piece of an answer".to_owned()));
        };
        let Some(tool) = &chunk.tool_use else {
            let text = chunk.delta.as_str();
            self.charge_answer(text.len());
            return Ok(ModelChunk::Text(text.to_owned()));
        };
        self.charge_answer(tool.as_str().len());
        let tool = super::model_json::to_tool_use(tool);
        tool.map(ModelChunk::ToolUse)
            .ok_or_else(|| CallError::Failed("a piece of the answer cannot be read".to_owned()))
    }
}

impl FromRecord {
    fn pieces(&self) -> &[Place] {
        let recorded = self.asking.id.recorded.as_ref();
        recorded.map_or(&[], |call| &call.pieces)
    }

    /// The event at `place`, whole, of which the guest knows then.
    async fn read(&self, place: Place) -> Event {
        let Some(replay) = self.journal.cx.replay() else {
            return std::future::pending().await;
        };
        match replay.answer(place) {
            Ok(recalled) => {
                self.journal.time.fix(recalled.time);
                recalled.event
            }
            Err(halt) => self.journal.stop(halt).await,
        }
    }

    async fn advance(&mut self) -> Result<Option<ModelChunk>, CallError> {
        if self.is_over {
            return Ok(None);
        }
        if let Some(&place) = self.pieces().get(self.told) {
            self.told += 1;
            let chunk = self.read(place).await;
            return self.journal.piece(&chunk).map(Some);
        }
        self.is_over = true;
        let recorded = self.asking.id.recorded.as_ref();
        let Some(place) = recorded.and_then(|call| call.result) else {
            if self.journal.cx.is_record_only() {
                return self.journal.stop(self.record_ends()).await;
            }
            return Err(self.break_off(CallFailure::Failed {
                message: BROKEN.to_owned(),
            }));
        };
        let answer = self.read(place).await;
        // In an execution it may have been the turn that was cancelled, and then the guest was told.
        if let Event::LlmCall(result) = &answer
            && result.error == Some(CallFailure::Cancelled)
            && !self.journal.cx.is_execution()
        {
            let halt = self.diverged(place, "the guest asks for the next piece");
            return self.journal.stop(halt).await;
        }
        let response = self.journal.model_answer(&self.asking, &answer)?;
        self.journal
            .note_structured_again(&self.asking, &response)?;
        Ok(Some(ModelChunk::Done(Box::new(response))))
    }

    /// Records the end of an answer of which the rest is lost.
    fn break_off(&self, failure: CallFailure) -> CallError {
        let usage = self.journal.usage_before(&self.asking);
        let result = self.asking.ended(failure.clone(), &usage);
        if let Err(refused) = self.journal.record(Origin::Host, result) {
            return CallError::Unrecorded(refused);
        }
        match self.journal.cx.budget().spend_on_models(&usage) {
            Ok(()) => failure.into(),
            Err(reached) => CallError::LimitReached(reached),
        }
    }

    fn record_ends(&self) -> Halt {
        Halt::RecordEnds(format!(
            "the rest of the answer to {}",
            self.asking.id.call_id
        ))
    }

    fn diverged(&self, place: Place, now: &str) -> Halt {
        let Some(replay) = self.journal.cx.replay() else {
            return Halt::Failed(String::new());
        };
        match replay.recorded().read(place) {
            Ok(recalled) => Halt::Diverged(Difference {
                seq: recalled.seq,
                recorded: recalled.shown(),
                now: format!("{now} of {}", self.asking.id.call_id),
            }),
            Err(error) => error.into(),
        }
    }

    fn gave_up(&self) -> Result<(), CallError> {
        let recorded = self.asking.id.recorded.as_ref();
        let next = self.pieces().get(self.told).copied();
        let Some(place) = next.or(recorded.and_then(|call| call.result)) else {
            // Cut off before that was recorded.
            if self.journal.cx.is_record_only() {
                let refused = self.journal.refuse(self.record_ends());
                return Err(CallError::Unrecorded(refused));
            }
            return match self.break_off(CallFailure::Cancelled) {
                CallError::Cancelled => Ok(()),
                error => Err(error),
            };
        };
        let replay = self.journal.cx.replay();
        let answer = replay.map(|replay| replay.answer(place));
        let halt = match answer {
            Some(Ok(answer)) => match &answer.event {
                Event::LlmCall(result) if result.error == Some(CallFailure::Cancelled) => {
                    self.journal.time.fix(answer.time);
                    return match self.journal.model_answer(&self.asking, &answer.event) {
                        Err(error @ CallError::LimitReached(_)) => Err(error),
                        _ => Ok(()),
                    };
                }
                _ => self.diverged(place, "the guest wants no more"),
            },
            Some(Err(halt)) => halt,
            None => return Ok(()),
        };
        Err(CallError::Unrecorded(self.journal.refuse(halt)))
    }
}

impl ModelAnswer for FromRecord {
    fn next(&mut self) -> Answer<'_, Option<ModelChunk>> {
        Box::pin(self.advance())
    }

    fn give_up(self: Box<Self>) -> Result<(), CallError> {
        if self.is_over {
            return Ok(());
        }
        self.gave_up()
    }
}
