//! Records the events of one run.

mod redacted;

use std::borrow::Cow;
use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::{Notify, watch};

use super::blob::{self, Blobs, Fit, PutError};
use super::bus::{Bus, Published};
use super::error::{Failure, RecordError};
use super::event::{Event, Origin};
use super::folder::Folder;
use super::health::Health;
use super::payload::{Head, RunCompleted};
use super::pending::SilentRuns;
use super::redact::Redactions;
use super::state::State;
use super::statistics::Counters;
use super::sync::{Flusher, lock};
use super::writer::{AppendError, Writer};
use crate::clock::{Clock, Timestamp};
use crate::config::Durability;
use crate::id::RunId;

/// Where and when an event was recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Appended {
    /// The event's number.
    pub seq: u64,
    /// The time that stands in its line.
    pub time: Timestamp,
}

/// What the recorders of one store share.
pub(super) struct Shelf {
    pub(super) folder: Folder,
    pub(super) durability: Durability,
    pub(super) clock: Clock,
    pub(super) health: Health,
    pub(super) flusher: Flusher,
    pub(super) bus: Bus,
    pub(super) redactions: Redactions,
    /// Wakes who waits for decisions.
    pub(super) decided: Notify,
    pub(super) counters: Counters,
    /// Runs that wait for none.
    pub(super) silent: SilentRuns,
}

/// Records the events of one run. It is the ledger's only writer, and a cheap handle: clones record
/// into the same ledger, in one order.
///
/// The ledger is closed, and its lock given up, when `run_completed` is recorded or the last clone
/// goes.
#[derive(Clone)]
pub struct Recorder(Arc<Owner>);

/// Closes the ledger when the last recorder goes, whoever else still syncs it.
struct Owner(Arc<Ledger>);

impl Drop for Owner {
    fn drop(&mut self) {
        self.0.close();
    }
}

struct Ledger {
    run_id: RunId,
    shelf: Arc<Shelf>,
    blobs: Blobs,
    core: Mutex<Core>,
    /// The first failed write or sync. Nothing is written after it.
    failure: OnceLock<Arc<Failure>>,
    /// A sync failed. The next one could seem to succeed, because the system reports a failure once.
    /// After a failed write alone, what was written before is still made durable.
    sync_failed: AtomicBool,
    /// The number of the newest durable event. It is announced also when a sync failed.
    durable: watch::Sender<u64>,
    /// How far the ledger may be read by subscribers.
    published: watch::Sender<Published>,
    /// Lets one sync happen at a time: of two at once, only one is told of a failure. When both locks
    /// are needed, this one is taken before `core`.
    sync_turn: Mutex<()>,
    /// A sync will begin that covers every event there is by then.
    sync_is_scheduled: AtomicBool,
    /// A sync will happen soon though nobody waits for it.
    flush_is_scheduled: AtomicBool,
}

struct Core {
    /// Absent once the ledger is closed.
    writer: Option<Writer>,
    head: Head,
    state: State,
    /// The number of the newest event that must be durable before a subscriber sees it.
    sync_point: u64,
    /// `run_completed` is in the file; what follows it is another recorder's.
    ended: bool,
}

/// Whether an event has to be durable before anyone sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SyncPoint {
    Yes,
    No,
}

/// A line that is in the file and may not be durable.
struct Written {
    appended: Appended,
    ended: bool,
    /// What is to be synced; absent when the store is relaxed.
    file: Option<Arc<File>>,
}

impl Recorder {
    /// Goes on with a ledger that has `state` and stands at the writer's head.
    pub(super) fn new(
        shelf: Arc<Shelf>,
        run_id: RunId,
        writer: Writer,
        state: State,
        blobs: Blobs,
    ) -> Self {
        let published = shelf.bus.open(&run_id, writer.head().seq);
        let core = Core {
            head: writer.head(),
            writer: Some(writer),
            state,
            sync_point: 0,
            ended: false,
        };
        Self::of(shelf, run_id, core, blobs, published)
    }

    /// One that is closed from its beginning: nothing is ever recorded.
    pub(super) fn closed(shelf: Arc<Shelf>, run_id: RunId) -> Self {
        let core = Core {
            head: Head::default(),
            writer: None,
            state: State::default(),
            sync_point: 0,
            ended: true,
        };
        let blobs = Blobs::new(&run_id);
        let published = Published {
            seq: 0,
            closed: true,
        };
        Self::of(shelf, run_id, core, blobs, watch::Sender::new(published))
    }

