//! JSON Schemas, which strangers write: compiled within bounds, and without fetching anything.

use std::fmt;

use jsonschema::{Draft, PatternOptions, Validator};
use serde_json::Value;

use crate::telemetry::chain;

/// Bytes of a schema. Protects whoever compiles it.
pub const SCHEMA_BYTES_MAX: usize = 256 * 1024;
/// Bytes of one compiled pattern. Protects the same.
const PATTERN_BYTES_MAX: usize = 1024 * 1024;
/// Bytes of a message about a value that does not fit; the value itself is part of it.
const MESSAGE_BYTES_MAX: usize = 512;

/// A JSON Schema that values can be checked against. A schema that names no dialect is read as 2020-12.
#[derive(Debug, Clone)]
pub struct Schema(Validator);

impl Schema {
    /// Compiles a schema from its JSON text.
    ///
    /// # Errors
    /// It is too large, not JSON, no valid schema, or refers to something outside of itself.
    pub fn compile(text: &str) -> Result<Self, SchemaError> {
        if text.len() > SCHEMA_BYTES_MAX {
            return Err(SchemaError::TooLarge { bytes: text.len() });
        }
        let invalid = |reason| SchemaError::Invalid { reason };
        let schema: Value =
            serde_json::from_str(text).map_err(|error| invalid(error.to_string()))?;
        let validator = jsonschema::options()
            .with_draft(Draft::Draft202012)
            .with_pattern_options(PatternOptions::regex().size_limit(PATTERN_BYTES_MAX))
            .offline()
            .build(&schema)
            .map_err(|error| invalid(cut(&chain(&error)).to_owned()))?;
        Ok(Self(validator))
    }

    /// Checks one value.
    ///
    /// # Errors
    /// The first place that does not fit.
    pub fn check(&self, value: &Value) -> Result<(), Mismatch> {
        self.0.validate(value).map_err(|error| Mismatch {
            path: path(error.instance_path().as_str()),
            problem: cut(&error.to_string()).to_owned(),
        })
    }
}

/// What an input and a result have to fit; whatever has no schema may be anything.
#[derive(Debug, Clone, Default)]
pub struct Contract {
    /// What is handed over.
    pub input: Option<Schema>,
    /// What comes back.
    pub output: Option<Schema>,
}

/// Why there is no schema.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SchemaError {
    /// It is larger than a schema may be.
    #[error("schema has {bytes} bytes: expected at most {SCHEMA_BYTES_MAX}")]
    TooLarge {
        /// Its size.
        bytes: usize,
    },
    /// It cannot be used.
    #[error("invalid JSON Schema: {reason}")]
    Invalid {
        /// Why not.
        reason: String,
    },
}

/// A value that does not fit its schema.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mismatch {
    /// Where in the value, such as `$.items[0].name`.
    pub path: String,
    /// What was found there and what was expected.
    pub problem: String,
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.problem)
    }
}

/// A JSON path from a JSON pointer.
fn path(pointer: &str) -> String {
    let mut path = "$".to_owned();
    for part in pointer.split('/').skip(1) {
        if !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit()) {
            path.push_str(&format!("[{part}]"));
        } else {
            path.push('.');
            path.push_str(&part.replace("~1", "/").replace("~0", "~"));
        }
    }
    cut(&path).to_owned()
}

fn cut(text: &str) -> &str {
    text.get(..text.floor_char_boundary(MESSAGE_BYTES_MAX))
        .unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{SCHEMA_BYTES_MAX, Schema, SchemaError};

    #[test]
    fn a_value_that_does_not_fit_is_told_where_and_why() {
        let schema = Schema::compile(
            r#"{"type":"object","properties":{"list":{"items":{"type":"integer"}}},"required":["list"]}"#,
        )
        .unwrap();
        schema.check(&json!({"list": [1, 2]})).unwrap();
        let mismatch = schema.check(&json!({"list": [1, "5"]})).unwrap_err();
        assert_eq!(mismatch.path, "$.list[1]");
        assert!(mismatch.problem.contains("integer"), "{mismatch}");
        let missing = schema.check(&json!({})).unwrap_err();
        assert!(missing.to_string().contains("list"), "{missing}");
    }

    #[test]
    fn nothing_is_fetched_and_nothing_huge_is_compiled() {
        for text in [
            r#"{"$ref":"http://127.0.0.1:1/schema.json"}"#,
            r#"{"$ref":"file:///etc/passwd"}"#,
            r#"{"type":"what"}"#,
            "{",
        ] {
            let refused = Schema::compile(text).unwrap_err();
            assert!(
                matches!(refused, SchemaError::Invalid { .. }),
                "{text}: {refused}"
            );
        }
        let huge = format!(r#"{{"const":"{}"}}"#, "x".repeat(SCHEMA_BYTES_MAX));
        assert!(matches!(
            Schema::compile(&huge),
            Err(SchemaError::TooLarge { .. })
        ));
    }
}
