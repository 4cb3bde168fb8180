//! The socket that a service manager may hand over, and descriptors for all that is to be open.

use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;

use anyhow::Context as _;
use listenfd::ListenFd;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::cli::exit::Refused;
use crate::config::Config;

/// Descriptors that one run may have open beside those of its folders: its ledger, a blob, connections.
const RUN_DESCRIPTORS: u64 = 8;
/// Descriptors of the process itself: standard streams, the index, servers of tools, the engine.
const OWN_DESCRIPTORS: u64 = 64;

/// The sockets that this process was started with, if any.
pub(crate) struct Inherited(ListenFd);

impl Inherited {
    /// Takes them out of the environment, so that no other process takes them for its own. To be called while
    /// there is one thread.
    pub(crate) fn from_env() -> Self {
        Self(ListenFd::from_env())
    }

    /// The socket to listen on; none when there is to be one of our own.
    ///
    /// # Errors
    /// There are several, or it is no TCP socket that listens.
    pub(super) fn listener(mut self) -> anyhow::Result<Option<TcpListener>> {
        let count = self.0.len();
        if count > 1 {
            let refused = format!("{count} sockets were handed over, expected one");
            return Err(Refused::usage(refused).into());
        }
        let taken = self.0.take_tcp_listener(0);
        let Some(listener) = taken.context("cannot use the socket that was handed over")? else {
            return Ok(None);
        };
        // A service with Accept=yes is handed a connection, on which nobody can be accepted.
        let stream = TcpStream::from(OwnedFd::from(listener));
        if stream.peer_addr().is_ok() {
            let refused = "the socket that was handed over is a connection";
            let hint = "set Accept=no in the socket unit";
            return Err(Refused::usage(refused).with_hint(hint).into());
        }
        let listener = TcpListener::from(OwnedFd::from(stream));
        listener.set_nonblocking(true)?;
        Ok(Some(listener))
    }
}

/// Lets the process have as many descriptors as the system allows it, and warns when those are fewer than may
/// be open at once.
pub(super) fn raise_descriptors(config: &Config) {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        ..limit
    };
    let now = match setrlimit(Resource::Nofile, raised) {
        Ok(()) => limit.maximum,
        Err(error) => {
            tracing::warn!(%error, "cannot raise the number of descriptors");
            limit.current
        }
    };
    let needed = descriptors(config);
    // No limit is none to be short of.
    if let Some(now) = now.filter(|now| *now < needed) {
        tracing::warn!(
            now,
            needed,
            "fewer descriptors than serve.connections_max and the runs of [runs] may need"
        );
    }
}

/// Descriptors that may be open at once.
fn descriptors(config: &Config) -> u64 {
    let number = |count: usize| u64::try_from(count).unwrap_or(u64::MAX);
    let runs = number(config.runs.at_once_max).saturating_add(number(config.runs.nested_max));
    number(config.serve.connections_max)
        .saturating_add(runs.saturating_mul(RUN_DESCRIPTORS))
        .saturating_add(OWN_DESCRIPTORS)
}
