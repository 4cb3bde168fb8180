//! Why the host did not do what was asked.

use serde::Serialize;
use thiserror::Error;

/// Why the host did not do what was asked. Every case is an ordinary value: the skill may go on, or end
/// with it by `?`.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum HostError {
    /// The effective policy forbids it; the capability that would allow it.
    #[error("denied: {0} is not granted")]
    Denied(String),
    /// No such tool, model or skill; the name that was asked for.
    #[error("{0} does not exist")]
    NotFound(String),
    /// What was handed over does not fit, or cannot be encoded; where and why.
    #[error("invalid arguments: {0}")]
    Invalid(String),
    /// The name fits several; these.
    #[error("ambiguous name: one of {}", .0.join(", "))]
    Ambiguous(Vec<String>),
    /// The other side answered with an error, or with something that does not fit; its message.
    #[error("{0}")]
    Failed(String),
    /// It took longer than its limit, in milliseconds.
    #[error("no answer within {0} ms")]
    TimedOut(u32),
    /// A limit of this run is used up; its name, value and source.
    #[error("{0}")]
    Exhausted(String),
    /// The run is being cancelled.
    #[error("the run is being cancelled")]
    Cancelled,
}

impl HostError {
    /// A stable word for a program. A [`SkillError`](crate::SkillError) that is made of this error has it
    /// as its code.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Denied(_) => crate::error::DENIED,
            Self::NotFound(_) => "not_found",
            Self::Invalid(_) => "invalid",
            Self::Ambiguous(_) => "ambiguous",
            Self::Failed(_) => "failed",
            Self::TimedOut(_) => "timed_out",
            Self::Exhausted(_) => "exhausted",
            Self::Cancelled => "cancelled",
        }
    }
}

/// A value as the text that is handed to the host.
pub(crate) fn encode(value: &(impl Serialize + ?Sized)) -> Result<String, HostError> {
    serde_json::to_string(value)
        .map_err(|error| HostError::Invalid(format!("cannot be encoded: {error}")))
}

#[cfg(test)]
mod tests {
    use super::HostError;
    use crate::SkillError;

    #[test]
    fn a_host_error_keeps_its_kind_and_its_message_on_the_way_out() {
        for (error, code, message) in [
            (
                HostError::Denied("tool:a__b".to_owned()),
                "denied",
                "denied: tool:a__b is not granted",
            ),
            (HostError::Failed("no".to_owned()), "failed", "no"),
            (
                HostError::Ambiguous(vec!["a__x".to_owned(), "b__x".to_owned()]),
                "ambiguous",
                "ambiguous name: one of a__x, b__x",
            ),
            (HostError::TimedOut(5), "timed_out", "no answer within 5 ms"),
        ] {
            let error = SkillError::from(error);
            assert_eq!(
                (error.code.as_str(), error.message.as_str()),
                (code, message)
            );
        }
    }
}
