//! The index of all runs: SQLite in `index.db`, made from the ledgers and never trusted over them.
//!
//! No run waits for it. Whoever lists first brings it up to date, comparing names and files with what
//! it holds; what is shown is then read from the ledgers themselves. What keeps it from lying:
//!
//! - **A stamp.** When the database is closed, its file gets the modification time that stands in it.
//!   A file with another time was changed by somebody else or not to the end, and is made anew.
//! - **Names.** They are compared whenever the folder has changed since they were compared last.
//! - **Files.** Those of runs that have not ended for good are compared every time.
//! - **No index is no failure.** Where none can be kept, one is made in memory for the one question. What
//!   is on disk stays when it is the disk, or the memory, that is at fault.
//!
//! It also keeps the newest line of each run that ended, which a ledger that lost its end no longer
//! has. A line is kept only when it would survive a power cut, and is replaced only by a later one of a
//! ledger that still holds it.

mod refresh;
mod table;

use std::fs::File;
use std::io::{self, Seek as _};

use rusqlite::{Connection, ErrorCode, TransactionBehavior};

use self::refresh::refresh;
use self::table::{Row, STAMP, Table};
use super::error::{Corruption, StoreError};
use super::folder::{FileStamp, Folder};
use super::list::{Listing, RunQuery};
use super::lock::{self, Holders};
use super::payload::Head;
use super::scan::scan;
use super::store::{file_name, open_ledger, start_millis};
use super::summary::{RunState, Summary, summarize};
use crate::clock::Clock;
use crate::id::RunId;

const NAME: &str = "index.db";
/// SQLite's own, for taking back what was not finished.
const JOURNAL_NAME: &str = "index.db-journal";
/// Its lock lets one process at a time have the database open.
const LOCK_NAME: &str = "index.lock";
const SETTINGS: &str = "PRAGMA journal_mode = PERSIST; PRAGMA synchronous = FULL; \
     PRAGMA locking_mode = EXCLUSIVE; PRAGMA trusted_schema = OFF;";
/// Databases that are tried before one is made in memory: the one that is there, and a new one.
const ATTEMPTS: usize = 2;
/// Rows that a list corrects before it takes the rest as they are. Protects from a folder that
/// changes as fast as it is read.
const CORRECTIONS_MAX: usize = 1000;

