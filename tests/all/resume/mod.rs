//! Runs that are cut off and go on.

mod kills;
mod killable;
