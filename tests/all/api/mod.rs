//! The HTTP surface: the real binary, over real sockets.

mod approvals;
mod cancelled;
mod connections;
pub(crate) mod daemon;
mod docs;
mod executions;
mod guard;
mod lifecycle;
mod metrics;
mod openapi;
mod operations;
mod page;
mod resume;
mod runs;
mod skills;
mod streams;

pub(crate) use daemon::{Client, Daemon};
