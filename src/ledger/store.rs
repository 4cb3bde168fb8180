//! The folder of ledgers as a whole: new ones, old ones, lists.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio::sync::Notify;

use super::abandoned::{Abandoned, close_abandoned};
use super::blob;
use super::bus::Bus;
use super::create::create;
use super::digest::Digest;
use super::ended::EndedRuns;
use super::error::StoreError;
use super::event::Event;
use super::explain::{Explanation, explain};
use super::export::{ExportError, export};
use super::folder::Folder;
use super::health::Health;
use super::index::Index;
use super::json::BlobRef;
use super::list::{Listing, RunQuery};
use super::lock::Holders;
use super::payload::{Head, RunStarted};
use super::pending::SilentRuns;
use super::prune::{PruneReport, Retention, prune};
use super::reader::{Follower, Page, Position};
use super::recorder::{Appended, Recorder, Shelf};
use super::recover::recover;
use super::redact::{RedactError, Redactions};
use super::replay::Recorded;
use super::scan::is_of_the_original_system;
use super::state::Phase;
use super::statistics::Counters;
use super::subscription::{AllSubscription, Subscription};
use super::summary::{Summary, summarize};
use super::sync::Flusher;
use super::verify::{VerifyReport, verify};
use crate::clock::{Clock, Timestamp};
use crate::config::Durability;
use crate::id::RunId;

/// How the names of ledgers end.
pub(super) const SUFFIX: &str = ".jsonl";

/// The file of a run inside the folder.
pub(super) fn file_name(run_id: &RunId) -> String {
    format!("{run_id}{SUFFIX}")
}

/// How a store is opened.
#[derive(Debug, Clone)]
pub struct StoreOptions {
    /// The folder of the ledgers; made when it is missing.
    pub runs_dir: PathBuf,
    /// What an acknowledged append promises.
    pub durability: Durability,
    /// Where the times of events come from.
    pub clock: Clock,
}

/// The ledgers of all runs: a cheap handle, clones share everything.
///
/// Methods that are not `async` read the disk on the calling thread.
#[derive(Clone)]
pub struct Store(pub(super) Arc<Shelf>);

impl Store {
    /// Opens the folder, making it first if it is missing, for its owner alone.
    ///
    /// # Errors
    /// [`StoreError::Io`].
    pub fn open(options: StoreOptions) -> Result<Self, StoreError> {
        Ok(Self(Arc::new(Shelf {
            folder: Folder::open_or_make(&options.runs_dir)?,
            durability: options.durability,
            clock: options.clock,
            health: Health::default(),
            flusher: Flusher::default(),
            bus: Bus::default(),
            redactions: Redactions::default(),
            decided: Notify::new(),
            counters: Counters::default(),
            silent: SilentRuns::default(),
        })))
    }

    /// Starts the ledger of a new run. `run_started` is durable, and so is the name of its file, when
    /// this returns; when the store is relaxed, it is in the file, without a change of thread.
    ///
    /// # Errors
    /// [`StoreError::Exists`], unless all that is there is the file of a run that never began; [`StoreError::Unavailable`] after an earlier failure; and
    /// [`StoreError::Record`] when this very write fails, after which no file is left.
    ///
    /// # Panics
    /// Outside of a tokio runtime, unless the store is relaxed.
    pub async fn create(
        &self,
        run_id: RunId,
        started: RunStarted,
    ) -> Result<(Recorder, Appended), StoreError> {
        let shelf = Arc::clone(&self.0);
        match shelf.durability {
            Durability::Relaxed => create(&shelf, run_id, started),
            Durability::Sync => {
                tokio::task::spawn_blocking(move || create(&shelf, run_id, started))
                    .await
                    .unwrap_or(Err(StoreError::ShutDown))
            }
        }
    }

    /// Takes up the ledger of a run whose writer is gone.
    ///
    /// An end of the file that is no event, as a cut-off write leaves it, is kept in a file of its own
    /// beside the ledger, cut off, and reported by a `custom` event named
    /// [`TORN_TAIL`](super::TORN_TAIL). Everything else that is wrong with the file is an error, and
    /// the file is left as it is. It can be killed at any point and called again.
    ///
    /// # Errors
    /// [`StoreError::NotFound`], [`StoreError::Locked`] by a writer that is not gone,
    /// [`StoreError::Ended`], [`StoreError::NeverStarted`], [`StoreError::ReadOnly`] for a ledger of
    /// the original system, [`StoreError::Corrupt`], [`StoreError::Unavailable`].
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub async fn recover(&self, run_id: &RunId) -> Result<Recorder, StoreError> {
        Ok(self.take_up(run_id).await?.0)
    }

