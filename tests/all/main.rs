//! All integration tests, in one binary.
#![cfg(test)]

mod cost;
mod executor;
mod guests;
mod harness;
mod house;
mod ledger;
mod registry;
mod runner;
mod wit;
