//! Language models, against servers that answer in the shapes of real ones, or wrongly.

mod anthropic;
mod configured;
mod faults;
mod openai;
mod streams;

use std::sync::Arc;

use serde_json::Value;
use skillrun::call::{
    Message, ModelChunk, ModelRequest, ModelResponse, Part, Role, ToolUse, ToolUseAnswer,
};
use skillrun::clock::{Clock, Timestamp};
use skillrun::config::Config;
use skillrun::models::{ModelError, ModelName, ModelStream, Models};
use tempfile::TempDir;

use crate::http::server::{Seen, Server};

/// The key of the provider `acme`, which nobody but the server may see.
const KEY: &str = "sk-\"not\\to-be-seen";

/// The provider `acme` at that address, with more lines of its section.
fn configured(api: &str, url: &str, lines: &str) -> Models {
    let home = TempDir::new().unwrap();
    std::fs::write(home.path().join("acme.key"), KEY).unwrap();
    let toml = format!(
        "[model_aliases]\ndefault = \"acme/large\"\n[model_providers.acme]\napi = \"{api}\"\n\
         url = \"{url}\"\nkey_file = \"acme.key\"\n{lines}"
    );
    std::fs::write(home.path().join("config.toml"), toml).unwrap();
    let config = Config::load(home.path()).unwrap();
    let keys = config.read_model_keys().unwrap();
    // The Sunday of RFC 9110, at which some answers ask to wait until then.
    let clock = Clock::manual(Timestamp::from_unix_micros(784_111_777_000_000));
    Models::from_config(&config, &keys, config.read_ca_file().unwrap(), &clock)
}

/// The same at a server.
fn at(api: &str, server: &Server, lines: &str) -> Models {
    configured(api, &server.url("/v1"), lines)
}

fn model() -> ModelName {
    ModelName {
        provider: "acme".to_owned(),
        model: "large".to_owned(),
    }
}

/// A question with one message.
fn question() -> ModelRequest {
    ModelRequest {
        model: "default".to_owned(),
        system: None,
        messages: vec![user("hi")],
        tools: Vec::new(),
        output_tokens_max: None,
        tokens_left: 1_000_000,
        temperature: None,
        stop: Vec::new(),
        output_schema: None,
    }
}

fn user(text: &str) -> Message {
    Message {
        role: Role::User,
        content: vec![Part::Text(text.to_owned())],
    }
}

fn tool_use(id: &str, arguments: &str) -> ToolUse {
    ToolUse {
        id: id.to_owned(),
        name: "search".to_owned(),
        arguments: arguments.to_owned(),
    }
}

fn answer_of(id: &str, content: &str, is_error: bool) -> Part {
    Part::ToolAnswer(ToolUseAnswer {
        id: id.to_owned(),
        content: content.to_owned(),
        is_error,
    })
}

/// A conversation in which the model asked for two tools at once, and both answered.
fn conversation() -> Vec<Message> {
    vec![
        user("hi"),
        Message {
            role: Role::Assistant,
            content: vec![
                Part::Text("let me see".to_owned()),
                Part::ToolUse(tool_use("1", r#"{"q":"a"}"#)),
                Part::ToolUse(tool_use("2", r#"{"q":"b"}"#)),
            ],
        },
        Message {
            role: Role::Tool,
            content: vec![answer_of("1", "found", false)],
        },
        Message {
            role: Role::Tool,
            content: vec![answer_of("2", "broken", true)],
        },
    ]
}

async fn ask(models: &Models) -> Result<ModelResponse, ModelError> {
    models.generate(&model(), question()).await
}

async fn start(models: &Models) -> Result<Box<dyn ModelStream>, ModelError> {
    models.start(&model(), question()).await
}

/// All chunks of an answer, and the error that it may end with.
async fn chunks(mut stream: Box<dyn ModelStream>) -> (Vec<ModelChunk>, Option<ModelError>) {
    let mut chunks = Vec::new();
    loop {
        match stream.next().await {
            Ok(chunk) => chunks.push(chunk),
            Err(error) => return (chunks, Some(error)),
        }
        if let Some(ModelChunk::Done(_)) = chunks.last() {
            return (chunks, None);
        }
    }
}

/// A response with that status line, these fields and this body.
fn response(status: &str, fields: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!(
        "HTTP/1.1 {status}\r\nConnection: close\r\n{fields}Content-Length: {length}\r\n\r\n{body}"
    )
    .into_bytes()
}

fn json_response(body: &str) -> Vec<u8> {
    response("200 OK", "Content-Type: application/json\r\n", body)
}

/// What a stream begins with; it ends with the connection.
const STREAM_HEAD: &str = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Type: text/event-stream; charset=utf-8\r\n\r\n";

fn stream_response(body: &str) -> Vec<u8> {
    format!("{STREAM_HEAD}{body}").into_bytes()
}

/// A server that gives one response after the other, the last for ever.
fn answering_each(responses: Vec<Vec<u8>>) -> Server {
    let left = Arc::new(std::sync::Mutex::new(responses));
    Server::start(move |_, wire| {
        let response = {
            let mut left = left.lock().unwrap();
            match left.len() {
                1 => left[0].clone(),
                _ => left.remove(0),
            }
        };
        wire.write_all(&response)
    })
}

#[track_caller]
fn body(seen: &Seen) -> Value {
    serde_json::from_slice(&seen.body).unwrap()
}

/// The one request that a server saw.
#[track_caller]
fn only(server: &Server) -> Seen {
    let seen = server.seen();
    assert_eq!(seen.len(), 1, "{seen:?}");
    seen[0].clone()
}
