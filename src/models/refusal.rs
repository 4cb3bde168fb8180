//! Why a provider did not answer, in its own words: bounded, on one line and without the key.

use serde::Deserialize;
use serde_json::Value;

/// Characters of a provider's message that are passed on.
const MESSAGE_CHARS_MAX: usize = 1_000;
/// How often JSON may be quoted in JSON with the key still found in it.
const SPELLINGS: usize = 3;
/// What stands in a message in place of the key.
const KEY_SHOWN: &str = "[key]";

/// An answer that is an error.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Refusal {
    /// The provider's message.
    pub(super) message: String,
    /// The provider's word for this kind of error, or an empty one.
    pub(super) code: String,
}

#[derive(Deserialize)]
struct Body {
    error: Option<Value>,
    message: Option<Value>,
    detail: Option<Value>,
}

impl Refusal {
    /// From the body of a response: JSON as providers send it, else its text.
    pub(super) fn of(body: &[u8]) -> Self {
        let parsed = serde_json::from_slice::<Body>(body).ok();
        let error = parsed.and_then(|body| body.error.or(body.message).or(body.detail));
        let Some(error) = error else {
            let text = String::from_utf8_lossy(body);
            return Self {
                message: text.into_owned(),
                code: String::new(),
            };
        };
        let words = ["code", "type"].map(|key| error.get(key).and_then(Value::as_str));
        let code = words.into_iter().flatten().collect::<Vec<_>>().join(" ");
        Self {
            message: message_of(&error),
            code,
        }
    }
}

/// The message in an error as providers send it.
pub(super) fn message_of(error: &Value) -> String {
    let message = match error {
        Value::String(text) => Some(text.as_str()),
        error => error.get("message").and_then(Value::as_str),
    };
    message.map_or_else(|| error.to_string(), str::to_owned)
}

/// A message as it may be shown.
pub(super) fn shown(message: &str, key: Option<&str>) -> String {
    let mut message = message.to_owned();
    if let Some(key) = key.filter(|key| !key.is_empty()) {
        // A message may be JSON itself, which may quote JSON, and hold the key as JSON spells it.
        let mut spelled = key.to_owned();
        for _ in 0..SPELLINGS {
            message = message.replace(&spelled, KEY_SHOWN);
            let again = serde_json::to_string(&spelled).unwrap_or_default();
            let inside = again
                .strip_prefix('"')
                .and_then(|text| text.strip_suffix('"'));
            inside.unwrap_or_default().clone_into(&mut spelled);
        }
    }
    let words: Vec<&str> = message
        .split(|letter: char| letter.is_control() || letter.is_whitespace())
        .filter(|word| !word.is_empty())
        .collect();
    words.join(" ").chars().take(MESSAGE_CHARS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::{MESSAGE_CHARS_MAX, Refusal, shown};

    #[test]
    fn the_message_is_found_where_providers_put_it() {
        for (body, message, code) in [
            (
                r#"{"error":{"message":"no","type":"a","code":"b"}}"#,
                "no",
                "b a",
            ),
            (
                r#"{"type":"error","error":{"type":"overloaded_error","message":"busy"}}"#,
                "busy",
                "overloaded_error",
            ),
            (r#"{"error":"no such model"}"#, "no such model", ""),
            (r#"{"message":"no"}"#, "no", ""),
            (r#"{"detail":[1]}"#, "[1]", ""),
            ("<html>502</html>", "<html>502</html>", ""),
            ("", "", ""),
        ] {
            let found = Refusal::of(body.as_bytes());
            assert_eq!((&*found.message, &*found.code), (message, code), "{body}");
        }
    }

    #[test]
    fn a_message_is_bounded_on_one_line_and_without_the_key() {
        let shown_text = shown(
            "bad key sk-123456\n\u{1b}[31mred sk-123456",
            Some("sk-123456"),
        );
        assert_eq!(shown_text, "bad key [key] [31mred [key]");
        let quoted = shown(r#"{"key":"a\"b\\c\"d"}"#, Some(r#"a"b\c"d"#));
        assert_eq!(quoted, r#"{"key":"[key]"}"#);
        let long = shown(&"ä".repeat(5_000), None);
        assert_eq!(long.chars().count(), MESSAGE_CHARS_MAX);
    }
}
