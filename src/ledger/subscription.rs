//! Events as they come, of one run or of all.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use super::bus::{Inbox, Notice, Published};
use super::error::StoreError;
use super::event::Event;
use super::line::Record;
use super::payload::RunStatus;
use super::reader::{Entry, Follower, Position};
use super::store::Store;
use super::summary::RunState;
use crate::id::RunId;

/// How often a ledger is looked at that another process writes.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);
/// Looks in vain after which it is asked whether anyone still writes.
const IDLE_LOOKS_MAX: u32 = 10;
/// Events that a subscriber may be behind before it is told so.
const BEHIND_MAX: u64 = 1024;
/// Runs whose place in the file a subscriber to all runs remembers; of others it is looked for.
/// Protects the host's memory from runs that never end.
const PLACES_MAX: usize = 4096;

/// What a subscriber is given.
#[derive(Debug, Clone)]
pub enum Delivery {
    /// The next line.
    Entry(Entry),
    /// The subscriber is slower than the run, and this many events behind. Nothing is lost: they come
    /// from the file.
    Behind {
        /// Events that may be read and were not.
        events: u64,
    },
}

/// The events of one run, from some number on, in order, without gap and without repeat, whether they
/// are there already or still to come.
pub struct Subscription {
    store: Store,
    run_id: RunId,
    follower: Follower,
    /// The number of the first event that is wanted; it may not have happened yet.
    from_seq: u64,
    /// Absent while no recorder of this process has the ledger.
    channel: Option<watch::Receiver<Published>>,
    idle_looks: u32,
    /// The last line read ended the run, or this part of it.
    ended: bool,
    /// Has read all there was at some time, and was not told since then that it is behind.
    is_on_time: bool,
    /// Lines that are read before it is looked again how far a writer in another process is.
    lines_to_look: u64,
    /// Has waited for the line that is read next: what came meanwhile came all at once.
    has_waited: bool,
    /// Whether a run that is suspended may still have events to come.
    waits_for_resume: bool,
}

impl Subscription {
    pub(super) fn new(store: Store, run_id: RunId, from_seq: u64) -> Result<Self, StoreError> {
        // The channel first: what is published after that is waited for, and what was published before
        // is in the file.
        let channel = store.bus().channel(&run_id);
        Self::on(store, run_id, channel, from_seq)
    }

    /// From the newest event that may be read.
    pub(super) fn from_newest(store: Store, run_id: RunId) -> Result<Self, StoreError> {
        let channel = store.bus().channel(&run_id);
        let published = channel.as_ref().map(|channel| *channel.borrow());
        let newest = match published.filter(|published| !published.closed) {
            Some(published) => published.seq,
            None => store.summary(&run_id)?.head.seq,
        };
        Self::on(store, run_id, channel, newest)
    }

    fn on(
        store: Store,
        run_id: RunId,
        channel: Option<watch::Receiver<Published>>,
        from_seq: u64,
    ) -> Result<Self, StoreError> {
        let mut follower = store.follow(&run_id, Position::default())?;
        follower.skip_to(from_seq)?;
        Ok(Self {
            store,
            run_id,
            follower,
            from_seq,
            channel,
            idle_looks: 0,
            ended: false,
            is_on_time: false,
            lines_to_look: 0,
            has_waited: false,
            waits_for_resume: false,
        })
    }

    /// Takes a suspended run for one that goes on: what happens after it is resumed is waited for, however
    /// long that takes.
    #[must_use]
    pub fn through_suspensions(mut self) -> Self {
        self.waits_for_resume = true;
        self
    }

    /// Where the next line begins.
    pub fn position(&self) -> Position {
        self.follower.position()
    }

    /// The next line, as soon as there is one; `None` when the run has ended, or nobody writes it any
    /// more. It may be dropped at any time without losing a line, and reads the file on the calling
    /// thread.
    ///
    /// # Errors
    /// The file cannot be read.
    ///
    /// # Panics
    /// Outside of a tokio runtime with its timers on.
    pub async fn next(&mut self) -> Result<Option<Delivery>, StoreError> {
        loop {
            if let Some(delivery) = self.try_next()? {
                return Ok(Some(delivery));
            }
            if !self.goes_on().await? {
                return Ok(None);
            }
        }
    }