    fn of(
        shelf: Arc<Shelf>,
        run_id: RunId,
        core: Core,
        blobs: Blobs,
        published: watch::Sender<Published>,
    ) -> Self {
        Self(Arc::new(Owner(Arc::new(Ledger {
            run_id,
            shelf,
            blobs,
            core: Mutex::new(core),
            failure: OnceLock::new(),
            sync_failed: AtomicBool::new(false),
            durable: watch::Sender::new(0),
            published,
            sync_turn: Mutex::new(()),
            sync_is_scheduled: AtomicBool::new(false),
            flush_is_scheduled: AtomicBool::new(false),
        }))))
    }

    /// The run whose events these are.
    pub fn run_id(&self) -> &RunId {
        &self.0.0.run_id
    }

    /// The newest line.
    pub fn head(&self) -> Head {
        lock(&self.0.0.core).head
    }

    /// Where the run is: what may be recorded next.
    pub fn state(&self) -> State {
        lock(&self.0.0.core).state.clone()
    }

    /// Records an event: it has its place in the file when this returns, and is durable within 50 ms
    /// (never, when the store is relaxed). It neither blocks on a sync nor needs a runtime, with one
    /// exception: `run_completed` is durable when this returns.
    ///
    /// # Errors
    /// After [`RecordError::Poisoned`] and [`RecordError::Ended`] nothing more is recorded. After any
    /// other nothing was written, and the recorder goes on.
    pub fn record(&self, origin: Origin, event: &Event) -> Result<Appended, RecordError> {
        let ledger = &self.0.0;
        let Written {
            appended,
            ended,
            file,
        } = ledger.append(origin, event, SyncPoint::No)?;
        match file {
            None => ledger.close_if_ended(),
            Some(file) if ended => ledger.sync(&file)?,
            Some(file) => ledger.flush_soon(file),
        }
        Ok(appended)
    }

    /// Records an event, which has its place in the file when this returns. The future is ready when it,
    /// and every one before it, is durable; when the store is relaxed, at once. Callers at the same time share one sync. Dropping the
    /// future does not take the event back, nor its sync. On a runtime with several threads, what else
    /// the same task does waits for the sync as well.
    ///
    /// # Errors
    /// As [`Recorder::record`]; and [`RecordError::ShutDown`] when the runtime is going away.
    ///
    /// # Panics
    /// Outside of a tokio runtime, and in a `LocalSet`, unless the store is relaxed.
    pub fn record_durable<'a>(
        &'a self,
        origin: Origin,
        event: &Event,
    ) -> impl Future<Output = Result<Appended, RecordError>> + Send + use<'a> {
        let ledger = &self.0.0;
        let written = ledger.append(origin, event, SyncPoint::Yes);
        async move {
            let Written { appended, file, .. } = written?;
            match file {
                None => ledger.close_if_ended(),
                Some(file) => ledger.synced(file, appended.seq).await?,
            }
            Ok(appended)
        }
    }

    /// Records an event that was recorded elsewhere at that time. It does not wait for its being durable.
    pub(super) fn record_as_of(
        &self,
        time: Timestamp,
        origin: Origin,
        event: &Event,
    ) -> Result<(), RecordError> {
        let ledger = &self.0.0;
        let written = ledger.append_as_of(Some(time), origin, event, SyncPoint::No)?;
        if let Some(file) = written.file {
            ledger.flush_soon(file);
        }
        Ok(())
    }

    /// As [`Recorder::record_durable`], on the calling thread.
    pub(super) fn record_durable_blocking(
        &self,
        origin: Origin,
        event: &Event,
    ) -> Result<Appended, RecordError> {
        let ledger = &self.0.0;
        let Written { appended, file, .. } = ledger.append(origin, event, SyncPoint::Yes)?;
        match file {
            None => ledger.close_if_ended(),
            Some(file) => ledger.sync(&file)?,
        }
        Ok(appended)
    }
}

impl Ledger {
    /// Numbers the event and writes its line, in one step with respect to every other event.
    fn append(
        &self,
        origin: Origin,
        event: &Event,
        sync_point: SyncPoint,
    ) -> Result<Written, RecordError> {
        self.append_as_of(None, origin, event, sync_point)
    }

