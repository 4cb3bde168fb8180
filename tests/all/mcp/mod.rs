//! The MCP server, as clients that others made meet it.

mod conformance;
pub(crate) mod fixtures;
mod messages;
mod requests;
mod suite;
mod wire;
