//! The clocks and timers of a guest, which go by run time.
//!
//! What a guest is told of time it is told again when its run is replayed, so both clocks ask
//! [`RunHost::now`](super::RunHost::now), in WASI 0.2 and in 0.3, and a timer ends when run time has come
//! so far. How long that is in truth is asked when the timer is waited for: while a record is replayed
//! no timer is, and one that was made then and is waited for afterwards waits for what is left of it.
//!
//! Run time may lag behind by what the guest has computed since it last did something that is on record,
//! a second at most, and then a timer is early by as much: for the guest no time had gone by.
//!
//! In WASI 0.3 only the clocks are on record. Its waits end by themselves, without a poll, in an order
//! that depends on what else goes on; they take as long as the guest asks for, also in a replay, and a
//! guest whose doings depend on that order is found to differ from its record.

use std::sync::Arc;
use std::time::Duration;

use wasmtime_wasi::p2::Pollable;
use wasmtime_wasi::{HostMonotonicClock, HostWallClock};

use super::guest_record::GuestRecord;

/// The smallest step of both clocks, which is that of the times on record. It is the same on every
/// machine.
const RESOLUTION: Duration = Duration::from_micros(1);

/// The clocks of one guest.
#[derive(Clone)]
pub(crate) struct RunClock(Arc<GuestRecord>);

impl RunClock {
    pub(crate) fn new(record: Arc<GuestRecord>) -> Self {
        Self(record)
    }

    /// Since the run began.
    pub(crate) fn elapsed(&self) -> Duration {
        self.0.host().now().elapsed
    }

    /// A timer that is ready once the run has gone on for so long.
    pub(crate) fn timer(&self, elapsed: Duration) -> Timer {
        Timer {
            clock: self.clone(),
            elapsed,
            has_yielded: false,
        }
    }
}

impl HostWallClock for RunClock {
    fn resolution(&self) -> Duration {
        RESOLUTION
    }

    /// Since 1970; a time before that cannot be told.
    fn now(&self) -> Duration {
        let micros = self.0.host().now().time.unix_micros();
        Duration::from_micros(u64::try_from(micros).unwrap_or(0))
    }
}

impl HostMonotonicClock for RunClock {
    fn resolution(&self) -> u64 {
        nanos(RESOLUTION)
    }

    fn now(&self) -> u64 {
        nanos(self.elapsed())
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// Waits until the run has gone on for so long.
pub(crate) struct Timer {
    clock: RunClock,
    elapsed: Duration,
    has_yielded: bool,
}

#[async_trait::async_trait]
impl Pollable for Timer {
    async fn ready(&mut self) {
        let left = self.clock.0.host().until(self.elapsed);
        if !left.is_zero() {
            tokio::time::sleep(left).await;
        } else if !std::mem::replace(&mut self.has_yielded, true) {
            // A guest that looks again and again whether something is ready, with a timer of no time
            // beside it, must not keep the thread from those that would make it so.
            tokio::task::yield_now().await;
        }
    }
}
