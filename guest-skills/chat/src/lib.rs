//! Talks with a person: keeps the conversation in memory, streams what the model says, calls the tools that it
//! asks for, and asks the person before one of them changes anything.

mod conversation;
mod permission;

use serde_json::Value;
use skillrun_sdk::agent::{Agent, Context, StopReason, agent};
use skillrun_sdk::llm::{self, Chunk, Request, Response, ToolUse, Usage};
use skillrun_sdk::tools::{self, Answer, Tool};
use skillrun_sdk::{HostError, SkillError, run, session};

use crate::conversation::{Conversation, Told};
use crate::permission::Permissions;

/// Times that the model may ask for tools in one turn. Protects the person from a model that goes in circles.
const ROUNDS_MAX: u32 = 16;
/// Tokens that a model takes in, where the launcher does not say.
const CONTEXT_WINDOW_TOKENS: u32 = 200_000;
/// Bytes of a tool's answer that the model is told. Protects the context window from one that answers with a book.
const TOOL_ANSWER_BYTES_MAX: usize = 64 * 1024;

/// What is known of one person.
struct Chat {
    model: String,
    window_tokens: u32,
    conversation: Conversation,
    permissions: Permissions,
}

#[agent]
impl Agent for Chat {
    /// The launcher may name the model as `model` and its size in tokens as `context_window`.
    fn start(context: Context) -> Result<Self, SkillError> {
        let window_tokens = window_tokens(&context.metadata)?;
        Ok(Self {
            model: model(&context.metadata)?,
            window_tokens,
            conversation: Conversation::within(window_tokens),
            permissions: Permissions::default(),
        })
    }

    fn prompt(&mut self, text: &str) -> Result<StopReason, SkillError> {
        if text.trim().is_empty() {
            return Err(SkillError::new("the prompt is empty").with_code("invalid_input"));
        }
        self.conversation.ask(text);
        let ended = self.turn();
        // However the turn ended, the next one begins with a conversation that every model takes.
        self.conversation.close();
        // A host call that was cancelled is a turn that was cancelled: the SDK tells the host so.
        ended
    }
}

impl Chat {
    fn turn(&mut self) -> Result<StopReason, SkillError> {
        for _round in 0..ROUNDS_MAX {
            // They may have changed since the last time.
            let tools = tools::available();
            let response = self.answer(&tools)?;
            let (stopped, usage) = (response.stop_reason, response.usage);
            let wanted: Vec<ToolUse> = response.tool_uses().cloned().collect();
            self.conversation.say(response.into_message());
            self.tell_usage(usage)?;
            match stopped {
                llm::StopReason::TokenLimit => return Ok(StopReason::TokenLimit),
                llm::StopReason::Refusal => return Ok(StopReason::Refusal),
                _ if wanted.is_empty() => return Ok(StopReason::EndTurn),
                _ => {}
            }
            for wanted in &wanted {
                let told = self.use_tool(&tools, wanted)?;
                self.conversation.tell(wanted, told);
            }
        }
        let message = format!("the model still asks for tools after {ROUNDS_MAX} rounds");
        Err(SkillError::new(message).with_code("too_many_rounds"))
    }

    /// Lets the model speak. What it said before it broke off was said.
    fn answer(&mut self, tools: &[Tool]) -> Result<Response, HostError> {
        let mut said = String::new();
        let answered = stream(&self.request(tools), &mut said);
        if answered.is_err() {
            self.conversation.say_part(&said);
        }
        answered
    }

    fn tell_usage(&self, usage: Usage) -> Result<(), HostError> {
        let used = usage.input_tokens.saturating_add(usage.output_tokens);
        // A provider that does not count says nothing.
        if used == 0 {
            return Ok(());
        }
        session::context_window(used, self.window_tokens)
    }

    fn request(&self, tools: &[Tool]) -> Request {
        let mut request = Request::new(&self.model);
        let body = run::skill_body();
        if !body.trim().is_empty() {
            request = request.system(body);
        }
        request.messages = self.conversation.messages().to_vec();
        tools.iter().cloned().fold(request, Request::tool)
    }

    /// Calls a tool, if it may be called. What goes wrong is told to the model, which may have another idea.
    fn use_tool(&mut self, tools: &[Tool], wanted: &ToolUse) -> Result<Told, HostError> {
        let name = &wanted.name;
        let Some(tool) = tools.iter().find(|tool| tool.name == *name) else {
            return Ok(Told::error(format!("there is no tool {name}")));
        };
        if let Some(refusal) = self.permissions.refusal(tool, wanted)? {
            session::reasoning(&format!("{name} was not called: {refusal}"))?;
            return Ok(Told::error(format!("not called: {refusal}")));
        }
        match tools::invoke(name, &wanted.arguments) {
            Ok(answer) => Ok(Told {
                is_error: answer.is_error,
                content: content(&answer),
            }),
            Err(HostError::Cancelled) => Err(HostError::Cancelled),
            Err(error) => {
                if let HostError::Denied(_) = error {
                    session::reasoning(&format!("{name} was not called: {error}"))?;
                }
                Ok(Told::error(error.to_string()))
            }
        }
    }
}

/// Hands each piece of text on as it comes, and keeps in `said` what was handed on.
fn stream(request: &Request, said: &mut String) -> Result<Response, HostError> {
    for chunk in llm::start(request)? {
        match chunk? {
            Chunk::Text(text) => {
                session::emit_text(&text)?;
                said.push_str(&text);
            }
            Chunk::ToolUse(_) => {}
            Chunk::Done(response) => return Ok(response),
        }
    }
    Err(HostError::Failed("the answer has no end".to_owned()))
}

/// The text of an answer, and where it has none, its blocks.
fn content(answer: &Answer) -> String {
    let mut text = answer.text();
    if text.is_empty() && !answer.content.is_empty() {
        text = answer
            .content
            .iter()
            .map(|block| block.value().to_string())
            .collect();
    }
    if text.len() > TOOL_ANSWER_BYTES_MAX {
        let bytes = text.len();
        text.truncate(text.floor_char_boundary(TOOL_ANSWER_BYTES_MAX));
        text.push_str(&format!("\n[cut: {bytes} bytes in all]"));
    }
    text
}

fn model(metadata: &Value) -> Result<String, SkillError> {
    match metadata.get("model") {
        None | Some(Value::Null) => Ok("default".to_owned()),
        Some(Value::String(name)) if !name.is_empty() => Ok(name.clone()),
        Some(other) => Err(unfit("model", "the name of a model", other)),
    }
}

fn window_tokens(metadata: &Value) -> Result<u32, SkillError> {
    let given = match metadata.get("context_window") {
        None | Some(Value::Null) => return Ok(CONTEXT_WINDOW_TOKENS),
        Some(given) => given,
    };
    let tokens = given.as_u64().and_then(|tokens| u32::try_from(tokens).ok());
    let tokens = tokens.filter(|tokens| *tokens > 0);
    tokens.ok_or_else(|| unfit("context_window", "a number of tokens above 0", given))
}

fn unfit(key: &str, expected: &str, given: &Value) -> SkillError {
    let message = format!("metadata {key}: expected {expected}, found {given}");
    SkillError::new(message).with_code("invalid_input")
}

#[cfg(test)]
mod tests;
