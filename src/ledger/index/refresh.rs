//! Brings the index up to date with the folder.

use std::collections::HashMap;
use std::io;

use super::table::Table;
use super::{Index, IndexError};
use crate::clock::Timestamp;
use crate::id::RunId;
use crate::ledger::folder::FileStamp;
use crate::ledger::lock::Holders;
use crate::ledger::payload::Head;
use crate::ledger::store::{SUFFIX, file_name, open_ledger};
use crate::ledger::summary::RunState;

/// The note that holds the state of the folder in which its names were compared.
const FOLDER: &str = "folder_mtime_nanos";
/// Names of files that are no ledgers and look like one. A list shows so many and no more.
const FOREIGN_MAX: usize = 100;
/// A folder that changed so recently may change again without its modification time telling, because
/// file systems keep time in ticks of some milliseconds.
const TICK_MICROS: i64 = 100_000;
/// A file that was left alone for so long has been written back by the kernel, whose default is half
/// of that.
const WRITTEN_BACK_MICROS: i64 = 60_000_000;
/// Files that are synced one by one; for more of them the whole file system is, once.
const SYNCED_ALONE_MAX: usize = 16;

/// Brings `table` up to date.
pub(super) fn refresh(index: Index<'_>, table: &Table<'_>) -> Result<(), IndexError> {
    let now = index.clock.now();
    let folder = index.folder.stamp().map_err(IndexError::Ledgers)?;
    let mut changed = if table.noted(FOLDER)? == Some(folder.mtime_nanos) {
        Vec::new()
    } else {
        let changed = compare_names(index, table)?;
        if is_older(folder, now, TICK_MICROS) {
            table.note(FOLDER, folder.mtime_nanos)?;
        }
        changed
    };
    for row in table.unfinished()? {
        let name = file_name(&row.run_id);
        match index.folder.stamp_of(&name) {
            Ok(stamp) if stamp == row.file => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                table.remove(row.run_id.as_str())?;
            }
            _ => changed.push((row.run_id, row.head)),
        }
    }
    read_changed(index, table, &changed, now)
}

/// The runs whose ledgers are new, each with the newest line that it is known to have had. Runs whose
/// ledgers are gone are removed.
fn compare_names(
    index: Index<'_>,
    table: &Table<'_>,
) -> Result<Vec<(RunId, Option<Head>)>, IndexError> {
    let mut found = HashMap::new();
    let mut foreign = Vec::new();
    for entry in index.folder.entries().map_err(IndexError::Ledgers)? {
        let (name, inode) = entry.map_err(IndexError::Ledgers)?;
        let Some(stem) = name.strip_suffix(SUFFIX) else {
            continue;
        };
        match stem.parse::<RunId>() {
            Ok(_) => drop(found.insert(stem.to_owned(), inode)),
            Err(_) if foreign.len() < FOREIGN_MAX => foreign.push(name),
            Err(_) => {}
        }
    }
    let mut gone = Vec::new();
    let mut replaced = Vec::new();
    table.names(&mut |run_id, inode| {
        match found.remove(run_id) {
            None => gone.push(run_id.to_owned()),
            Some(now) if now != inode => replaced.push(run_id.to_owned()),
            Some(_) => {}
        }
        Ok(())
    })?;
    for run_id in gone {
        table.remove(&run_id)?;
    }
    foreign.sort();
    if table.foreign()? != foreign {
        table.put_foreign(&foreign)?;
    }
    let mut changed: Vec<(RunId, Option<Head>)> = found
        .into_keys()
        .filter_map(|stem| Some((stem.parse().ok()?, None)))
        .collect();
    // In order, so that the database grows at its end.
    changed.sort_by(|(one, _), (other, _)| one.cmp(other));
    for run_id in replaced.iter().filter_map(|stem| stem.parse().ok()) {
        let head = table.get(&run_id)?.and_then(|row| row.head);
        changed.push((run_id, head));
    }
    Ok(changed)
}

/// Reads ledgers and puts what they say in place of what the table has.
fn read_changed(
    index: Index<'_>,
    table: &Table<'_>,
    changed: &[(RunId, Option<Head>)],
    now: Timestamp,
) -> Result<(), IndexError> {
    let holders = Holders::none();
    let mut writer = table.writer()?;
    let mut unsynced = Vec::new();
    for (run_id, noted) in changed {
        let Some((summary, mut row)) = index.read(run_id, *noted, &holders) else {
            table.remove(run_id.as_str())?;
            continue;
        };
        if matches!(summary.state, RunState::Ended(_)) {
            if is_older(row.file, now, WRITTEN_BACK_MICROS) {
                row.head = Some(summary.head);
            } else {
                unsynced.push((row, summary.head));
                continue;
            }
        }
        writer.put(&row)?;
    }
    let are_synced = unsynced.len() > SYNCED_ALONE_MAX && index.folder.sync_file_system().is_ok();
    for (mut row, head) in unsynced {
        if are_synced || sync_ledger(index, &row.run_id).is_ok() {
            row.head = Some(head);
        }
        writer.put(&row)?;
    }
    Ok(())
}

fn sync_ledger(index: Index<'_>, run_id: &RunId) -> io::Result<()> {
    let file = open_ledger(index.folder, run_id).map_err(io::Error::other)?;
    file.sync_data()
}

/// Whether a file was changed longer than `micros` ago.
fn is_older(file: FileStamp, now: Timestamp, micros: i64) -> bool {
    let age = now.unix_micros().saturating_sub(file.mtime_nanos / 1000);
    age > micros
}
