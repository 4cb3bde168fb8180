//! An executor of the embedder's own: runs are recorded, admitted, cancelled and listed like any others, and
//! what carries them out is a function of this program.
//!
//! `cargo run --example own_executor -- <home folder> <text>`
#![expect(clippy::print_stdout, reason = "the result is what the example is for")]

use std::env;
use std::error::Error;
use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use serde_json::{Value, json};
use skillrun::Skillrun;
use skillrun::config::Config;
use skillrun::ledger::{Delivery, Entry, Json, Log, LogLevel, Origin, RunQuery};
use skillrun::runner::{
    Caller, Executor, ExecutorError, JsonObject, RunContext, StartOptions, ToolCallResult,
};

/// Counts the words of a text.
struct WordCount;

#[async_trait]
impl Executor for WordCount {
    async fn call_tool(
        &self,
        cx: &RunContext,
        name: &str,
        arguments: JsonObject,
    ) -> Result<ToolCallResult, ExecutorError> {
        if name != "word-count" {
            return Err(ExecutorError::NotFound {
                name: name.to_owned(),
                nearest: None,
            });
        }
        let arguments: Value = serde_json::from_str(arguments.as_str()).unwrap_or_default();
        let text = arguments
            .get("text")
            .and_then(Value::as_str)
            .unwrap_or_default();
        let log = Log {
            level: LogLevel::Info,
            message: format!("{} bytes to count", text.len()).into(),
            ..Log::default()
        };
        // What cannot be recorded ends the run, which says so itself.
        let _recorded = cx.recorder().record(Origin::Host, &log.into());
        let counted = json!({ "words": text.split_whitespace().count() });
        let counted = Json::from_serialize(&counted).map_err(|error| ExecutorError::Load {
            name: name.to_owned(),
            reason: error.to_string(),
            hint: None,
        })?;
        Ok(ToolCallResult::json(counted))
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [home, text] = arguments.as_slice() else {
        return Err("expected: <home folder> <text>".into());
    };
    let host = Skillrun::builder(Config::load(Path::new(home))?)
        .executor(Arc::new(WordCount))
        .build()?;
    let input = JsonObject::parse(json!({ "text": text }).to_string())?;
    let options = StartOptions::new("word-count", input);
    let started = host.runner().start(Caller::new(), options).await?;
    // Its id is known, and its first event durable, before it has done anything.
    let mut events = host.store().subscribe(&started.run_id, 1)?;
    while let Some(delivery) = events.next().await? {
        if let Delivery::Entry(Entry::Record(record)) = delivery {
            println!("{} {}", record.seq, record.kind);
        }
    }
    let outcome = started.handle.wait().await?;
    println!("{}", outcome.result.output());
    let runs = host.store().list(&RunQuery::newest(10))?.runs;
    println!("{} on record", runs.len());
    Ok(())
}
