//! Runs that are done again from their ledgers.

mod replay;
