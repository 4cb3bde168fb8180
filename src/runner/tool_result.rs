//! What a call of a skill answers: content blocks of the shape that MCP gives them.

use serde::{Deserialize, Serialize};

use crate::ledger::Json;

/// The answer of a skill or a tool.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolCallResult {
    /// What a person or a model reads.
    pub content: Vec<ContentBlock>,
    /// The same as a JSON object, when the answer is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub structured_content: Option<Json>,
    /// The skill or tool itself says that it failed.
    #[serde(default)]
    pub is_error: bool,
}

/// One piece of content.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ContentBlock {
    /// Text.
    Text {
        /// The text.
        text: String,
    },
    /// A picture.
    #[serde(rename_all = "camelCase")]
    Image {
        /// Base64.
        data: String,
        /// Its media type.
        mime_type: String,
    },
    /// A sound.
    #[serde(rename_all = "camelCase")]
    Audio {
        /// Base64.
        data: String,
        /// Its media type.
        mime_type: String,
    },
    /// A pointer to a resource.
    ResourceLink {
        /// Where it is.
        uri: String,
        /// What it is called.
        name: String,
    },
    /// A resource itself.
    Resource {
        /// The resource, as MCP spells it.
        resource: Json,
    },
}

impl ToolCallResult {
    /// An answer that is the JSON value `json`; an object is structured content as well.
    pub fn json(json: Json) -> Self {
        let text = json.as_str().to_owned();
        Self {
            content: vec![ContentBlock::Text { text }],
            structured_content: json.as_str().starts_with('{').then_some(json),
            is_error: false,
        }
    }

    /// An answer that is plain text.
    pub fn text(text: impl Into<String>) -> Self {
        Self {
            content: vec![ContentBlock::Text { text: text.into() }],
            structured_content: None,
            is_error: false,
        }
    }

    /// The answer as one JSON value, as ledgers keep it: the structured content, else the only text
    /// (a JSON string when it is not JSON itself), else all blocks.
    pub fn output(&self) -> Json {
        match (&self.structured_content, self.content.as_slice()) {
            (Some(structured), _) => structured.clone(),
            (None, [ContentBlock::Text { text }]) => {
                Json::parse(text).unwrap_or_else(|_not_json| Json::string(text))
            }
            (None, blocks) => Json::from_serialize(blocks).unwrap_or_default(),
        }
    }

    /// The text of all text blocks, for a message.
    pub fn joined_text(&self) -> String {
        let texts: Vec<&str> = self
            .content
            .iter()
            .filter_map(|block| match block {
                ContentBlock::Text { text } => Some(text.as_str()),
                _ => None,
            })
            .collect();
        texts.join("\n")
    }
}

#[cfg(test)]
mod tests {
    use super::{ContentBlock, ToolCallResult};
    use crate::ledger::Json;

    #[test]
    fn text_that_is_not_json_is_recorded_as_a_string() {
        assert_eq!(
            ToolCallResult::text("so {far").output().as_str(),
            r#""so {far""#
        );
        assert_eq!(ToolCallResult::text("[1, 2]").output().as_str(), "[1,2]");
    }

    #[test]
    fn only_objects_are_structured_content() {
        let object = ToolCallResult::json(Json::parse(r#"{"a":1}"#).unwrap());
        assert!(object.structured_content.is_some());
        let list = ToolCallResult::json(Json::parse("[1]").unwrap());
        assert!(list.structured_content.is_none());
        assert_eq!(list.output().as_str(), "[1]");
    }

    #[test]
    fn blocks_have_the_spelling_of_mcp() {
        let block = ContentBlock::Image {
            data: String::new(),
            mime_type: "image/png".to_owned(),
        };
        let text = serde_json::to_string(&block).unwrap();
        assert_eq!(text, r#"{"type":"image","data":"","mimeType":"image/png"}"#);
    }
}
