//! Removes runs that nobody needs to keep.
//!
//! A run goes in an order that can be cut off anywhere. First its ledger is renamed, by which the run
//! is gone as a whole; then, when that would survive a power cut, its other files are removed, and the
//! renamed ledger last of all. As long as that is there, the next call knows what is left to do. The
//! index loses the run when it is brought up to date.

use std::io;
use std::time::Duration;

use super::error::StoreError;
use super::folder::{Folder, unless_gone};
use super::index::Index;
use super::list::{LIST_RUNS_MAX, RunQuery};
use super::lock::{Claim, Holders, claim};
use super::recover::torn_prefix;
use super::scan::is_of_the_original_system;
use super::store::file_name;
use super::summary::{RunState, Summary, summarize};
use super::{blob, decision};
use crate::clock::Timestamp;
use crate::id::RunId;
use crate::ledger::RunStatus;

/// How a ledger is named while its run is removed.
const SUFFIX: &str = ".pruned";

/// What is kept. A run that breaks any of these rules goes; a rule that is absent keeps every run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Retention {
    /// Runs that ended longer ago go.
    pub max_age: Option<Duration>,
    /// When there are more runs, the oldest go.
    pub max_runs: Option<usize>,
    /// When all files together are larger, the oldest runs go.
    pub max_bytes: Option<u64>,
}

/// What was removed, or would be.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PruneReport {
    /// The runs, the oldest first.
    pub removed: Vec<RunId>,
    /// The size of their files.
    pub removed_bytes: u64,
    /// Runs that are left.
    pub kept: usize,
    /// The size of the files that are left.
    pub kept_bytes: u64,
}

/// See [`Store::prune`](super::Store::prune).
pub(super) fn prune(
    index: Index<'_>,
    retention: Retention,
    is_rehearsal: bool,
) -> Result<PruneReport, StoreError> {
    let folder = index.folder;
    let mut report = PruneReport::default();
    let mut expendable = Vec::new();
    let mut newer = Sum::default();
    let now = index.clock.now();
    let mut query = RunQuery::newest(LIST_RUNS_MAX);
    loop {
        let listing = index.list(&query)?;
        for run in listing.runs {
            let bytes = run.bytes.saturating_add(size_beside(folder, &run.run_id));
            newer.runs += 1;
            newer.bytes = newer.bytes.saturating_add(bytes);
            if is_ended(&run) && retention.is_broken_by(&run, newer, now) {
                expendable.push((run.run_id, bytes));
            } else {
                report.kept += 1;
                report.kept_bytes = report.kept_bytes.saturating_add(bytes);
            }
        }
        match listing.next {
            Some(next) => query.after = Some(next),
            None => break,
        }
    }
    for (run_id, bytes) in expendable.into_iter().rev() {
        let goes = is_rehearsal
            || retire(folder, &run_id)
                .map_err(|error| folder.failed("prune", &file_name(&run_id), error))?;
        if goes {
            report.removed_bytes = report.removed_bytes.saturating_add(bytes);
            report.removed.push(run_id);
        } else {
            report.kept += 1;
            report.kept_bytes = report.kept_bytes.saturating_add(bytes);
        }
    }
    if !is_rehearsal {
        finish(folder)?;
    }
    Ok(report)
}

impl Retention {
    /// Whether the run is one too many, given the sum of those down to it.
    fn is_broken_by(&self, run: &Summary, sum: Sum, now: Timestamp) -> bool {
        let ended = run.ended_at.or(run.started_at).unwrap_or(now);
        let age_micros = now.unix_micros().saturating_sub(ended.unix_micros());
        let is_older =
            |max: Duration| u128::try_from(age_micros).is_ok_and(|age| age > max.as_micros());
        self.max_age.is_some_and(is_older)
            || self.max_runs.is_some_and(|max| sum.runs > max)
            || self.max_bytes.is_some_and(|max| sum.bytes > max)
    }
}

