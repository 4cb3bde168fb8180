//! The newest events of all runs, read once for all who watch them.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::FutureExt as _;
use serde::Serialize;
use tokio_util::sync::CancellationToken;

use super::block::{Block, Builder, RunName};
use super::ring::Ring;
use crate::id::RunId;
use crate::ledger::{AllSubscription, AnyDelivery, Event, Position, Record, Store};

/// Bytes of events that are kept for clients that are behind, or come again, about.
const FEED_BYTES_MAX: usize = 4 * 1024 * 1024;
/// How often it is looked whether anybody still reads.
const LOOK_INTERVAL: Duration = Duration::from_secs(30);
/// Looks after which nobody is waited for any more: five minutes. Until then a client that comes again goes on
/// where it was.
const IDLE_LOOKS_MAX: u32 = 10;
/// Runs whose skills are remembered; of others it is looked for. Protects the host's memory from runs that
/// never end.
const NAMES_MAX: usize = 4_096;

/// The events of all runs, as long as somebody watches them.
#[derive(Debug, Default, Clone)]
pub(super) struct Feeds(Arc<Mutex<Option<Arc<Feed>>>>);

/// One uninterrupted reading of all runs' events.
#[derive(Debug)]
pub(super) struct Feed {
    pub(super) ring: Ring,
    /// What tells the ids of this reading from those of others.
    pub(super) epoch: String,
    readers: AtomicUsize,
}

/// Somebody who reads the feed.
#[derive(Debug)]
pub(super) struct FeedReader(pub(super) Arc<Feed>);

impl Drop for FeedReader {
    fn drop(&mut self) {
        self.0.readers.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Events of unknown number are missing.
#[derive(Serialize)]
struct Missing {
    events: Option<u64>,
}

impl Feed {
    /// The number of the event after the one with this id, if it is or was one of this reading.
    pub(super) fn number_after(&self, id: &str) -> Option<u64> {
        let (epoch, number) = id.split_once('-')?;
        let number = number.parse().ok()?;
        (epoch == self.epoch && number <= self.ring.next()).then_some(number)
    }
}

impl Feeds {
    fn current(&self) -> MutexGuard<'_, Option<Arc<Feed>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The feed, which begins now if there is none.
    pub(super) fn read(&self, store: &Store, closing: &CancellationToken) -> FeedReader {
        let mut current = self.current();
        if let Some(feed) = &*current {
            feed.readers.fetch_add(1, Ordering::SeqCst);
            return FeedReader(Arc::clone(feed));
        }
        let feed = Arc::new(Feed {
            ring: Ring::new(0),
            epoch: format!("{:016x}", rand::random::<u64>()),
            readers: AtomicUsize::new(1),
        });
        *current = Some(Arc::clone(&feed));
        let pump = Pump {
            feeds: self.clone(),
            feed: Arc::clone(&feed),
            store: store.clone(),
            names: HashMap::new(),
        };
        // Before the first reader is told anything, so that it misses nothing from then on.
        let subscription = store.subscribe_all();
        let closing = closing.clone();
        tokio::spawn(async move {
            tokio::select! {
                () = closing.cancelled() => {}
                () = pump.run(subscription) => {}
            }
        });
        FeedReader(feed)
    }

    /// Lets the feed go if nobody reads it.
    fn let_go(&self, feed: &Feed) -> bool {
        let mut current = self.current();
        let is_idle = feed.readers.load(Ordering::SeqCst) == 0;
        if is_idle {
            *current = None;
        }
        is_idle
    }
}

/// Fills the feed.
struct Pump {
    feeds: Feeds,
    feed: Arc<Feed>,
    store: Store,
    names: HashMap<RunId, Arc<RunName>>,
}

impl Pump {
    async fn run(mut self, mut subscription: AllSubscription) {
        let mut looks = tokio::time::interval(LOOK_INTERVAL);
        let mut idle_looks = 0;
        loop {
            tokio::select! {
                block = self.next_block(&mut subscription) => {
                    if let Some(block) = block {
                        self.feed.ring.push(block, FEED_BYTES_MAX);
                    }
                }
                _ = looks.tick() => {
                    idle_looks = match self.feed.readers.load(Ordering::SeqCst) {
                        0 => idle_looks + 1,
                        _ => 0,
                    };
                    if idle_looks >= IDLE_LOOKS_MAX && self.feeds.let_go(&self.feed) {
                        return;
                    }
                }
            }
        }
    }

    /// Waits for an event, and takes what else there is by then, as far as it fits.
    async fn next_block(&mut self, subscription: &mut AllSubscription) -> Option<Block> {
        let mut next = Some(subscription.next().await);
        let mut builder = Builder::new(self.feed.ring.next(), Position::default());
        while let Some(delivery) = next {
            match delivery {
                Ok(AnyDelivery::Record(record)) => {
                    let run = self.name_of(&record);
                    builder.add_any(&record, subscription.last_at(), &self.feed.epoch, run);
                }
                Ok(AnyDelivery::Lagged) => builder.add_control("lagged", &Missing { events: None }),
                // The next one is of another run.
                Err(error) => {
                    tracing::warn!(
                        error = crate::telemetry::chain(&error),
                        "cannot read a run for those who watch all"
                    );
                    builder.add_control("lagged", &Missing { events: None });
                }
            }
            next = match builder.is_full() {
                true => None,
                false => subscription.next().now_or_never(),
            };
        }
        builder.build()
    }

    fn name_of(&mut self, record: &Record) -> Arc<RunName> {
        let run_id = &record.run_id;
        let is_end = record.kind == "run_completed";
        let known = match is_end {
            true => self.names.remove(run_id),
            false => self.names.get(run_id).cloned(),
        };
        if let Some(name) = known {
            return name;
        }
        let skill = match record.event() {
            Event::RunStarted(started) => Some(started.skill),
            _ => self.store.summary(run_id).ok().and_then(|it| it.skill),
        };
        let name = Arc::new(RunName {
            run_id: run_id.clone(),
            skill,
        });
        if !is_end && self.names.len() < NAMES_MAX {
            self.names.insert(run_id.clone(), Arc::clone(&name));
        }
        name
    }
}
