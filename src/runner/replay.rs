//! A run that is done again: its record, how far it has been followed, and why it is followed no further.
//!
//! Calls are found by their ids, which they get in the order in which the guest makes them. What the
//! guest's own thread does beside them, its steps, is found in its order. Neither may leave anything out:
//! whatever is on record has to have been done before anything that is not.

mod record_only;
mod report;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use super::suspend::Gate;
use crate::call::Effect;
use crate::clock::Timestamp;
use crate::ledger::{
    Denied, Difference, Event, Origin, Part, Place, Recalled, Recorded, RecordedCall, StoreError,
    Timer, is_inner_call, shown_now,
};
use crate::telemetry::chain;

pub use report::{ReplayError, ReplayOptions, ReplayReport, ReplayVerdict};

/// How the ids of requests begin. They are carried out beside the guest, so that one may be on record while
/// an earlier one is not.
const HTTP_PREFIX: &str = "http#";

/// What comes of a record when there is no more of it, or when it cannot say what came of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Beyond {
    /// The run goes on. Calls that may have had their effect are made again only if `retry_ambiguous`.
    GoOn {
        /// Whether they are.
        retry_ambiguous: bool,
    },
    /// The run stops there: nothing is ever done.
    Stop,
}

/// Why a run stops in the middle of its record, or at its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Halt {
    /// It does something else than what is on record.
    Diverged(Difference),
    /// A call may or may not have had its effect.
    Ambiguous(AmbiguousCall),
    /// It waits for people, for longer than it keeps its instance.
    Suspended(Vec<Gate>),
    /// There is no more on record: what comes next is this.
    RecordEnds(String),
    /// It cannot go on: the record cannot be read, or a run inside it cannot be taken up.
    Failed(String),
}

/// A call that may or may not have had its effect.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{call_id} ({name}) has no answer on record, and a repetition could do its work twice")]
pub struct AmbiguousCall {
    /// The call's id in the run, or in the run inside it that is named.
    pub call_id: String,
    /// What was called.
    pub name: String,
}

/// The record of a run that is done again.
#[derive(Debug)]
pub(super) struct Replay {
    recorded: Recorded,
    beyond: Beyond,
    cursor: Mutex<Cursor>,
    /// Wakes who waits for the guest to come further.
    moved: Notify,
    /// The newest part on record is the one that goes on: another instance takes the place of its first.
    is_remade: bool,
}

#[derive(Debug)]
struct Cursor {
    /// The next step, by its place among them.
    step: usize,
    /// Calls that the guest has not made yet, by the number of their event.
    calls: BTreeMap<u64, Box<str>>,
    /// Requests that it has not made yet, likewise.
    requests: BTreeSet<u64>,
    /// The step that was looked at last and, if it is one, the timer: a guest that waits for a time to come
    /// looks at the same one again and again.
    seen: Option<(u64, Option<(Timer, Timestamp)>)>,
}

/// A step as the record has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) seq: u64,
    pub(super) time: Timestamp,
}

impl From<StoreError> for Halt {
    fn from(error: StoreError) -> Self {
        Self::Failed(chain(&error))
    }
}

impl Replay {
    pub(super) fn new(recorded: Recorded, beyond: Beyond) -> Self {
        let mut cursor = Cursor {
            step: 0,
            calls: BTreeMap::new(),
            requests: BTreeSet::new(),
            seen: None,
        };
        for (id, call) in recorded.calls() {
            if is_inner_call(id) {
                // The guest does not make it, and knows nothing of it.
            } else if id.starts_with(HTTP_PREFIX) {
                cursor.requests.insert(call.seq());
            } else {
                cursor.calls.insert(call.seq(), id.into());
            }
        }
        Self {
            recorded,
            beyond,
            cursor: Mutex::new(cursor),
            moved: Notify::new(),
            is_remade: false,
        }
    }

    /// The same for another instance in the part that goes on, of which this is the record so far.
    pub(super) fn remade(self) -> Self {
        Self {
            is_remade: true,
            ..self
        }
    }

    /// The number of the part that goes on when all of the record was done again.
    pub(super) fn next_part(&self) -> u64 {
        let parts = u64::try_from(self.recorded.parts().len()).unwrap_or(u64::MAX);
        parts.saturating_add(u64::from(!self.is_remade))
    }

    pub(super) fn recorded(&self) -> &Recorded {
        &self.recorded
    }

    fn cursor(&self) -> MutexGuard<'_, Cursor> {
        self.cursor.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether nothing is ever done that is not on record.
    pub(super) fn is_record_only(&self) -> bool {
        self.beyond == Beyond::Stop
    }

    /// Whether everything on record has been done again.
    pub(super) fn is_over(&self) -> bool {
        let cursor = self.cursor();
        cursor.calls.is_empty() && cursor.requests.is_empty() && self.next_step(&cursor).is_none()
    }

    /// Waits until the guest has done whatever is on record before the event numbered `seq`, its requests
    /// apart: what was not there for it then is not there before that.
    pub(super) async fn comes_to(&self, seq: u64) {
        loop {
            let moved = self.moved.notified();
            {
                let cursor = self.cursor();
                let call = cursor.calls.keys().next().copied();
                let step = self.next_step(&cursor).map(|place| place.seq);
                if call.into_iter().chain(step).all(|next| next > seq) {
                    return;
                }
            }
            moved.await;
        }
    }

