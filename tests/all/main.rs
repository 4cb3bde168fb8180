//! All integration tests, in one binary.
#![cfg(test)]

mod api;
mod archives;
mod cli;
mod cost;
mod embedding;
mod executor;
mod files;
mod guests;
mod harness;
mod house;
mod http;
mod kit;
mod ledger;
mod mcp;
mod models;
mod policy;
mod provided;
mod registry;
mod resume;
mod runner;
mod runtime;
mod security;
mod sessions;
mod tools;
mod traces;
mod wit;
