//! Tools of upstream servers and of the embedding host. Needs `tool:<name>` capabilities. The host
//! records each call and its answer.
//!
//! ```
//! # use skillrun_sdk::{SkillError, mock::Mock, tools};
//! # use serde_json::json;
//! fn search(text: &str) -> Result<String, SkillError> {
//!     let answer = tools::invoke("tickets__search", &json!({ "query": text }))?;
//!     Ok(answer.check()?.text())
//! }
//! # Mock::new()
//! #     .tool("tickets__search", |arguments| Ok(format!("found {}", arguments["query"])))
//! #     .run(|| assert_eq!(search("x"), Ok(r#"found "x""#.to_owned())));
//! ```

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::host;
use crate::host_error::encode;
use crate::parallel;
use crate::{HostError, SkillError};

/// The code of an error that comes from a tool which says that it failed.
pub const TOOL_ERROR: &str = "tool_error";

/// One tool that may be called.
#[derive(Debug, Clone, PartialEq)]
pub struct Tool {
    /// `server__tool`.
    pub name: String,
    /// What it is for.
    pub description: String,
    /// JSON Schema of the arguments.
    pub input_schema: Value,
    /// Calling it changes nothing.
    pub read_only: bool,
    /// Calling it twice is like calling it once.
    pub idempotent: bool,
}

/// What a tool answered.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Answer {
    /// The blocks of the answer.
    pub content: Vec<Content>,
    /// The tool itself says that it failed.
    pub is_error: bool,
}

/// One content block of MCP, kept as it came.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Content(Value);

/// One call of several.
#[derive(Debug)]
pub struct Call {
    pub(crate) name: String,
    pub(crate) arguments: Result<String, HostError>,
}

impl Content {
    /// A block of text.
    pub fn from_text(text: &str) -> Self {
        Self(json!({ "type": "text", "text": text }))
    }

    /// What kind of block it is: `text`, `image`, `audio`, `resource_link`, `resource`; empty if the block
    /// does not say.
    pub fn kind(&self) -> &str {
        self.member("type").unwrap_or_default()
    }

    /// The text of a block of text.
    pub fn text(&self) -> Option<&str> {
        self.member("text").filter(|_| self.kind() == "text")
    }

    /// The whole block.
    pub fn value(&self) -> &Value {
        &self.0
    }

    fn member(&self, name: &str) -> Option<&str> {
        self.0.get(name).and_then(Value::as_str)
    }
}

impl From<Value> for Content {
    fn from(block: Value) -> Self {
        Self(block)
    }
}

impl Answer {
    /// The texts of its blocks of text, one after the other with a line break between.
    pub fn text(&self) -> String {
        let texts: Vec<&str> = self.content.iter().filter_map(Content::text).collect();
        texts.join("\n")
    }

    /// The answer, unless the tool says that it failed.
    ///
    /// # Errors
    /// The tool's text, with the code [`TOOL_ERROR`].
    pub fn check(self) -> Result<Self, SkillError> {
        if self.is_error {
            return Err(SkillError::new(self.text()).with_code(TOOL_ERROR));
        }
        Ok(self)
    }

    /// The answer of a tool that says that it failed.
    pub fn error(text: &str) -> Self {
        Self {
            is_error: true,
            ..Self::from(text)
        }
    }
}

impl From<&str> for Answer {
    fn from(text: &str) -> Self {
        Self {
            content: vec![Content::from_text(text)],
            is_error: false,
        }
    }
}

impl From<String> for Answer {
    fn from(text: String) -> Self {
        text.as_str().into()
    }
}

impl From<Value> for Answer {
    /// A block of text that holds the value as JSON.
    fn from(value: Value) -> Self {
        value.to_string().into()
    }
}

impl Call {
    /// A call of a tool with its arguments, which must become a JSON object.
    pub fn new(name: &str, arguments: &(impl Serialize + ?Sized)) -> Self {
        Self {
            name: name.to_owned(),
            arguments: encode(arguments),
        }
    }
}

/// The tools that this run may call, in order of their names. Not recorded.
pub fn available() -> Vec<Tool> {
    host::available_tools()
}

/// Calls a tool and waits for its answer. A name without its server works when exactly one allowed tool
/// has it. `arguments` must become a JSON object; the host checks it against the tool's schema.
///
/// # Errors
/// The host did not call the tool, or got no answer. A tool that says that it failed is an answer:
/// [`Answer::check`] makes an error of it.
pub fn invoke(name: &str, arguments: &(impl Serialize + ?Sized)) -> Result<Answer, HostError> {
    host::invoke_tool(name, &encode(arguments)?)
}

/// Calls several tools, at most `parallel_max` at a time (0: the host's default of 4). Each call has its
/// own result, in the order of the calls, whichever came first.
pub fn invoke_all(calls: &[Call], parallel_max: u32) -> Vec<Result<Answer, HostError>> {
    parallel::in_order(
        calls.iter().map(|call| (&call.name, &call.arguments)),
        |encoded| host::invoke_tools(encoded, parallel_max),
    )
}

/// Calls several tools, `parallel_max` at a time (0: 4), and begins no more once one of them failed.
///
/// # Errors
/// The first failure in the order of the calls, one that the host or the tool itself told; its `details`
/// have the number of the call, counted from 0.
pub fn try_invoke_all(calls: &[Call], parallel_max: u32) -> Result<Vec<Answer>, SkillError> {
    parallel::until_failure(calls, parallel_max, |batch| {
        let answers = invoke_all(batch, parallel_max).into_iter();
        answers
            .map(|answer| answer.map_err(SkillError::from)?.check())
            .collect()
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{Answer, Content};

    #[test]
    fn a_block_is_kept_as_it_came() {
        let blocks = json!([
            { "type": "text", "text": "a", "annotations": { "priority": 1 } },
            { "type": "image", "data": "AA==", "mimeType": "image/png", "text": "no" },
            { "text": "no" },
            "no block",
            { "type": "text", "text": "b" },
        ]);
        let content: Vec<Content> = serde_json::from_value(blocks.clone()).unwrap();
        assert_eq!(content[1].kind(), "image");
        let answer = Answer {
            content,
            is_error: false,
        };
        assert_eq!(answer.text(), "a\nb");
        assert_eq!(serde_json::to_value(&answer.content).unwrap(), blocks);
    }

    #[test]
    fn an_answer_that_says_it_failed_becomes_an_error() {
        assert!(Answer::from("fine").check().is_ok());
        let error = Answer::error("no such ticket").check().unwrap_err();
        assert_eq!(
            (error.message.as_str(), error.code.as_str()),
            ("no such ticket", "tool_error")
        );
    }
}