    /// As [`Store::recover`], with what is on record by then. A ledger of which the index knows a line that
    /// is not there is damaged.
    ///
    /// # Errors
    /// As [`Store::recover`].
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub async fn take_up(&self, run_id: &RunId) -> Result<(Recorder, Recorded), StoreError> {
        let (shelf, run_id) = (Arc::clone(&self.0), run_id.clone());
        tokio::task::spawn_blocking(move || {
            shelf.health.check_or_probe(&shelf.folder, &shelf.clock)?;
            let goes_on = |phase| matches!(phase, Phase::Running | Phase::Paused(_));
            let noted = index_of(&shelf).head(&run_id);
            recover(&shelf, &run_id, goes_on, noted)
        })
        .await
        .unwrap_or(Err(StoreError::ShutDown))
    }

    /// What an acknowledged append promises.
    pub fn durability(&self) -> Durability {
        self.0.durability
    }

    /// Keeps a value out of every ledger from now on: where it stands in an event's text, the ledger has
    /// `[redacted:name]`. What is there already stays.
    ///
    /// # Errors
    /// The value is too short or too long, the name is malformed, or there are too many values.
    pub fn redact(&self, name: &str, value: &str) -> Result<(), RedactError> {
        self.0.redactions.add(name, value)
    }

    /// Whether ledgers can be written.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] from the first failed write on, until a probe succeeds.
    pub fn healthy(&self) -> Result<(), StoreError> {
        self.0.health.check()
    }

