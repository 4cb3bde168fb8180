//! The newest events of one run, read once for all who watch it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use bytes::Bytes;
use serde::Serialize;
use tokio::sync::Semaphore;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::block::{Block, Builder};
use super::frame;
use super::ring::Ring;
use crate::id::RunId;
use crate::ledger::{Delivery, Position, Store, StoreError, Subscription, Summary};

/// Bytes of all rings together, about. Protects the memory of the host from clients that watch many runs.
const RINGS_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Bytes of one ring, however many there are. Whoever is further behind reads the file.
const RING_BYTES_MIN: usize = 192 * 1024;
/// Bytes of one ring, however few there are.
const RING_BYTES_MAX: usize = 8 * 1024 * 1024;

/// The runs that are watched.
#[derive(Debug, Default)]
pub(super) struct Tails {
    open: Mutex<HashMap<RunId, Weak<Tail>>>,
    /// The tails that are read.
    count: Arc<AtomicUsize>,
}

/// The newest events of one run. They are read as long as somebody has this.
#[derive(Debug)]
pub(super) struct Tail {
    pub(super) ring: Arc<Ring>,
    _reading: DropGuard,
}

/// What is said last of a run: how it ended, if it did.
#[derive(Serialize)]
struct End<'a> {
    run_id: &'a str,
    /// As in lists; `running` when nobody writes the ledger any more and its end is missing.
    status: &'a str,
    code: Option<&'a str>,
    /// The number of the newest event.
    seq: u64,
}

impl Tails {
    /// The tail of a run, shared with whoever watches it already. It reads the file.
    pub(super) fn of(&self, store: &Store, run_id: &RunId) -> Result<Arc<Tail>, StoreError> {
        if let Some(tail) = self.known(run_id) {
            return Ok(tail);
        }
        let subscription = store.subscribe_newest(run_id)?.through_suspensions();
        let ring = Arc::new(Ring::new(subscription.position().lines()));
        let token = CancellationToken::new();
        let tail = Arc::new(Tail {
            ring: Arc::clone(&ring),
            _reading: token.clone().drop_guard(),
        });
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.retain(|_, tail| tail.strong_count() > 0);
        let other = open.get(run_id).and_then(Weak::upgrade);
        if let Some(other) = other.filter(|other| !other.ring.is_over()) {
            return Ok(other);
        }
        open.insert(run_id.clone(), Arc::downgrade(&tail));
        drop(open);
        let count = Arc::clone(&self.count);
        let (store, run_id) = (store.clone(), run_id.clone());
        tokio::spawn(async move {
            count.fetch_add(1, Ordering::Relaxed);
            let last_words = tokio::select! {
                () = token.cancelled() => None,
                read = read(&ring, subscription, &count) => Some(read),
            };
            count.fetch_sub(1, Ordering::Relaxed);
            let last_words = match last_words {
                None => return,
                Some(Ok(())) => end(store, run_id).await,
                Some(Err(error)) => Err(error),
            };
            ring.finish(last_words.unwrap_or_else(|error| {
                tracing::error!(error = crate::telemetry::chain(&error), "stream broke off");
                Bytes::new()
            }));
        });
        Ok(tail)
    }

    fn known(&self, run_id: &RunId) -> Option<Arc<Tail>> {
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let tail = open.get(run_id)?.upgrade()?;
        (!tail.ring.is_over()).then_some(tail)
    }
}

/// Fills the ring until the run has ended.
async fn read(
    ring: &Ring,
    mut subscription: Subscription,
    count: &AtomicUsize,
) -> Result<(), StoreError> {
    loop {
        let (back, block) = blocking(move || {
            let block = next_block(&mut subscription)?;
            Ok((subscription, block))
        })
        .await?;
        subscription = back;
        if let Some(block) = block {
            let share = RINGS_BYTES_MAX / count.load(Ordering::Relaxed).max(1);
            ring.push(block, share.clamp(RING_BYTES_MIN, RING_BYTES_MAX));
        } else if !subscription.goes_on().await? {
            return Ok(());
        }
    }
}

/// What there is by now, as far as it fits.
fn next_block(subscription: &mut Subscription) -> Result<Option<Block>, StoreError> {
    let mut at = subscription.position();
    let mut builder = Builder::new(at.lines(), at);
    while !builder.is_full() {
        match subscription.try_next()? {
            Some(Delivery::Entry(entry)) => {
                let after = subscription.position();
                builder.add_line(&entry, at, after);
                at = after;
            }
            // Each client is told of its own.
            Some(Delivery::Behind { .. }) => {}
            None => break,
        }
    }
    Ok(builder.build())
}

async fn end(store: Store, run_id: RunId) -> Result<Bytes, StoreError> {
    blocking(move || store.summary(&run_id).map(|summary| end_of(&summary))).await
}

fn end_of(summary: &Summary) -> Bytes {
    let end = End {
        run_id: summary.run_id.as_str(),
        status: summary.state.as_str(),
        code: summary.code.map(|code| code.as_str()),
        seq: summary.head.seq,
    };
    frame::control("end", &end)
}

/// Files that are read at once for streams. Protects the memory of the host: a line may have 8 MiB, and each thread
/// that has held one keeps room for another.
static READS: Semaphore = Semaphore::const_new(4);

/// Reads files where that delays nobody.
pub(super) async fn blocking<T: Send + 'static>(
    read: impl FnOnce() -> Result<T, StoreError> + Send + 'static,
) -> Result<T, StoreError> {
    let Ok(_place) = READS.acquire().await else {
        return Err(StoreError::ShutDown);
    };
    let read = tokio::task::spawn_blocking(read).await;
    read.unwrap_or(Err(StoreError::ShutDown))
}

/// Reads what a client needs that the ring no longer has, up to, not with, the line numbered `limit`.
pub(super) fn block_of_file(
    follower: &mut crate::ledger::Follower,
    limit: u64,
) -> Result<Option<Block>, StoreError> {
    let mut at: Position = follower.position();
    let mut builder = Builder::new(at.lines(), at);
    while !builder.is_full() && at.lines() < limit {
        let Some(entry) = follower.next_entry()? else {
            break;
        };
        let after = follower.position();
        builder.add_line(&entry, at, after);
        at = after;
    }
    Ok(builder.build())
}
