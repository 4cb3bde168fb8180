//! Runs that wait for people and have given up their instance meanwhile: what is kept of each is what it waits
//! for.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::oneshot;

use super::context::{Caller, RunContext};
use super::error::{ResumeError, RunError};
use super::resume::ResumeOptions;
use super::{Dispatch, RunOutcome, Runner};
use crate::clock::{Clock, Timestamp};
use crate::id::RunId;
use crate::ledger::{Origin, RunCompleted, RunStatus, Store, StoreError};
use crate::outcome::OutcomeCode;
use crate::telemetry::chain;

/// How often it is looked whether another process has decided.
pub(super) const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// A question that a run waits for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Gate {
    /// The run that asks.
    pub run_id: RunId,
    /// The question's id in that run.
    pub approval_id: String,
    /// When nobody has to answer any more; none when that changes nothing.
    pub until: Option<Timestamp>,
}

/// The runs of one runner that wait so. One task looks for all of them, and only while there are any.
#[derive(Debug, Default)]
pub(super) struct WaitingRoom(Mutex<Room>);

#[derive(Debug, Default)]
struct Room {
    /// Who is to be woken, by the gate; several gates may wake the same.
    gates: BTreeMap<Gate, Vec<Waiter>>,
    is_watched: bool,
}

/// Wakes one run. The first of its gates does; the others find nobody then.
type Waiter = Arc<Mutex<Option<oneshot::Sender<()>>>>;

impl WaitingRoom {
    fn room(&self) -> MutexGuard<'_, Room> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Questions that runs wait for.
    pub(super) fn gates_len(&self) -> usize {
        self.room().gates.len()
    }

    /// Runs that wait.
    pub(super) fn len(&self) -> usize {
        let room = self.room();
        let runs: BTreeSet<_> = room.gates.values().flatten().map(Arc::as_ptr).collect();
        runs.len()
    }

    /// Is ready when one of the gates is decided, or its time is over.
    fn wait(
        self: &Arc<Self>,
        gates: &[Gate],
        store: &Store,
        clock: &Clock,
    ) -> oneshot::Receiver<()> {
        let (sender, woken) = oneshot::channel();
        let waiter = Arc::new(Mutex::new(Some(sender)));
        let mut room = self.room();
        for gate in gates {
            let waiters = room.gates.entry(gate.clone()).or_default();
            waiters.push(Arc::clone(&waiter));
        }
        if !std::mem::replace(&mut room.is_watched, true) {
            let (room, store, clock) = (Arc::clone(self), store.clone(), clock.clone());
            tokio::spawn(async move { room.watch(&store, &clock).await });
        }
        woken
    }

    async fn watch(&self, store: &Store, clock: &Clock) {
        loop {
            // Made before the look, so that a decision between the two is not missed.
            let decided = store.decided();
            let looked = store.clone();
            let decisions = tokio::task::spawn_blocking(move || looked.decisions()).await;
            match decisions {
                Ok(Ok(decisions)) => {
                    if !self.wake(&decisions, clock.now()) {
                        return;
                    }
                }
                Ok(Err(error)) => {
                    tracing::warn!(error = chain(&error), "cannot look for decisions");
                }
                Err(_shut_down) => return,
            }
            let _looked = tokio::time::timeout(LOOK_INTERVAL, decided).await;
        }
    }

    /// Wakes whom it is time to wake, and says whether there is anybody left.
    fn wake(&self, decisions: &BTreeSet<(RunId, String)>, now: Timestamp) -> bool {
        let mut room = self.room();
        room.gates.retain(|gate, waiters| {
            waiters.retain(|waiter| {
                let sender = waiter.lock().unwrap_or_else(PoisonError::into_inner);
                sender.as_ref().is_some_and(|sender| !sender.is_closed())
            });
            let is_over = gate.until.is_some_and(|until| until <= now);
            let is_decided =
                || decisions.contains(&(gate.run_id.clone(), gate.approval_id.clone()));
            if !is_over && !is_decided() {
                return !waiters.is_empty();
            }
            for waiter in waiters.drain(..) {
                let sender = waiter.lock().unwrap_or_else(PoisonError::into_inner).take();
                // Whoever waited may have gone just now.
                let _gone = sender.map(|sender| sender.send(()));
            }
            false
        });
        room.is_watched = !room.gates.is_empty();
        room.is_watched
    }
}

/// What became of a run whose wait is over.
pub(super) enum Woken {
    /// It goes on here.
    GoesOn(Box<Dispatch>),
    /// It went on elsewhere, and ended so.
    Ended(Result<RunOutcome, RunError>),
}

/// A run that waits in its ledger alone. Should the wait be given up, the run is recorded as cancelled.
pub(super) struct Suspended {
    runner: Runner,
    run_id: RunId,
    /// The run that it is inside of. If that one is to go on later, so is this one.
    above: Option<RunContext>,
    is_over: bool,
}