/// Why the index cannot be used.
#[derive(Debug, thiserror::Error)]
enum IndexError {
    /// The database is damaged, or cannot be written.
    #[error("index unusable")]
    Database(#[from] rusqlite::Error),
    #[error("index unusable")]
    File(#[source] io::Error),
    /// Somebody else changed the database, or it was not closed, or another version made it.
    #[error("index is not as it was left")]
    Touched,
    /// The ledgers cannot be read, which no other index would change.
    #[error("ledgers unreadable")]
    Ledgers(#[source] io::Error),
}

impl IndexError {
    /// Whether the database itself is at fault, so that only a new one helps. A full disk or too little
    /// memory pass, and what has been noted of ledgers cannot be found out again.
    fn condemns_database(&self) -> bool {
        match self {
            Self::Touched => true,
            Self::File(_) | Self::Ledgers(_) => false,
            Self::Database(error) => match error.sqlite_error_code() {
                Some(code) => matches!(
                    code,
                    ErrorCode::NotADatabase
                        | ErrorCode::DatabaseCorrupt
                        // A statement that does not fit the tables, or rows that do not.
                        | ErrorCode::Unknown
                        | ErrorCode::ConstraintViolation
                        | ErrorCode::TypeMismatch
                ),
                // A row that cannot be what was put there.
                None => true,
            },
        }
    }
}

/// The folder whose ledgers are indexed, and what is needed to read them.
#[derive(Clone, Copy)]
pub(super) struct Index<'a> {
    pub(super) folder: &'a Folder,
    pub(super) clock: &'a Clock,
}

impl Index<'_> {
    /// The runs that `query` wants, as their ledgers are now.
    pub(super) fn list(self, query: &RunQuery) -> Result<Listing, StoreError> {
        self.with_current(|index, table| index.select(table, query))
    }

    /// Brings the index up to date and does nothing else.
    pub(super) fn update(self) -> Result<(), StoreError> {
        self.with_current(|_, _| Ok(()))
    }

    /// The newest line that the run is known to have had, as the index has it now.
    pub(super) fn head(self, run_id: &RunId) -> Option<Head> {
        let _lock = self.lock().ok()?;
        let found = self.folder.stamp_of(NAME).ok()?;
        let row = self.on_locked_disk(Some(found), |connection| {
            Ok(Table::new(connection).get(run_id)?)
        });
        row.ok().flatten()?.head
    }

    /// Answers a question from an index that has just been brought up to date: the one on disk, a new
    /// one in its place if that one is damaged, or one in memory if none can be kept or used.
    fn with_current<T>(
        self,
        question: impl Fn(Self, &Table<'_>) -> Result<T, IndexError>,
    ) -> Result<T, StoreError> {
        let answer = |connection: &Connection| {
            let table = Table::new(connection);
            refresh(self, &table)?;
            question(self, &table)
        };
        for _ in 0..ATTEMPTS {
            match self.on_disk(answer) {
                Ok(answer) => return Ok(answer),
                Err(IndexError::Ledgers(error)) => return Err(self.unreadable(error)),
                Err(error) if error.condemns_database() => tracing::info!(
                    error = &error as &dyn std::error::Error,
                    "index of runs discarded"
                ),
                Err(error) => {
                    tracing::info!(
                        error = &error as &dyn std::error::Error,
                        "index of runs not used this time"
                    );
                    break;
                }
            }
        }
        self.in_memory(answer).map_err(|error| match error {
            IndexError::Ledgers(error) | IndexError::File(error) => self.unreadable(error),
            error => self.unreadable(io::Error::other(error)),
        })
    }

    fn unreadable(self, error: io::Error) -> StoreError {
        self.folder.failed("list", "", error)
    }

    /// Lets this process, and in it this caller, have the database alone.
    fn lock(self) -> Result<File, IndexError> {
        // The database's own file cannot be locked by other means than SQLite's: to close a second
        // descriptor of it would end those.
        let lock = self.folder.create_temporary(LOCK_NAME);
        let lock = lock.map_err(IndexError::File)?;
        lock::exclusive(&lock).map_err(IndexError::File)?;
        Ok(lock)
    }

    /// Works on the database on disk. One that is at fault is removed; any other stays as it was when
    /// the work fails.
    fn on_disk<T>(
        self,
        work: impl FnOnce(&Connection) -> Result<T, IndexError>,
    ) -> Result<T, IndexError> {
        let _lock = self.lock()?;
        let found = self.folder.stamp_of(NAME).ok();
        let done = self.on_locked_disk(found, work);
        match &done {
            Ok(_) => {}
            Err(error) if error.condemns_database() => {
                for name in [NAME, JOURNAL_NAME] {
                    // What cannot be removed is met again when it is opened.
                    let _gone = self.folder.remove(name);
                }
            }
            // To take back what was begun writes the file anew, with the same content. Should the
            // content be another after all, its stamp is as well.
            Err(_) => {
                if let Some(found) = found {
                    let _untouched = self.folder.set_mtime(NAME, found.mtime_nanos);
                }
            }
        }
        done
    }

    /// Works on the database on disk, which is made when it was not `found` there.
    fn on_locked_disk<T>(
        self,
        found: Option<FileStamp>,
        work: impl FnOnce(&Connection) -> Result<T, IndexError>,
    ) -> Result<T, IndexError> {
        if found.is_none() {
            // SQLite would make it for everybody to read.
            let made = self.folder.create_new(NAME);
            made.map_err(IndexError::File)?;
        }
        let mut connection = Connection::open(self.folder.path().join(NAME))?;
        connection.execute_batch(SETTINGS)?;
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let table = Table::new(&transaction);
        match found {
            None => table.create()?,
            Some(found) if table.stamp()? == Some(found.mtime_nanos) => {}
            Some(_) => return Err(IndexError::Touched),
        }
        let changes = transaction.total_changes();
        let answer = work(&transaction)?;
        let is_changed = found.is_none() || transaction.total_changes() != changes;
        let stamp = self.clock.now().unix_micros().saturating_mul(1000);
        if is_changed {
            table.note(STAMP, stamp)?;
        }
        transaction.commit()?;
        connection.close().map_err(|(_, error)| error)?;
        if is_changed {
            let stamped = self.folder.set_mtime(NAME, stamp);
            stamped.map_err(IndexError::File)?;
        }
        Ok(answer)
    }

    fn in_memory<T>(
        self,
        work: impl FnOnce(&Connection) -> Result<T, IndexError>,
    ) -> Result<T, IndexError> {
        let mut connection = Connection::open_in_memory()?;
        let transaction = connection.transaction()?;
        Table::new(&transaction).create()?;
        work(&transaction)
    }

    /// The runs that `query` wants. Rows say only where to look; a row that its ledger contradicts is
    /// corrected, and the search begins anew.
    fn select(self, table: &Table<'_>, query: &RunQuery) -> Result<Listing, IndexError> {
        let limit = query.limit.min(super::list::LIST_RUNS_MAX);
        let holders = Holders::now();
        let mut corrections = 0;
        'search: loop {
            let mut listing = Listing {
                foreign: table.foreign()?,
                ..Listing::default()
            };
            let mut last = None;
            let rows = table.page(query, limit.saturating_add(1))?;
            let has_more = rows.len() > limit;
            for row in rows.into_iter().take(limit) {
                // Also after a run that is gone or no longer wanted, so that the next page begins
                // behind it.
                last = Some(row.cursor());
                let Some((summary, truth)) = self.read(&row.run_id, row.head, &holders) else {
                    table.remove(row.run_id.as_str())?;
                    continue;
                };
                if !truth.agrees(&row) && corrections < CORRECTIONS_MAX {
                    corrections += 1;
                    table.writer()?.put(&truth)?;
                    continue 'search;
                }
                if query.wants(&summary) {
                    listing.runs.push(summary);
                }
            }
            listing.next = last.filter(|_| has_more);
            return Ok(listing);
        }
    }

    /// What a ledger says of its run, given the newest line that it is known to have had; `None` when
    /// there is no such ledger.
    fn read(
        self,
        run_id: &RunId,
        noted: Option<Head>,
        holders: &Holders,
    ) -> Option<(Summary, Row)> {
        let found = open_ledger(self.folder, run_id).and_then(|file| {
            let stamp = FileStamp::of(&file);
            let summary = summarize(run_id, &file, || holders.of(&file))
                .and_then(|summary| checked(summary, file, noted));
            stamp
                .and_then(|stamp| Ok((summary?, stamp)))
                .map_err(|error| self.folder.failed("read", &file_name(run_id), error))
        });
        let (summary, file) = match found {
            Ok(found) => found,
            Err(StoreError::NotFound { .. }) => return None,
            Err(error) => (Summary::unreadable(run_id, &error), FileStamp::default()),
        };
        let mut row = Row::new(&summary, start_millis(run_id).saturating_mul(1000), file);
        row.head = noted;
        Some((summary, row))
    }
}

/// The summary of `file`, as damaged if that does not hold the line `noted`.
fn checked(summary: Summary, mut file: File, noted: Option<Head>) -> io::Result<Summary> {
    let Some(noted) = noted else {
        return Ok(summary);
    };
    if summary.lost(noted) {
        let end = Corruption {
            line: 0,
            byte: summary.bytes,
            damage: noted.into(),
        };
        return Ok(summary.corrupt(end));
    }
    // A later end takes the place of the one that was noted, and until then it may be one that was
    // written after a cut. A run has few ends, so that this is seldom looked for.
    let has_later_end = matches!(summary.state, RunState::Ended(_)) && summary.head != noted;
    if !has_later_end {
        return Ok(summary);
    }
    file.rewind()?;
    let scan = scan(&summary.run_id, file, Some(noted), &mut |_, _| Ok(()))?;
    Ok(match scan.corruption {
        Some(corruption) => summary.corrupt(corruption),
        None => summary,
    })
}
