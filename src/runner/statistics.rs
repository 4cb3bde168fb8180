//! What a runner has done since it was made, in numbers.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use super::Runner;
use crate::histogram::{Counted, Histogram};
use crate::ledger::{RunCompleted, RunStatus};
use crate::outcome::OutcomeCode;

/// Counters, since the process began.
#[derive(Default)]
pub(super) struct Counters {
    started: AtomicU64,
    resumed: AtomicU64,
    refused: AtomicU64,
    /// Questions that runs wait for which are not suspended.
    asking: AtomicUsize,
    /// At most one for each pair of a status and a code.
    ended: Mutex<BTreeMap<(&'static str, &'static str), u64>>,
    duration: Histogram,
    queued: Histogram,
}

/// What a [`Runner`] has done since it was made, and does now. Runs inside runs count.
#[derive(Debug, Clone)]
pub struct RunnerStatistics {
    /// Runs whose first event is on record.
    pub started: u64,
    /// How often a run went on from its ledger.
    pub resumed: u64,
    /// Runs that were sent away because as many went on and waited as may.
    pub refused: u64,
    /// Ends, by status and code as they stand in ledgers. A run that is suspended and goes on has several.
    pub ended: BTreeMap<(&'static str, &'static str), u64>,
    /// Microseconds of work of what has ended, time in the queue apart.
    pub duration: Counted,
    /// Microseconds in the queue of what has ended and had to wait.
    pub queued_time: Counted,
    /// Runs that go on now or wait for a place; none of them is suspended.
    pub going_on: usize,
    /// Those of them that wait for a place and are inside no other.
    pub queued: usize,
    /// Runs that are suspended and waited for here.
    pub suspended: usize,
    /// Questions that those runs wait for, suspended or not.
    pub approvals_pending: usize,
}

/// A question that somebody waits for, as long as this lives.
pub(super) struct Asking<'a>(&'a AtomicUsize);

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Counters {
    pub(super) fn asking(&self) -> Asking<'_> {
        self.asking.fetch_add(1, Ordering::Relaxed);
        Asking(&self.asking)
    }

    pub(super) fn started(&self) {
        self.started.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn resumed(&self) {
        self.resumed.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn refused(&self) {
        self.refused.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn ended(&self, completed: &RunCompleted) {
        let status: RunStatus = completed.status;
        let code = completed.code.unwrap_or(OutcomeCode::Internal);
        let ended = self.ended.lock();
        let mut ended = ended.unwrap_or_else(PoisonError::into_inner);
        *ended.entry((status.as_str(), code.as_str())).or_default() += 1;
        drop(ended);
        if let Some(micros) = completed.duration_micros {
            self.duration.add(micros);
        }
        if let Some(micros) = completed.queued_micros {
            self.queued.add(micros);
        }
    }
}

impl Runner {
    pub(super) fn counters(&self) -> &Counters {
        &self.0.counters
    }

    /// What this runner has done since it was made, and does now.
    pub fn statistics(&self) -> RunnerStatistics {
        let counters = &self.0.counters;
        let ended = counters.ended.lock();
        let ended = ended.unwrap_or_else(PoisonError::into_inner).clone();
        let (going_on, suspended) = self.0.live.counts();
        RunnerStatistics {
            started: counters.started.load(Ordering::Relaxed),
            resumed: counters.resumed.load(Ordering::Relaxed),
            refused: counters.refused.load(Ordering::Relaxed),
            ended,
            duration: counters.duration.counted(),
            queued_time: counters.queued.counted(),
            going_on,
            queued: self.0.admission.queued(),
            suspended,
            approvals_pending: counters
                .asking
                .load(Ordering::Relaxed)
                .saturating_add(self.0.waiting.gates_len()),
        }
    }
}
