//! Work that few may do at once: who comes later waits for a turn, and who comes when many wait is sent away.

use std::sync::Arc;

use axum::http::header::RETRY_AFTER;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::problem::{Problem, ProblemCode};
use super::refusal::RETRY_AFTER_VALUE;

/// Places for one kind of work.
#[derive(Debug)]
pub(crate) struct Turns {
    at_work: Arc<Semaphore>,
    /// One for each that is at work, and for each that may wait.
    there: Arc<Semaphore>,
}

/// A place, for as long as it lives. Work that cannot be stopped has to hold it to its end, also when nobody waits for
/// that any more.
#[derive(Debug)]
pub(crate) struct Turn {
    _at_work: OwnedSemaphorePermit,
    _there: OwnedSemaphorePermit,
}

impl Turns {
    pub(crate) fn new(at_work_max: usize, waiting_max: usize) -> Self {
        Self {
            at_work: Arc::new(Semaphore::new(at_work_max)),
            there: Arc::new(Semaphore::new(at_work_max + waiting_max)),
        }
    }

    /// Waits for a place.
    ///
    /// # Errors
    /// [`ProblemCode::Busy`] when as many wait as may.
    pub(crate) async fn next(&self) -> Result<Turn, Problem> {
        let busy = || {
            Problem::new(ProblemCode::Busy, "as many such requests wait as may")
                .with_header(RETRY_AFTER, RETRY_AFTER_VALUE)
        };
        let there = Arc::clone(&self.there).try_acquire_owned();
        let there = there.map_err(|_full| busy())?;
        let at_work = Arc::clone(&self.at_work).acquire_owned().await;
        Ok(Turn {
            _at_work: at_work.map_err(|closed| Problem::internal(&closed))?,
            _there: there,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future as _;
    use std::pin::pin;
    use std::task::{Context, Waker};

    use super::*;

    #[tokio::test]
    async fn a_place_is_had_waited_for_and_refused() {
        let turns = Turns::new(1, 1);
        let first = turns.next().await.unwrap();
        let mut second = pin!(turns.next());
        let mut cx = Context::from_waker(Waker::noop());
        assert!(second.as_mut().poll(&mut cx).is_pending());
        assert!(turns.next().await.is_err());
        drop(first);
        drop(second.await.unwrap());
        // Nobody waits, and nobody is at work.
        drop(turns.next().await.unwrap());
    }
}
