//! What one client is sent: nothing is read for it before it takes what it was sent last.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use bytes::{Bytes, BytesMut};
use futures_util::stream;
use serde::Serialize;
use tokio::sync::{OwnedSemaphorePermit, watch};
use tokio_util::sync::CancellationToken;

use super::block::{BLOCK_BYTES, Block, Item, LongLine, Types};
use super::feed::FeedReader;
use super::frame;
use super::ring::{Look, Ring};
use super::stats::Watching;
use super::tail::{Tail, block_of_file, blocking};
use super::tickets::TicketUse;
use crate::clock::{Clock, Stopwatch};
use crate::id::RunId;
use crate::ledger::{Follower, Position, Store, StoreError};

/// Bytes of blocks that are sent as they are. Smaller ones are sent together.
const WHOLE_BYTES_MIN: usize = 16 * 1024;

/// Which events a client wants.
#[derive(Debug)]
pub(super) struct Filter {
    pub(super) types: Types,
    pub(super) run: Option<RunId>,
    pub(super) skill: Option<String>,
}

impl Filter {
    pub(super) fn takes(&self, item: &Item) -> bool {
        let named = item.run.as_ref().is_none_or(|name| {
            self.run.as_ref().is_none_or(|run| *run == name.run_id)
                && (self.skill.is_none() || self.skill == name.skill)
        });
        named && item.types.has_any(self.types)
    }

    fn takes_all(&self) -> bool {
        self.types == Types::ALL && self.run.is_none() && self.skill.is_none()
    }
}

/// Where a client's events come from.
pub(super) enum Source {
    /// One run, whose file has what the ring no longer has.
    Run {
        tail: Arc<Tail>,
        run_id: RunId,
        /// After the event that was sent last.
        place: Position,
        /// Reads the file, as long as the client is behind.
        follower: Option<Follower>,
    },
    /// All runs.
    Feed(FeedReader),
}

impl Source {
    fn ring(&self) -> &Ring {
        match self {
            Self::Run { tail, .. } => &tail.ring,
            Self::Feed(reader) => &reader.0.ring,
        }
    }
}

/// What goes on as long as a client reads.
pub(super) struct Held {
    pub(super) watching: Watching,
    pub(super) _place: OwnedSemaphorePermit,
    pub(super) _ticket: Option<Arc<TicketUse>>,
}

/// How a client is served.
pub(super) struct Setup {
    pub(super) store: Store,
    pub(super) source: Source,
    pub(super) filter: Filter,
    /// The number of the first event that is wanted.
    pub(super) next: u64,
    /// What is said first.
    pub(super) first_words: Vec<Bytes>,
    pub(super) heartbeat: Duration,
    pub(super) clock: Clock,
    pub(super) closing: CancellationToken,
    pub(super) held: Held,
}

/// One client.
struct Client {
    store: Store,
    source: Source,
    changes: watch::Receiver<()>,
    filter: Filter,
    next: u64,
    ready: VecDeque<Bytes>,
    /// A line that is being sent, how much of it was, and its file once that is open.
    long_line: Option<(LongLine, u64, Option<Follower>)>,
    /// The last event that was passed by, when nothing was sent since.
    passed_id: Option<u64>,
    /// Has seen all there was at some time, and was not told since then that it is behind.
    is_on_time: bool,
    is_over: bool,
    heartbeat: Duration,
    /// Since something was sent last.
    silence: Stopwatch,
    clock: Clock,
    closing: CancellationToken,
    held: Held,
}

/// Events that a client did not take in time.
#[derive(Serialize)]
struct Lagged {
    events: u64,
}

/// The body of a client's response.
pub(super) fn body(setup: Setup) -> Body {
    let client = Client {
        changes: setup.source.ring().changes(),
        store: setup.store,
        source: setup.source,
        filter: setup.filter,
        next: setup.next,
        ready: setup.first_words.into(),
        long_line: None,
        passed_id: None,
        is_on_time: false,
        is_over: false,
        heartbeat: setup.heartbeat,
        silence: setup.clock.stopwatch(),
        clock: setup.clock,
        closing: setup.closing,
        held: setup.held,
    };
    let pieces = stream::unfold(client, |mut client| async move {
        let piece = client.next_piece().await?;
        client.held.watching.sent(piece.len());
        client.silence = client.clock.stopwatch();
        Some((Ok::<_, Infallible>(piece), client))
    });
    Body::from_stream(pieces)
}

impl Client {
    async fn next_piece(&mut self) -> Option<Bytes> {
        loop {
            let piece = match self.ready.pop_front() {
                Some(piece) => Ok(Some(piece)),
                None if self.is_over => return None,
                None if self.long_line.is_some() => self.next_of_long_line().await,
                None if self.closing.is_cancelled() => {
                    self.is_over = true;
                    Ok(Some(frame::control("shutdown", &())))
                }
                None => self.look().await,
            };
            match piece {
                Ok(Some(piece)) if !piece.is_empty() => return Some(piece),
                Ok(_) if self.silence.elapsed() >= self.heartbeat => {
                    return Some(self.heartbeat_now());
                }
                Ok(_) => {}
                // The client asks again, and is told then why it cannot be answered.
                Err(error) => {
                    tracing::error!(error = crate::telemetry::chain(&error), "stream broke off");
                    return None;
                }
            }
        }
    }

    /// Says that the stream is there and, when events were passed by, up to where.
    fn heartbeat_now(&mut self) -> Bytes {
        match (self.passed_id.take(), &self.source) {
            (Some(id), Source::Run { .. }) => frame::place(&id.to_string()),
            _ => Bytes::from_static(frame::HEARTBEAT),
        }
    }

