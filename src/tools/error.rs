//! Why a tool did not answer, and why one cannot be offered.

use super::server::REQUESTS_MAX;
use crate::json_lines::LINE_BYTES_MAX;
use crate::schema::SchemaError;

/// Bytes of a tool's name, its server's included. Protects ledgers and listings, which show it whole.
const NAME_BYTES_MAX: usize = 128;

/// Why a tool did not answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ToolError {
    /// The arguments do not fit: where, what was expected, what was found.
    #[error("{0}")]
    Invalid(String),
    /// The other side answered with an error, or with something that is no answer.
    #[error("{0}")]
    Failed(String),
    /// The server cannot be reached, or went away.
    #[error("MCP server {server:?} is not available: {reason}")]
    Unavailable {
        /// Which server.
        server: String,
        /// Why not.
        reason: String,
    },
    /// There was no answer in time.
    #[error("no answer within {timeout_ms} ms")]
    TimedOut {
        /// How long was waited.
        timeout_ms: u64,
    },
}

/// Why a tool cannot be offered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ToolNameError {
    /// It has no name that a capability could be granted for.
    #[error(
        "tool name {name:?} is invalid: expected 1 to {NAME_BYTES_MAX} letters, digits, `_`, `-` and `.`"
    )]
    Invalid {
        /// The name as given.
        name: String,
    },
    /// Another tool has that name.
    #[error("two tools have the name {name:?}")]
    Taken {
        /// The name.
        name: String,
    },
    /// Its schema cannot be used.
    #[error("cannot use the schema of tool {name:?}")]
    Schema {
        /// The tool.
        name: String,
        /// Why not.
        source: SchemaError,
    },
}

/// Why what an MCP server wrote ends the connection. No message holds any of it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MessageError {
    /// It is longer than any message may be.
    #[error("it wrote a message that is too long: expected at most {LINE_BYTES_MAX} bytes")]
    TooLong,
    /// It has too many parts.
    #[error("it wrote a message of too many values: expected at most {max}")]
    TooManyValues {
        /// How many there may be.
        max: usize,
    },
    /// It is something else.
    #[error("it wrote a line to standard output that is no JSON-RPC message")]
    NoMessage,
    /// It asks, and does not take the answers.
    #[error("it sent more than {REQUESTS_MAX} requests and took no answer")]
    Unanswered,
    /// It cannot be read.
    #[error("its standard output cannot be read: {reason}")]
    Unreadable {
        /// What the operating system said.
        reason: String,
    },
}

/// Whether a capability can be granted for a tool of that name.
pub(super) fn check_name(name: &str) -> Result<(), ToolNameError> {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
    if name.is_empty() || name.len() > NAME_BYTES_MAX || !name.bytes().all(fits) {
        let name = name.chars().take(NAME_BYTES_MAX).collect();
        return Err(ToolNameError::Invalid { name });
    }
    Ok(())
}
