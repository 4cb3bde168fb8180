use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::call::StopReason;
use crate::models::assembly::{Answer, Assembly};
use crate::models::events::Event;
use crate::models::prices::Tokens;
use crate::models::{ModelError, refusal};

/// A whole answer, and what a stream begins with.
#[derive(Deserialize)]
struct Message {
    #[serde(rename = "type")]
    kind: Option<String>,
    error: Option<Value>,
    model: Option<String>,
    content: Option<Vec<Block>>,
    stop_reason: Option<String>,
    usage: Option<UsageFields>,
}

/// One block of content; a kind that is not known here, such as what a model thinks, is passed over.
#[derive(Deserialize)]
struct Block {
    #[serde(rename = "type")]
    kind: String,
    text: Option<String>,
    id: Option<String>,
    name: Option<String>,
    input: Option<Box<RawValue>>,
}

/// One event of a stream.
#[derive(Deserialize)]
struct StreamEvent {
    #[serde(rename = "type")]
    kind: String,
    index: Option<u64>,
    message: Option<Message>,
    content_block: Option<Block>,
    delta: Option<Delta>,
    usage: Option<UsageFields>,
    error: Option<Value>,
}

#[derive(Deserialize)]
struct Delta {
    text: Option<String>,
    partial_json: Option<String>,
    stop_reason: Option<String>,
}

#[derive(Deserialize)]
struct UsageFields {
    input_tokens: Option<u64>,
    output_tokens: Option<u64>,
    cache_read_input_tokens: Option<u64>,
    cache_creation_input_tokens: Option<u64>,
}

impl UsageFields {
    /// The tokens, with what was said before where nothing is said now. What came from a cache is not
    /// part of `input_tokens` here.
    fn after(&self, before: Tokens) -> Tokens {
        let cache_read = self.cache_read_input_tokens.unwrap_or(before.cache_read);
        let cache_write = self
            .cache_creation_input_tokens
            .unwrap_or(before.cache_write);
        let cached_before = before.cache_read.saturating_add(before.cache_write);
        let uncached = self
            .input_tokens
            .unwrap_or(before.input.saturating_sub(cached_before));
        Tokens {
            input: uncached
                .saturating_add(cache_read)
                .saturating_add(cache_write),
            output: self.output_tokens.unwrap_or(before.output),
            cache_read,
            cache_write,
        }
    }
}

/// Reads a whole answer.
pub(in crate::models) fn whole(body: &[u8]) -> Result<Answer, ModelError> {
    let message: Message = serde_json::from_slice(body).map_err(malformed)?;
    if let Some(error) = message.error {
        return Err(ModelError::Failed(refusal::message_of(&error)));
    }
    if let Some(kind) = message.kind.filter(|kind| kind != "message") {
        let problem = format!("malformed answer: expected a message, not {kind:?}");
        return Err(ModelError::Failed(problem));
    }
    let mut assembly = Assembly::default();
    assembly.model(&message.model.unwrap_or_default());
    for (key, block) in (0..).zip(message.content.into_iter().flatten()) {
        match block.kind.as_str() {
            "text" => assembly.text(&block.text.unwrap_or_default()),
            "tool_use" => {
                let input = block.input.as_ref().map_or("{}", |input| input.get());
                let (id, name) = (block.id.unwrap_or_default(), block.name.unwrap_or_default());
                assembly.tool(key, &id, &name, input)?;
            }
            _ => {}
        }
    }
    if let Some(usage) = &message.usage {
        let is_all = usage.input_tokens.is_some() && usage.output_tokens.is_some();
        assembly.took(usage.after(Tokens::default()), is_all);
    }
    if let Some(reason) = message.stop_reason {
        assembly.stop(stop_reason(&reason, assembly.has_tools()));
    }
    assembly.end()
}

/// Reads a stream, event by event.
#[derive(Default)]
pub(in crate::models) struct Stream {
    pub(in crate::models) assembly: Assembly,
    /// Whether the request's own tokens were told.
    has_begun: bool,
}

impl Stream {
    /// Takes an event; whether it was the last.
    pub(in crate::models) fn take(&mut self, event: &Event) -> Result<bool, ModelError> {
        let event: StreamEvent = serde_json::from_str(&event.data).map_err(malformed)?;
        let index = event.index.unwrap_or(0);
        match event.kind.as_str() {
            "message_start" => {
                if let Some(message) = event.message {
                    self.assembly.model(&message.model.unwrap_or_default());
                    self.usage(message.usage.as_ref());
                }
            }
            "content_block_start" => {
                if let Some(block) = event.content_block {
                    self.block(index, block)?;
                }
            }
            "content_block_delta" => {
                if let Some(delta) = event.delta {
                    self.assembly.text(&delta.text.unwrap_or_default());
                    let is_known = self.assembly.awaits_arguments(index);
                    if let Some(json) = delta.partial_json.filter(|_| is_known) {
                        self.assembly.tool(index, "", "", &json)?;
                    }
                }
            }
            "content_block_stop" => self.assembly.finish_tools()?,
            "message_delta" => {
                self.usage(event.usage.as_ref());
                let reason = event.delta.and_then(|delta| delta.stop_reason);
                if let Some(reason) = reason {
                    let reason = stop_reason(&reason, self.assembly.has_tools());
                    self.assembly.stop(reason);
                }
            }
            "message_stop" => return Ok(true),
            "error" => {
                let error = event.error.unwrap_or_default();
                return Err(ModelError::Failed(refusal::message_of(&error)));
            }
            // Such as `ping`; the API says that there may be others one day.
            _ => {}
        }
        Ok(false)
    }

    fn block(&mut self, index: u64, block: Block) -> Result<(), ModelError> {
        match block.kind.as_str() {
            "text" => self.assembly.text(&block.text.unwrap_or_default()),
            "tool_use" => {
                let (id, name) = (block.id.unwrap_or_default(), block.name.unwrap_or_default());
                // The arguments follow; what stands here is an empty object in their place.
                self.assembly.tool(index, &id, &name, "")?;
            }
            _ => {}
        }
        Ok(())
    }

    /// The count of a stream is that of all so far. It is that of the whole answer once the answer has
    /// a reason to end, which comes with it.
    fn usage(&mut self, usage: Option<&UsageFields>) {
        let Some(usage) = usage else {
            return;
        };
        let is_last = self.has_begun && usage.output_tokens.is_some();
        self.has_begun |= usage.input_tokens.is_some();
        let before = self.assembly.said().unwrap_or_default();
        self.assembly.took(usage.after(before), is_last);
    }
}

fn stop_reason(reason: &str, has_tools: bool) -> StopReason {
    match reason {
        "max_tokens" | "model_context_window_exceeded" => StopReason::TokenLimit,
        "stop_sequence" => StopReason::StopSequence,
        "refusal" => StopReason::Refusal,
        _ if has_tools => StopReason::ToolUse,
        // `end_turn`, and whatever else the API may come to say: the model ended its answer.
        _ => StopReason::EndTurn,
    }
}

fn malformed(error: serde_json::Error) -> ModelError {
    ModelError::Failed(format!("malformed answer: {error}"))
}
