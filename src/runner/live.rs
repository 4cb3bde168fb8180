//! The runs that this process carries out now, by their ids.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio_util::sync::CancellationToken;

use super::Runner;
use super::context::{RunContext, WeakContext};
use crate::id::RunId;

/// Where a run is found from before its caller knows its id until its end is recorded, while it waits in the
/// queue or is suspended too.
#[derive(Default)]
pub(super) struct LiveRuns(Mutex<HashMap<RunId, LiveRun>>);

struct LiveRun {
    cancellation: CancellationToken,
    /// None of a suspended run, of which nothing else is kept; its ledger is closed meanwhile.
    cx: WeakContext,
    /// Parts of the run that are not over: one that was suspended overlaps with the one that goes on.
    parts: usize,
}

impl LiveRuns {
    fn runs(&self) -> MutexGuard<'_, HashMap<RunId, LiveRun>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many go on or wait for a place, and how many are suspended.
    pub(super) fn counts(&self) -> (usize, usize) {
        let runs = self.runs();
        let going_on = runs.values().filter(|live| live.cx.upgrade().is_some());
        let going_on = going_on.count();
        (going_on, runs.len() - going_on)
    }

    /// Lets the run be found until what this gives is dropped.
    pub(super) fn enter(self: &Arc<Self>, cx: &RunContext) -> Arc<LivePart> {
        let cancellation = cx.caller().cancellation();
        self.enter_with(cx.run_id(), cancellation, cx.downgrade())
    }

    /// The same of a run that is suspended.
    pub(super) fn enter_suspended(
        self: &Arc<Self>,
        run_id: &RunId,
        cancellation: &CancellationToken,
    ) -> Arc<LivePart> {
        self.enter_with(run_id, cancellation, WeakContext::default())
    }

    fn enter_with(
        self: &Arc<Self>,
        run_id: &RunId,
        cancellation: &CancellationToken,
        cx: WeakContext,
    ) -> Arc<LivePart> {
        let mut runs = self.runs();
        let parts = runs.get(run_id).map_or(0, |live| live.parts) + 1;
        let live = LiveRun {
            cancellation: cancellation.clone(),
            cx,
            parts,
        };
        runs.insert(run_id.clone(), live);
        Arc::new(LivePart {
            live: Arc::clone(self),
            run_id: run_id.clone(),
        })
    }
}

/// A part of a run that is not over.
pub(super) struct LivePart {
    live: Arc<LiveRuns>,
    run_id: RunId,
}

impl Drop for LivePart {
    fn drop(&mut self) {
        let mut runs = self.live.runs();
        let Some(live) = runs.get_mut(&self.run_id) else {
            return;
        };
        live.parts -= 1;
        if live.parts == 0 {
            runs.remove(&self.run_id);
        }
    }
}

impl Runner {
    /// The context of a run that this process carries out, be it queued; none when it does not, or when the
    /// run is suspended.
    pub fn live(&self, run_id: &RunId) -> Option<RunContext> {
        let runs = self.0.live.runs();
        runs.get(run_id)?.cx.upgrade()
    }

    /// Cancels a run that this process carries out, and with it every run inside. The end is on record soon
    /// after. False when there is no such run here.
    pub fn cancel(&self, run_id: &RunId) -> bool {
        let runs = self.0.live.runs();
        let cancellation = runs.get(run_id).map(|live| live.cancellation.clone());
        drop(runs);
        cancellation.inspect(CancellationToken::cancel).is_some()
    }

    /// Whether this process carries a run out, be it queued or suspended.
    pub fn is_live(&self, run_id: &RunId) -> bool {
        self.0.live.runs().contains_key(run_id)
    }

    /// How many runs this process carries out, those that are queued or suspended too.
    pub fn live_count(&self) -> usize {
        self.0.live.runs().len()
    }
}
