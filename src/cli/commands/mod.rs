//! One file per command: from validated arguments to the exit code.

pub(super) mod agent;
pub(super) mod approve;
mod cancel;
pub(super) mod completions;
pub(super) mod config;
mod explain;
pub(super) mod kit;
#[cfg(feature = "mcp")]
pub(super) mod mcp;
pub(super) mod replay;
mod resume;
pub(super) mod run;
pub(super) mod runs;
#[cfg(feature = "server")]
pub(super) mod serve;
pub(super) mod skills;
mod trace;
mod upkeep;
pub(super) mod worker;
