//! What is asked of a model.

use schemars::JsonSchema;
use serde_json::Value;

use crate::{schema, tools};

/// A question to a model.
#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    /// `provider/model`, or a model that the operator's configuration names.
    pub model: String,
    /// The system prompt.
    pub system: Option<String>,
    /// The conversation so far, oldest first; at least one message.
    pub messages: Vec<Message>,
    /// Tools that the model may ask for. The skill calls them, not the host.
    pub tools: Vec<ToolOffer>,
    /// None: the model's own bound, or what is left of the run's token budget, whichever is less.
    pub output_tokens_max: Option<u32>,
    /// 0 to 2; none: the model's default.
    pub temperature: Option<f32>,
    /// Texts at which the model stops.
    pub stop: Vec<String>,
    /// JSON Schema for the answer; checked by the host.
    pub output_schema: Option<Value>,
}

/// Who says a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Whoever asks.
    User,
    /// The model.
    Assistant,
    /// A tool that the model asked for.
    Tool,
}

/// One message of a conversation.
#[derive(Debug, Clone, PartialEq)]
pub struct Message {
    /// Who says it.
    pub role: Role,
    /// What is said.
    pub content: Vec<Part>,
}

/// One part of a message.
#[derive(Debug, Clone, PartialEq)]
pub enum Part {
    /// Text.
    Text(String),
    /// The model asks for a tool.
    ToolUse(ToolUse),
    /// What the tool said.
    ToolAnswer(ToolAnswer),
}

/// The model asks for a tool.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolUse {
    /// Chosen by the model; ties the answer to the request.
    pub id: String,
    /// The name of a tool that was offered.
    pub name: String,
    /// A JSON object.
    pub arguments: Value,
}

/// What a tool said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolAnswer {
    /// The id of the request.
    pub id: String,
    /// Its text.
    pub content: String,
    /// The tool says that it failed.
    pub is_error: bool,
}

/// A tool that the model may ask for.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolOffer {
    /// The name by which the model asks.
    pub name: String,
    /// What it is for.
    pub description: String,
    /// JSON Schema of the arguments.
    pub input_schema: Value,
}

impl Request {
    /// A question without a message yet.
    pub fn new(model: &str) -> Self {
        Self {
            model: model.to_owned(),
            system: None,
            messages: Vec::new(),
            tools: Vec::new(),
            output_tokens_max: None,
            temperature: None,
            stop: Vec::new(),
            output_schema: None,
        }
    }

    /// Sets the system prompt.
    #[must_use]
    pub fn system(mut self, prompt: impl Into<String>) -> Self {
        self.system = Some(prompt.into());
        self
    }

    /// Adds a message of the user.
    #[must_use]
    pub fn user(self, text: impl Into<String>) -> Self {
        self.message(Message::user(text))
    }

    /// Adds a message of the model.
    #[must_use]
    pub fn assistant(self, text: impl Into<String>) -> Self {
        self.message(Message::assistant(text))
    }

    /// Adds any message.
    #[must_use]
    pub fn message(mut self, message: Message) -> Self {
        self.messages.push(message);
        self
    }

    /// Offers a tool.
    #[must_use]
    pub fn tool(mut self, tool: impl Into<ToolOffer>) -> Self {
        self.tools.push(tool.into());
        self
    }

    /// Bounds the answer, in tokens.
    #[must_use]
    pub fn output_tokens_max(mut self, tokens: u32) -> Self {
        self.output_tokens_max = Some(tokens);
        self
    }

    /// Sets how much chance there is in the answer: 0 to 2.
    #[must_use]
    pub fn temperature(mut self, temperature: f32) -> Self {
        self.temperature = Some(temperature);
        self
    }

    /// Adds a text at which the model stops.
    #[must_use]
    pub fn stop(mut self, text: impl Into<String>) -> Self {
        self.stop.push(text.into());
        self
    }

    /// Asks for JSON that is read as a `T`.
    #[must_use]
    pub fn output_schema<T: JsonSchema>(self) -> Self {
        self.output_schema_json(schema::of_input::<T>())
    }

    /// Asks for JSON that fits a JSON Schema.
    #[must_use]
    pub fn output_schema_json(mut self, schema: Value) -> Self {
        self.output_schema = Some(schema);
        self
    }
}

impl Message {
    /// Text of the user.
    pub fn user(text: impl Into<String>) -> Self {
        Self::text(Role::User, text)
    }

    /// Text of the model.
    pub fn assistant(text: impl Into<String>) -> Self {
        Self::text(Role::Assistant, text)
    }

    /// What a tool said that the model asked for.
    pub fn tool(asked: &ToolUse, answer: &tools::Answer) -> Self {
        Self {
            role: Role::Tool,
            content: vec![Part::ToolAnswer(ToolAnswer {
                id: asked.id.clone(),
                content: answer.text(),
                is_error: answer.is_error,
            })],
        }
    }

    fn text(role: Role, text: impl Into<String>) -> Self {
        Self {
            role,
            content: vec![Part::Text(text.into())],
        }
    }
}

impl From<tools::Tool> for ToolOffer {
    fn from(tool: tools::Tool) -> Self {
        Self {
            name: tool.name,
            description: tool.description,
            input_schema: tool.input_schema,
        }
    }
}
