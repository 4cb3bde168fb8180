//! The MCP server, as clients that others made meet it.

mod asked;
mod begin;
mod changes;
mod conformance;
pub(crate) mod fixtures;
mod interop;
mod messages;
mod peer;
mod prompts;
mod requests;
mod resources;
mod skill_folders;
mod suite;
mod wire;
