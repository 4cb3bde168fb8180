use async_trait::async_trait;

use super::ToolError;
use crate::call::{ToolAnswer, ToolDefinition};

/// A tool that the embedding host has in its own code.
#[async_trait]
pub trait HostTool: Send + Sync {
    /// What it is. Asked once.
    fn definition(&self) -> ToolDefinition;

    /// Whether all that a call does, and must not do twice, is on record by itself: it was done through the
    /// runner's `HostToolCall`. A call that was cut off is made again then, whatever its effect, and finds there
    /// what it did; and when its turn is cancelled it is waited for, since it is told.
    fn keeps_record(&self) -> bool {
        false
    }

    /// Does the work. `arguments` is a JSON object that fits the schema. Dropping the future must stop
    /// the work.
    ///
    /// # Errors
    /// There is no answer. An answer that says of itself that it is an error is not an error here.
    async fn call(&self, arguments: &str) -> Result<ToolAnswer, ToolError>;
}
