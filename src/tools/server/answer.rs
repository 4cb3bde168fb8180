//! What a tool of a server answered, as its content blocks.

use rmcp::model::{CallToolResponse, CallToolResult};
use serde_json::json;

use crate::call::ToolAnswer;

/// The answer, or why it is none.
pub(super) fn answer(response: CallToolResponse) -> Result<ToolAnswer, &'static str> {
    match response {
        CallToolResponse::Complete(result) => complete(result),
        CallToolResponse::InputRequired(_) => {
            Err("asks for input in the middle of a call, and there is nobody to give it")
        }
        CallToolResponse::Task(_) => {
            Err("made a task of the call, and no result can be waited for")
        }
        _ => Err(NO_RESULT),
    }
}

const NO_RESULT: &str = "answered with something that is no result of a tool";

fn complete(result: CallToolResult) -> Result<ToolAnswer, &'static str> {
    let content = match (&result.structured_content, result.content.is_empty()) {
        (Some(structured), true) => {
            json!([{"type": "text", "text": structured.to_string()}]).to_string()
        }
        _ => serde_json::to_string(&result.content).map_err(|_| NO_RESULT)?,
    };
    Ok(ToolAnswer {
        content,
        is_error: result.is_error == Some(true),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn of(result: Value) -> ToolAnswer {
        let result: CallToolResult = serde_json::from_value(result).unwrap();
        answer(CallToolResponse::Complete(result)).unwrap()
    }

    #[test]
    fn content_is_passed_on_and_structured_content_stands_in_for_it() {
        let blocks = json!([
            {"type": "text", "text": "a"},
            {"type": "image", "data": "AA==", "mimeType": "image/png"},
            {"type": "resource_link", "uri": "file:///a", "name": "a"},
        ]);
        let given = of(json!({"content": blocks, "isError": true, "structuredContent": {"b": 1}}));
        let content: Value = serde_json::from_str(&given.content).unwrap();
        assert_eq!(content, blocks);
        assert!(given.is_error);

        let given = of(json!({"content": [], "structuredContent": {"b": [1.5, null]}}));
        let text = r#"[{"type":"text","text":"{\"b\":[1.5,null]}"}]"#;
        assert_eq!(given.content, text);
        assert!(!given.is_error);
        assert_eq!(of(json!({"content": []})).content, "[]");
    }
}
