//! Language models. Needs `llm:<provider>/<model>` capabilities; keys stay in the host, which records each
//! answer with its usage.
//!
//! ```
//! # use skillrun_sdk::{HostError, mock::Mock};
//! use schemars::JsonSchema;
//! use serde::Deserialize;
//! use skillrun_sdk::llm::{self, Request};
//!
//! #[derive(Debug, PartialEq, Deserialize, JsonSchema)]
//! #[serde(deny_unknown_fields)]
//! struct Mood {
//!     cheerful: bool,
//! }
//!
//! fn mood(text: &str) -> Result<Mood, HostError> {
//!     let request = Request::new("default").system("Judge the mood.").user(text);
//!     llm::generate_as(&request)
//! }
//! # Mock::new()
//! #     .model(|_request| Ok(serde_json::json!({ "cheerful": true })))
//! #     .run(|| assert_eq!(mood("yes!"), Ok(Mood { cheerful: true })));
//! ```

mod answer;
mod request;

use schemars::JsonSchema;
use serde::de::DeserializeOwned;

pub use answer::{Chunk, Response, StopReason, Usage};
pub use request::{Message, Part, Request, Role, ToolAnswer, ToolOffer, ToolUse};

use crate::{HostError, host, schema};

/// Asks and waits for the whole answer.
///
/// # Errors
/// The host did not ask, the model did not answer, or its answer does not fit the request's schema.
pub fn generate(request: &Request) -> Result<Response, HostError> {
    host::generate(request)
}

/// Asks for an answer that is a value of `T`, and waits for it. A request without an output schema gets
/// that of `T`.
///
/// # Errors
/// Those of [`generate`], or the answer is no `T`.
pub fn generate_as<T: DeserializeOwned + JsonSchema>(request: &Request) -> Result<T, HostError> {
    let response = if request.output_schema.is_some() {
        generate(request)?
    } else {
        let mut request = request.clone();
        request.output_schema = Some(schema::of_input::<T>());
        generate(&request)?
    };
    response.parse()
}

/// Asks and returns as soon as the answer begins.
///
/// # Errors
/// The host did not ask, or the model did not answer.
pub fn start(request: &Request) -> Result<Completion, HostError> {
    host::start(request).map(Completion::new)
}

/// An answer that is still coming, as an iterator over its chunks. Each step waits; [`Chunk::Done`] with
/// the whole answer is the last, and so is an error. Dropped, the request is given up.
#[derive(Debug)]
pub struct Completion {
    completion: host::Completion,
    is_over: bool,
}

impl Completion {
    fn new(completion: host::Completion) -> Self {
        Self {
            completion,
            is_over: false,
        }
    }

    /// Hands each piece of text over as it comes, and gives the whole answer.
    ///
    /// # Errors
    /// The answer broke off.
    pub fn for_each_text(self, mut take: impl FnMut(&str)) -> Result<Response, HostError> {
        for chunk in self {
            match chunk? {
                Chunk::Text(text) => take(&text),
                Chunk::ToolUse(_) => {}
                Chunk::Done(response) => return Ok(response),
            }
        }
        Err(HostError::Failed("the answer has no end".to_owned()))
    }
}

impl Iterator for Completion {
    type Item = Result<Chunk, HostError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_over {
            return None;
        }
        let chunk = self.completion.next().transpose();
        self.is_over = !matches!(chunk, Some(Ok(Chunk::Text(_) | Chunk::ToolUse(_))));
        chunk
    }
}
