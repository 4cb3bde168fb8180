//! The events of an execution, read from its ledger.

use tokio::sync::watch;

use super::error::RuntimeError;
use super::event::{Event, EventKind};
use super::table::Progress;
use crate::clock::Timestamp;
use crate::id::ExecutionId;
use crate::ledger::{self, Delivery, Entry, Origin, Record, Store};

/// Lines that are read before others get a turn. Protects them from a subscriber to a long ledger.
const LINES_AT_ONCE: u32 = 128;

/// The events of an execution, in order, without gap and without repeat, whether they are there already or still
/// to come. It can be dropped at any time, and holds nothing up: whoever does not read is not waited for.
///
/// An event is handed over when the runtime has taken note of it: who is told that an execution is ready finds it
/// so.
pub struct EventSubscription {
    store: Store,
    id: ExecutionId,
    session_id: String,
    lines: ledger::Subscription,
    /// The number of the first event that is wanted.
    from: u64,
    /// Which part of the ledger is being read.
    part: u32,
    generation: u64,
    /// Whether the turn of that number has no end so far.
    is_turn_open: bool,
    /// How far the runtime is; none when it has let the execution go.
    progress: Option<watch::Receiver<Progress>>,
    /// An event that the runtime has not taken note of yet.
    held: Option<Event>,
    last_seq: u64,
    last_time: Timestamp,
    lines_at_once: u32,
    is_over: bool,
}

impl EventSubscription {
    /// # Errors
    /// The ledger cannot be read.
    pub(super) fn new(
        store: &Store,
        id: ExecutionId,
        session_id: String,
        started_at: Timestamp,
        from: Option<u64>,
        progress: Option<watch::Receiver<Progress>>,
    ) -> Result<Self, RuntimeError> {
        Ok(Self {
            // From its first line on: which part it is, and which prompt, only those before it tell.
            lines: store.subscribe(id.run_id(), 1)?,
            store: store.clone(),
            id,
            session_id,
            from: from.unwrap_or_default(),
            part: 0,
            generation: 0,
            is_turn_open: false,
            progress,
            held: None,
            last_seq: 0,
            last_time: started_at,
            lines_at_once: 0,
            is_over: false,
        })
    }

    /// The execution.
    pub fn execution_id(&self) -> &ExecutionId {
        &self.id
    }

    /// The next event, as soon as there is one; none after the last. It may be dropped at any time without losing
    /// an event.
    ///
    /// # Errors
    /// The ledger cannot be read; the next call goes on.
    pub async fn next(&mut self) -> Result<Option<Event>, RuntimeError> {
        loop {
            if let Some(held) = &self.held {
                wait_for(&mut self.progress, held).await;
                self.is_over = matches!(held.kind, EventKind::Stopped { .. });
                return Ok(self.held.take());
            }
            if self.is_over {
                return Ok(None);
            }
            self.lines_at_once += 1;
            if self.lines_at_once >= LINES_AT_ONCE {
                self.lines_at_once = 0;
                tokio::task::yield_now().await;
            }
            match self.lines.next().await? {
                None => self.is_over = true,
                Some(Delivery::Behind { events }) => return Ok(Some(self.lagged(events))),
                Some(Delivery::Entry(Entry::Damaged(damaged))) => {
                    self.held = self.damaged(damaged.line, &damaged.damage);
                }
                Some(Delivery::Entry(Entry::Record(record))) => self.take(&record)?,
            }
        }
    }

    /// The next event that is on record by now; none when it would have to be waited for, and after the last.
    ///
    /// # Errors
    /// The ledger cannot be read; the next call goes on.
    pub fn next_recorded(&mut self) -> Result<Option<Event>, RuntimeError> {
        loop {
            if let Some(held) = self.held.take() {
                self.is_over = matches!(held.kind, EventKind::Stopped { .. });
                return Ok(Some(held));
            }
            if self.is_over {
                return Ok(None);
            }
            match self.lines.try_next()? {
                None => return Ok(None),
                // Whoever takes what there is by now is behind nobody.
                Some(Delivery::Behind { .. }) => {}
                Some(Delivery::Entry(Entry::Damaged(damaged))) => {
                    self.held = self.damaged(damaged.line, &damaged.damage);
                }
                Some(Delivery::Entry(Entry::Record(record))) => self.take(&record)?,
            }
        }
    }

    fn event(&mut self, seq: u64, time: Timestamp, kind: EventKind) -> Event {
        (self.last_seq, self.last_time) = (seq, time);
        Event {
            seq,
            time,
            execution_id: self.id.clone(),
            session_id: self.session_id.clone(),
            prompt_generation: self.generation,
            kind,
        }
    }

    fn lagged(&mut self, lines: u64) -> Event {
        self.event(self.last_seq, self.last_time, EventKind::Lagged { lines })
    }

    /// What is told of a line that cannot be read.
    fn damaged(&mut self, line: u64, damage: &ledger::Damage) -> Option<Event> {
        let is_wanted = self.part == self.id.part() && line >= self.from;
        let message = format!("line {line} of the ledger is damaged: {damage}");
        let kind = EventKind::Error {
            message,
            code: None,
        };
        is_wanted.then(|| self.event(line, self.last_time, kind))
    }

    /// Takes note of a line, and holds the event that it is.
    fn take(&mut self, record: &Record) -> Result<(), RuntimeError> {
        if record.origin == Origin::Host {
            match record.kind.as_str() {
                "run_started" | "run_resumed" => self.part += 1,
                "prompt" => {
                    if let ledger::Event::Prompt(prompt) = record.event() {
                        self.generation = prompt.generation;
                        self.is_turn_open = true;
                    }
                }
                "turn_completed" => self.is_turn_open = false,
                _ => {}
            }
        }
        if self.part > self.id.part() {
            // The part that is wanted has no end on record.
            self.is_over = true;
            return Ok(());
        }
        if self.part < self.id.part() || !EventKind::is_event(record) {
            return Ok(());
        }
        let is_last = record.kind == "run_completed";
        if record.seq < self.from {
            self.is_over = is_last;
            return Ok(());
        }
        let whole = self.store.whole(self.id.run_id(), record.event());
        let open_turn = self.is_turn_open.then_some(self.generation);
        if let Some(kind) = EventKind::of(whole?, open_turn) {
            self.held = Some(self.event(record.seq, record.time, kind));
        }
        Ok(())
    }
}

/// Waits until the runtime has taken note of an event.
async fn wait_for(progress: &mut Option<watch::Receiver<Progress>>, event: &Event) {
    let Some(receiver) = progress else {
        return;
    };
    let has_come = |progress: &Progress| {
        progress.is_over
            || match event.kind {
                EventKind::BootReady
                | EventKind::Ready
                | EventKind::Running { .. }
                | EventKind::Complete { .. } => progress.seq >= event.seq,
                EventKind::ModeChanged { .. } | EventKind::ToolsChanged { .. } => {
                    !progress.is_mode_changing
                }
                EventKind::Stopped { .. } => false,
                _ => true,
            }
    };
    if receiver.wait_for(has_come).await.is_err() {
        // The runtime has let the execution go.
        *progress = None;
    }
}
