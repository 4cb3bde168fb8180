//! Makes the ledger of a run that begins: its file, its name, its first event.

use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::sync::Arc;

use super::blob::Blobs;
use super::error::{Failure, RecordError, StoreError};
use super::event::Origin;
use super::folder::Folder;
use super::lock;
use super::payload::{Head, RunStarted};
use super::recorder::{Appended, Recorder, Shelf};
use super::recover::{open_unstarted, report};
use super::scan::is_of_the_original_system;
use super::state::State;
use super::store::{file_name, index_of};
use super::writer::Writer;
use crate::config::Durability;
use crate::id::RunId;

/// See [`Store::create`](super::Store::create).
pub(super) fn create(
    shelf: &Arc<Shelf>,
    run_id: RunId,
    mut started: RunStarted,
) -> Result<(Recorder, Appended), StoreError> {
    let folder = &shelf.folder;
    let name = file_name(&run_id);
    shelf.health.check_or_probe(folder, &shelf.clock)?;
    if is_of_the_original_system(&run_id) {
        return Err(StoreError::ReadOnly { run_id });
    }
    let (file, is_new) = match folder.create_new(&name) {
        Ok(file) => {
            if let Err(error) = own(folder, &name, &file) {
                // An empty file would be shown as a damaged ledger. One that took its name, or has events,
                // is somebody else's.
                if is_ours(folder, &name, &file).unwrap_or(false) {
                    let _removed = folder.remove(&name);
                }
                return Err(folder.failed("lock", &name, error));
            }
            (file, true)
        }
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            let noted = index_of(shelf).head(&run_id);
            (open_unstarted(folder, &run_id, noted)?, false)
        }
        Err(error) => {
            note_unmade(shelf, &run_id, &error);
            return Err(folder.failed("make", &name, error));
        }
    };
    if let Err(error) = sync_name(shelf, &run_id) {
        let _removed = folder.remove(&name);
        return Err(error);
    }
    started.durability = Some(shelf.durability);
    let writer = Writer::new(file, &run_id, Head::default());
    let blobs = Blobs::new(&run_id);
    let recorder = Recorder::new(Arc::clone(shelf), run_id, writer, State::default(), blobs);
    match recorder.record_durable_blocking(Origin::Host, &started.into()) {
        Ok(appended) => {
            if !is_new {
                report(folder, &recorder, &BTreeSet::new())?;
            }
            Ok((recorder, appended))
        }
        Err(source) => {
            // Nobody was told of this run. If the file stays, it is shown as one without an event.
            let _removed = folder.remove(&name);
            let run_id = recorder.run_id().clone();
            Err(StoreError::Record { run_id, source })
        }
    }
}

/// Takes the store out of use when no file can be made in its folder. Other reasons, such as a lack of
/// descriptors, are the process's own and soon over.
fn note_unmade(shelf: &Shelf, run_id: &RunId, error: &io::Error) {
    let is_of_the_folder = matches!(
        error.kind(),
        io::ErrorKind::ReadOnlyFilesystem
            | io::ErrorKind::PermissionDenied
            | io::ErrorKind::StorageFull
            | io::ErrorKind::QuotaExceeded
            | io::ErrorKind::NotFound
    );
    let Some(errno) = error.raw_os_error().filter(|_| is_of_the_folder) else {
        return;
    };
    let failure = Arc::new(Failure {
        operation: "creation",
        run_id: run_id.clone(),
        source: io::Error::from_raw_os_error(errno),
    });
    shelf.counters.failed();
    shelf.health.fail(&failure, &shelf.clock);
}

/// Takes the lock of a file that was just made. Somebody may come upon the file before it is locked;
/// nobody keeps the lock of a ledger without an event, so that this is waited for.
fn own(folder: &Folder, name: &str, file: &File) -> io::Result<()> {
    if lock::try_exclusive(file)? {
        return Ok(());
    }
    lock::exclusive(file)?;
    if is_ours(folder, name, file)? {
        Ok(())
    } else {
        Err(io::ErrorKind::NotFound.into())
    }
}

/// Whether a file still has the name that it was made with, and nobody has written to it.
fn is_ours(folder: &Folder, name: &str, file: &File) -> io::Result<bool> {
    Ok(folder.names_file(name, file)? && file.metadata()?.len() == 0)
}

/// Makes the name of a new ledger durable. It comes before the first event, which subscribers see as
/// soon as the event itself is durable.
fn sync_name(shelf: &Shelf, run_id: &RunId) -> Result<(), StoreError> {
    if shelf.durability == Durability::Relaxed {
        return Ok(());
    }
    shelf.folder.sync().map_err(|source| {
        let failure = Arc::new(Failure {
            operation: "sync of the folder",
            run_id: run_id.clone(),
            source,
        });
        shelf.counters.failed();
        shelf.health.fail(&failure, &shelf.clock);
        StoreError::Record {
            run_id: run_id.clone(),
            source: RecordError::Poisoned(failure),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_file_that_somebody_passes_by_is_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        let folder = Folder::open(dir.path()).unwrap();
        let file = folder.create_new("a").unwrap();
        let passer = folder.open_append("a").unwrap();
        assert!(lock::try_exclusive(&passer).unwrap());
        std::thread::scope(|scope| {
            let owned = scope.spawn(|| own(&folder, "a", &file));
            let inode = rustix::fs::fstat(&passer).unwrap().st_ino;
            let waits = |line: &str| line.contains("->") && line.contains(&format!(":{inode} "));
            while !owned.is_finished() {
                let locks = std::fs::read_to_string("/proc/locks").unwrap();
                if locks.lines().any(waits) {
                    break;
                }
            }
            drop(passer);
            owned.join().unwrap().unwrap();
        });
        let other = folder.open_append("a").unwrap();
        assert!(!lock::try_exclusive(&other).unwrap());
    }

    #[test]
    fn a_new_file_that_somebody_else_wrote_to_is_not_ours() {
        let dir = tempfile::tempdir().unwrap();
        let folder = Folder::open(dir.path()).unwrap();
        let file = folder.create_new("a").unwrap();
        assert!(is_ours(&folder, "a", &file).unwrap());
        std::fs::write(dir.path().join("a"), "{}\n").unwrap();
        assert!(!is_ours(&folder, "a", &file).unwrap());
    }
}
