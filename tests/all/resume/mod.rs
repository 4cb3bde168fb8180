//! Runs that are cut off and go on, and runs that are done again from their ledgers.

mod killable;
mod kills;
mod library;
mod recovered;
mod replay;
mod resumed;
mod streams;
mod suspended;
