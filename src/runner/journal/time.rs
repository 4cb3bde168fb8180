//! What time it is for a guest: as late as the newest event that it knows of, and at most a second behind.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::Journal;
use crate::clock::{Clock, Stopwatch, Timestamp};
use crate::executor::{RecordRefused, RunTime};
use crate::ledger::{Origin, Timer};
use crate::limits::{LimitKey, LimitReached};
use crate::runner::replay::{Halt, Replay};

/// How far the guest's time may lag behind before a look at a clock is recorded. It bounds how many are.
const LAG_MAX: Duration = Duration::from_secs(1);
/// What the event of a look takes in the ledger.
const LOOK_BYTES: u64 = 256;

/// The time of one run.
pub(super) struct Time {
    clock: Clock,
    /// When the run began.
    base: Timestamp,
    /// The real time since then, when this was made; and what has passed since.
    anchor: (Duration, Stopwatch),
    /// How long this part of the run waited for a place and for its component.
    delay: Duration,
    state: Mutex<State>,
}

struct State {
    now: Timestamp,
    looks: u64,
    polls: u64,
    /// The part of the run that the next two are about.
    part: u64,
    /// When its guest began, or began again.
    began_at: Timestamp,
    /// The part of that time that does not count.
    paused: Duration,
}

fn between(from: Timestamp, to: Timestamp) -> Duration {
    let micros = to.unix_micros().saturating_sub(from.unix_micros());
    Duration::from_micros(u64::try_from(micros).unwrap_or(0))
}

