//! What can go wrong with ledgers.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use super::blob::{BLOB_BYTES_PER_RUN_MAX, BLOBS_PER_RUN_MAX};
use super::digest::Digest;
use super::json::JsonError;
use super::line::LINE_BYTES_MAX;
use super::state::IllegalTransition;
use crate::id::RunId;

/// The first write or sync that failed. It is the end of the descriptor that it happened on: what the
/// kernel still holds of earlier writes cannot be known, and a second attempt could seem to succeed.
#[derive(Debug, thiserror::Error)]
#[error("{operation} failed for the ledger of {run_id}")]
pub struct Failure {
    /// What was attempted.
    pub operation: &'static str,
    /// For which run.
    pub run_id: RunId,
    /// What the operating system said.
    pub source: io::Error,
}

/// Why an event was not recorded.
#[derive(Debug, Clone, thiserror::Error)]
pub enum RecordError {
    /// The run ended, and its ledger is closed.
    #[error("the ledger of {run_id} is closed: the run ended")]
    Ended {
        /// The run.
        run_id: RunId,
    },
    /// A write or sync failed, now or before. It stays so for this recorder.
    #[error("ledger unavailable")]
    Poisoned(#[source] Arc<Failure>),
    /// The event cannot happen now; nothing was written, and the recorder goes on.
    #[error("event refused")]
    Illegal(#[from] IllegalTransition),
    /// The event makes too long a line, its large fields apart; nothing was written, and the recorder
    /// goes on.
    #[error(
        "event of type {kind} makes a line of {bytes} bytes: expected at most {LINE_BYTES_MAX}"
    )]
    TooLong {
        /// The event's type.
        kind: String,
        /// The line's length.
        bytes: usize,
    },
    /// The run has as many blobs as it may; nothing was written, and the recorder goes on.
    #[error(
        "no blob of {bytes} bytes for {run_id}: a run has at most {BLOBS_PER_RUN_MAX} blobs of \
         {BLOB_BYTES_PER_RUN_MAX} bytes together"
    )]
    BlobLimit {
        /// The run.
        run_id: RunId,
        /// The size of the value that has no place.
        bytes: usize,
    },
    /// The event was read from a ledger and does not hold its values, or has a type that this version
    /// does not know; nothing was written, and the recorder goes on.
    #[error("event of type {kind} cannot be written: it is not whole or its type is not known")]
    NotWritable {
        /// The event's type.
        kind: String,
    },
    /// The runtime is being shut down; whether the event is durable is not known.
    #[error("shut down while an event was made durable")]
    ShutDown,
}

/// What is wrong with a line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Damage {
    /// It is not an event at all.
    #[error("not an event: {reason}")]
    Unreadable {
        /// Why.
        reason: String,
    },
    /// It is longer than a line can be.
    #[error("line is longer than {LINE_BYTES_MAX} bytes")]
    TooLong,
    /// It belongs to another run.
    #[error("event of {found} in this ledger")]
    OtherRun {
        /// The run that it names.
        found: RunId,
    },
    /// Its number is not the next one.
    #[error("event number {found}: expected {expected}")]
    Seq {
        /// The number that is due.
        expected: u64,
        /// The number that is there.
        found: u64,
    },
    /// The chain is broken: it is not the line that the next one was chained to.
    #[error("line was altered: its digest is {found}, and the next line names {expected}")]
    Altered {
        /// The digest that the next line names.
        expected: Digest,
        /// The digest of the line as it is.
        found: Digest,
    },
    /// It names a predecessor that it never had.
    #[error("line names {found} as its predecessor: expected {expected}")]
    Prev {
        /// The digest of the line before.
        expected: Digest,
        /// The digest that is named.
        found: Digest,
    },
    /// Only some lines of the ledger are chained, or none are in one that this system made.
    #[error("chained and unchained lines mixed")]
    Unchained,
    /// It cannot follow the lines before it.
    #[error("impossible event: {0}")]
    Illegal(IllegalTransition),
    /// A value that is stored beside the ledger is not what the line says it is.
    #[error("blob {blob} was altered")]
    Blob {
        /// The blob's name.
        blob: Digest,
    },
    /// The end of the file is unreadable, and too long to have come from writes that were cut off.
    #[error("unreadable end of {bytes} bytes")]
    TornTailTooLong {
        /// Its length.
        bytes: u64,
    },
    /// The ledger is not the one whose newest line was noted elsewhere.
    #[error("ledger does not hold the noted line {seq} with digest {sha256}")]
    Head {
        /// The number of the noted line.
        seq: u64,
        /// Its digest.
        sha256: Digest,
    },
}

