//! Why a tool did not answer, and why one cannot be offered.

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

/// Whether a capability can be granted for a tool of that name.
pub(super) fn check_name(name: &str) -> Result<(), ToolNameError> {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
    if name.is_empty() || name.len() > NAME_BYTES_MAX || !name.bytes().all(fits) {
        let name = name.chars().take(NAME_BYTES_MAX).collect();
        return Err(ToolNameError::Invalid { name });
    }
    Ok(())
}
