//! Takes up a ledger whose writer is gone.
//!
//! Each step can be the last one before the process is killed, and the next recovery then does the
//! rest: the end of the file that is no event is copied to a file of its own, the copy is made
//! durable, the end is cut off, and only then is the copy reported by an event.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::blob::Blobs;
use super::digest::Digest;
use super::error::{Damage, StoreError};
use super::event::{Event, Origin};
use super::folder::Folder;
use super::json::Json;
use super::line::Record;
use super::lock::{Claim, Holders, claim};
use super::payload::{Custom, Head};
use super::recorder::{Recorder, Shelf};
use super::replay::{RecordIndex, Recorded};
use super::scan::{TornTail, is_of_the_original_system, scan};
use super::state::{Phase, TORN_TAIL};
use super::store::file_name;
use super::writer::Writer;
use crate::id::RunId;

/// What the `custom` event named [`TORN_TAIL`] carries.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TornTailReport {
    /// The file beside the ledger that keeps what was cut off.
    pub file: String,
    /// Its size.
    pub bytes: u64,
    /// Its digest.
    pub sha256: Digest,
}

impl TornTailReport {
    fn of(event: &Event) -> Option<Self> {
        match event {
            Event::Custom(Custom { name, data }) if name == TORN_TAIL => {
                serde_json::from_str(data.as_ref()?.as_str()).ok()
            }
            _ => None,
        }
    }
}

/// Takes up a ledger; see [`Store::recover`](super::Store::recover). One whose run is in a phase that
/// is not `wanted` is left as it is, as one that ended; so is, as damaged, one that does not hold the
/// line `noted`.
pub(super) fn recover(
    shelf: &Arc<Shelf>,
    run_id: &RunId,
    wanted: fn(Phase) -> bool,
    noted: Option<Head>,
) -> Result<(Recorder, Recorded), StoreError> {
    let folder = &shelf.folder;
    let name = file_name(run_id);
    let failed = |operation| {
        let name = &name;
        move |source| folder.failed(operation, name, source)
    };
    if is_of_the_original_system(run_id) {
        return Err(StoreError::ReadOnly {
            run_id: run_id.clone(),
        });
    }
    let file = open_claimed(folder, run_id)?;
    let mut reported = BTreeSet::new();
    let mut index = RecordIndex::default();
    let mut note = |record: &Record, event: &Event| -> Result<(), Damage> {
        index.note(record, event);
        if record.origin == Origin::Host {
            reported.extend(TornTailReport::of(event).map(|report| report.file));
        }
        Ok(())
    };
    let scan = file
        .try_clone()
        .and_then(|file| scan(run_id, file, noted, &mut note))
        .map_err(failed("read"))?;
    let run_id = run_id.clone();
    if let Some(corruption) = scan.corruption {
        return Err(StoreError::Corrupt { run_id, corruption });
    }
    match scan.state.phase() {
        Phase::New => return Err(StoreError::NeverStarted { run_id }),
        phase if wanted(phase) => {}
        _ => return Err(StoreError::Ended { run_id }),
    }
    if let Some(torn) = scan.torn {
        set_aside(folder, &run_id, &file, torn, &reported)
            .map_err(failed("cut the torn end off"))?;
        shelf.counters.set_aside();
    }
    shelf.counters.took_up();
    let blobs = Blobs::resume(folder, &run_id).map_err(failed("read the blobs of"))?;
    let record = folder.open_read(&name).map_err(failed("read"))?;
    let recorded = Recorded::new(Arc::clone(shelf), run_id.clone(), record, index);
    let writer = Writer::new(file, &run_id, scan.head);
    let recorder = Recorder::new(Arc::clone(shelf), run_id, writer, scan.state, blobs);
    report(folder, &recorder, &reported)?;
    Ok((recorder, recorded))
}

