//! Why a model did not answer. No message holds a key, nor a header that was sent.

/// Why a model did not answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ModelError {
    /// There is no such provider or model.
    #[error("no such model {0}")]
    NotFound(String),
    /// The provider does not take the request: what is wrong with it.
    #[error("{0}")]
    Invalid(String),
    /// The provider answered with an error, or with something that is no answer.
    #[error("{0}")]
    Failed(String),
    /// There was no answer in time.
    #[error("no answer within {timeout_ms} ms")]
    TimedOut {
        /// How long was waited.
        timeout_ms: u64,
    },
}