    /// Tries to write to the folder; success makes the store healthy again. [`Store::create`] does
    /// this by itself, once a second at most.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub fn probe(&self) -> Result<(), StoreError> {
        self.0.health.probe(&self.0.folder)
    }

    /// The file of a run, whether it exists or not.
    pub fn path_of(&self, run_id: &RunId) -> PathBuf {
        self.0.folder.path().join(file_name(run_id))
    }

    /// The runs that `query` wants, newest first by the time of their first event, as their ledgers are
    /// now. A ledger that is damaged, or is not one, is shown as such, at the time that its name tells.
    ///
    /// An index beside the ledgers says where to look; it is brought up to date first, and made anew
    /// when it is missing or damaged.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn list(&self, query: &RunQuery) -> Result<Listing, StoreError> {
        self.index().list(query)
    }

    /// Brings the index up to date, so that the next list finds little to do, and so that the newest
    /// lines of runs that ended are on record outside their ledgers.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn update_index(&self) -> Result<(), StoreError> {
        self.index().update()
    }

    fn index(&self) -> Index<'_> {
        index_of(&self.0)
    }

    /// Records the end of every run that has none and whose writer is gone, as `interrupted`, so that
    /// no run seems to go on that nobody carries out. To be called on start, before new runs are. It
    /// can be killed at any point and called again; runs of other processes are left alone.
    ///
    /// # Errors
    /// The folder cannot be read. A run that cannot be closed is in the answer with the reason.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub async fn close_abandoned(&self) -> Result<Vec<Abandoned>, StoreError> {
        let shelf = Arc::clone(&self.0);
        tokio::task::spawn_blocking(move || close_abandoned(&shelf))
            .await
            .unwrap_or(Err(StoreError::ShutDown))
    }

    /// Removes the runs that `retention` does not keep, with everything that belongs to them; in a
    /// rehearsal, only says which. Only runs that ended go, and none that is suspended, damaged or of
    /// the original system. It can be killed at any point and called again.
    ///
    /// # Errors
    /// The folder cannot be read, or a file cannot be removed.
    pub fn prune(
        &self,
        retention: Retention,
        is_rehearsal: bool,
    ) -> Result<PruneReport, StoreError> {
        prune(self.index(), retention, is_rehearsal)
    }

    /// Copies a ledger line by line to `out`, with every value in its place that was too large for its
    /// line, and returns the number of lines. The copy is for reading: such a line is no longer the
    /// one that the chain was made of.
    ///
    /// # Errors
    /// [`ExportError`]; what was written until then is a good beginning.
    pub fn export(&self, run_id: &RunId, out: &mut dyn Write) -> Result<u64, ExportError> {
        export(self, run_id, out)
    }

    /// A run at a glance, from the first and the last line of its ledger.
    ///
    /// # Errors
    /// [`StoreError::NotFound`], or the file cannot be read. Damage is no error; the summary shows it.
    pub fn summary(&self, run_id: &RunId) -> Result<Summary, StoreError> {
        self.summarize(run_id, |file| Holders::now().of(file))
    }

    /// Why a run ended as it did, from its ledger alone.
    ///
    /// # Errors
    /// [`StoreError::NotFound`], or the file cannot be read.
    pub fn explain(&self, run_id: &RunId) -> Result<Explanation, StoreError> {
        let summary = self.summary(run_id)?;
        explain(&summary, self.follow(run_id, Position::default())?)
    }

    fn summarize(
        &self,
        run_id: &RunId,
        writer_of: impl FnOnce(&File) -> Option<u32>,
    ) -> Result<Summary, StoreError> {
        let file = self.open_ledger(run_id)?;
        summarize(run_id, &file, || writer_of(&file))
            .map_err(|source| self.unreadable(run_id, source))
    }

    /// Lines from the event numbered `from_seq` on, at most `limit` of them and at most
    /// [`PAGE_LINES_MAX`](super::PAGE_LINES_MAX). It has to pass over all lines before them; whoever
    /// reads on from page to page uses [`Store::follow`] with the position that the page names.
    ///
    /// # Errors
    /// [`StoreError::NotFound`], or the file cannot be read. Damage is no error; the page shows it.
    pub fn read(&self, run_id: &RunId, from_seq: u64, limit: usize) -> Result<Page, StoreError> {
        let mut follower = self.follow(run_id, Position::default())?;
        follower.skip_to(from_seq)?;
        follower.page(limit)
    }

    /// Reads a ledger line by line from `from` on, also while it grows.
    ///
    /// # Errors
    /// [`StoreError::NotFound`], or the file cannot be opened.
    pub fn follow(&self, run_id: &RunId, from: Position) -> Result<Follower, StoreError> {
        Ok(Follower::new(
            run_id.clone(),
            self.open_ledger(run_id)?,
            from,
        ))
    }

    /// The events of a run from the one numbered `from_seq` on, those that are there and those to come.
    ///
    /// # Errors
    /// [`StoreError::NotFound`], or the file cannot be read.
    pub fn subscribe(&self, run_id: &RunId, from_seq: u64) -> Result<Subscription, StoreError> {
        Subscription::new(self.clone(), run_id.clone(), from_seq)
    }

    /// As [`Store::subscribe`], from the newest event that there is.
    ///
    /// # Errors
    /// As [`Store::subscribe`].
    pub fn subscribe_newest(&self, run_id: &RunId) -> Result<Subscription, StoreError> {
        Subscription::from_newest(self.clone(), run_id.clone())
    }

    /// The events that recorders of this store write from now on, of all runs.
    pub fn subscribe_all(&self) -> AllSubscription {
        AllSubscription::new(self.clone())
    }

    /// The runs that recorders of this store leave from now on, once their last event may be read.
    pub fn ended_runs(&self) -> EndedRuns {
        self.bus().ends.subscribe()
    }

    pub(super) fn bus(&self) -> &Bus {
        &self.0.bus
    }

    /// A value that was too large for its line, whole.
    ///
    /// # Errors
    /// [`StoreError::Blob`] when it is missing or not the value that was stored.
    pub fn blob(&self, run_id: &RunId, reference: &BlobRef) -> Result<Vec<u8>, StoreError> {
        blob::load(&self.0.folder, run_id, reference)
    }

    /// As [`Store::blob`], to be read piece by piece, with the number of its bytes. It has been read once to see
    /// that it is what was stored; where the file is altered after that, less than it says may come, or other bytes.
    ///
    /// # Errors
    /// As [`Store::blob`].
    pub fn open_blob(&self, run_id: &RunId, blob: Digest) -> Result<(File, u64), StoreError> {
        blob::open_intact(&self.0.folder, run_id, blob)
    }

    /// An event of `run_id` with every value in its place that was too large for the line.
    ///
    /// # Errors
    /// As [`Store::blob`], and [`StoreError::BlobContent`].
    pub fn whole(&self, run_id: &RunId, event: Event) -> Result<Event, StoreError> {
        blob::restore(&self.0.folder, run_id, event)
    }

    /// Checks a ledger from its first line to its last, and that it still holds the line that was its
    /// newest when that was noted: `noted`, or what the index has.
    ///
    /// # Errors
    /// [`StoreError::NotFound`], or the file cannot be read. Whatever is wrong is in the report.
    pub fn verify(&self, run_id: &RunId, noted: Option<Head>) -> Result<VerifyReport, StoreError> {
        let file = self.open_ledger(run_id)?;
        let noted = noted.or_else(|| self.index().head(run_id));
        verify(&self.0.folder, run_id, file, noted)
            .map_err(|source| self.unreadable(run_id, source))
    }

    fn open_ledger(&self, run_id: &RunId) -> Result<File, StoreError> {
        open_ledger(&self.0.folder, run_id)
    }

    fn unreadable(&self, run_id: &RunId, source: io::Error) -> StoreError {
        self.0.folder.failed("read", &file_name(run_id), source)
    }
}

