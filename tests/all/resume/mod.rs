//! Runs that are cut off and go on.

mod killable;
mod kills;
