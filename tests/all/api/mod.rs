//! The HTTP surface: the real binary, over real sockets.

mod approvals;
pub(crate) mod daemon;
mod guard;
mod lifecycle;
mod runs;

pub(crate) use daemon::Client;
