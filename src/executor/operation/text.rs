//! What a message says of a value: its place, and what its type is called.

use std::borrow::Cow;

use super::shape::{Member, Shape};

/// Names that a message lists.
const NAMES_MAX: usize = 12;

/// Bytes of a key that stands in a path without quotes.
const PLAIN_KEY_BYTES_MAX: usize = 64;

/// One step on the way to a value.
#[derive(Debug, Clone)]
pub(super) enum Step<'a> {
    /// To the value of a key.
    Key(Cow<'a, str>),
    /// To an element, counted from 0.
    Index(usize),
}

/// The way as a JSON path.
pub(super) fn path(steps: &[Step<'_>]) -> String {
    let mut path = "$".to_owned();
    for step in steps {
        match step {
            Step::Index(index) => path.push_str(&format!("[{index}]")),
            Step::Key(key) if is_plain(key) => path.push_str(&format!(".{key}")),
            Step::Key(key) => path.push_str(&format!("[{}]", json_string(key))),
        }
    }
    path
}

fn is_plain(key: &str) -> bool {
    let may_stand = |character: char| character.is_ascii_alphanumeric() || "-_".contains(character);
    !key.is_empty() && key.len() <= PLAIN_KEY_BYTES_MAX && key.chars().all(may_stand)
}

/// `text` as a JSON string.
pub(super) fn json_string(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// What should stand where a value of this shape is expected.
pub(super) fn expected(shape: &Shape) -> String {
    match shape {
        Shape::Nothing => "null".to_owned(),
        Shape::Bool => "true or false".to_owned(),
        Shape::Integer(integer) => {
            let (least, greatest) = integer.range();
            format!("an integer from {least} to {greatest}")
        }
        Shape::Float32 => "a number that 32 bits can hold".to_owned(),
        Shape::Float64 => "a number".to_owned(),
        Shape::Char => "a string of one character".to_owned(),
        Shape::String => "a string".to_owned(),
        Shape::List(_) => "an array".to_owned(),
        Shape::Record(fields) => object_with(fields),
        Shape::Tuple(items) => format!("an array of {} values", items.len()),
        Shape::Variant(cases) => {
            let forms = cases.members.iter().map(|case| match case.shape {
                Shape::Nothing => json_string(&case.name),
                _ => format!("{{{}: …}}", json_string(&case.name)),
            });
            format!("one of {}", listed(forms))
        }
        Shape::Enum(names) => format!("one of {}", listed(names.iter().map(|n| json_string(n)))),
        Shape::Option(some) if matches!(**some, Shape::Option(_)) => {
            "{\"some\": …} or null".to_owned()
        }
        Shape::Option(some) => format!("{} or null", expected(some)),
        Shape::Result(..) => "{\"ok\": …} or {\"err\": …}".to_owned(),
        Shape::Flags(names) => {
            let names = names.iter().map(|name| json_string(name));
            format!("an array of {}, each at most once", listed(names))
        }
    }
}

/// An object with these fields.
pub(super) fn object_with(fields: &[Member]) -> String {
    if fields.is_empty() {
        return "an object without keys".to_owned();
    }
    let names = fields.iter().map(|field| match field.shape {
        Shape::Option(_) => format!("{} (optional)", field.name),
        _ => field.name.clone(),
    });
    format!("an object with the keys {}", listed(names))
}

/// Some names, and how many there are beside them.
pub(super) fn listed(names: impl ExactSizeIterator<Item = String>) -> String {
    let rest = names.len().saturating_sub(NAMES_MAX);
    let mut shown: Vec<String> = names.take(NAMES_MAX).collect();
    if rest > 0 {
        shown.push(format!("{rest} more"));
    }
    shown.join(", ")
}
