//! The runner against an executor that does what a test says: each statement of what `run` and `start`
//! promise.

mod admission;
mod budget;
mod fake;
mod nesting;
mod run;
mod start;
