//! Checks one ledger, offline, from its first line to its last.

use std::fmt;
use std::fs::File;
use std::io;

use super::blob;
use super::digest::Digest;
use super::error::{Corruption, Damage};
use super::event::Event;
use super::folder::Folder;
use super::line::Record;
use super::payload::Head;
use super::scan::{TornTail, scan};
use super::state::Phase;
use crate::id::RunId;

/// What a ledger was found to be, in one word; the first that applies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// A line is not what was written, or not where it was written.
    Corrupt,
    /// The end of the file is no event; everything before it is in order. While the run goes on, it
    /// may be a line on its way.
    Torn,
    /// Values that are stored beside the ledger are not there; the ledger is in order.
    BlobsMissing,
    /// There is no chain, because the original system wrote none; everything else is in order.
    Unchained,
    /// In order, and without an end: the run goes on, or its process is gone.
    Running,
    /// In order, from the first event to the last.
    Ok,
}

impl Verdict {
    /// The verdict as surfaces show it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Corrupt => "corrupt",
            Self::Torn => "torn",
            Self::BlobsMissing => "blobs_missing",
            Self::Unchained => "unchained",
            Self::Running => "running",
            Self::Ok => "ok",
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What a ledger was found to be.
#[derive(Debug, Clone)]
pub struct VerifyReport {
    /// The run that the file is named after.
    pub run_id: RunId,
    /// The newest good line. To have found that the file was cut, it has to be compared with one that
    /// was noted elsewhere.
    pub head: Head,
    /// Whether the lines are chained.
    pub is_chained: bool,
    /// Where the run is after that line.
    pub phase: Phase,
    /// Calls, steps and approvals that were begun and not ended. A run that was cut off or cancelled
    /// has some.
    pub open: usize,
    /// The first bad line. Nothing after it was checked.
    pub corruption: Option<Corruption>,
    /// An end of the file that is no event.
    pub torn: Option<TornTail>,
    /// Values that the good lines name and that are stored beside the ledger.
    pub blobs: u64,
    /// How many of them are not there.
    pub blobs_missing: u64,
}

impl VerifyReport {
    /// The whole report in one word.
    pub fn verdict(&self) -> Verdict {
        if self.corruption.is_some() {
            Verdict::Corrupt
        } else if self.torn.is_some() {
            Verdict::Torn
        } else if self.blobs_missing > 0 {
            Verdict::BlobsMissing
        } else if !self.is_chained {
            Verdict::Unchained
        } else if matches!(self.phase, Phase::New | Phase::Running) {
            Verdict::Running
        } else {
            Verdict::Ok
        }
    }

    /// What is wrong with the ledger, in words; `None` when nothing is.
    pub fn problem(&self) -> Option<String> {
        match (&self.corruption, &self.torn) {
            (Some(corruption), _) => Some(corruption.to_string()),
            (None, Some(torn)) => Some(format!(
                "{} bytes at the end, from byte {} on, are no whole event",
                torn.bytes, torn.byte
            )),
            (None, None) if self.blobs_missing > 0 => Some(format!(
                "{} of {} blobs are missing",
                self.blobs_missing, self.blobs
            )),
            (None, None) if self.head.seq == 0 => Some("it holds no event".to_owned()),
            (None, None) => None,
        }
    }
}

/// Checks `file`, the ledger of `run_id` in `folder`; with `noted`, also that it still holds the line
/// that was its newest at some time.
pub(super) fn verify(
    folder: &Folder,
    run_id: &RunId,
    file: File,
    noted: Option<Head>,
) -> io::Result<VerifyReport> {
    let (mut blobs, mut blobs_missing) = (0, 0);
    let mut check = |_: &Record, event: &Event| {
        let mut outcome = Ok(());
        event.visit_large(&mut |field| {
            let Some(reference) = field.blob() else {
                return;
            };
            blobs += 1;
            match blob::is_intact(folder, run_id, &reference) {
                Ok(Some(true)) => {}
                Ok(Some(false)) => {
                    outcome = Err(Damage::Blob {
                        blob: reference.blob,
                    });
                }
                Ok(None) | Err(_) => blobs_missing += 1,
            }
        });
        outcome
    };
    let scan = scan(run_id, file, noted, &mut check)?;
    Ok(VerifyReport {
        run_id: run_id.clone(),
        head: scan.head,
        is_chained: scan.is_chained,
        phase: scan.state.phase(),
        open: scan.state.open().count(),
        corruption: scan.corruption,
        torn: scan.torn,
        blobs,
        blobs_missing,
    })
}

/// The digest that a first line names, for those who note heads themselves.
impl Default for Head {
    fn default() -> Self {
        Self {
            seq: 0,
            sha256: Digest::ZERO,
        }
    }
}