    /// Takes what there is; waits if there is nothing.
    async fn look(&mut self) -> Result<Option<Bytes>, StoreError> {
        self.changes.mark_unchanged();
        match self.source.ring().look(self.next) {
            Look::Here(block, item) => Ok(Some(self.take_together(&block, item))),
            Look::Gone { events, oldest } => {
                if std::mem::take(&mut self.is_on_time) || matches!(self.source, Source::Feed(_)) {
                    self.held.watching.lagged();
                    self.ready
                        .push_back(frame::control("lagged", &self.missing(events, oldest)));
                }
                self.catch_up(oldest).await.map(|()| None)
            }
            Look::Over(end) => {
                self.is_over = true;
                if let (Some(id), Source::Run { .. }) = (self.passed_id, &self.source) {
                    self.ready.push_back(frame::place(&id.to_string()));
                }
                self.ready.push_back(end);
                Ok(None)
            }
            Look::NotYet => {
                self.is_on_time = true;
                if let Source::Run { follower, .. } = &mut self.source {
                    *follower = None;
                }
                let left = self.heartbeat.saturating_sub(self.silence.elapsed());
                tokio::select! {
                    _ = self.changes.changed() => {}
                    () = tokio::time::sleep(left) => {}
                    () = self.closing.cancelled() => {}
                }
                Ok(None)
            }
        }
    }

    /// Of one run the events are behind; of all runs those are missing that are gone.
    fn missing(&self, events: u64, oldest: u64) -> Lagged {
        let events = match self.source {
            Source::Run { .. } => events,
            Source::Feed(_) => oldest.saturating_sub(self.next),
        };
        Lagged { events }
    }

    /// Takes a block and, when that is little, those after it.
    fn take_together(&mut self, block: &Block, item: usize) -> Bytes {
        let first = self.take(block, item);
        if first.len() >= WHOLE_BYTES_MIN || self.long_line.is_some() {
            return first;
        }
        let mut together = BytesMut::from(first);
        while together.len() < WHOLE_BYTES_MIN && self.long_line.is_none() {
            let Look::Here(block, item) = self.source.ring().look(self.next) else {
                break;
            };
            together.extend_from_slice(&self.take(&block, item));
        }
        together.freeze()
    }

    /// The bytes of a block's items from one on, as far as the client wants them.
    fn take(&mut self, block: &Block, from: usize) -> Bytes {
        self.next = block.next();
        let count = block.items.len();
        if let Source::Run { place, .. } = &mut self.source {
            *place = block.after();
        }
        let mut is_last_taken = false;
        let mut bytes = BytesMut::new();
        for (at, item) in block.items.iter().enumerate().skip(from) {
            is_last_taken = self.filter.takes(item);
            self.passed_id = match is_last_taken {
                true => None,
                false => item.id.or(self.passed_id),
            };
            self.held.watching.frame(is_last_taken);
            if is_last_taken && !self.filter.takes_all() {
                bytes.extend_from_slice(&block.slice(at, at + 1));
            }
        }
        let long_line = block.long_line.clone().filter(|_| is_last_taken);
        self.long_line = long_line.map(|line| (line, 0, None));
        match self.filter.takes_all() {
            true => block.slice(from, count),
            false => bytes.freeze(),
        }
    }

    /// Takes what the ring no longer has from the file, or leaves it out where there is none.
    async fn catch_up(&mut self, oldest: u64) -> Result<(), StoreError> {
        let Source::Run {
            run_id,
            place,
            follower,
            ..
        } = &mut self.source
        else {
            self.next = oldest;
            return Ok(());
        };
        let (store, run_id, place) = (self.store.clone(), run_id.clone(), *place);
        let open = follower.take();
        let (follower, block) = blocking(move || {
            let open = open.filter(|open| open.position() == place);
            let mut follower = match open {
                Some(open) => open,
                None => store.follow(&run_id, place)?,
            };
            let block = block_of_file(&mut follower, oldest)?;
            Ok((follower, block))
        })
        .await?;
        let Some(block) = block else {
            // What the ring had is not in the file: somebody took it away.
            self.is_over = true;
            return Ok(());
        };
        let bytes = self.take(&block, 0);
        self.ready.push_back(bytes);
        if let Source::Run { follower: kept, .. } = &mut self.source {
            *kept = Some(follower);
        }
        Ok(())
    }

    /// A piece of a line that is too long to be held.
    async fn next_of_long_line(&mut self) -> Result<Option<Bytes>, StoreError> {
        let Some((line, sent, follower)) = self.long_line.take() else {
            return Ok(None);
        };
        let left = usize::try_from(line.bytes - sent).unwrap_or(usize::MAX);
        let store = self.store.clone();
        let (line, follower, piece) = blocking(move || {
            let follower = match follower {
                Some(open) => open,
                None => store.follow(&line.run_id, line.at)?,
            };
            let piece = follower.piece(line.at, sent, left.min(BLOCK_BYTES))?;
            Ok((line, follower, piece))
        })
        .await?;
        let sent = sent + u64::try_from(piece.len()).unwrap_or(u64::MAX);
        if piece.is_empty() {
            // The file was cut off meanwhile. The event is not ended, so that no part of it passes for it.
            self.is_over = true;
            return Ok(None);
        }
        let mut out = Vec::new();
        frame::push_data(&mut out, &piece);
        if sent < line.bytes {
            self.long_line = Some((line, sent, Some(follower)));
        } else {
            out.extend_from_slice(frame::END);
        }
        Ok(Some(out.into()))
    }
}