/// Some runs together.
#[derive(Clone, Copy, Default)]
struct Sum {
    runs: usize,
    bytes: u64,
}

/// Whether nobody waits for the run. Damaged ledgers are evidence, those of the original system are
/// not ours, and a suspended run waits for a person: all of these stay.
fn is_ended(run: &Summary) -> bool {
    !is_of_the_original_system(&run.run_id)
        && matches!(
            run.state,
            RunState::Ended(
                RunStatus::Ok | RunStatus::Error | RunStatus::Cancelled | RunStatus::Interrupted
            )
        )
}

/// Bytes that a run has outside of its ledger.
fn size_beside(folder: &Folder, run_id: &RunId) -> u64 {
    let blobs = folder.open_folder(&blob::folder_name(run_id));
    let sizes = blobs.and_then(|blobs| {
        let sizes = blobs.names()?.map(|name| Ok(blobs.stamp_of(&name?)?.bytes));
        sizes.sum::<io::Result<u64>>()
    });
    // What cannot be read has no size that could be gained.
    sizes.unwrap_or(0)
}

/// Takes a run out of the folder's ledgers, unless somebody has taken it up again.
fn retire(folder: &Folder, run_id: &RunId) -> io::Result<bool> {
    let name = file_name(run_id);
    let file = match folder.open_append(&name) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        opened => opened?,
    };
    if claim(folder, &name, &file)? != Claim::Taken {
        return Ok(false);
    }
    let holders = Holders::none();
    let is_free = is_ended(&summarize(run_id, &file, || holders.of(&file))?);
    if is_free {
        folder.rename(&name, &format!("{run_id}{SUFFIX}"))?;
    }
    Ok(is_free)
}

/// Removes what is left of runs that were taken out, by this call or by one that was cut off. A run
/// whose files cannot be removed does not keep the others from being finished; the first such failure
/// is the answer.
pub(super) fn finish(folder: &Folder) -> Result<(), StoreError> {
    let failed = |error| folder.failed("prune", "", error);
    let (retired, beside) = left_over(folder).map_err(failed)?;
    if retired.is_empty() {
        return Ok(());
    }
    folder.sync().map_err(failed)?;
    let mut outcome = Ok(());
    for run_id in retired {
        let finished = finish_run(folder, &run_id, &beside);
        outcome = outcome.and(finished.map_err(|error| {
            let name = format!("{run_id}{SUFFIX}");
            folder.failed("prune", &name, error)
        }));
    }
    outcome
}

/// The runs that were taken out, and the names of all torn ends and decisions.
fn left_over(folder: &Folder) -> io::Result<(Vec<RunId>, Vec<String>)> {
    let mut retired = Vec::new();
    let mut beside = Vec::new();
    for name in folder.names()? {
        let name = name?;
        let run_id: Option<RunId> = name.strip_suffix(SUFFIX).and_then(|id| id.parse().ok());
        if let Some(run_id) = run_id {
            retired.push(run_id);
        } else if name.contains(".torn-") || name.contains(".decision-") {
            beside.push(name);
        }
    }
    Ok((retired, beside))
}

/// Somebody else may finish the run at the same time: whatever is gone already is as it should be.
fn finish_run(folder: &Folder, run_id: &RunId, beside: &[String]) -> io::Result<()> {
    match folder.stamp_of(&file_name(run_id)) {
        // A run that was given the same id since then has its own files under those names.
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let prefixes = [torn_prefix(run_id), decision::prefix(run_id)];
            let is_of_run = |name: &&String| prefixes.iter().any(|prefix| name.starts_with(prefix));
            for name in beside.iter().filter(is_of_run) {
                unless_gone(folder.remove(name))?;
            }
            blob::remove_all(folder, run_id)?;
        }
        Err(error) => return Err(error),
    }
    unless_gone(folder.remove(&format!("{run_id}{SUFFIX}")))
}
