//! What a runtime has done since it was made, in numbers.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use super::state::ExecutionStatus;
use crate::histogram::{Counted, Histogram};
use crate::outcome::OutcomeCode;

/// Counters, since the process began.
#[derive(Default)]
pub(super) struct Counters {
    launched: AtomicU64,
    turns: Histogram,
    /// At most one for each pair of a status and a code.
    ended: Mutex<BTreeMap<(&'static str, &'static str), u64>>,
}

/// What a [`super::WasmRuntime`] has done since it was made, and has now.
#[derive(Debug, Clone)]
pub struct RuntimeStatistics {
    /// Executions whose first event is on record.
    pub launched: u64,
    /// Ends, by status and code.
    pub ended: BTreeMap<(&'static str, &'static str), u64>,
    /// Microseconds of turns that ended.
    pub turns: Counted,
    /// Executions that are live now.
    pub live: LiveExecutions,
}

/// Executions that are live at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LiveExecutions {
    /// Those that are being made.
    pub pending: usize,
    /// Those whose agent starts.
    pub starting: usize,
    /// Those whose agent waits for a prompt.
    pub ready: usize,
    /// Those in which a turn goes on.
    pub running: usize,
    /// Prompts that wait for their turn.
    pub prompts_queued: usize,
}

impl Counters {
    pub(super) fn launched(&self) {
        self.launched.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn turn_ended(&self, micros: u64) {
        self.turns.add(micros);
    }

    pub(super) fn ended(&self, status: ExecutionStatus, code: OutcomeCode) {
        let ended = self.ended.lock();
        let mut ended = ended.unwrap_or_else(PoisonError::into_inner);
        *ended.entry((status.as_str(), code.as_str())).or_default() += 1;
    }

    pub(super) fn counted(&self, live: LiveExecutions) -> RuntimeStatistics {
        let ended = self.ended.lock();
        let ended = ended.unwrap_or_else(PoisonError::into_inner).clone();
        RuntimeStatistics {
            launched: self.launched.load(Ordering::Relaxed),
            ended,
            turns: self.turns.counted(),
            live,
        }
    }
}