impl Suspended {
    /// A run inside `above`, which waits for it.
    pub(super) fn inside(above: &RunContext, run_id: &RunId) -> Self {
        Self {
            runner: above.runner().clone(),
            run_id: run_id.clone(),
            above: Some(above.clone()),
            is_over: false,
        }
    }

    /// What it was suspended for has come.
    pub(super) fn end(mut self) {
        self.is_over = true;
    }

    fn goes_on(&self) -> bool {
        let above = self.above.as_ref();
        self.is_over
            || self.runner.is_shutting_down()
            || above.is_some_and(|above| above.halt_reason().is_some())
    }
}

impl Drop for Suspended {
    fn drop(&mut self) {
        if self.goes_on() {
            return;
        }
        let (store, run_id) = (self.runner.store().clone(), self.run_id.clone());
        if let Ok(runtime) = Handle::try_current() {
            let work = self.runner.0.work.token();
            runtime.spawn(async move {
                let _work = work;
                cancel(&store, &run_id).await;
            });
        }
    }
}

/// Records that a suspended run is cancelled, and each that was suspended inside it, unless somebody else has
/// taken it up.
async fn cancel(store: &Store, run_id: &RunId) {
    let mut runs = vec![run_id.clone()];
    // One that was cancelled is no longer there to be, so that ledgers that name each other are no circle.
    while let Some(run_id) = runs.pop() {
        match cancel_one(store, &run_id).await {
            Ok(inside) => runs.extend(inside),
            Err(
                StoreError::Ended { .. } | StoreError::Locked { .. } | StoreError::NotFound { .. },
            ) => {}
            Err(error) => {
                tracing::error!(%run_id, error = chain(&error), "cannot record a cancellation");
            }
        }
    }
}

/// Cancels one run, and gives those inside it.
async fn cancel_one(store: &Store, run_id: &RunId) -> Result<Vec<RunId>, StoreError> {
    let (recorder, recorded) = store.take_up(run_id).await?;
    let end = RunCompleted::new(RunStatus::Cancelled, OutcomeCode::Cancelled);
    let cancelled = recorder.record_durable(Origin::Host, &end.into()).await;
    cancelled.map_err(|source| StoreError::Record {
        run_id: run_id.clone(),
        source,
    })?;
    let mut inside = recorded.open_inside()?;
    // Both ledgers have to say so.
    inside.retain(|inside| {
        let summary = store.summary(inside);
        summary.is_ok_and(|summary| summary.parent_run_id.as_ref() == Some(run_id))
    });
    Ok(inside)
}

impl Runner {
    /// Runs that wait for people and have given up their instance meanwhile.
    pub fn suspended(&self) -> usize {
        self.0.waiting.len()
    }

    /// Puts on record that a run is cancelled which nobody carries out, and each that was suspended inside it. One
    /// that has ended, or that somebody has taken up, stays as it is.
    pub async fn cancel_unattended(&self, run_id: &RunId) {
        cancel(self.store(), run_id).await;
    }

    /// Waits until what a run was suspended for has come, and takes it up then. Somebody else may be first:
    /// then it is waited for what they come to.
    pub(super) async fn when_decided(
        &self,
        caller: Caller,
        run_id: RunId,
        gates: &[Gate],
        options: ResumeOptions,
    ) -> Result<Woken, RunError> {
        let mut suspended = Suspended {
            runner: self.clone(),
            run_id: run_id.clone(),
            above: None,
            is_over: false,
        };
        let woken = self.0.waiting.wait(gates, self.store(), self.clock());
        tokio::select! {
            biased;
            () = caller.cancelled() => {
                suspended.is_over = true;
                cancel(self.store(), &run_id).await;
                return Err(RunError::Cancelled { run_id });
            }
            () = self.0.shutdown.cancelled() => {
                return Err(RunError::Suspended { run_id, gates: gates.to_vec() });
            }
            _ = woken => suspended.is_over = true,
        }
        loop {
            let taken = self.begin_again(caller.clone(), &run_id, options.clone());
            let taken = match taken.await {
                Ok(dispatch) => return Ok(Woken::GoesOn(Box::new(dispatch))),
                Err(taken) => taken,
            };
            match &taken {
                RunError::NotResumed(ResumeError::Ledger {
                    source: StoreError::Ended { .. },
                    ..
                }) => return Ok(Woken::Ended(self.recorded_outcome(&run_id).await?)),
                RunError::NotResumed(ResumeError::Ledger {
                    source: StoreError::Locked { .. },
                    ..
                }) => {}
                _ => return Err(taken),
            }
            tokio::select! {
                biased;
                // It is another process's to cancel.
                () = caller.cancelled() => return Err(taken),
                () = self.0.shutdown.cancelled() => return Err(taken),
                () = tokio::time::sleep(LOOK_INTERVAL) => {}
            }
        }
    }
}