impl Damage {
    /// Whether a write that was cut off can look like it.
    pub(super) fn may_be_torn(&self) -> bool {
        matches!(self, Self::Unreadable { .. } | Self::TooLong)
    }
}

/// Damage and where it is.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}, byte {byte}: {damage}")]
pub struct Corruption {
    /// The line, from 1; 0 when the lines before it were not counted.
    pub line: u64,
    /// Where the line begins, in bytes from the beginning of the file.
    pub byte: u64,
    /// What is wrong with it.
    pub damage: Damage,
}

/// Why a store, or one ledger in it, cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// There is no ledger of that run.
    #[error("no ledger of {run_id}")]
    NotFound {
        /// The run.
        run_id: RunId,
    },
    /// There is a ledger of that run already.
    #[error("a ledger of {run_id} exists already")]
    Exists {
        /// The run.
        run_id: RunId,
    },
    /// Another writer has the ledger.
    #[error("the ledger of {run_id} is being written by {}", name_of(*.pid))]
    Locked {
        /// The run.
        run_id: RunId,
        /// The process of that writer, where the operating system tells.
        pid: Option<u32>,
    },
    /// The run ended, so nothing can be added.
    #[error("{run_id} ended")]
    Ended {
        /// The run.
        run_id: RunId,
    },
    /// The ledger holds not even one whole event, so no run was ever acknowledged.
    #[error("{run_id} never started: its ledger holds no whole event")]
    NeverStarted {
        /// The run.
        run_id: RunId,
    },
    /// The ledger is one of the original system, which is only ever read.
    #[error("the ledger of {run_id} is of the original system and read-only")]
    ReadOnly {
        /// The run.
        run_id: RunId,
    },
    /// The ledger is damaged in another place than its end.
    #[error("the ledger of {run_id} is corrupt: {corruption}")]
    Corrupt {
        /// The run.
        run_id: RunId,
        /// What and where.
        corruption: Corruption,
    },
    /// A write failed before, and no probe has succeeded since.
    #[error("ledger store unavailable")]
    Unavailable(#[source] Arc<Failure>),
    /// The first event could not be written.
    #[error("cannot start the ledger of {run_id}")]
    Record {
        /// The run.
        run_id: RunId,
        /// Why.
        source: RecordError,
    },
    /// The stored value is not there, or not the one that the reference names.
    #[error("blob {blob} of {run_id} is missing or altered")]
    Blob {
        /// The run.
        run_id: RunId,
        /// The blob's name.
        blob: Digest,
    },
    /// The stored value is not what its field needs.
    #[error("blob {blob} of {run_id} is not the text that its field holds")]
    BlobContent {
        /// The run.
        run_id: RunId,
        /// The blob's name.
        blob: Digest,
        /// Why.
        source: JsonError,
    },
    /// The operating system refused something.
    #[error("cannot {operation} {}", path.display())]
    Io {
        /// What was attempted.
        operation: &'static str,
        /// On what.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
    /// The path does not name a ledger.
    #[error("{} is not named like a ledger: expected <run id>.jsonl", path.display())]
    NotALedger {
        /// The path.
        path: PathBuf,
    },
    /// The file is neither a ledger nor an export of one.
    #[error("{} is no record of a run: {reason}", path.display())]
    NotARecord {
        /// The file.
        path: PathBuf,
        /// What is wrong with its beginning.
        reason: String,
    },
    /// The runtime is being shut down.
    #[error("shut down while a ledger was opened")]
    ShutDown,
}

fn name_of(pid: Option<u32>) -> String {
    pid.map_or_else(
        || "another process".to_owned(),
        |pid| format!("process {pid}"),
    )
}
