//! What is recorded in place of what was given.

use super::Recorder;
use crate::ledger::error::RecordError;
use crate::ledger::event::Event;

impl Recorder {
    /// `bytes` with every value replaced that must not stand in a ledger; `None` when there is none. For
    /// bytes that are encoded before they are recorded, where nobody would find it.
    pub fn redact_bytes(&self, bytes: &[u8]) -> Option<Vec<u8>> {
        self.0.0.shelf.redactions.apply_to_bytes(bytes)
    }

    /// `event` as it is recorded: without the values that must not stand in a ledger. Large values are
    /// still in their place.
    ///
    /// # Errors
    /// [`RecordError::NotWritable`].
    pub fn redacted(&self, event: Event) -> Result<Event, RecordError> {
        match self.0.0.shelf.redactions.apply(&event) {
            Ok(None) => Ok(event),
            Ok(Some(redacted)) => Ok(redacted),
            Err(_) => Err(RecordError::NotWritable {
                kind: event.kind().to_owned(),
            }),
        }
    }
}
