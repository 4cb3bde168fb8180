//! The HTTP surface: the real binary, over real sockets.

pub(crate) mod daemon;
mod guard;
mod lifecycle;

pub(crate) use daemon::Client;
mod runs;
