//! What a store has done since it was opened, in numbers.

use std::sync::atomic::{AtomicU64, Ordering};

use super::store::Store;
use crate::histogram::{Counted, Histogram};

/// Counters of a store.
#[derive(Debug, Default)]
pub(super) struct Counters {
    syncs: Histogram,
    taken_up: AtomicU64,
    torn_tails: AtomicU64,
    failures: AtomicU64,
}

/// What a [`Store`] has done since it was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoreStatistics {
    /// Syncs of ledgers that succeeded, and the microseconds that each took. A relaxed store has none.
    pub syncs: Counted,
    /// Ledgers that were taken up because their writer was gone, or had ended in the middle.
    pub taken_up: u64,
    /// Ends of files that were no event, and were set aside.
    pub torn_tails: u64,
    /// Writes and syncs that failed, each of which took the store out of use.
    pub failures: u64,
}

impl Counters {
    pub(super) fn synced(&self, micros: u64) {
        self.syncs.add(micros);
    }

    pub(super) fn took_up(&self) {
        self.taken_up.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn set_aside(&self) {
        self.torn_tails.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn failed(&self) {
        self.failures.fetch_add(1, Ordering::Relaxed);
    }
}

impl Store {
    /// What this store has done since it was opened.
    pub fn statistics(&self) -> StoreStatistics {
        let counters = &self.0.counters;
        StoreStatistics {
            syncs: counters.syncs.counted(),
            taken_up: counters.taken_up.load(Ordering::Relaxed),
            torn_tails: counters.torn_tails.load(Ordering::Relaxed),
            failures: counters.failures.load(Ordering::Relaxed),
        }
    }

    /// Bytes that are free where the ledgers are, for whoever owns this process.
    ///
    /// # Errors
    /// The file system does not say.
    pub fn free_bytes(&self) -> std::io::Result<u64> {
        let about = rustix::fs::statvfs(self.0.folder.path())?;
        Ok(about.f_bavail.saturating_mul(about.f_frsize))
    }
}
