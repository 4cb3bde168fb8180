//! The events of an execution, read from its ledger.

use super::error::RuntimeError;
use super::event::Event;

/// The events of an execution, in order, without gap and without repeat, whether they are there already or still
/// to come. It can be dropped at any time, and holds nothing up.
pub struct EventSubscription(());

impl EventSubscription {
    /// The next event, as soon as there is one; none after the last. It may be dropped at any time without losing
    /// an event.
    ///
    /// # Errors
    /// The ledger cannot be read; the next call goes on.
    pub async fn next(&mut self) -> Result<Option<Event>, RuntimeError> {
        Ok(None)
    }
}
