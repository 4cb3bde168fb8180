//! Chat completions, as OpenAI defined them and many servers speak them.

mod answer;
mod request;

pub(super) use answer::{Stream, whole};
pub(super) use request::{TokensField, body};

/// What the address of a provider is followed by.
pub(super) const PATH: &str = "/chat/completions";
