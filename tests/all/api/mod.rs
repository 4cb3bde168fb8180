//! The HTTP surface: the real binary, over real sockets.

mod approvals;
mod cancelled;
mod connections;
pub(crate) mod daemon;
mod guard;
mod lifecycle;
mod metrics;
mod operations;
mod runs;
mod streams;

pub(crate) use daemon::{Client, Daemon};