pub(super) fn index_of(shelf: &Shelf) -> Index<'_> {
    Index {
        folder: &shelf.folder,
        clock: &shelf.clock,
    }
}

/// As [`Store::verify`], for a ledger anywhere. Its blobs are looked for beside it.
///
/// # Errors
/// [`StoreError::NotALedger`] when the file is not named after a run; or it cannot be read.
pub fn verify_file(path: &Path, noted: Option<Head>) -> Result<VerifyReport, StoreError> {
    let run_id: RunId = path
        .file_name()
        .and_then(|name| name.to_str()?.strip_suffix(SUFFIX)?.parse().ok())
        .ok_or_else(|| StoreError::NotALedger {
            path: path.to_owned(),
        })?;
    let parent = path
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty());
    let folder = Folder::open(parent.unwrap_or(Path::new(".")))?;
    let file = open_ledger(&folder, &run_id)?;
    verify(&folder, &run_id, file, noted)
        .map_err(|source| folder.failed("read", &file_name(&run_id), source))
}

/// Opens a run's ledger to read it.
pub(super) fn open_ledger(folder: &Folder, run_id: &RunId) -> Result<File, StoreError> {
    let name = file_name(run_id);
    folder.open_read(&name).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => StoreError::NotFound {
            run_id: run_id.clone(),
        },
        _ => folder.failed("open", &name, error),
    })
}

/// The time that an id names, in milliseconds since 1970.
pub(super) fn start_millis(run_id: &RunId) -> i64 {
    let id = run_id.as_str().trim_start_matches("run_");
    let original = || {
        let digit = |range| id.get(range).unwrap_or_default();
        let (date, time) = (
            [digit(0..4), digit(4..6), digit(6..8)],
            [digit(9..11), digit(11..13)],
        );
        let seconds = [digit(13..15), digit(15..18)];
        let moment = format!(
            "{}T{}:{}Z",
            date.join("-"),
            time.join(":"),
            seconds.join(".")
        );
        moment
            .parse()
            .map_or(0, |moment: Timestamp| moment.unix_micros() / 1000)
    };
    if is_of_the_original_system(run_id) {
        original()
    } else {
        id.get(..12)
            .and_then(|millis| i64::from_str_radix(millis, 16).ok())
            .unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::super::bus::Notice;
    use super::*;

    #[tokio::test]
    async fn a_run_whose_name_is_not_durable_is_announced_to_nobody() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(StoreOptions {
            runs_dir: dir.path().join("not").join("there"),
            durability: Durability::Sync,
            clock: Clock::system(),
        })
        .unwrap();
        let inbox = store.bus().inbox();
        store.0.folder.break_sync();
        let created = store.create(RunId::generate(), RunStarted::default()).await;
        assert!(matches!(created, Err(StoreError::Record { .. })));
        assert!(matches!(store.healthy(), Err(StoreError::Unavailable(_))));
        assert_eq!(store.0.folder.names().unwrap().count(), 0);
        store.probe().unwrap();
        let run_id = RunId::generate();
        let created = store.create(run_id.clone(), RunStarted::default());
        let _recorder = created.await.unwrap();
        let first = inbox.next().await;
        assert!(matches!(first, Notice::Events { run_id: told, .. } if told == run_id));
    }

    #[test]
    fn ids_of_both_systems_name_their_time() {
        let at = |id: &str| start_millis(&id.parse().unwrap());
        assert_eq!(
            at("run_20260513T170216042_9f86d081884c7d65"),
            1_778_691_736_042
        );
        assert_eq!(at("run_20269913T170216042_9f86d081884c7d65"), 0);
        assert_eq!(at("run_0190a0a0a0a07000800000000000abcd"), 0x0190_a0a0_a0a0);
    }
}