    /// As [`Ledger::append`], at the time that it is now or at another.
    fn append_as_of(
        &self,
        time: Option<Timestamp>,
        origin: Origin,
        event: &Event,
        sync_point: SyncPoint,
    ) -> Result<Written, RecordError> {
        let not_writable = || RecordError::NotWritable {
            kind: event.kind().to_owned(),
        };
        let redacted = self.shelf.redactions.apply(event);
        let redacted = redacted.map_err(|_| not_writable())?;
        let event = redacted.as_ref().unwrap_or(event);
        let event = match blob::fit(event) {
            Fit::Line => Cow::Borrowed(event),
            Fit::Blobs => {
                // An event that cannot happen must not leave a blob behind.
                self.check(&lock(&self.core), origin, event)?;
                Cow::Owned(self.outsource(event)?)
            }
            Fit::Nothing => return Err(not_writable()),
        };

        let mut core = lock(&self.core);
        self.check(&core, origin, &event)?;
        let event = with_cost(event, &core.state);
        let Some(writer) = &mut core.writer else {
            return Err(self.ended());
        };
        let time = time.unwrap_or_else(|| self.shelf.clock.now());
        let seq = writer
            .append(time, origin, &event)
            .map_err(|error| match error {
                AppendError::Refused(refusal) => refusal,
                AppendError::Failed(error) => self.poison("write of an event", error),
            })?;
        let file = self.is_durable().then(|| Arc::clone(writer.file()));
        core.head = writer.head();
        core.state = std::mem::take(&mut core.state).after(origin, &event);
        core.ended = matches!(*event, Event::RunCompleted(_));
        if sync_point == SyncPoint::Yes || core.ended {
            core.sync_point = seq;
        }
        let written = Written {
            appended: Appended { seq, time },
            ended: core.ended,
            file,
        };
        self.publish(core);
        Ok(written)
    }

    /// Lets subscribers read whatever they may by now.
    fn publish(&self, core: MutexGuard<'_, Core>) {
        let durable = *self.durable.borrow();
        let readable = if self.is_durable() && core.sync_point > durable {
            durable
        } else {
            core.head.seq
        };
        self.shelf
            .bus
            .publish(&self.run_id, &self.published, readable);
        // Only now: two callers whose announcements overtook each other would lose an event.
        drop(core);
    }

    fn is_durable(&self) -> bool {
        self.shelf.durability == Durability::Sync
    }

    /// The event with its large fields stored beside the ledger.
    fn outsource(&self, event: &Event) -> Result<Event, RecordError> {
        self.blobs
            .outsource(&self.shelf.folder, event, self.is_durable())
            .map_err(|error| match error {
                PutError::Failed(error) => self.poison("write of a blob", error),
                PutError::Limit(bytes) => RecordError::BlobLimit {
                    run_id: self.run_id.clone(),
                    bytes,
                },
            })
    }

    fn check(&self, core: &Core, origin: Origin, event: &Event) -> Result<(), RecordError> {
        if let Some(failure) = self.failure.get() {
            return Err(RecordError::Poisoned(Arc::clone(failure)));
        }
        if core.ended || core.writer.is_none() {
            return Err(self.ended());
        }
        Ok(core.state.check(origin, event)?)
    }

    fn ended(&self) -> RecordError {
        RecordError::Ended {
            run_id: self.run_id.clone(),
        }
    }

    /// Takes this ledger, and the store, out of use; the first failure is the one that is told.
    fn poison(&self, operation: &'static str, source: io::Error) -> RecordError {
        let failure = self.failure.get_or_init(|| {
            Arc::new(Failure {
                operation,
                run_id: self.run_id.clone(),
                source,
            })
        });
        self.shelf.counters.failed();
        self.shelf.health.fail(failure, &self.shelf.clock);
        RecordError::Poisoned(Arc::clone(failure))
    }

    /// As [`Ledger::poison`]; and no sync follows.
    fn poison_sync(&self, operation: &'static str, source: io::Error) -> RecordError {
        let error = self.poison(operation, source);
        self.sync_failed.store(true, Ordering::SeqCst);
        self.durable.send_modify(|_unchanged| ());
        error
    }

    /// The failure after which nothing becomes durable.
    fn failed_sync(&self) -> Result<(), RecordError> {
        match self.failure.get() {
            Some(failure) if self.sync_failed.load(Ordering::SeqCst) => {
                Err(RecordError::Poisoned(Arc::clone(failure)))
            }
            _ => Ok(()),
        }
    }

