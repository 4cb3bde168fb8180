//! Runs that are cut off and go on.

mod killable;
mod kills;
mod library;
mod recovered;
mod resumed;
mod streams;
mod suspended;
