use async_trait::async_trait;

use super::ToolError;
use crate::call::{ToolAnswer, ToolDefinition};

/// A tool that the embedding host has in its own code.
#[async_trait]
pub trait HostTool: Send + Sync {
    /// What it is. Asked once.
    fn definition(&self) -> ToolDefinition;

    /// Does the work. `arguments` is a JSON object that fits the schema. Dropping the future must stop
    /// the work.
    ///
    /// # Errors
    /// There is no answer. An answer that says of itself that it is an error is not an error here.
    async fn call(&self, arguments: &str) -> Result<ToolAnswer, ToolError>;
}
