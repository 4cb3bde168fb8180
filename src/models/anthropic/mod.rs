//! Messages, as Anthropic defined them.

mod answer;
mod request;

pub(super) use answer::{Stream, whole};
pub(super) use request::body;

/// What the address of a provider is followed by.
pub(super) const PATH: &str = "/messages";
/// The field that names the version of the API, and the version that is spoken here.
pub(super) const VERSION_HEADER: &str = "anthropic-version";
pub(super) const VERSION: &str = "2023-06-01";
/// The field that holds the key.
pub(super) const KEY_HEADER: &str = "x-api-key";
