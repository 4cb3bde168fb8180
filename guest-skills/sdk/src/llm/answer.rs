//! What a model answers.

use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{Message, Part, Role, ToolUse};
use crate::HostError;

/// A whole answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Response {
    /// What was said, and the tools that were asked for.
    pub content: Vec<Part>,
    /// Why the model stopped.
    pub stop_reason: StopReason,
    /// What the answer cost.
    pub usage: Usage,
    /// The model that answered, as its provider names it.
    pub model: String,
}

/// Why the model stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopReason {
    /// It was done.
    EndTurn,
    /// There were no tokens left.
    TokenLimit,
    /// It waits for the answer of a tool.
    ToolUse,
    /// It came to one of the texts at which to stop.
    StopSequence,
    /// It would not answer.
    Refusal,
}

/// What an answer cost.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Usage {
    /// Tokens that went in.
    pub input_tokens: u32,
    /// Tokens that came out.
    pub output_tokens: u32,
    /// Of those that went in, those that were read from a cache.
    pub cache_read_tokens: u32,
    /// Of those that went in, those that were written to a cache.
    pub cache_write_tokens: u32,
    /// In US dollars, from the operator's price table; 0 when it has no price for the model.
    pub cost_usd: f64,
}

/// One piece of a streamed answer.
#[derive(Debug, Clone, PartialEq)]
pub enum Chunk {
    /// The next piece of text.
    Text(String),
    /// The model asks for a tool.
    ToolUse(ToolUse),
    /// The last chunk: the whole answer.
    Done(Response),
}

impl Response {
    /// The parts of text, put together.
    pub fn text(&self) -> String {
        let texts = self.content.iter().filter_map(|part| match part {
            Part::Text(text) => Some(text.as_str()),
            Part::ToolUse(_) | Part::ToolAnswer(_) => None,
        });
        texts.collect()
    }

    /// The tools that the model asks for.
    pub fn tool_uses(&self) -> impl Iterator<Item = &ToolUse> {
        self.content.iter().filter_map(|part| match part {
            Part::ToolUse(tool_use) => Some(tool_use),
            Part::Text(_) | Part::ToolAnswer(_) => None,
        })
    }

    /// The text as a value.
    ///
    /// # Errors
    /// It is no JSON or does not fit; the message says why the model stopped, which may be the reason.
    pub fn parse<T: DeserializeOwned>(&self) -> Result<T, HostError> {
        serde_json::from_str(&self.text()).map_err(|error| {
            let stopped = self.stop_reason.as_str();
            HostError::Failed(format!(
                "the model's answer does not fit: {error} (it stopped because of {stopped})"
            ))
        })
    }

    /// The answer as a message, for a conversation that goes on.
    pub fn into_message(self) -> Message {
        Message {
            role: Role::Assistant,
            content: self.content,
        }
    }
}

impl StopReason {
    /// A stable word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::EndTurn => "end_turn",
            Self::TokenLimit => "token_limit",
            Self::ToolUse => "tool_use",
            Self::StopSequence => "stop_sequence",
            Self::Refusal => "refusal",
        }
    }
}

impl From<&str> for Response {
    /// An answer that is only text and cost nothing, as a test gives it.
    fn from(text: &str) -> Self {
        Self {
            content: vec![Part::Text(text.to_owned())],
            stop_reason: StopReason::EndTurn,
            usage: Usage::default(),
            model: String::new(),
        }
    }
}

impl From<String> for Response {
    fn from(text: String) -> Self {
        text.as_str().into()
    }
}

impl From<Value> for Response {
    /// An answer whose text is the value as JSON.
    fn from(value: Value) -> Self {
        value.to_string().into()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{Response, StopReason};
    use crate::HostError;

    #[test]
    fn a_cut_answer_says_that_it_was_cut() {
        let mut response = Response::from(r#"{"a":"#);
        response.stop_reason = StopReason::TokenLimit;
        let Err(HostError::Failed(message)) = response.parse::<Value>() else {
            panic!("parsed");
        };
        assert!(
            message.ends_with("(it stopped because of token_limit)"),
            "{message}"
        );
        assert_eq!(
            Response::from(json!({ "a": 1 })).parse(),
            Ok(json!({ "a": 1 }))
        );
    }
}
