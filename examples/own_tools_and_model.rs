//! Tools and a model in the embedder's own code: the skill `triage` calls them like any others, and each call
//! is on record.
//!
//! `cargo run --example own_tools_and_model -- <home folder with triage in skills/> <ticket text>`
#![expect(clippy::print_stdout, reason = "the result is what the example is for")]

use std::env;
use std::error::Error;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use serde_json::{Value, json};
use skillrun::Skillrun;
use skillrun::call::{
    Effect, ModelChunk, ModelRequest, ModelResponse, Part, StopReason, ToolAnswer, ToolDefinition,
    Usage,
};
use skillrun::config::Config;
use skillrun::models::{ModelError, ModelName, ModelProvider, ModelStream};
use skillrun::runner::{Caller, JsonObject, StartOptions};
use skillrun::tools::{HostTool, ToolError};

/// The tickets of a system that has no server: a list of ids with their priorities.
#[derive(Default)]
struct Desk(Mutex<Vec<(String, String)>>);

/// Finds tickets that are like a text.
struct Search(Arc<Desk>);

#[async_trait]
impl HostTool for Search {
    fn definition(&self) -> ToolDefinition {
        definition("tickets__search", &["query"], Effect::Read)
    }

    async fn call(&self, _arguments: &str) -> Result<ToolAnswer, ToolError> {
        let tickets = self.0.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known: Vec<_> = tickets.iter().map(|(id, _)| id.as_str()).collect();
        Ok(text(&known.join("\n")))
    }
}

/// Sets the priority of a ticket. Doing it twice would be the same, and a run that is taken up again may
/// therefore do it twice.
struct SetPriority(Arc<Desk>);

#[async_trait]
impl HostTool for SetPriority {
    fn definition(&self) -> ToolDefinition {
        definition(
            "tickets__set_priority",
            &["id", "priority"],
            Effect::Idempotent,
        )
    }

    async fn call(&self, arguments: &str) -> Result<ToolAnswer, ToolError> {
        // They fit the schema: that was looked at before.
        let arguments: Value = serde_json::from_str(arguments).unwrap_or_default();
        let field = |name: &str| {
            let value = arguments.get(name).and_then(Value::as_str);
            value.unwrap_or_default().to_owned()
        };
        let mut tickets = self.0.0.lock().unwrap_or_else(PoisonError::into_inner);
        tickets.push((field("id"), field("priority")));
        Ok(text("done"))
    }
}

fn definition(name: &str, arguments: &[&str], effect: Effect) -> ToolDefinition {
    let properties: serde_json::Map<_, _> = arguments
        .iter()
        .map(|name| ((*name).to_owned(), json!({ "type": "string" })))
        .collect();
    let schema = json!({ "type": "object", "properties": properties, "required": arguments });
    ToolDefinition {
        name: name.to_owned(),
        description: String::new(),
        input_schema: schema.to_string(),
        effect,
    }
}

fn text(text: &str) -> ToolAnswer {
    ToolAnswer {
        content: json!([{ "type": "text", "text": text }]).to_string(),
        is_error: false,
    }
}

/// A model that needs no network: whatever is on fire is urgent, and nothing else.
struct Rules;

#[async_trait]
impl ModelProvider for Rules {
    async fn generate(&self, request: &ModelRequest) -> Result<ModelResponse, ModelError> {
        let asked = request.messages.iter().flat_map(|message| &message.content);
        let is_on_fire = |part: &Part| matches!(part, Part::Text(text) if text.contains("fire"));
        let priority = match asked.into_iter().any(is_on_fire) {
            true => "high",
            false => "normal",
        };
        let answer = json!({ "priority": priority, "summary": "judged by rules" });
        Ok(ModelResponse {
            content: vec![Part::Text(answer.to_string())],
            stop_reason: StopReason::EndTurn,
            usage: Usage {
                input_tokens: 10,
                output_tokens: 5,
                ..Usage::default()
            },
            model: request.model.clone(),
        })
    }

    async fn start(&self, request: &ModelRequest) -> Result<Box<dyn ModelStream>, ModelError> {
        let answer = self.generate(request).await?;
        Ok(Box::new(AtOnce(Some(answer))))
    }
}

/// An answer that comes in one piece.
struct AtOnce(Option<ModelResponse>);

#[async_trait]
impl ModelStream for AtOnce {
    async fn next(&mut self) -> Result<ModelChunk, ModelError> {
        let answer = self.0.take();
        let answer = answer.ok_or_else(|| ModelError::Failed("it was read before".to_owned()))?;
        Ok(ModelChunk::Done(Box::new(answer)))
    }

    fn usage(&self) -> Usage {
        Usage::default()
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [home, ticket] = arguments.as_slice() else {
        return Err("expected: <home folder with triage in skills/> <ticket text>".into());
    };
    let mut config = Config::load(Path::new(home))?;
    // Nothing is reached that is not granted, be it the embedder's own.
    for capability in ["tool:tickets__*", "llm:rules/*", "approval"] {
        config.grants.every_skill.push(capability.parse()?);
    }
    let desk = Arc::new(Desk::default());
    let rules = ModelName {
        provider: "rules".to_owned(),
        model: "fire".to_owned(),
    };
    let host = Skillrun::builder(config)
        .host_tool(Arc::new(Search(Arc::clone(&desk))))
        .host_tool(Arc::new(SetPriority(desk)))
        .model_provider("rules", Arc::new(Rules))
        .model_alias("default", rules)
        .build()?;

    let input = JsonObject::parse(json!({ "id": "T-1", "text": ticket }).to_string())?;
    let options = StartOptions::new("triage", input);
    let outcome = host.runner().run(Caller::new(), options).await?;
    println!("{}", outcome.result.output());
    println!("{}", outcome.run_id);
    host.shutdown().await;
    Ok(())
}
