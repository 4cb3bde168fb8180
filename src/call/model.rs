use serde::{Deserialize, Serialize};

/// A question to a model.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelRequest {
    /// The model, as its provider spells it.
    pub model: String,
    /// The system prompt.
    pub system: Option<String>,
    /// The conversation so far, the oldest message first.
    pub messages: Vec<Message>,
    /// What the model may ask for.
    pub tools: Vec<super::ToolDefinition>,
    /// Tokens of the answer at most; none: the model's own bound.
    pub output_tokens_max: Option<u64>,
    /// Tokens that were set aside for the answer. None may be longer, whatever else bounds it.
    pub tokens_left: u64,
    /// 0 to 2; none: the model's default.
    pub temperature: Option<f32>,
    /// Texts at which the model stops.
    pub stop: Vec<String>,
    /// JSON Schema that the answer has to fit, as JSON text.
    pub output_schema: Option<String>,
}

/// One message of a conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// Who says it.
    pub role: Role,
    /// What is said.
    pub content: Vec<Part>,
}

/// Who says a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Whoever asks.
    User,
    /// The model.
    Assistant,
    /// Tools that answer.
    Tool,
}

/// One part of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Part {
    /// Text.
    Text(String),
    /// The model asks for a tool.
    ToolUse(ToolUse),
    /// What the tool said.
    ToolAnswer(ToolUseAnswer),
}

/// The model asks for a tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolUse {
    /// Chosen by the model; ties the answer to the request.
    pub id: String,
    /// The tool.
    pub name: String,
    /// A JSON object, as text.
    pub arguments: String,
}

/// What a tool said that the model had asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolUseAnswer {
    /// The id of the request.
    pub id: String,
    /// The answer.
    pub content: String,
    /// Whether the tool failed.
    pub is_error: bool,
}

/// Why a model stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopReason {
    /// It had said what it had to say.
    EndTurn,
    /// It had no tokens left.
    TokenLimit,
    /// It asks for tools.
    ToolUse,
    /// It came to one of the texts at which it was to stop.
    StopSequence,
    /// It, or its provider, declined.
    Refusal,
}

/// What an answer took.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Usage {
    /// Tokens of the request, those from a cache included.
    pub input_tokens: u64,
    /// Tokens of the answer.
    pub output_tokens: u64,
    /// Tokens of the request that the provider had in its cache.
    pub cache_read_tokens: u64,
    /// Tokens of the request that the provider put into its cache.
    pub cache_write_tokens: u64,
    /// US dollars; 0 when there is no price for the model.
    pub cost_usd: f64,
}

/// A whole answer.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelResponse {
    /// What the model said.
    pub content: Vec<Part>,
    /// Why it stopped.
    pub stop_reason: StopReason,
    /// What it took.
    pub usage: Usage,
    /// The model that answered, as its provider names it.
    pub model: String,
}

/// One piece of an answer that is still coming. `Done` is the last and holds the whole answer.
#[derive(Debug, Clone, PartialEq)]
pub enum ModelChunk {
    /// More text.
    Text(String),
    /// A request for a tool, whole.
    ToolUse(ToolUse),
    /// The end.
    Done(Box<ModelResponse>),
}
