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
mod document;
mod dto;
mod extract;
mod guard;
mod health;
mod idempotency;
mod problem;
mod refusal;
mod request;
mod resume;
mod router;
mod runs;
mod server;
mod skills;
mod streams;

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

pub use problem::ProblemCode;

use self::idempotency::Requests;
use self::skills::Descriptions;
use crate::assembly::Skillrun;
use crate::config::{Serve, Token};

/// What an [`Api`] is made of.
pub struct ApiOptions {
    /// The parts that do the work.
    pub host: Skillrun,
    /// Who is listened to, and within which bounds.
    pub settings: Serve,
    /// What a request has to bring along, each of them good; nobody has to when there is none.
    pub tokens: Vec<Token>,
}

/// The HTTP surface. Cheap to clone.
#[derive(Clone)]
pub struct Api(Arc<Shared>);

struct Shared {
    host: Skillrun,
    settings: Serve,
    tokens: Vec<Token>,
    requests: Arc<Requests>,
    streams: streams::Streams,
    descriptions: Descriptions,
    /// Fires when streams have to end.
    closing: CancellationToken,
}

impl Api {
    /// A surface that nobody can reach yet.
    pub fn new(options: ApiOptions) -> Self {
        let home = options.host.config().home.clone();
        Self(Arc::new(Shared {
            requests: Arc::new(Requests::new(&home, options.host.clock().clone())),
            streams: streams::Streams::new(options.settings.streams_max),
            host: options.host,
            settings: options.settings,
            tokens: options.tokens,
            descriptions: Descriptions::new(),
            closing: CancellationToken::new(),
        }))
    }

    pub(crate) fn host(&self) -> &Skillrun {
        &self.0.host
    }

    pub(crate) fn settings(&self) -> &Serve {
        &self.0.settings
    }

    /// The requests that came with a key.
    pub(crate) fn requests(&self) -> &Arc<Requests> {
        &self.0.requests
    }

    /// What skills say of themselves.
    pub(crate) fn descriptions(&self) -> &Descriptions {
        &self.0.descriptions
    }

    /// Fires when streams have to end, because the surface is closing.
    pub(crate) fn closing(&self) -> &CancellationToken {
        &self.0.closing
    }
}
