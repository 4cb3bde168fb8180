//! The MCP server, as clients that others made meet it.

mod changes;
mod peer;
mod prompts;
mod resources;
mod skill_folders;