    /// The next line, if there is one by now. It reads the file, and waits for nothing else.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn try_next(&mut self) -> Result<Option<Delivery>, StoreError> {
        loop {
            let channel = self.channel.as_mut();
            let published = channel.map(|channel| *channel.borrow_and_update());
            let open = published.filter(|published| !published.closed);
            let may_read = open.is_none_or(|open| self.follower.lines() < open.seq);
            let written = match open {
                Some(open) => open.seq,
                None => self.written_elsewhere()?,
            };
            let behind = written.saturating_sub(self.follower.lines());
            if self.is_on_time && behind > BEHIND_MAX {
                self.is_on_time = false;
                return Ok(Some(Delivery::Behind { events: behind }));
            }
            let entry = match may_read {
                true => self.follower.next_entry()?,
                false => None,
            };
            let Some(entry) = entry else {
                (self.is_on_time, self.lines_to_look) = (true, 0);
                return Ok(None);
            };
            (self.idle_looks, self.has_waited) = (0, false);
            self.ended = self.is_end(&entry);
            if !matches!(&entry, Entry::Record(record) if record.seq < self.from_seq) {
                return Ok(Some(Delivery::Entry(entry)));
            }
        }
    }

    /// The number of the last event that is on record, as far as another process writes it and it is time to look:
    /// nobody tells of that.
    fn written_elsewhere(&mut self) -> Result<u64, StoreError> {
        if !self.is_on_time {
            return Ok(0);
        }
        if self.has_waited {
            self.lines_to_look = BEHIND_MAX;
        }
        if self.lines_to_look > 0 {
            self.lines_to_look -= 1;
            return Ok(0);
        }
        self.lines_to_look = BEHIND_MAX;
        Ok(self.store.summary(&self.run_id)?.head.seq)
    }

    /// Waits until there may be a further line, after [`Subscription::try_next`] found none; false when none
    /// can come. It may be dropped at any time.
    ///
    /// # Errors
    /// The file cannot be read.
    ///
    /// # Panics
    /// Outside of a tokio runtime with its timers on.
    pub async fn goes_on(&mut self) -> Result<bool, StoreError> {
        // Not taken note of here, so that what changed since the last look is not waited for.
        let published = self.channel.as_ref().map(|channel| *channel.borrow());
        match (&mut self.channel, published) {
            // The sender goes only after it said that it is closed.
            (Some(channel), Some(Published { closed: false, .. })) => {
                drop(channel.changed().await);
            }
            // The recorder is gone, and more may be read than was when it was looked.
            (Some(_), _) => self.channel = None,
            (None, _) if self.ended => return Ok(false),
            (None, _) => {
                if self.nobody_writes()? {
                    return Ok(false);
                }
                tokio::time::sleep(LOOK_INTERVAL).await;
                self.has_waited = true;
                self.channel = self.store.bus().channel(&self.run_id);
            }
        }
        Ok(true)
    }

    /// Asks now and then, when nothing comes, whether anything can come.
    fn nobody_writes(&mut self) -> Result<bool, StoreError> {
        self.idle_looks += 1;
        if !self.idle_looks.is_multiple_of(IDLE_LOOKS_MAX) {
            return Ok(false);
        }
        let now = self.store.summary(&self.run_id)?;
        let has_more = now.head.seq > self.follower.lines();
        let is_over = match now.state {
            RunState::Running => now.writer_pid.is_none(),
            RunState::Ended(RunStatus::Suspended) => !self.waits_for_resume,
            RunState::Ended(_) | RunState::Corrupt => true,
        };
        Ok(!has_more && is_over)
    }

    fn is_end(&self, entry: &Entry) -> bool {
        let Entry::Record(record) = entry else {
            return false;
        };
        match record.event() {
            Event::RunCompleted(end) => {
                !(self.waits_for_resume && end.status == RunStatus::Suspended)
            }
            _ => false,
        }
    }
}

/// What a subscriber to all runs is given.
#[derive(Debug, Clone)]
pub enum AnyDelivery {
    /// An event, with the run in it. Those of one run come in order.
    Record(Box<Record>),
    /// The subscriber was so slow that it was not told of every run. Events are missing, which it finds
    /// by listing the runs; from here on it is told again.
    Lagged,
}

/// The events of all runs of this process, from now on.
pub struct AllSubscription {
    store: Store,
    inbox: Arc<Inbox>,
    current: Option<Current>,
    places: HashMap<RunId, Position>,
    /// Where the line of the event that was given last begins.
    last_at: Position,
}

