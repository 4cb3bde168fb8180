//! The MCP server, as clients that others made meet it.

pub(crate) mod fixtures;
