//! The MCP server, as clients that others made meet it.

mod asked;
mod cases;
mod changes;
mod conformance;
pub(crate) mod fixtures;
mod hostile;
mod interop;
mod messages;
mod peer;
mod prompts;
pub(crate) mod requests;
mod resources;
mod skill_folders;
mod strangers;
mod suite;
pub(crate) mod wire;
