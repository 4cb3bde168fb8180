//! A JSON object that a caller handed over, as the caller spelled it.

use std::sync::Arc;

use serde::de::DeserializeOwned;

use crate::ledger::{Digest, Json};
use crate::telemetry::chain;

/// Bytes of one input. Protects ledgers and guests, each of which holds it whole.
pub const INPUT_BYTES_MAX: usize = 8 * 1024 * 1024;
/// Levels of nesting of one input; parsers of every language accept as many.
const INPUT_DEPTH_MAX: usize = 128;

/// Arguments of a skill. Key order, number spelling, duplicate keys and escapes are kept; only white
/// space between tokens is dropped, so that the object fits a line of a ledger. Cheap to clone.
#[derive(Debug, Clone, PartialEq)]
pub struct JsonObject(Arc<Inner>);

#[derive(Debug, PartialEq)]
struct Inner {
    json: Json,
    digest: Digest,
}

impl JsonObject {
    /// Takes over an object from the bytes of its JSON text.
    ///
    /// # Errors
    /// More than [`INPUT_BYTES_MAX`], not JSON, not an object, or nested too deeply.
    pub fn parse(bytes: impl AsRef<[u8]>) -> Result<Self, InputError> {
        let bytes = bytes.as_ref();
        if bytes.len() > INPUT_BYTES_MAX {
            return Err(InputError::TooLarge { bytes: bytes.len() });
        }
        let json = Json::from_slice(bytes).map_err(|error| InputError::NotJson {
            reason: chain(&error),
        })?;
        let text = json.as_str();
        if !text.starts_with('{') {
            return Err(InputError::NotAnObject { found: kind(text) });
        }
        if depth(text) > INPUT_DEPTH_MAX {
            return Err(InputError::TooDeep);
        }
        Ok(Self(Arc::new(Inner {
            json,
            digest: Digest::of(bytes),
        })))
    }

    /// The JSON text.
    pub fn as_str(&self) -> &str {
        self.0.json.as_str()
    }

    /// The text as a ledger keeps it.
    pub fn json(&self) -> &Json {
        &self.0.json
    }

    /// SHA-256 over the bytes as they came, white space included.
    pub fn digest(&self) -> Digest {
        self.0.digest
    }

    /// The object as a Rust value.
    ///
    /// # Errors
    /// The object does not fit the type.
    pub fn deserialize<T: DeserializeOwned>(&self) -> Result<T, InputError> {
        serde_json::from_str(self.as_str()).map_err(|error| InputError::NotJson {
            reason: error.to_string(),
        })
    }
}

fn kind(text: &str) -> &'static str {
    match text.as_bytes().first() {
        Some(b'[') => "an array",
        Some(b'"') => "a string",
        Some(b't' | b'f') => "a boolean",
        Some(b'n') => "null",
        _ => "a number",
    }
}

/// How deeply a valid JSON text nests; brackets inside strings do not count.
fn depth(text: &str) -> usize {
    let (mut depth, mut deepest) = (0_usize, 0);
    let (mut in_string, mut escaped) = (false, false);
    for byte in text.bytes() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            b'{' | b'[' if !in_string => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b'}' | b']' if !in_string => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

/// Why bytes are not an input.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InputError {
    /// More bytes than an input may have.
    #[error("input has {bytes} bytes: expected at most {INPUT_BYTES_MAX}")]
    TooLarge {
        /// Its size.
        bytes: usize,
    },
    /// Not one JSON value.
    #[error("input is not JSON: {reason}")]
    NotJson {
        /// What is wrong, with line and column.
        reason: String,
    },
    /// JSON of another kind.
    #[error("input is {found}: expected a JSON object")]
    NotAnObject {
        /// What it is.
        found: &'static str,
    },
    /// Nested too deeply.
    #[error("input nests deeper than {INPUT_DEPTH_MAX} levels")]
    TooDeep,
}

#[cfg(test)]
mod tests {
    use super::{InputError, JsonObject};

    #[test]
    fn only_objects_are_inputs() {
        for (text, found) in [
            ("[]", "an array"),
            ("\"{}\"", "a string"),
            ("null", "null"),
            ("true", "a boolean"),
            ("-1", "a number"),
        ] {
            assert_eq!(
                JsonObject::parse(text),
                Err(InputError::NotAnObject { found })
            );
        }
        for text in ["", "{", "{} {}", "{'a':1}", "\u{feff}{}"] {
            let refused = JsonObject::parse(text);
            assert!(
                matches!(refused, Err(InputError::NotJson { .. })),
                "{text:?}"
            );
        }
        assert!(matches!(
            JsonObject::parse(b"{\"a\":\"\xff\"}"),
            Err(InputError::NotJson { .. })
        ));
    }

    #[test]
    fn depth_counts_brackets_outside_of_strings() {
        let nested =
            |levels: usize| format!("{{\"a\":{}{}}}", "[".repeat(levels), "]".repeat(levels));
        assert!(JsonObject::parse(nested(127)).is_ok());
        assert_eq!(JsonObject::parse(nested(128)), Err(InputError::TooDeep));
        assert!(JsonObject::parse(format!("{{\"a\":\"{}\\\"[\"}}", "[".repeat(500))).is_ok());
    }

    #[test]
    fn spelling_is_kept_and_white_space_dropped() {
        let input = JsonObject::parse("{ \"b\" : 0.10,\n\"b\":1e400, \"a\":\"x y\" }").unwrap();
        assert_eq!(input.as_str(), r#"{"b":0.10,"b":1e400,"a":"x y"}"#);
        assert_ne!(
            input.digest(),
            JsonObject::parse(input.as_str()).unwrap().digest()
        );
    }
}
