//! All integration tests, in one binary.
#![cfg(test)]

mod cli;
mod cost;
mod executor;
mod guests;
mod harness;
mod house;
mod http;
mod ledger;
mod registry;
mod runner;
mod wit;