impl Time {
    /// The time of a run that began at `base`, and the newest part of it at `began_at`.
    pub(super) fn new(clock: Clock, base: Timestamp, began_at: Timestamp) -> Self {
        Self {
            anchor: (between(base, clock.now()), clock.stopwatch()),
            delay: between(began_at, clock.now()),
            base,
            state: Mutex::new(State {
                now: base,
                looks: 0,
                polls: 0,
                part: 0,
                began_at: base,
                paused: Duration::ZERO,
            }),
            clock,
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets the guest know of an event of that time.
    pub(super) fn fix(&self, time: Timestamp) {
        let mut state = self.state();
        state.now = state.now.max(time);
    }

    /// Takes the time between two events out of the wall time.
    pub(super) fn pause(&self, from: Timestamp, to: Timestamp) {
        let mut state = self.state();
        let waited = between(from.max(state.began_at), to);
        state.paused += waited;
    }

    /// Lets a turn of an execution begin: what it may take is counted from that time.
    pub(super) fn begin_turn(&self, at: Timestamp, part: u64) {
        self.fix(at);
        let mut state = self.state();
        state.part = part;
        state.began_at = at;
        state.paused = Duration::ZERO;
        state.looks = 0;
        state.polls = 0;
    }

    /// How long it is until the run will have gone on for `elapsed`.
    pub(super) fn until(&self, elapsed: Duration) -> Duration {
        let (before, since) = &self.anchor;
        elapsed.saturating_sub(before.saturating_add(since.elapsed()))
    }
}

impl Journal {
    pub(super) fn run_time(&self) -> RunTime {
        let (limit, (part, began_at)) = self.part();
        let (look, is_first) = {
            let mut state = self.time.state();
            state.looks += 1;
            let is_first = state.part != part;
            if is_first {
                state.part = part;
                state.began_at = began_at;
                state.paused = Duration::ZERO;
            }
            (state.looks, is_first)
        };
        if let Some(delay) = self.look(look, is_first) {
            let micros = i64::try_from(delay).unwrap_or(i64::MAX);
            let began_at = began_at.unix_micros().saturating_add(micros);
            self.time.state().began_at = Timestamp::from_unix_micros(began_at);
        }
        let state = self.time.state();
        let used = between(state.began_at, state.now).saturating_sub(state.paused);
        RunTime {
            time: state.now,
            elapsed: between(self.time.base, state.now),
            left: limit.saturating_sub(used),
        }
    }

    /// The wall time of the part that the guest is in, its number and when it began.
    pub(super) fn part(&self) -> (Duration, (u64, Timestamp)) {
        let own = self.cx.wall_time();
        match self.cx.replay() {
            None => (own, (1, self.time.base)),
            Some(replay) if replay.is_over_and_open() => {
                (own, (replay.next_part(), self.cx.began_at()))
            }
            Some(replay) => match replay.part() {
                Some((number, part)) => {
                    let wall_time = part.wall_time_ms.map_or(own, Duration::from_millis);
                    (wall_time, (number, part.began_at))
                }
                None => (own, (1, self.time.base)),
            },
        }
    }

    /// Moves the guest's time on if it is far behind. The first look of a part may find out how long that
    /// part waited before the guest began, in microseconds: that is no wall time.
    fn look(&self, look: u64, is_first: bool) -> Option<u64> {
        if let Some(replay) = self.cx.replay()
            && !replay.is_over()
        {
            let found = replay.timer("a look at a clock", false, |timer| timer.look == Some(look));
            return match found {
                Ok(Some((timer, time))) => {
                    // It was paid for when it was recorded, and is again.
                    let _no_room_then_either = self.pay_for_look();
                    self.time.fix(time);
                    timer.delay_micros
                }
                Ok(None) => None,
                Err(halt) => {
                    self.cx.halt(halt);
                    None
                }
            };
        }
        if self.cx.is_record_only() {
            // A run that was cut off may have waited for a time to come, which nobody knows of.
            let recorded = self.cx.replay().map(Replay::recorded);
            if recorded.is_some_and(|recorded| !recorded.has_end()) {
                let ends = Halt::RecordEnds("a look at a clock".to_owned());
                self.cx.halt(ends);
            }
            return None;
        }
        let is_late = is_first && self.time.delay >= LAG_MAX;
        let behind = between(self.time.state().now, self.time.clock.now());
        if (behind < LAG_MAX && !is_late) || self.pay_for_look().is_err() {
            return None;
        }
        let delay_micros = u64::try_from(self.time.delay.as_micros()).unwrap_or(u64::MAX);
        let timer = Timer {
            look: Some(look),
            delay_micros: is_late.then_some(delay_micros),
            ..Timer::default()
        };
        // A record that cannot be written is met by whatever the guest does next.
        let _kept_by_the_recorder = self.record(Origin::Host, timer);
        is_late.then_some(delay_micros)
    }

    fn pay_for_look(&self) -> Result<(), LimitReached> {
        let budget = self.cx.budget();
        budget.take(LimitKey::GuestEvents, 1)?;
        budget.take(LimitKey::GuestEventBytes, LOOK_BYTES)
    }

    pub(super) fn recalled_poll(&self) -> Result<Option<Vec<u32>>, RecordRefused> {
        let poll = {
            let mut state = self.time.state();
            state.polls += 1;
            state.polls
        };
        let Some(replay) = self.cx.replay() else {
            return Ok(None);
        };
        let what = format!("poll {poll} of the guest");
        let found = replay.timer(&what, true, |timer| timer.poll == Some(poll));
        let Some((timer, time)) = found.map_err(|halt| self.refuse(halt))? else {
            return Ok(None);
        };
        self.time.fix(time);
        Ok(Some(timer.ready))
    }

    pub(super) fn record_poll(
        &self,
        ready: &[u32],
        waited_micros: u64,
    ) -> Result<(), RecordRefused> {
        if self.cx.is_record_only() {
            return Err(self.refuse(Halt::RecordEnds("a poll of the guest".to_owned())));
        }
        let timer = Timer {
            poll: Some(self.time.state().polls),
            ready: ready.to_vec(),
            duration_micros: waited_micros,
            ..Timer::default()
        };
        self.record(Origin::Host, timer).map(|_seq| ())
    }
}