    /// Makes every event durable that is in the file when this begins.
    fn sync(&self, file: &File) -> Result<(), RecordError> {
        let _turn = lock(&self.sync_turn);
        self.sync_is_scheduled.store(false, Ordering::SeqCst);
        self.failed_sync()?;
        let (newest, ended) = {
            let core = lock(&self.core);
            (core.head.seq, core.ended)
        };
        if *self.durable.borrow() < newest {
            // The blobs first, so that no line is announced as durable before what it names is. A line
            // that comes in meanwhile can reach the disk ahead of its blob, which `verify` then tells.
            self.blobs
                .sync(&self.shelf.folder)
                .map_err(|error| self.poison_sync("sync of a blob", error))?;
            let begun = self.shelf.clock.stopwatch();
            rustix::fs::fdatasync(file)
                .map_err(|error| self.poison_sync("sync of the file", error.into()))?;
            self.shelf.counters.synced(begun.elapsed_micros());
            self.durable.send_replace(newest);
            self.publish(lock(&self.core));
        }
        if ended {
            self.close();
        }
        Ok(())
    }

    /// Returns when event `seq` is durable: by a sync of its own, or by one that is about to begin for
    /// somebody else.
    async fn synced(self: &Arc<Self>, file: Arc<File>, seq: u64) -> Result<(), RecordError> {
        let mut durable = self.durable.subscribe();
        if !self.sync_is_scheduled.swap(true, Ordering::SeqCst) {
            let promise = SyncPromise {
                ledger: Arc::clone(self),
                file: Some(file),
            };
            // Two changes of thread cost as much as the sync of a good disk, so that a runtime with
            // threads to spare lets this one wait.
            if Handle::current().runtime_flavor() == RuntimeFlavor::MultiThread {
                return tokio::task::block_in_place(|| promise.keep());
            }
            let sync = tokio::task::spawn_blocking(move || promise.keep());
            return sync.await.unwrap_or(Err(RecordError::ShutDown));
        }
        while *durable.borrow_and_update() < seq {
            self.failed_sync()?;
            if durable.changed().await.is_err() {
                return Err(RecordError::ShutDown);
            }
        }
        Ok(())
    }

    /// Lets a sync happen though nobody waits for it.
    fn flush_soon(self: &Arc<Self>, file: Arc<File>) {
        if self.flush_is_scheduled.swap(true, Ordering::SeqCst) {
            return;
        }
        let ledger = Arc::clone(self);
        self.shelf.flusher.run_soon(move || {
            ledger.flush_is_scheduled.store(false, Ordering::SeqCst);
            // A failure is sticky, and so told to whoever records next.
            let _told_later = ledger.sync(&file);
        });
    }

    fn close_if_ended(&self) {
        let ended = lock(&self.core).ended;
        if ended {
            self.close();
        }
    }

    fn close(&self) {
        let writer = lock(&self.core).writer.take();
        if let Some(writer) = writer {
            writer.close();
            self.shelf.bus.close(&self.run_id, &self.published);
        }
    }
}

/// The sync that `sync_is_scheduled` tells the others to wait for. When the runtime does not let it
/// happen, it is left to the flusher, so that nobody waits in vain.
struct SyncPromise {
    ledger: Arc<Ledger>,
    /// What is to be synced, until that begins.
    file: Option<Arc<File>>,
}

/// An end with what the calls of models before it cost together; any other event as it is.
fn with_cost<'a>(event: Cow<'a, Event>, before: &State) -> Cow<'a, Event> {
    match (&*event, before.cost_usd()) {
        (Event::RunCompleted(end), cost_usd) if end.cost_usd != cost_usd => {
            let end = RunCompleted {
                cost_usd,
                ..end.clone()
            };
            Cow::Owned(end.into())
        }
        _ => event,
    }
}

impl SyncPromise {
    fn keep(mut self) -> Result<(), RecordError> {
        match self.file.take() {
            Some(file) => self.ledger.sync(&file),
            None => Ok(()),
        }
    }
}

impl Drop for SyncPromise {
    fn drop(&mut self) {
        if let Some(file) = self.file.take() {
            self.ledger.sync_is_scheduled.store(false, Ordering::SeqCst);
            self.ledger.flush_soon(file);
        }
    }
}

#[cfg(test)]
mod tests;