/// The run that is being read.
struct Current {
    follower: Follower,
    /// The number of its last event that may be read.
    last: u64,
    /// The event read last ended the run.
    ended: bool,
}

impl AllSubscription {
    pub(super) fn new(store: Store) -> Self {
        Self {
            inbox: store.bus().inbox(),
            store,
            current: None,
            places: HashMap::new(),
            last_at: Position::default(),
        }
    }

    /// Where the line of the event that was given last begins, in its run's ledger.
    pub fn last_at(&self) -> Position {
        self.last_at
    }

    /// The next event of any run, as soon as there is one. It may be dropped at any time without losing
    /// an event, and reads files on the calling thread.
    ///
    /// # Errors
    /// A file cannot be read; the next call goes on with another run.
    pub async fn next(&mut self) -> Result<AnyDelivery, StoreError> {
        loop {
            if let Some(record) = self.next_of_current()? {
                return Ok(AnyDelivery::Record(record));
            }
            match self.inbox.next().await {
                Notice::Overflow => return Ok(AnyDelivery::Lagged),
                Notice::Events {
                    run_id,
                    first,
                    last,
                } => self.turn_to(&run_id, first, last)?,
            }
        }
    }

    fn turn_to(&mut self, run_id: &RunId, first: u64, last: u64) -> Result<(), StoreError> {
        let place = self.places.remove(run_id).unwrap_or_default();
        match self.store.follow(run_id, place) {
            Ok(mut follower) => {
                follower.skip_to(first)?;
                self.current = Some(Current {
                    follower,
                    last,
                    ended: false,
                });
                Ok(())
            }
            // The run was removed before it was read.
            Err(StoreError::NotFound { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn next_of_current(&mut self) -> Result<Option<Box<Record>>, StoreError> {
        let Some(mut current) = self.current.take() else {
            return Ok(None);
        };
        while current.follower.lines() < current.last {
            self.last_at = current.follower.position();
            match current.follower.next_entry()? {
                Some(Entry::Record(record)) => {
                    current.ended = record.kind == "run_completed";
                    self.current = Some(current);
                    return Ok(Some(record));
                }
                Some(Entry::Damaged(_)) => {}
                None => break,
            }
        }
        if !current.ended {
            self.remember_place(&current.follower);
        }
        Ok(None)
    }

    fn remember_place(&mut self, follower: &Follower) {
        let bus = self.store.bus();
        if bus.channel(follower.run_id()).is_none() {
            return;
        }
        if self.places.len() >= PLACES_MAX {
            self.places
                .retain(|run_id, _| bus.channel(run_id).is_some());
        }
        if self.places.len() < PLACES_MAX {
            let place = follower.position();
            self.places.insert(follower.run_id().clone(), place);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::event::Origin;
    use super::super::payload::{Log, RunCompleted, RunStarted};
    use super::super::store::StoreOptions;
    use super::*;
    use crate::clock::Clock;
    use crate::config::Durability;
    use crate::outcome::OutcomeCode;

    #[tokio::test]
    async fn only_places_in_runs_that_go_on_are_remembered() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(StoreOptions {
            runs_dir: dir.path().to_owned(),
            durability: Durability::Relaxed,
            clock: Clock::system(),
        })
        .unwrap();
        let mut all = store.subscribe_all();
        let gone = || (RunId::generate(), Position::default());
        all.places = std::iter::repeat_with(gone).take(PLACES_MAX).collect();
        let run_id = RunId::generate();
        let created = store.create(run_id.clone(), RunStarted::default());
        let (recorder, _) = created.await.unwrap();
        // The second event is asked for once the place after the first is remembered.
        all.next().await.unwrap();
        assert!(all.next_of_current().unwrap().is_none());
        assert_eq!(all.places.keys().collect::<Vec<_>>(), [&run_id]);
        let last = RunCompleted::new(RunStatus::Ok, OutcomeCode::Ok).into();
        for event in [Log::default().into(), last] {
            recorder.record(Origin::Host, &event).unwrap();
        }
        // The recorder is closed a moment after its last event can be read.
        let _not_yet_closed = store.bus().open(&run_id, 3);
        for _ in 0..2 {
            all.next().await.unwrap();
        }
        assert!(all.next_of_current().unwrap().is_none());
        assert!(all.places.is_empty());
    }
}
