//! The HTTP surface: the real binary, over real sockets.

mod daemon;
mod guard;
mod lifecycle;
mod streams;

pub(crate) use daemon::Client;
