//! How many runs go on at once, and how many wait.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

use crate::config;

/// Levels of nesting for which a place is kept; a run that is deeper is refused when there is none.
const LEVELS: u64 = 8;

/// The gate before every run.
#[derive(Debug)]
pub(super) struct Admission {
    bounds: config::Admission,
    places: Arc<Semaphore>,
    queued: Arc<AtomicUsize>,
    inside: Arc<Inside>,
}

/// The places for runs inside runs.
///
/// Whoever waits for one holds another, so runs could come to wait for each other for ever. A run takes a
/// place only when one is left then for each level below its own. Of those that wait, the deepest has
/// therefore room to come, or runs on its own level that do not wait and will make some.
#[derive(Debug)]
pub(super) struct Inside {
    free: AtomicUsize,
    /// Wakes those who wait when a place comes free.
    freed: Notify,
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
    /// There will be one among the runs at this depth.
    Nested(Arc<Inside>, u64),
}

/// A place among the runs that go on; given back when it is dropped.
#[derive(Debug)]
pub(super) enum Place {
    /// Among those that are inside no other.
    Outer(
        #[expect(dead_code, reason = "dropping it gives the place back")]
        Option<OwnedSemaphorePermit>,
    ),
    /// Among those that are.
    Inner(#[expect(dead_code, reason = "dropping it gives the place back")] InnerPlace),
}

/// A place among the runs inside runs; given back when it is dropped.
#[derive(Debug)]
pub(super) struct InnerPlace(Arc<Inside>);

impl Drop for InnerPlace {
    fn drop(&mut self) {
        self.0.free.fetch_add(1, Ordering::AcqRel);
        self.0.freed.notify_waiters();
    }
}

impl Inside {
    /// A place for a run at this depth, if there is one.
    fn take(self: &Arc<Self>, depth: u64) -> Option<Place> {
        let kept = usize::try_from(LEVELS.saturating_sub(depth)).unwrap_or(0);
        let take = |free: usize| (free > kept).then(|| free - 1);
        let taken = self
            .free
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, take);
        taken
            .is_ok()
            .then(|| Place::Inner(InnerPlace(Arc::clone(self))))
    }

    async fn wait(self: Arc<Self>, depth: u64) -> Place {
        loop {
            // Made before the look, so that a place that comes free between the two is not missed.
            let freed = self.freed.notified();
            if let Some(place) = self.take(depth) {
                return place;
            }
            freed.await;
        }
    }
}

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
            inside: Arc::new(Inside {
                free: AtomicUsize::new(bounds.nested_max),
                freed: Notify::new(),
            }),
        }
    }

    /// How many wait and are inside no other.
    pub(super) fn queued(&self) -> usize {
        self.queued.load(Ordering::Relaxed)
    }

    pub(super) fn bounds(&self) -> config::Admission {
        self.bounds
    }

    /// Asks for a place for a run at this depth of nesting. Only runs that are inside no other can fill the
    /// queue: those inside are bounded by the calls that their parents may make at once.
    pub(super) fn ask(&self, depth: u64) -> Result<Ticket, Full> {
        if depth > 0 {
            return match self.inside.take(depth) {
                Some(place) => Ok(Ticket::Admitted(place)),
                None if depth > LEVELS => Err(Full),
                None => Ok(Ticket::Nested(Arc::clone(&self.inside), depth)),
            };
        }
        if let Ok(permit) = Arc::clone(&self.places).try_acquire_owned() {
            return Ok(Ticket::Admitted(Place::Outer(Some(permit))));
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

impl Admission {
    /// Admission of what takes no place here.
    pub(super) fn outside() -> Ticket {
        Ticket::Admitted(Place::Outer(None))
    }

    /// A place for a run that had one before, however many wait.
    pub(super) fn ask_again(&self) -> Ticket {
        match Arc::clone(&self.places).try_acquire_owned() {
            Ok(permit) => Ticket::Admitted(Place::Outer(Some(permit))),
            Err(_taken) => {
                self.queued.fetch_add(1, Ordering::AcqRel);
                let queue_place = QueuePlace(Arc::clone(&self.queued));
                Ticket::Queued(Arc::clone(&self.places), queue_place)
            }
        }
    }
}

impl Ticket {
    /// Whether the place is still to come.
    pub(super) fn is_queued(&self) -> bool {
        !matches!(self, Self::Admitted(_))
    }

    /// Waits for the place. Of runs that are inside no other, who waits first is served first.
    pub(super) async fn redeem(self) -> Place {
        match self {
            Self::Admitted(place) => place,
            // The semaphore is never closed; if it were, running beats losing the run.
            Self::Queued(places, _queue_place) => Place::Outer(places.acquire_owned().await.ok()),
            Self::Nested(inside, depth) => inside.wait(depth).await,
        }
    }
}
