//! What is said about a span, within bounds.

use serde::Serialize;

use super::span::Value;
use crate::ledger::{CallFailure, Json};

/// Bytes of a name that a skill or a server chose. Protects whoever is sent the spans.
const NAME_BYTES_MAX: usize = 256;
/// Bytes of an input, an output or a message, where these are wanted. Protects the same.
const CONTENT_BYTES_MAX: usize = 4 * 1024;

/// What is known of a span.
pub(super) type Attributes = Vec<(&'static str, Value)>;

/// A text that was cut where it is longer than that.
fn cut(text: &str, bytes_max: usize) -> String {
    let end = text.floor_char_boundary(bytes_max);
    text.get(..end).unwrap_or_default().to_owned()
}

/// A name that a stranger chose.
pub(super) fn name(text: &str) -> String {
    cut(text, NAME_BYTES_MAX)
}

pub(super) fn text(key: &'static str, value: &str) -> (&'static str, Value) {
    (key, Value::Text(name(value)))
}

pub(super) fn int(key: &'static str, value: u64) -> (&'static str, Value) {
    (key, Value::Int(i64::try_from(value).unwrap_or(i64::MAX)))
}

pub(super) fn flag(key: &'static str) -> (&'static str, Value) {
    (key, Value::Bool(true))
}

/// An input or an output. One that is stored beside the ledger is left out.
pub(super) fn content(key: &'static str, value: Option<&Json>) -> Option<(&'static str, Value)> {
    let value = value.filter(|value| value.blob().is_none())?;
    Some((key, Value::Text(cut(value.as_str(), CONTENT_BYTES_MAX))))
}

/// A message that a person may read.
pub(super) fn message(text: &str) -> String {
    cut(text, CONTENT_BYTES_MAX)
}

/// The word that stands for a value in a ledger.
pub(super) fn word(value: &impl Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(word)) => word,
        _ => String::new(),
    }
}

/// The word that stands for a failure in a ledger.
pub(super) fn failure(failure: &CallFailure) -> &'static str {
    match failure {
        CallFailure::NotFound { .. } => "not_found",
        CallFailure::Invalid { .. } => "invalid",
        CallFailure::Ambiguous { .. } => "ambiguous",
        CallFailure::Failed { .. } => "failed",
        CallFailure::TimedOut { .. } => "timed_out",
        CallFailure::Exhausted { .. } => "exhausted",
        CallFailure::Cancelled => "cancelled",
    }
}

/// What a failure says.
pub(super) fn failure_message(failure: &CallFailure) -> Option<&str> {
    match failure {
        CallFailure::Invalid { message }
        | CallFailure::Failed { message }
        | CallFailure::Exhausted { message } => Some(message),
        _ => None,
    }
}
