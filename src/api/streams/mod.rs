//! Events as they come, over HTTP: server-sent events of one run, and of all.
//!
//! What is promised:
//!
//! - **One run.** Everything from the event that is asked for on, in order, without gap and without repeat, until
//!   the run is over; a suspended run is not. An event's id is its number, so that a client that comes again says
//!   where it was. Whoever is slow is told, and gets the rest from the file.
//! - **One execution.** The same, as what whoever watches an agent is told; `stopped` is the last.
//! - **All runs.** What happens from now on, those of one run in order. Ids hold as long as the process does, and
//!   for the newest events alone: whoever comes again later, or is too slow, is told that events are missing, and
//!   finds them by listing the runs.
//! - **Bounds.** Nothing is read for a client before it took what it was sent last. It costs less than 1 MiB,
//!   whatever the run records, and events are read from the file once for all who keep up.
//!
//! What the stream says about itself are the events in [`frame::CONTROLS`].

mod block;
mod client;
mod execution;
mod feed;
mod frame;
mod request;
mod ring;
mod routes;
mod stats;
mod tail;
mod tickets;

use std::sync::Arc;

use tokio::sync::Semaphore;

pub(crate) use self::routes::routes;
pub(crate) use self::stats::StreamStats;
pub(crate) use self::tickets::{TicketUse, Tickets};

/// Everything that streams share.
#[derive(Debug)]
pub(crate) struct Streams {
    stats: Arc<StreamStats>,
    /// Places for further clients.
    places: Arc<Semaphore>,
    tails: Arc<tail::Tails>,
    feeds: feed::Feeds,
    tickets: Tickets,
}

impl Streams {
    /// Room for so many clients at once.
    pub(crate) fn new(streams_max: usize) -> Self {
        Self {
            stats: Arc::default(),
            places: Arc::new(Semaphore::new(streams_max)),
            tails: Arc::default(),
            feeds: feed::Feeds::default(),
            tickets: Tickets::default(),
        }
    }

    pub(crate) fn stats(&self) -> &StreamStats {
        &self.stats
    }

    pub(crate) fn tickets(&self) -> &Tickets {
        &self.tickets
    }
}

/// Whether a path is that of a stream, which a ticket opens.
pub(crate) fn is_stream(path: &str) -> bool {
    let is_of_one = |rest: &str| {
        let id = rest.strip_suffix("/events");
        id.is_some_and(|id| !id.is_empty() && !id.contains('/'))
    };
    let of_runs = path.strip_prefix("/api/agent/runs/");
    let of_executions = path.strip_prefix("/api/agent/executions/");
    of_runs.is_some_and(|rest| rest == "events" || is_of_one(rest))
        || of_executions.is_some_and(is_of_one)
}

#[cfg(test)]
mod tests {
    use super::is_stream;

    #[test]
    fn only_streams_are_streams() {
        for (path, expected) in [
            ("/api/agent/runs/events", true),
            ("/api/agent/runs/run_1/events", true),
            ("/api/agent/runs//events", false),
            ("/api/agent/runs/a/b/events", false),
            ("/api/agent/runs/run_1", false),
            ("/api/agent/executions/exec_1/events", true),
            ("/api/agent/executions/events", false),
            ("/api/agent/executions//events", false),
            ("/api/agent/executions/exec_1/prompt", false),
            ("/api/stream-tickets", false),
            ("/metrics", false),
        ] {
            assert_eq!(is_stream(path), expected, "{path}");
        }
    }
}
