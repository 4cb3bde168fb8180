//! Prompts.

use serde_json::{Value, json};

use crate::blocks::{image, resource, text};
use crate::client::{ask, filled, text_field};
use crate::{Answer, text as given};

pub(crate) fn answer(name: &str, input: &Value) -> Answer {
    let content = match name {
        "test-simple-prompt" => return Some(Ok(json!("This is a simple prompt for testing."))),
        "test-prompt-with-arguments" => {
            let (arg1, arg2) = (given(input, "arg1"), given(input, "arg2"));
            vec![text(&format!(
                "Prompt with arguments: arg1='{arg1}', arg2='{arg2}'"
            ))]
        }
        "test-prompt-with-embedded-resource" => {
            let content = "Embedded resource content for testing.";
            let embedded = resource(given(input, "resourceUri"), "text/plain", content);
            vec![
                embedded,
                text("Please process the embedded resource above."),
            ]
        }
        "test-prompt-with-image" => vec![image(), text("Please analyze the image above.")],
        "test-input-required-result-prompt" => {
            let question = "What context should the prompt use?";
            match ask(text_field("user_context", question, "context")) {
                Ok(answer) => vec![text(&format!("Context: {}", filled(&answer, "context")))],
                Err(error) => return Some(Err(error)),
            }
        }
        _ => return None,
    };
    let message = |content| json!({ "role": "user", "content": content });
    let messages: Vec<Value> = content.into_iter().map(message).collect();
    Some(Ok(json!({ "messages": messages })))
}
