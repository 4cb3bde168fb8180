//! Brings the index up to date with the folder.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io;

use super::table::Table;
use super::{Index, IndexError};
use crate::clock::Timestamp;
use crate::id::RunId;
use crate::ledger::folder::FileStamp;
use crate::ledger::lock::Holders;
use crate::ledger::payload::Head;
use crate::ledger::scan::is_of_the_original_system;
use crate::ledger::store::{SUFFIX, file_name, open_ledger};
use crate::ledger::summary::RunState;

/// The note that holds the state of the folder in which its names were compared.
const FOLDER: &str = "folder_mtime_nanos";
/// The note that holds the sum of the names that the index had then.
const NAMES: &str = "names";
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

/// A run to be read, with the newest line that it is known to have had.
type Changed = (RunId, Option<Head>);

/// The ledgers in the folder.
struct Names {
    /// The run of each, with the inode of its file.
    ledgers: Vec<(RunId, u64)>,
    foreign: Vec<String>,
}

/// The runs whose ledgers are new. Runs whose ledgers are gone are removed.
fn compare_names(index: Index<'_>, table: &Table<'_>) -> Result<Vec<Changed>, IndexError> {
    let Names { ledgers, foreign } = names(index).map_err(IndexError::Ledgers)?;
    if table.foreign()? != foreign {
        table.put_foreign(&foreign)?;
    }
    let noted = table.noted(NAMES)?;
    table.note(NAMES, sum(&ledgers).cast_signed())?;
    // Almost always, runs were added and nothing else has changed; then their names are the only ones
    // later than those that are known, and these need not be looked up one by one.
    let newest = table.newest()?.unwrap_or_default();
    let (newer, known): (Vec<_>, Vec<_>) = ledgers.into_iter().partition(|(run_id, _)| {
        !is_of_the_original_system(run_id) && run_id.as_str() > newest.as_str()
    });
    let mut changed = if noted == Some(sum(&known).cast_signed()) {
        Vec::new()
    } else {
        compare_each(table, known)?
    };
    changed.extend(newer.into_iter().map(|(run_id, _)| (run_id, None)));
    // In order, so that the database grows at its end.
    changed.sort_by(|(one, _), (other, _)| one.cmp(other));
    Ok(changed)
}

fn names(index: Index<'_>) -> io::Result<Names> {
    let mut names = Names {
        ledgers: Vec::new(),
        foreign: Vec::new(),
    };
    for entry in index.folder.entries()? {
        let (name, inode) = entry?;
        let Some(stem) = name.strip_suffix(SUFFIX) else {
            continue;
        };
        match stem.parse() {
            Ok(run_id) => names.ledgers.push((run_id, inode)),
            Err(_) if names.foreign.len() < FOREIGN_MAX => names.foreign.push(name),
            Err(_) => {}
        }
    }
    names.foreign.sort();
    Ok(names)
}

/// A number that two sets of ledgers share only if they are the same, whatever their order.
fn sum(ledgers: &[(RunId, u64)]) -> u64 {
    let hashes = ledgers.iter().map(|ledger| {
        let mut hasher = DefaultHasher::new();
        ledger.hash(&mut hasher);
        hasher.finish()
    });
    hashes.fold(0, u64::wrapping_add)
}

fn compare_each(table: &Table<'_>, ledgers: Vec<(RunId, u64)>) -> Result<Vec<Changed>, IndexError> {
    let mut found: HashMap<String, u64> = ledgers
        .into_iter()
        .map(|(run_id, inode)| (run_id.into(), inode))
        .collect();
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
    let mut changed: Vec<Changed> = found
        .into_keys()
        .filter_map(|stem| Some((stem.parse().ok()?, None)))
        .collect();
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
