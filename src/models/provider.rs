use async_trait::async_trait;

use super::ModelError;
use crate::call::{ModelChunk, ModelRequest, ModelResponse, Usage};

/// Whoever serves models. An embedder may bring its own.
#[async_trait]
pub trait ModelProvider: Send + Sync {
    /// Asks `request.model` and waits for the whole answer, its usage and cost included. No answer may
    /// have more than `request.tokens_left` tokens. Dropping the future cancels the request.
    ///
    /// # Errors
    /// There is no answer.
    async fn generate(&self, request: &ModelRequest) -> Result<ModelResponse, ModelError>;

    /// As [`ModelProvider::generate`], and is ready when the answer begins.
    ///
    /// # Errors
    /// No answer begins.
    async fn start(&self, request: &ModelRequest) -> Result<Box<dyn ModelStream>, ModelError>;
}

/// An answer that is still coming. Dropping it cancels the request.
#[async_trait]
pub trait ModelStream: Send {
    /// The next piece. The last is [`ModelChunk::Done`]; it is not asked again after that, nor after an
    /// error.
    ///
    /// # Errors
    /// The answer broke off.
    async fn next(&mut self) -> Result<ModelChunk, ModelError>;

    /// What it has taken so far, as far as the provider said.
    fn usage(&self) -> Usage;
}
