//! Where a record is read from: the store, or a file that may be anywhere.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{RecordIndex, Recorded};
use crate::id::RunId;
use crate::ledger::error::{Damage, StoreError};
use crate::ledger::folder::Folder;
use crate::ledger::line::{self, Record};
use crate::ledger::reader::Lines;
use crate::ledger::recorder::{Recorder, Shelf};
use crate::ledger::scan::{Scan, scan, scan_any};
use crate::ledger::store::{Store, file_name, open_ledger};

/// Bytes of a line that may be one of an export, which has a value in its place that may be as large as a
/// stored one is. Protects the memory of whoever reads it.
pub(super) const LINE_BYTES_MAX: usize = VALUE_BYTES_MAX + line::LINE_BYTES_MAX;
/// Bytes of a value that is stored beside a ledger.
const VALUE_BYTES_MAX: usize = 256 * 1024 * 1024;

/// Where large values are.
pub(super) enum Beside {
    /// With the ledgers of a store.
    Store(Arc<Shelf>),
    /// Beside a file, if they are not in it.
    File {
        /// The folder that it is in.
        folder: Folder,
        /// Its name there.
        name: String,
    },
}

impl Beside {
    pub(super) fn folder(&self) -> &Folder {
        match self {
            Self::Store(shelf) => &shelf.folder,
            Self::File { folder, .. } => folder,
        }
    }

    pub(super) fn unreadable(&self, run_id: &RunId, source: io::Error) -> StoreError {
        match self {
            Self::Store(shelf) => shelf.folder.failed("read", &file_name(run_id), source),
            Self::File { folder, name } => folder.failed("read", name, source),
        }
    }
}

/// Reads what is on record of a run, whoever writes it now.
pub(in crate::ledger) fn read_record(
    shelf: &Arc<Shelf>,
    run_id: &RunId,
) -> Result<Recorded, StoreError> {
    let file = open_ledger(&shelf.folder, run_id)?;
    let beside = Beside::Store(Arc::clone(shelf));
    let mut index = RecordIndex::default();
    let scanned = file.try_clone().and_then(|file| {
        scan(run_id, file, None, &mut |record, event| {
            index.note(record, event);
            Ok(())
        })
    });
    recorded(run_id.clone(), file, beside, index, scanned)
}

/// What is on record of a run, to be replayed, in a file anywhere: a ledger, whose large values are looked for
/// beside it, or an export of one. Of an export, what the chain says is checked as far as it goes: for every
/// line but those into which a large value was put. An unfinished last line is left out.
///
/// # Errors
/// [`StoreError::NotARecord`] when the file does not begin like a ledger, [`StoreError::Corrupt`], or it
/// cannot be read.
pub fn record_file(path: &Path) -> Result<Recorded, StoreError> {
    let parent = path
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty());
    let folder = Folder::open(parent.unwrap_or(Path::new(".")))?;
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let name = name.into_owned();
    let opened = folder.open_read(&name);
    let file = opened.map_err(|source| folder.failed("open", &name, source))?;
    let failed = |source| folder.failed("read", &name, source);
    let run_id = run_id_of(&file, path).map_err(failed)??;
    let mut index = RecordIndex::default();
    let scanned = file.try_clone().and_then(|file| {
        let lines = Lines::longer(file, LINE_BYTES_MAX);
        scan_any(&run_id, lines, &mut |record, event| {
            index.note(record, event);
            Ok(())
        })
    });
    recorded(run_id, file, Beside::File { folder, name }, index, scanned)
}

/// The run whose first event the file begins with.
fn run_id_of(file: &File, path: &Path) -> io::Result<Result<RunId, StoreError>> {
    let mut lines = Lines::longer(file.try_clone()?, LINE_BYTES_MAX);
    let not_a_record = |reason: String| StoreError::NotARecord {
        path: PathBuf::from(path),
        reason,
    };
    let Some(line) = lines.next_line()? else {
        return Ok(Err(not_a_record("it has no whole line".to_owned())));
    };
    let record: Result<Record, Damage> = line.parse();
    Ok(record
        .map(|record| record.run_id)
        .map_err(|damage| not_a_record(format!("its first line is {damage}"))))
}

impl Store {
    /// What is on record of a run, to be replayed. It reads the ledger from its beginning to its end.
    ///
    /// # Errors
    /// [`StoreError::NotFound`], [`StoreError::Corrupt`], or the file cannot be read.
    pub fn recorded(&self, run_id: &RunId) -> Result<Recorded, StoreError> {
        read_record(&self.0, run_id)
    }

    /// A recorder for a run that is done again and leaves no record: it is closed from its beginning.
    pub(crate) fn closed(&self, run_id: RunId) -> Recorder {
        Recorder::closed(Arc::clone(&self.0), run_id)
    }
}

fn recorded(
    run_id: RunId,
    file: File,
    beside: Beside,
    index: RecordIndex,
    scanned: io::Result<Scan>,
) -> Result<Recorded, StoreError> {
    let scan = scanned.map_err(|source| beside.unreadable(&run_id, source))?;
    if let Some(corruption) = scan.corruption {
        return Err(StoreError::Corrupt { run_id, corruption });
    }
    Ok(Recorded {
        run_id,
        file,
        beside,
        index,
        is_export: scan.is_export,
    })
}

#[cfg(test)]
mod tests {
    use super::VALUE_BYTES_MAX;
    use crate::ledger::blob::BLOB_BYTES_MAX;

    #[test]
    fn every_stored_value_fits_into_a_line_of_an_export() {
        assert_eq!(u64::try_from(VALUE_BYTES_MAX), Ok(BLOB_BYTES_MAX));
    }
}