    /// Whether the run goes on and everything on record has been done again.
    pub(super) fn is_over_and_open(&self) -> bool {
        !self.is_record_only() && self.is_over()
    }

    /// The part of the run that the guest is in.
    pub(super) fn part(&self) -> Option<(u64, Part)> {
        let cursor = self.cursor();
        let step = self.next_step(&cursor).map(|place| place.seq);
        let call = cursor.calls.keys().next().copied();
        let request = cursor.requests.first().copied();
        let next = step.into_iter().chain(call).chain(request);
        let next = next.min().unwrap_or(u64::MAX);
        let parts = self.recorded.parts().iter().zip(1..);
        let begun = parts.take_while(|(part, _)| part.seq < next);
        begun.last().map(|(part, number)| (number, *part))
    }

    fn next_step(&self, cursor: &Cursor) -> Option<Place> {
        self.recorded.steps().get(cursor.step).copied()
    }

    /// Takes the guest's next step off the record; none when there is nothing more on record.
    pub(super) fn step(&self, origin: Origin, now: &Event) -> Result<Option<Found>, Halt> {
        let mut cursor = self.cursor();
        let Some(place) = self.next_step(&cursor) else {
            return self.beyond_steps(&cursor, || shown_now(origin, now));
        };
        self.check_no_call_before(&cursor, place.seq, || shown_now(origin, now))?;
        let recalled = self.recorded.read(place)?;
        recalled.check(origin, now).map_err(Halt::Diverged)?;
        cursor.step += 1;
        self.moved.notify_waiters();
        Ok(Some(Found {
            seq: recalled.seq,
            time: recalled.time,
        }))
    }

    /// Takes the next step off the record if it is a timer that is `wanted`. A poll has to be on record where
    /// there is a record; a look at a clock that is not there was too early to be.
    pub(super) fn timer(
        &self,
        what: &str,
        must_be_there: bool,
        wanted: impl FnOnce(&Timer) -> bool,
    ) -> Result<Option<(Timer, Timestamp)>, Halt> {
        let mut cursor = self.cursor();
        let Some(place) = self.next_step(&cursor) else {
            if must_be_there {
                self.beyond_steps(&cursor, || what.to_owned())?;
            }
            return Ok(None);
        };
        let is_next = cursor
            .calls
            .keys()
            .next()
            .is_none_or(|&call| place.seq < call);
        let seen = cursor.seen.take().filter(|(seq, _)| *seq == place.seq);
        let timer = match seen {
            Some((_, timer)) => timer,
            None => self.recorded.timer(place)?,
        };
        let is_it = timer
            .as_ref()
            .is_some_and(|(timer, _)| is_next && wanted(timer));
        let found = match is_it {
            true => timer,
            false => {
                cursor.seen = Some((place.seq, timer));
                None
            }
        };
        match found {
            Some(found) => {
                cursor.step += 1;
                self.moved.notify_waiters();
                Ok(Some(found))
            }
            None if must_be_there => {
                let call = cursor.calls.values().next().filter(|_| !is_next);
                Err(self.diverged(call.map(|id| &**id), place, what.to_owned()))
            }
            None => Ok(None),
        }
    }

    /// The refusal that is the guest's next step, if that is one.
    pub(super) fn next_refusal(&self) -> Result<Option<Denied>, Halt> {
        let Some(place) = self.next_step(&self.cursor()) else {
            return Ok(None);
        };
        let recalled = self.answer(place)?;
        Ok(match recalled.event {
            Event::Denied(denied) if recalled.origin == Origin::Host => Some(denied),
            _ => None,
        })
    }

    /// What comes where the steps on record end: nothing, or a call that the guest has left out.
    fn beyond_steps(
        &self,
        cursor: &Cursor,
        now: impl FnOnce() -> String,
    ) -> Result<Option<Found>, Halt> {
        if let Some((&seq, _)) = cursor.calls.iter().next() {
            self.check_no_call_before(cursor, seq.saturating_add(1), now)?;
            return Ok(None);
        }
        if self.is_record_only() {
            return Err(Halt::RecordEnds(now()));
        }
        Ok(None)
    }

    fn check_no_call_before(
        &self,
        cursor: &Cursor,
        seq: u64,
        now: impl FnOnce() -> String,
    ) -> Result<(), Halt> {
        match cursor.calls.iter().next() {
            Some((&call, id)) if call < seq => {
                let place = self.place_of(id);
                Err(match place {
                    Some(place) => self.diverged(None, place, now()),
                    None => Halt::Failed(format!("{id} is on record without an event")),
                })
            }
            _ => Ok(()),
        }
    }

    fn place_of(&self, id: &str) -> Option<Place> {
        let call = self.recorded.call(id)?;
        call.call.or(call.denied)
    }

