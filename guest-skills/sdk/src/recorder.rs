//! Events of the skill's own in the run's ledger.

use serde::Serialize;

use crate::bindings::skillrun::skill::recorder;

pub use recorder::{
    Custom, Event, LlmCall, Node, RecordError, StructuredOutput, ToolCall, ToolResult, emit,
};

/// Records a `custom` event with any payload and gives its sequence number.
///
/// # Errors
/// The payload cannot be encoded or is too large, or the run may write no more events.
pub fn custom(name: &str, payload: &impl Serialize) -> Result<u32, RecordError> {
    let payload =
        serde_json::to_string(payload).map_err(|error| RecordError::Invalid(error.to_string()))?;
    emit(&Event::Custom(Custom {
        name: name.to_owned(),
        payload,
    }))
}

/// Does `work` inside a step: recorded as entered before and as left after it, with its success.
pub fn step<T, E>(name: &str, work: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
    let node = Node::new(name);
    let result = work();
    node.end(result.is_ok());
    result
}
