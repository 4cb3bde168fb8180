//! Waiting for what another process does, by looking again and again.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use anyhow::{Result, bail};

/// Between two looks. Short, so that a process is stopped soon after what it was to be stopped at.
const INTERVAL: Duration = Duration::from_micros(20);
/// Looks after which it is given up, so that a process that hangs ends the command. About a minute, since
/// the timer adds to the interval.
const LOOKS_MAX: u64 = 800_000;

/// Looks at one thing.
pub(super) struct Looks {
    what: &'static str,
    count: u64,
    nothing: Receiver<()>,
    /// While it is there, the receiver waits for the whole interval.
    _silent: Sender<()>,
}

impl Looks {
    pub(super) fn new(what: &'static str) -> Self {
        let (silent, nothing) = channel();
        Self {
            what,
            count: 0,
            nothing,
            _silent: silent,
        }
    }

    pub(super) fn count(&self) -> u64 {
        self.count
    }

    /// Waits until the next look.
    pub(super) fn again(&mut self) -> Result<()> {
        self.count += 1;
        if self.count > LOOKS_MAX {
            bail!("waited in vain for {}", self.what);
        }
        let _timeout = self.nothing.recv_timeout(INTERVAL);
        Ok(())
    }
}
