//! Runs that are cut off and go on, and runs that are done again from their ledgers.

mod forged;
mod host_tool;
mod killable;
mod kills;
pub(crate) mod library;
mod recovered;
mod replay;
mod resumed;
mod streams;
mod suspended;
mod told;
