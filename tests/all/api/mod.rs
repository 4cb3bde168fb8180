//! The HTTP surface: the real binary, over real sockets.

mod approvals;
mod daemon;
mod guard;
mod lifecycle;
mod resume;
mod skills;

pub(crate) use daemon::Client;
