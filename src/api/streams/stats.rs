//! What is counted of streams.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Figures of all streams of a surface since it began.
#[derive(Debug, Default)]
pub(crate) struct StreamStats {
    clients: AtomicU64,
    lagged: AtomicU64,
    frames: AtomicU64,
    bytes: AtomicU64,
}

impl StreamStats {
    /// Clients that are connected now.
    pub(crate) fn clients(&self) -> u64 {
        self.clients.load(Ordering::Relaxed)
    }

    /// How often a client was told that it is behind.
    pub(crate) fn lagged(&self) -> u64 {
        self.lagged.load(Ordering::Relaxed)
    }

    /// Events that were handed out to be sent, to each client of its own.
    pub(crate) fn frames(&self) -> u64 {
        self.frames.load(Ordering::Relaxed)
    }

    /// Bytes that were handed out to be sent.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Says in the log what streams came to.
    pub(crate) fn log(&self) {
        tracing::debug!(
            clients = self.clients(),
            lagged = self.lagged(),
            frames = self.frames(),
            bytes = self.bytes(),
            "streams end"
        );
    }
}

/// A client that is counted as long as this is there.
#[derive(Debug)]
pub(super) struct Watching(Arc<StreamStats>);

impl Watching {
    pub(super) fn new(stats: &Arc<StreamStats>) -> Self {
        stats.clients.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(stats))
    }

    pub(super) fn sent(&self, bytes: usize) {
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        self.0.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(super) fn frame(&self, is_taken: bool) {
        self.0
            .frames
            .fetch_add(u64::from(is_taken), Ordering::Relaxed);
    }

    pub(super) fn lagged(&self) {
        self.0.lagged.fetch_add(1, Ordering::Relaxed);
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        self.0.clients.fetch_sub(1, Ordering::Relaxed);
    }
}
