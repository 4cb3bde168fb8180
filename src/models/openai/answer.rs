use serde::Deserialize;
use serde_json::Value;

use crate::call::StopReason;
use crate::models::assembly::{Answer, Assembly};
use crate::models::events::Event;
use crate::models::prices::Tokens;
use crate::models::{ModelError, refusal};

/// What the last event of a stream holds in place of JSON.
const DONE: &str = "[DONE]";

/// A whole answer, or one event of a stream.
#[derive(Deserialize)]
struct Completion {
    error: Option<Value>,
    model: Option<String>,
    choices: Option<Vec<Choice>>,
    usage: Option<UsageFields>,
}

#[derive(Deserialize)]
struct Choice {
    index: Option<u64>,
    /// In a whole answer.
    message: Option<Said>,
    /// In a stream.
    delta: Option<Said>,
    finish_reason: Option<String>,
    /// The text at which it stopped, from servers that tell.
    stop_reason: Option<Value>,
}

#[derive(Deserialize)]
struct Said {
    content: Option<String>,
    refusal: Option<String>,
    tool_calls: Option<Vec<ToolCall>>,
}

#[derive(Deserialize)]
struct ToolCall {
    index: Option<u64>,
    id: Option<String>,
    function: Option<Function>,
}

#[derive(Deserialize)]
struct Function {
    name: Option<String>,
    arguments: Option<String>,
}

#[derive(Deserialize)]
struct UsageFields {
    prompt_tokens: Option<u64>,
    completion_tokens: Option<u64>,
    prompt_tokens_details: Option<PromptTokens>,
}

#[derive(Deserialize)]
struct PromptTokens {
    cached_tokens: Option<u64>,
}

/// Reads a whole answer.
pub(in crate::models) fn whole(body: &[u8]) -> Result<Answer, ModelError> {
    let completion: Completion = serde_json::from_slice(body).map_err(malformed)?;
    let mut stream = Stream::default();
    stream.add(completion)?;
    stream.assembly.end()
}

/// Reads a stream, event by event.
#[derive(Default)]
pub(in crate::models) struct Stream {
    pub(in crate::models) assembly: Assembly,
    refused: bool,
}

impl Stream {
    /// Takes an event; whether it was the last.
    pub(in crate::models) fn take(&mut self, event: &Event) -> Result<bool, ModelError> {
        let data = event.data.trim();
        if data == DONE {
            return Ok(true);
        }
        let completion = serde_json::from_str(data).map_err(malformed)?;
        self.add(completion)?;
        Ok(false)
    }

    fn add(&mut self, completion: Completion) -> Result<(), ModelError> {
        if let Some(error) = completion.error {
            return Err(ModelError::Failed(refusal::message_of(&error)));
        }
        if let Some(model) = completion.model {
            self.assembly.model(&model);
        }
        for choice in completion.choices.into_iter().flatten() {
            // One answer was asked for.
            if choice.index.unwrap_or(0) == 0 {
                self.choice(choice)?;
            }
        }
        if let Some(usage) = completion.usage
            && let (Some(input), Some(output)) = (usage.prompt_tokens, usage.completion_tokens)
        {
            let details = usage.prompt_tokens_details;
            let cached = details.and_then(|details| details.cached_tokens);
            let tokens = Tokens {
                input,
                output,
                cache_read: cached.unwrap_or(0).min(input),
                cache_write: 0,
            };
            // Some servers count in every event; the last count is that of the whole answer.
            self.assembly.took(tokens, true);
        }
        Ok(())
    }

    fn choice(&mut self, choice: Choice) -> Result<(), ModelError> {
        if let Some(said) = choice.message.or(choice.delta) {
            self.said(said)?;
        }
        if let Some(reason) = choice.finish_reason {
            self.assembly.finish_tools()?;
            let at_text = matches!(choice.stop_reason, Some(Value::String(_)));
            let reason = match reason.as_str() {
                "length" => StopReason::TokenLimit,
                "content_filter" => StopReason::Refusal,
                "error" => {
                    let problem = "answer broke off with an error".to_owned();
                    return Err(ModelError::Failed(problem));
                }
                _ if self.refused => StopReason::Refusal,
                // Some servers say `stop` here as well.
                _ if self.assembly.has_tools() => StopReason::ToolUse,
                _ if at_text => StopReason::StopSequence,
                // `stop`, and whatever a server may have thought of: the model ended its answer.
                _ => StopReason::EndTurn,
            };
            self.assembly.stop(reason);
        }
        Ok(())
    }

    fn said(&mut self, said: Said) -> Result<(), ModelError> {
        if let Some(text) = said.content {
            self.assembly.text(&text);
        }
        if let Some(text) = said.refusal.filter(|text| !text.is_empty()) {
            self.refused = true;
            self.assembly.text(&text);
        }
        let calls = said.tool_calls.into_iter().flatten();
        for (at, call) in (0..).zip(calls) {
            let key = call.index.unwrap_or(at);
            let function = call.function.unwrap_or(Function {
                name: None,
                arguments: None,
            });
            self.assembly.tool(
                key,
                &call.id.unwrap_or_default(),
                &function.name.unwrap_or_default(),
                &function.arguments.unwrap_or_default(),
            )?;
        }
        Ok(())
    }
}

fn malformed(error: serde_json::Error) -> ModelError {
    ModelError::Failed(format!("malformed answer: {error}"))
}