    /// The guest does something else than what is on record: a call, or else the event at `place`.
    fn diverged(&self, call: Option<&str>, place: Place, now: String) -> Halt {
        let place = call.and_then(|id| self.place_of(id)).unwrap_or(place);
        match self.recorded.read(place) {
            Ok(recalled) => Halt::Diverged(Difference {
                seq: recalled.seq,
                recorded: recalled.shown(),
                now,
            }),
            Err(error) => error.into(),
        }
    }

    /// Takes a call off the record as the guest makes it; none when it is not there.
    pub(super) fn claim(&self, id: &str) -> Option<RecordedCall> {
        let call = self.recorded.call(id)?;
        let mut cursor = self.cursor();
        if id.starts_with(HTTP_PREFIX) {
            cursor.requests.remove(&call.seq());
        } else {
            cursor.calls.remove(&call.seq());
        }
        self.moved.notify_waiters();
        Some(call.clone())
    }

    /// Checks that nothing on record comes before the call that the guest makes, which is the one at `seq`
    /// or, without it, not on record.
    pub(super) fn check_order(
        &self,
        seq: Option<u64>,
        now: impl Fn() -> String,
    ) -> Result<(), Halt> {
        let cursor = self.cursor();
        let before = seq.unwrap_or(u64::MAX);
        self.check_no_call_before(&cursor, before, &now)?;
        match self.next_step(&cursor) {
            Some(place) if place.seq < before => Err(self.diverged(None, place, now())),
            _ if seq.is_none() && self.is_record_only() => Err(Halt::RecordEnds(now())),
            _ => Ok(()),
        }
    }

    /// Whether a call without an answer may be made again.
    ///
    /// # Errors
    /// A repetition could do its work twice, or nothing may be done.
    pub(super) fn check_repetition(
        &self,
        effect: Effect,
        call_id: &str,
        name: &str,
    ) -> Result<(), Halt> {
        let ambiguous = || AmbiguousCall {
            call_id: call_id.to_owned(),
            name: name.to_owned(),
        };
        match (self.beyond, effect) {
            (Beyond::Stop, _) => Err(Halt::RecordEnds(format!("the answer to {call_id}"))),
            (
                Beyond::GoOn {
                    retry_ambiguous: false,
                },
                Effect::Write,
            ) => Err(Halt::Ambiguous(ambiguous())),
            (Beyond::GoOn { .. }, _) => Ok(()),
        }
    }

    /// Whether runs inside this one may repeat calls that may have had their effect.
    pub(super) fn retry_ambiguous(&self) -> bool {
        matches!(
            self.beyond,
            Beyond::GoOn {
                retry_ambiguous: true
            }
        )
    }

    /// Checks that the guest, which has ended, left out nothing that is on record.
    pub(super) fn check_over(&self, ended: &str) -> Result<(), Halt> {
        let cursor = self.cursor();
        let call = cursor.calls.iter().next();
        match (call, self.next_step(&cursor)) {
            (Some((&seq, id)), step) if step.is_none_or(|step| seq < step.seq) => {
                match self.place_of(id) {
                    Some(place) => Err(self.diverged(None, place, ended.to_owned())),
                    None => Ok(()),
                }
            }
            (_, Some(place)) => Err(self.diverged(None, place, ended.to_owned())),
            _ => Ok(()),
        }
    }

    /// A recorded answer, whole.
    pub(super) fn answer(&self, place: Place) -> Result<Recalled, Halt> {
        Ok(self.recorded.whole(self.recorded.read(place)?)?)
    }
}

#[cfg(test)]
mod tests {
    use super::{Beyond, Replay};
    use crate::clock::Clock;
    use crate::config::Durability;
    use crate::id::RunId;
    use crate::ledger::{
        Event, HttpCall, Origin, RunResumed, RunStarted, Store, StoreOptions, Timer,
    };

    #[tokio::test]
    async fn a_guest_before_a_request_is_in_the_part_in_which_it_made_it() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(StoreOptions {
            runs_dir: folder.path().to_owned(),
            durability: Durability::Relaxed,
            clock: Clock::system(),
        });
        let (store, run_id) = (store.unwrap(), RunId::generate());
        let created = store.create(run_id.clone(), RunStarted::default());
        let (recorder, _) = created.await.unwrap();
        let call = HttpCall {
            call_id: "http#1".to_owned(),
            ..HttpCall::default()
        };
        let poll = Timer {
            poll: Some(1),
            ..Timer::default()
        };
        // The process was killed. It was made again in the second part, and waited for there.
        let events: [Event; 4] = [
            call.clone().into(),
            RunResumed::default().into(),
            call.into(),
            poll.into(),
        ];
        for event in &events {
            recorder.record(Origin::Host, event).unwrap();
        }
        let go_on = Beyond::GoOn {
            retry_ambiguous: false,
        };
        let replay = Replay::new(store.recorded(&run_id).unwrap(), go_on);
        let part = || replay.part().map(|(number, _)| number);
        assert_eq!(part(), Some(1));
        replay.claim("http#1").unwrap();
        assert_eq!(part(), Some(2));
        assert!(!replay.is_over());
        let found = replay.timer("a poll", true, |timer| timer.poll == Some(1));
        assert!(found.unwrap().is_some());
        assert!(replay.is_over());
    }
}
