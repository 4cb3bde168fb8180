//! What the process does with ledgers while it waits to be stopped.

use std::error::Error;
use std::io;
use std::path::Path;

use skillrun::clock::Clock;
use skillrun::config::Durability;
use skillrun::id::RunId;
use skillrun::ledger::{
    Effect, Event, Head, Json, Log, Origin, Recorder, RunCompleted, RunStarted, RunStatus, Store,
    StoreOptions, ToolCall, ToolResult,
};
use skillrun::outcome::OutcomeCode;

use super::check::{Promise, Strength};

/// Kinds of runs, told apart by a number modulo this.
pub(crate) const KINDS: usize = 4;
/// A value that does not fit into a line.
const LARGE_BYTES: usize = 70_000;

type Told = dyn Fn(&Promise) -> io::Result<()> + Send + Sync;

/// Writes runs.
#[derive(Clone)]
pub(crate) struct Worker(pub(crate) Store);

impl Worker {
    pub(crate) fn new(folder: &Path) -> Result<Self, Box<dyn Error>> {
        let options = StoreOptions {
            runs_dir: folder.to_owned(),
            durability: Durability::Sync,
            clock: Clock::system(),
        };
        Ok(Self(Store::open(options)?))
    }

    /// Writes a run; one of four has a blob, and one is left without an end.
    pub(crate) async fn write_run(&self, number: usize, tell: &Told) -> Result<(), Box<dyn Error>> {
        let run_id = RunId::generate();
        let started = RunStarted {
            skill: "faults".to_owned(),
            input: Json::parse(r#"{"why":"to be cut off"}"#)?,
            ..RunStarted::default()
        };
        let (recorder, _) = self.0.create(run_id, started).await?;
        tell(&told(&recorder, Strength::Durable))?;
        for n in 0..3 {
            written(&recorder, &log(&format!("line {n}")), tell)?;
        }
        let kind = number % KINDS;
        if kind == 1 {
            written(&recorder, &log(&"large ".repeat(LARGE_BYTES / 6)), tell)?;
        }
        let call_id = "call_1".to_owned();
        let call = ToolCall {
            call_id: call_id.clone(),
            name: "send".to_owned(),
            effect: Effect::Write,
            ..ToolCall::default()
        };
        durable(&recorder, &call.into(), tell).await?;
        let result = ToolResult {
            call_id,
            output: Some(Json::string("sent")),
            ..ToolResult::default()
        };
        written(&recorder, &result.into(), tell)?;
        if kind == 2 {
            return Ok(());
        }
        let end = RunCompleted::new(RunStatus::Ok, OutcomeCode::Ok);
        durable(&recorder, &end.into(), tell).await
    }
}

fn log(message: &str) -> Event {
    Log {
        message: message.into(),
        ..Log::default()
    }
    .into()
}

fn told(recorder: &Recorder, strength: Strength) -> Promise {
    let head: Head = recorder.head();
    Promise {
        run_id: recorder.run_id().clone(),
        head,
        strength,
    }
}

fn written(recorder: &Recorder, event: &Event, tell: &Told) -> Result<(), Box<dyn Error>> {
    recorder.record(Origin::Host, event)?;
    Ok(tell(&told(recorder, Strength::Written))?)
}

async fn durable(recorder: &Recorder, event: &Event, tell: &Told) -> Result<(), Box<dyn Error>> {
    recorder.record_durable(Origin::Host, event).await?;
    Ok(tell(&told(recorder, Strength::Durable))?)
}
