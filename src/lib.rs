//! Runs other people's skills in a WebAssembly sandbox, with every call on the record.

pub mod capability;
pub mod clock;
pub mod config;
pub mod executor;
pub mod id;
pub mod ledger;
pub mod limits;
pub mod outcome;
pub mod registry;
pub mod runner;
pub mod telemetry;

#[cfg(feature = "cli")]
pub mod cli;
