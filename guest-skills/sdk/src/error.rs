//! Why a skill has no result.

use std::fmt;

use serde_json::Value;

use crate::HostError;
use crate::bindings::skillrun::skill::types;

/// The code of an error that comes from a denied host call. The host ends the run as `denied` then.
pub const DENIED: &str = "denied";

/// The code of an error that says that a person, or a policy in a person's place, said no.
pub const REJECTED: &str = "rejected";

/// Ends the run and reaches its caller.
#[derive(Debug, Clone, PartialEq)]
pub struct SkillError {
    /// One line for a person.
    pub message: String,
    /// A stable word for a program; empty: none.
    pub code: String,
    /// Anything else.
    pub details: Value,
}

impl SkillError {
    /// An error with a message only.
    pub fn new(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            code: String::new(),
            details: Value::Null,
        }
    }

    /// Adds a stable word for a program.
    #[must_use]
    pub fn with_code(mut self, code: &str) -> Self {
        code.clone_into(&mut self.code);
        self
    }

    /// Adds details.
    #[must_use]
    pub fn with_details(mut self, details: Value) -> Self {
        self.details = details;
        self
    }
}

impl fmt::Display for SkillError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for SkillError {}

impl From<HostError> for SkillError {
    fn from(error: HostError) -> Self {
        Self::new(error.to_string()).with_code(error.kind())
    }
}

impl From<SkillError> for types::SkillError {
    fn from(error: SkillError) -> Self {
        Self {
            message: error.message,
            code: error.code,
            details: error.details.to_string(),
        }
    }
}
