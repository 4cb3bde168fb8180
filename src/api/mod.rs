//! The HTTP surface: runs are started, watched, answered and stopped over it.
//!
//! [`Api`] is a [`Skillrun`] behind a router. Its rules hold for every route:
//!
//! - **Who may ask.** A request has to name a host that this is, and comes from no web page of a stranger's; where
//!   a token is configured it has to bring that. Nothing else of a request is looked at before.
//! - **Bounds.** On connections, heads, bodies and time; nothing is buffered for a reader that does not read.
//! - **Errors.** Each is a problem document of RFC 9457 with a stable `code`. Internal detail goes to the log
//!   alone; the id of the request is in both.
//! - **No path of the machine** is in any answer.

mod approvals;
mod body;
mod document;
mod dto;
mod executions;
mod extract;
mod guard;
mod health;
mod idempotency;
mod metrics;
mod page;
mod problem;
mod refusal;
mod request;
mod resume;
mod router;
mod runs;
mod server;
mod skills;
mod stalled;
mod streams;
mod turns;
mod wait;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio_util::sync::CancellationToken;

pub use problem::ProblemCode;
pub use router::MCP_ROUTE;

use self::body::Bodies;
use self::idempotency::Requests;
use self::metrics::Metrics;
use self::turns::Turns;
use crate::assembly::Skillrun;
use crate::config::{Serve, Token};
use crate::trace::{TraceCounter, TraceCounts};

/// What an [`Api`] is made of.
pub struct ApiOptions {
    /// The parts that do the work.
    pub host: Skillrun,
    /// Who is listened to, and within which bounds.
    pub settings: Serve,
    /// What every request has to bring along; nobody has to when there is none.
    pub token: Option<Token>,
    /// A token that is as good, for programs of the same user on this machine. That there is one does not
    /// mean that anybody has to bring it.
    pub local_token: Option<Token>,
    /// What is exported of traces, for `/metrics`; none when nothing is.
    pub traces: Option<TraceCounter>,
    /// What answers at [`MCP_ROUTE`], behind the same rules as everything else; nothing when there is none.
    pub mcp: Option<axum::Router>,
}

/// Ledgers that are read from end to end at once. Protects the disk, and the memory where a record is kept.
const WHOLE_LEDGERS_MAX: usize = 4;
/// Large values that are opened at once, each of which is read once before it is sent. Protects the disk.
const BLOBS_MAX: usize = 4;
/// Requests that wait for one of these. Protects those that come later from waiting in vain.
const WAITING_MAX: usize = 32;

/// The HTTP surface. Cheap to clone.
#[derive(Clone)]
pub struct Api(Arc<Shared>);

struct Shared {
    host: Skillrun,
    access: Mutex<Access>,
    local_token: Option<Token>,
    traces: Option<TraceCounter>,
    mcp: Option<axum::Router>,
    requests: Arc<Requests>,
    streams: streams::Streams,
    bodies: Bodies,
    whole_ledgers: Turns,
    blobs: Turns,
    /// Fires when no new work is taken, because the surface is about to close.
    draining: CancellationToken,
    /// Fires when streams have to end.
    closing: CancellationToken,
    metrics: Metrics,
}

/// What [`Api::reconfigure`] takes the place of.
#[derive(Clone)]
struct Access {
    settings: Arc<Serve>,
    token: Option<Token>,
}

impl Api {
    /// A surface that nobody can reach yet.
    pub fn new(options: ApiOptions) -> Self {
        let home = options.host.config().home.clone();
        Self(Arc::new(Shared {
            requests: Arc::new(Requests::new(&home, options.host.clock().clone())),
            streams: streams::Streams::new(options.settings.streams_max),
            host: options.host,
            access: Mutex::new(Access {
                settings: Arc::new(options.settings),
                token: options.token,
            }),
            local_token: options.local_token,
            traces: options.traces,
            mcp: options.mcp,
            bodies: Bodies::default(),
            whole_ledgers: Turns::new(WHOLE_LEDGERS_MAX, WAITING_MAX),
            blobs: Turns::new(BLOBS_MAX, WAITING_MAX),
            draining: CancellationToken::new(),
            closing: CancellationToken::new(),
            metrics: Metrics::default(),
        }))
    }

    /// Holds requests to other settings and another token from now on. The address, `connections_max`,
    /// `streams_max`, `body_bytes_max`, `header_timeout_ms` and `stall_timeout_ms` stay as they are: they belong
    /// to sockets that are open.
    pub fn reconfigure(&self, settings: Serve, token: Option<Token>) {
        let mut access = self.access();
        let now = &access.settings;
        let settings = Serve {
            listen: now.listen,
            connections_max: now.connections_max,
            body_bytes_max: now.body_bytes_max,
            streams_max: now.streams_max,
            header_timeout_ms: now.header_timeout_ms,
            stall_timeout_ms: now.stall_timeout_ms,
            ..settings
        };
        *access = Access {
            settings: Arc::new(settings),
            token,
        };
    }

    /// Takes no new runs from now on and says so at `/readyz`. Everything else goes on: runs can still be
    /// watched, answered and cancelled.
    pub fn drain(&self) {
        self.0.draining.cancel();
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.0.draining.is_cancelled()
    }

    fn access(&self) -> MutexGuard<'_, Access> {
        self.0.access.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn host(&self) -> &Skillrun {
        &self.0.host
    }

    /// The settings as they are now.
    pub(crate) fn settings(&self) -> Arc<Serve> {
        Arc::clone(&self.access().settings)
    }

    /// Turns at reading ledgers from end to end.
    pub(crate) fn whole_ledgers(&self) -> &Turns {
        &self.0.whole_ledgers
    }

    /// Turns at opening large values.
    pub(crate) fn blobs(&self) -> &Turns {
        &self.0.blobs
    }

    /// The requests that came with a key.
    pub(crate) fn requests(&self) -> &Arc<Requests> {
        &self.0.requests
    }

    /// Fires when streams have to end, because the surface is closing.
    pub(crate) fn closing(&self) -> &CancellationToken {
        &self.0.closing
    }

    /// The streams of events.
    pub(crate) fn streams(&self) -> &streams::Streams {
        &self.0.streams
    }

    /// What is exported of traces.
    pub(crate) fn traces(&self) -> Option<TraceCounts> {
        self.0.traces.as_ref().map(TraceCounter::counts)
    }

    pub(crate) fn metrics(&self) -> &Metrics {
        &self.0.metrics
    }
}
