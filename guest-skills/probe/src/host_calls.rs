//! Calls of each host interface, with arguments just good enough to be looked at.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use skillrun_sdk::SkillError;
use skillrun_sdk::bindings::skillrun::skill::{approval, handoff, llm, tools};

/// Clocks, randomness, environment and folders, as far as they are visible.
pub(crate) fn ambient() -> Value {
    let since_epoch = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map(|d| d.as_secs());
    let entries: Vec<String> = std::fs::read_dir("/")
        .map(|entries| {
            entries
                .flatten()
                .map(|e| e.path().display().to_string())
                .collect()
        })
        .unwrap_or_default();
    json!({
        "seconds": since_epoch.unwrap_or(0),
        "random": RandomState::new().build_hasher().finish().to_string(),
        "env": std::env::vars().collect::<Vec<_>>(),
        "args": std::env::args().collect::<Vec<_>>(),
        "cwd": wasip2::cli::environment::initial_cwd(),
        "stdin": std::io::read_to_string(std::io::stdin()).unwrap_or_default(),
        "root": entries,
        "open": std::fs::read_to_string("/etc/passwd").is_ok(),
        "connect": std::net::TcpStream::connect("127.0.0.1:9").map_err(|e| e.kind().to_string()).err(),
    })
}

pub(crate) fn tool(name: &str) -> Result<Value, SkillError> {
    let answer = tools::invoke(name, "{}")?;
    Ok(
        json!({ "content": answer.content, "is_error": answer.is_error, "available": tools::available().len() }),
    )
}

pub(crate) fn tool_flood(calls: u64) -> Value {
    let refused = (0..calls)
        .filter(|_| tools::invoke("probe__flood", "{}").is_err())
        .count();
    json!({ "refused": refused })
}

pub(crate) fn model(name: &str) -> Result<Value, SkillError> {
    let answer = llm::generate(&llm::Request {
        model: name.to_owned(),
        system: None,
        messages: vec![llm::Message {
            role: llm::Role::User,
            content: vec![llm::Part::Text("hello".to_owned())],
        }],
        tools: Vec::new(),
        output_tokens_max: Some(1),
        temperature: None,
        stop: Vec::new(),
        output_schema: None,
    })?;
    Ok(json!({ "model": answer.model }))
}

pub(crate) fn approval() -> Result<Value, SkillError> {
    let decision = approval::request(&approval::Question {
        prompt: "go on?".to_owned(),
        payload: "{}".to_owned(),
        timeout_ms: None,
    })?;
    Ok(json!({ "approved": decision.approved }))
}

pub(crate) fn handoff(skill: &str) -> Result<Value, SkillError> {
    Ok(Value::String(handoff::invoke(skill, "{}")?))
}