/// Opens, for a run that begins now, the file of one with its id that never began: its process was gone
/// before the first event was whole. What is there of that is kept beside. A file that does not hold the line
/// `noted` had more once.
pub(super) fn open_unstarted(
    folder: &Folder,
    run_id: &RunId,
    noted: Option<Head>,
) -> Result<File, StoreError> {
    let exists = || StoreError::Exists {
        run_id: run_id.clone(),
    };
    let file = match open_claimed(folder, run_id) {
        Err(StoreError::Locked { .. } | StoreError::NotFound { .. }) => return Err(exists()),
        opened => opened?,
    };
    let name = file_name(run_id);
    let failed = |operation| {
        let name = &name;
        move |source| folder.failed(operation, name, source)
    };
    let scanned = file
        .try_clone()
        .and_then(|file| scan(run_id, file, noted, &mut |_, _| Ok(())));
    let scan = scanned.map_err(failed("read"))?;
    if scan.corruption.is_some() || scan.state.phase() != Phase::New {
        return Err(exists());
    }
    if let Some(torn) = scan.torn {
        set_aside(folder, run_id, &file, torn, &BTreeSet::new())
            .map_err(failed("cut the torn end off"))?;
    }
    Ok(file)
}

/// Opens a ledger to write to it, and takes its lock.
fn open_claimed(folder: &Folder, run_id: &RunId) -> Result<File, StoreError> {
    let name = file_name(run_id);
    let not_found = || StoreError::NotFound {
        run_id: run_id.clone(),
    };
    let file = folder
        .open_append(&name)
        .map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => not_found(),
            _ => folder.failed("open", &name, error),
        })?;
    match claim(folder, &name, &file).map_err(|error| folder.failed("lock", &name, error))? {
        Claim::Taken => Ok(file),
        Claim::Held => Err(StoreError::Locked {
            run_id: run_id.clone(),
            pid: Holders::now().of(&file),
        }),
        Claim::Gone => Err(not_found()),
    }
}

/// How the names begin of what was cut off.
pub(super) fn torn_prefix(run_id: &RunId) -> String {
    format!("{run_id}.torn-")
}

fn torn_name(run_id: &RunId, number: u64) -> String {
    format!("{}{number}", torn_prefix(run_id))
}

/// The copies that are there, in order.
fn copies(folder: &Folder, run_id: &RunId) -> impl Iterator<Item = io::Result<(String, File)>> {
    (1..).map_while(move |number| {
        let name = torn_name(run_id, number);
        match folder.open_read(&name) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            opened => Some(opened.map(|file| (name, file))),
        }
    })
}

/// Copies the torn end to a file of its own and cuts it off.
fn set_aside(
    folder: &Folder,
    run_id: &RunId,
    file: &File,
    torn: TornTail,
    told: &BTreeSet<String>,
) -> io::Result<()> {
    let tail = || -> io::Result<io::Take<File>> {
        let mut tail = file.try_clone()?;
        tail.seek(SeekFrom::Start(torn.byte))?;
        Ok(tail.take(torn.bytes))
    };
    let mut number = 1;
    let mut newest = None;
    for copy in copies(folder, run_id) {
        number += 1;
        newest = Some(copy?);
    }
    // A recovery that was killed before it cut left the same bytes as the newest copy, untold.
    let is_kept = match newest {
        Some((name, mut copy)) if !told.contains(&name) => {
            Digest::of_reader(&mut copy)? == Digest::of_reader(&mut tail()?)?
        }
        _ => false,
    };
    if !is_kept {
        let temporary = format!("{}new", torn_prefix(run_id));
        let mut copy = folder.create_temporary(&temporary)?;
        io::copy(&mut tail()?, &mut copy)?;
        copy.sync_all()?;
        folder.rename(&temporary, &torn_name(run_id, number))?;
        folder.sync()?;
    }
    file.set_len(torn.byte)?;
    file.sync_all()
}

/// Records an event for every copy that no event tells of yet.
pub(super) fn report(
    folder: &Folder,
    recorder: &Recorder,
    told: &BTreeSet<String>,
) -> Result<(), StoreError> {
    let run_id = recorder.run_id();
    for copy in copies(folder, run_id) {
        let failed = |source| folder.failed("read", &file_name(run_id), source);
        let (name, mut copy) = copy.map_err(failed)?;
        if told.contains(&name) {
            continue;
        }
        let (sha256, bytes) = Digest::of_reader(&mut copy).map_err(failed)?;
        let report = TornTailReport {
            file: name,
            bytes,
            sha256,
        };
        let data =
            Json::from_serialize(&report).map_err(|error| failed(io::Error::other(error)))?;
        let event = Custom {
            name: TORN_TAIL.to_owned(),
            data: Some(data),
        };
        recorder
            .record_durable_blocking(Origin::Host, &event.into())
            .map_err(|source| StoreError::Record {
                run_id: run_id.clone(),
                source,
            })?;
    }
    Ok(())
}
