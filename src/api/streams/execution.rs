//! The events of one execution, read for each client of its own.
//!
//! Nothing is read for a client before it took what it was sent last, so that it costs what one event does. What
//! is told is in the ledger: whoever is slow is told so, and gets the rest from there.

use std::convert::Infallible;
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use futures_util::stream;
use tokio_util::sync::CancellationToken;

use super::client::Held;
use super::frame;
use super::request::ExecutionTypes;
use crate::clock::{Clock, Stopwatch};
use crate::runtime::{Event, EventKind, EventSubscription, RuntimeError};

/// Bytes of an event that are handed over at once; a longer one is in pieces. Protects the memory of connections
/// whose other end takes nothing.
const PIECE_BYTES: usize = 64 * 1024;

/// How a client of an execution is served.
pub(super) struct Setup {
    pub(super) events: EventSubscription,
    /// Which of them are wanted.
    pub(super) types: ExecutionTypes,
    /// The event before them.
    pub(super) first: Option<Event>,
    /// What is said before that.
    pub(super) first_words: Vec<Bytes>,
    pub(super) heartbeat: Duration,
    pub(super) clock: Clock,
    pub(super) closing: CancellationToken,
    pub(super) held: Held,
}

/// One client.
struct Client {
    events: EventSubscription,
    types: ExecutionTypes,
    /// What is ready to be sent.
    ready: Bytes,
    is_over: bool,
    heartbeat: Duration,
    /// Since something was sent last.
    silence: Stopwatch,
    clock: Clock,
    closing: CancellationToken,
    held: Held,
}

/// The body of a client's response.
pub(super) fn body(setup: Setup) -> Body {
    let mut ready = setup.first_words.concat();
    let is_over = setup.first.as_ref().is_some_and(is_last);
    if let Some(event) = setup.first.filter(|event| setup.types.takes(&event.kind)) {
        push(&mut ready, &event);
        setup.held.watching.frame(true);
    }
    let client = Client {
        events: setup.events,
        types: setup.types,
        ready: ready.into(),
        is_over,
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

fn is_last(event: &Event) -> bool {
    matches!(event.kind, EventKind::Stopped { .. })
}

/// An event as it is sent.
fn push(out: &mut Vec<u8>, event: &Event) {
    // What is serialized are names, numbers, texts and JSON that was parsed, which cannot fail.
    let data = serde_json::to_vec(event).unwrap_or_default();
    frame::push_head(out, &event.seq.to_string(), event.kind.name());
    frame::push_data(out, &data);
    out.extend_from_slice(frame::END);
}

impl Client {
    async fn next_piece(&mut self) -> Option<Bytes> {
        while self.ready.is_empty() {
            if self.is_over {
                return None;
            }
            let left = self.heartbeat.saturating_sub(self.silence.elapsed());
            let closing = self.closing.clone();
            tokio::select! {
                // What is on record is told before the stream closes.
                biased;
                told = self.events.next() => {
                    self.take(told);
                    // Of what is passed by the client hears nothing.
                    let is_quiet = self.ready.is_empty() && !self.is_over;
                    if is_quiet && self.silence.elapsed() >= self.heartbeat {
                        return Some(Bytes::from_static(frame::HEARTBEAT));
                    }
                }
                () = closing.cancelled() => {
                    self.is_over = true;
                    self.ready = frame::control("shutdown", &());
                }
                () = tokio::time::sleep(left) => return Some(Bytes::from_static(frame::HEARTBEAT)),
            }
        }
        let bytes = self.ready.len().min(PIECE_BYTES);
        Some(self.ready.split_to(bytes))
    }

    fn take(&mut self, told: Result<Option<Event>, RuntimeError>) {
        let event = match told {
            Ok(Some(event)) => event,
            Ok(None) => {
                self.is_over = true;
                return;
            }
            // The client asks again, and is told then why it cannot be answered.
            Err(error) => {
                tracing::error!(error = crate::telemetry::chain(&error), "stream broke off");
                self.is_over = true;
                return;
            }
        };
        if let EventKind::Lagged { lines } = event.kind {
            self.held.watching.lagged();
            self.ready = frame::control("lagged", &Lagged { lines });
            return;
        }
        if !self.types.takes(&event.kind) {
            return;
        }
        self.is_over = is_last(&event);
        let mut out = Vec::new();
        push(&mut out, &event);
        self.held.watching.frame(true);
        self.ready = out.into();
    }
}

/// Lines of the ledger that a client did not take in time.
#[derive(serde::Serialize)]
struct Lagged {
    lines: u64,
}
