//! The HTTP surface: the real binary, over real sockets.

mod approvals;
pub(crate) mod daemon;
mod docs;
mod guard;
mod lifecycle;
mod openapi;
mod resume;
mod runs;
mod skills;

pub(crate) use daemon::Client;
