//! What runs wait for, over all of them.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::decision::Gate;
use super::digest::Digest;
use super::error::StoreError;
use super::list::{Cursor, RunQuery};
use super::store::{Store, start_millis};
use super::summary::{RunState, Summary};
use crate::clock::Timestamp;
use crate::id::RunId;

/// Runs that are looked into for one page. Protects the disk from whoever asks, since each of them is a ledger
/// that may have to be read whole.
const LOOKS_MAX: usize = 1_000;
/// Runs of which it is kept that they wait for nothing. Protects memory; what is forgotten is read again.
const SILENT_RUNS_MAX: usize = 50_000;
/// Runs that are listed at once.
const RUNS_OF_A_PAGE: usize = 200;

/// Which questions are wanted.
#[derive(Debug, Clone, Default)]
pub struct PendingQuery {
    /// Those of this run.
    pub run_id: Option<RunId>,
    /// Those of the runs after the last one of an earlier page.
    pub after: Option<Cursor>,
    /// How many at most, and then those that are left of the last run.
    pub limit: usize,
}

/// Questions that nobody has answered, those of the newest run first.
#[derive(Debug, Default)]
pub struct Pending {
    /// The questions. A run has them in the order in which it asked.
    pub gates: Vec<Gate>,
    /// Where the next page begins; absent when there are no further ones. A page may be empty and have a next.
    pub next: Option<Cursor>,
    /// Runs that could not be looked into, and why not.
    pub unreadable: Vec<(RunId, StoreError)>,
}

/// Runs that wait for nothing, as long as they end with this line: what a ledger asks for is only known when it
/// was read whole.
#[derive(Debug, Default)]
pub(super) struct SilentRuns(Mutex<HashMap<RunId, Digest>>);

impl SilentRuns {
    fn runs(&self) -> MutexGuard<'_, HashMap<RunId, Digest>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn has(&self, run: &Summary) -> bool {
        self.runs().get(&run.run_id) == Some(&run.head.sha256)
    }

    fn insert(&self, run: &Summary) {
        let mut runs = self.runs();
        if runs.len() >= SILENT_RUNS_MAX {
            runs.clear();
        }
        runs.insert(run.run_id.clone(), run.head.sha256);
    }
}

impl Store {
    /// The questions that nobody has answered, of every run that has no end or can go on.
    ///
    /// # Errors
    /// The folder cannot be read; of a query for one run also [`StoreError::NotFound`], and that its ledger
    /// cannot be read. Other runs that cannot be read are in the answer.
    pub fn pending(&self, query: &PendingQuery) -> Result<Pending, StoreError> {
        let mut pending = Pending::default();
        if let Some(run_id) = &query.run_id {
            let run = self.summary(run_id)?;
            if run.state.may_go_on() {
                pending.gates = self.open_gates(&run)?;
            }
            return Ok(pending);
        }
        let mut looks = 0;
        let mut wanted = RunQuery {
            may_go_on: true,
            after: query.after.clone(),
            ..RunQuery::newest(RUNS_OF_A_PAGE)
        };
        loop {
            let listing = self.list(&wanted)?;
            let is_last_page = listing.next.is_none();
            let mut runs = listing.runs.into_iter().peekable();
            while let Some(run) = runs.next() {
                if self.0.silent.has(&run) {
                    continue;
                }
                looks += 1;
                match self.open_gates(&run) {
                    Ok(gates) => pending.gates.extend(gates),
                    Err(StoreError::NotFound { .. }) => {}
                    Err(error) => pending.unreadable.push((run.run_id.clone(), error)),
                }
                if pending.gates.len() >= query.limit || looks >= LOOKS_MAX {
                    let is_last = is_last_page && runs.peek().is_none();
                    pending.next = (!is_last).then(|| place_of(run));
                    return Ok(pending);
                }
            }
            match listing.next {
                Some(next) => wanted.after = Some(next),
                None => return Ok(pending),
            }
        }
    }

    fn open_gates(&self, run: &Summary) -> Result<Vec<Gate>, StoreError> {
        let mut gates = self.gates_where_one_is_open(run)?;
        gates.retain(|gate| gate.decision.is_none());
        Ok(gates)
    }

    /// The questions of a run, answered or not, as long as one of them is open; none otherwise, without its ledger being
    /// read again before it has grown.
    ///
    /// # Errors
    /// As [`Store::gates`].
    pub(crate) fn gates_where_one_is_open(&self, run: &Summary) -> Result<Vec<Gate>, StoreError> {
        if self.0.silent.has(run) {
            return Ok(Vec::new());
        }
        let gates = self.gates(&run.run_id)?;
        if gates.iter().any(|gate| gate.decision.is_none()) {
            return Ok(gates);
        }
        self.0.silent.insert(run);
        Ok(Vec::new())
    }
}

/// Where a run stands in the list of all.
fn place_of(run: Summary) -> Cursor {
    let by_id = || start_millis(&run.run_id).saturating_mul(1_000);
    Cursor {
        started_micros: run.started_at.map_or_else(by_id, Timestamp::unix_micros),
        run_id: run.run_id,
    }
}

impl RunState {
    /// Whether there is no end yet, or one after which the run can go on.
    pub fn may_go_on(self) -> bool {
        match self {
            Self::Running => true,
            Self::Ended(status) => status.is_resumable(),
            Self::Corrupt => false,
        }
    }
}
