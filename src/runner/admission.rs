//! How many runs go on at once, and how many wait.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::config;

/// The gate before every run.
#[derive(Debug)]
pub(super) struct Admission {
    bounds: config::Admission,
    places: Arc<Semaphore>,
    queued: Arc<AtomicUsize>,
}

/// More runs are asked for than may wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Full;

/// Admission, now or later.
#[derive(Debug)]
pub(super) enum Ticket {
    /// There was a place.
    Admitted(Place),
    /// There will be one.
    Queued(Arc<Semaphore>, QueuePlace),
}

/// A place among the runs that go on; given back when it is dropped. A run inside another needs none:
/// were both to need one, parents that wait for children could fill every place.
#[derive(Debug)]
pub(super) struct Place(
    #[expect(dead_code, reason = "dropping it gives the place back")] Option<OwnedSemaphorePermit>,
);

/// A place in the queue; given back when it is dropped.
#[derive(Debug)]
pub(super) struct QueuePlace(Arc<AtomicUsize>);

impl Drop for QueuePlace {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Admission {
    pub(super) fn new(bounds: config::Admission) -> Self {
        Self {
            bounds,
            places: Arc::new(Semaphore::new(bounds.at_once_max)),
            queued: Arc::default(),
        }
    }

    pub(super) fn bounds(&self) -> config::Admission {
        self.bounds
    }

    /// Asks for a place for a run at this depth of nesting.
    pub(super) fn ask(&self, depth: u64) -> Result<Ticket, Full> {
        if depth > 0 {
            return Ok(Ticket::Admitted(Place(None)));
        }
        if let Ok(permit) = Arc::clone(&self.places).try_acquire_owned() {
            return Ok(Ticket::Admitted(Place(Some(permit))));
        }
        self.queued
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |queued| {
                (queued < self.bounds.queue_max).then(|| queued + 1)
            })
            .map_err(|_| Full)?;
        let queue_place = QueuePlace(Arc::clone(&self.queued));
        Ok(Ticket::Queued(Arc::clone(&self.places), queue_place))
    }
}

impl Ticket {
    /// Whether the place is still to come.
    pub(super) fn is_queued(&self) -> bool {
        matches!(self, Self::Queued(..))
    }

    /// Waits for the place; who waits first is served first.
    pub(super) async fn redeem(self) -> Place {
        match self {
            Self::Admitted(place) => place,
            // The semaphore is never closed; if it were, running beats losing the run.
            Self::Queued(places, _queue_place) => Place(places.acquire_owned().await.ok()),
        }
    }
}
