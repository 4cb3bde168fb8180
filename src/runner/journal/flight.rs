//! The calls of a run that are not answered yet, so that a run that only waits for people can be told from one
//! that works.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

use super::Journal;
use crate::runner::Gate;
use crate::runner::replay::Halt;
use crate::telemetry::chain;

/// How often it is looked whether another process has decided.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// The calls that are not answered yet.
#[derive(Default)]
pub(super) struct Flight {
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Default)]
struct State {
    /// Calls that are being worked on.
    active: usize,
    /// What the others wait for, by a number of the call.
    resting: BTreeMap<u64, Vec<Gate>>,
    /// Calls among the active ones that will not be answered: the run is to stop because of them.
    stopping: usize,
    calls: u64,
}

/// A call that is not answered yet. It counts as answered when this is dropped.
pub(super) struct InFlight {
    flight: Arc<Flight>,
    number: u64,
}

impl Flight {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a call that is begun. One that waits for others to be answered first is not.
    pub(super) fn begin(self: &Arc<Self>) -> InFlight {
        let mut state = self.state();
        state.active += 1;
        state.calls += 1;
        InFlight {
            flight: Arc::clone(self),
            number: state.calls,
        }
    }

    /// What the run waits for, if that is all that it does.
    fn resting(&self) -> Option<Vec<Gate>> {
        let state = self.state();
        let gates = || state.resting.values().flatten().cloned().collect();
        (state.active == 0).then(gates)
    }
}

impl Flight {
    /// Counts a call because of which the run is to stop, and waits until there is none left but such and
    /// those that wait for people: whatever goes on beside it has an effect, and its answer is to be on record.
    async fn alone(&self) {
        self.state().stopping += 1;
        loop {
            let changed = self.changed.notified();
            {
                let state = self.state();
                if state.active <= state.stopping {
                    return;
                }
            }
            changed.await;
        }
    }
}

impl InFlight {
    /// From now on it only waits for people.
    pub(super) fn rest(&self, gates: Vec<Gate>) {
        let mut state = self.flight.state();
        if state.resting.insert(self.number, gates).is_none() {
            state.active -= 1;
        }
        drop(state);
        self.flight.changed.notify_waiters();
    }

    /// It is worked on again.
    pub(super) fn work(&self) {
        let mut state = self.flight.state();
        if state.resting.remove(&self.number).is_some() {
            state.active += 1;
        }
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.work();
        self.flight.state().active -= 1;
        self.flight.changed.notify_waiters();
    }
}

impl Journal {
    /// Ends the run because of a call that goes on, once it is the only one.
    pub(super) async fn stop_alone<T>(&self, halt: Halt) -> T {
        self.flight.alone().await;
        self.stop(halt).await
    }

    /// Suspends the run if all that it does is wait for people. An execution keeps its instance.
    pub(super) async fn suspend_if_resting(&self) {
        if self.cx.is_execution() {
            return;
        }
        if let Some(gates) = self.flight.resting() {
            self.stop::<()>(Halt::Suspended(gates)).await;
        }
    }

    /// Waits until one of the gates is decided or its time is over. The run is suspended meanwhile, once
    /// nothing else goes on in it.
    pub(super) async fn rest(&self, call: &InFlight, gates: &[Gate]) {
        call.rest(gates.to_vec());
        let _not_wall_time = self.cx.budget().pause();
        let (store, clock) = (self.cx.runner().store(), self.cx.runner().clock());
        loop {
            // Made before the looks, so that nothing between the two is missed.
            let (changed, decided) = (self.flight.changed.notified(), store.decided());
            self.suspend_if_resting().await;
            let looked = store.clone();
            let decisions = tokio::task::spawn_blocking(move || looked.decisions()).await;
            let now = clock.now();
            let is_due = |gate: &Gate| gate.until.is_some_and(|until| until <= now);
            match decisions {
                Ok(Ok(decisions)) => {
                    let is_decided = |gate: &Gate| {
                        decisions.contains(&(gate.run_id.clone(), gate.approval_id.clone()))
                    };
                    if gates.iter().any(|gate| is_due(gate) || is_decided(gate)) {
                        break;
                    }
                }
                Ok(Err(error)) => {
                    tracing::warn!(error = chain(&error), "cannot look for decisions");
                }
                Err(_shut_down) => return std::future::pending().await,
            }
            tokio::select! {
                () = changed => {}
                () = decided => {}
                () = tokio::time::sleep(LOOK_INTERVAL) => {}
            }
        }
        call.work();
    }
}
