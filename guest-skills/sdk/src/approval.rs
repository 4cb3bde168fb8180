//! A person decides. Needs the `approval` capability. The answer is bound to this run, this component,
//! the prompt and the payload.

use serde::Serialize;

use crate::error::REJECTED;
use crate::host;
use crate::host_error::encode;
use crate::{HostError, SkillError};

/// What is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Question {
    /// One or two sentences for the person.
    pub prompt: String,
    /// What exactly is being approved, as JSON; shown, hashed and recorded.
    pub payload: String,
    /// How long to wait, in milliseconds. None: the host's default of 24 hours.
    pub timeout_ms: Option<u32>,
}

/// What was decided.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    /// Yes or no.
    pub approved: bool,
    /// What the person said, or why it was decided without one; may be empty.
    pub reason: String,
    /// A policy or a timeout decided, not a person.
    pub automatic: bool,
}

impl Question {
    /// A question with the host's timeout.
    ///
    /// # Errors
    /// The payload cannot be encoded.
    pub fn new(prompt: &str, payload: &(impl Serialize + ?Sized)) -> Result<Self, HostError> {
        Ok(Self {
            prompt: prompt.to_owned(),
            payload: encode(payload)?,
            timeout_ms: None,
        })
    }

    /// Waits no longer than so many milliseconds.
    #[must_use]
    pub fn timeout_ms(mut self, timeout_ms: u32) -> Self {
        self.timeout_ms = Some(timeout_ms);
        self
    }

    /// Asks and waits. The run may be suspended meanwhile. A rejection is a decision, not an error.
    ///
    /// # Errors
    /// The host did not ask.
    pub fn ask(&self) -> Result<Decision, HostError> {
        host::ask(self)
    }
}

impl Decision {
    /// A person's decision without a word of explanation.
    pub fn new(approved: bool) -> Self {
        Self {
            approved,
            reason: String::new(),
            automatic: false,
        }
    }

    /// Nothing, if it was approved.
    ///
    /// # Errors
    /// It was rejected: an error with the code [`REJECTED`], with which the run ends as `denied`.
    pub fn require(self, prompt: &str) -> Result<(), SkillError> {
        if self.approved {
            return Ok(());
        }
        let message = match self.reason.as_str() {
            "" => format!("rejected: {prompt}"),
            reason => format!("rejected: {prompt}: {reason}"),
        };
        Err(SkillError::new(message).with_code(REJECTED))
    }
}

/// Asks and waits. A rejection is a decision, not an error.
///
/// # Errors
/// The payload cannot be encoded, or the host did not ask.
pub fn request(prompt: &str, payload: &(impl Serialize + ?Sized)) -> Result<Decision, HostError> {
    Question::new(prompt, payload)?.ask()
}

/// Asks and goes on only if the answer is yes.
///
/// # Errors
/// It was rejected, with the code [`REJECTED`], or the host did not ask.
pub fn require(prompt: &str, payload: &(impl Serialize + ?Sized)) -> Result<(), SkillError> {
    request(prompt, payload)?.require(prompt)
}
