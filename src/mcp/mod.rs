//! The MCP server: each skill is a tool, a prompt or a resource of whoever connects.
//!
//! [`Mcp`] is a [`Skillrun`] behind the Model Context Protocol, on standard input and output or over streamable
//! HTTP. Clients of the revision 2026-07-28, which has no sessions, and of 2025-11-25 and older share one endpoint.
//! Its rules:
//!
//! - **A call is a run.** It is started by the runner, held to the same policy and limits as on any other surface, and
//!   on record. A client that goes away before it is answered cancels it; a task goes on.
//! - **Nothing of a run is kept here.** What a client is told of tasks, questions and results is read from ledgers, so
//!   it is the same after a restart.
//! - **A question of a run is a question to its client**: in the answer to its request where the client is of the
//!   revision without sessions, as a request of the server's own where it is older. An answer is only taken from the
//!   client that was asked, for the request in which it was asked.
//! - **What a client sends is hostile**, and so is what a skill answers: both are checked before the other sees them.

#![expect(
    deprecated,
    reason = "clients of 2025-11-25 and older are still asked for samples, roots and levels of logs"
)]

mod answer;
mod call;
mod catalog;
mod changes;
mod client;
mod client_tools;
mod completion;
mod follow;
mod gates;
mod http;
mod message;
mod notes;
mod page;
mod prompt;
mod request_state;
mod resource;
mod run_resource;
mod server;
mod sessions;
mod skill_folder;
mod start;
mod stdio;
mod task;

use std::sync::Arc;

use tokio::sync::Semaphore;
use tokio_util::task::TaskTracker;

use self::changes::WATCHES_MAX;
use self::client::Way;
pub use self::client_tools::client_tools;
pub use self::http::HttpService;
pub use self::request_state::KeyError;
use self::request_state::RequestStates;
pub use self::stdio::StdioError;
use crate::assembly::Skillrun;
use crate::config::McpSettings;

/// The MCP server. Cheap to clone.
#[derive(Clone)]
pub struct Mcp {
    shared: Arc<Shared>,
    way: Way,
}

struct Shared {
    host: Skillrun,
    states: RequestStates,
    /// Runs that a client waits for.
    followed: TaskTracker,
    /// Places for what clients watch.
    watches: Arc<Semaphore>,
}

impl Mcp {
    /// A server that nobody is connected to yet. The host has to have the tools that [`client_tools`] gives, for its
    /// skills to be able to ask their clients.
    ///
    /// # Errors
    /// The key in the home folder cannot be read or made.
    pub fn new(host: Skillrun) -> Result<Self, KeyError> {
        let states = RequestStates::of_home(&host.config().home)?;
        let shared = Shared {
            host,
            states,
            followed: TaskTracker::new(),
            watches: Arc::new(Semaphore::new(WATCHES_MAX)),
        };
        Ok(Self {
            shared: Arc::new(shared),
            way: Way::Http,
        })
    }

    fn host(&self) -> &Skillrun {
        &self.shared.host
    }

    /// The same server for the one client that can be on standard input.
    fn on_stdio(&self) -> Self {
        Self {
            way: Way::Stdio,
            ..self.clone()
        }
    }

    fn way(&self) -> Way {
        self.way
    }

    fn states(&self) -> &RequestStates {
        &self.shared.states
    }

    fn followed(&self) -> &TaskTracker {
        &self.shared.followed
    }

    fn settings(&self) -> McpSettings {
        self.host().config().mcp.clone()
    }
}
