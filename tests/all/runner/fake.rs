//! An executor that does what a test says, and a runner over it.

use std::sync::Arc;

use async_trait::async_trait;
use futures_util::future::BoxFuture;
use serde_json::Value;
use skillrun::clock::Clock;
use skillrun::config::{Admission, Durability};
use skillrun::id::RunId;
use skillrun::ledger::{Store, StoreError, StoreOptions};
use skillrun::runner::{
    Executor, ExecutorError, JsonObject, RunContext, Runner, RunnerOptions, StartOptions,
    ToolCallResult,
};
use tempfile::TempDir;

use crate::harness::events_in;

pub(super) type Answer = Result<ToolCallResult, ExecutorError>;

/// What the executor does when it is called.
pub(super) type Script =
    Arc<dyn Fn(RunContext, JsonObject) -> BoxFuture<'static, Answer> + Send + Sync>;

struct Fake(Script);

#[async_trait]
impl Executor for Fake {
    async fn call_tool(&self, cx: &RunContext, _name: &str, arguments: JsonObject) -> Answer {
        (self.0)(cx.clone(), arguments).await
    }
}

pub(super) struct Bench {
    pub(super) runner: Runner,
    folder: TempDir,
}

/// A runner whose executor does as `script` says.
pub(super) fn runner<F>(
    script: impl Fn(RunContext, JsonObject) -> F + Send + Sync + 'static,
) -> Bench
where
    F: Future<Output = Answer> + Send + 'static,
{
    runner_with(Admission::default(), script)
}

pub(super) fn runner_with<F>(
    admission: Admission,
    script: impl Fn(RunContext, JsonObject) -> F + Send + Sync + 'static,
) -> Bench
where
    F: Future<Output = Answer> + Send + 'static,
{
    runner_on(admission, Clock::system(), script)
}

pub(super) fn runner_on<F>(
    admission: Admission,
    clock: Clock,
    script: impl Fn(RunContext, JsonObject) -> F + Send + Sync + 'static,
) -> Bench
where
    F: Future<Output = Answer> + Send + 'static,
{
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(StoreOptions {
        runs_dir: folder.path().to_owned(),
        durability: Durability::Sync,
        clock: clock.clone(),
    })
    .unwrap();
    let script: Script = Arc::new(move |cx, input| Box::pin(script(cx, input)));
    let runner = Runner::new(RunnerOptions {
        store,
        executor: Arc::new(Fake(script)),
        admission,
        clock,
    });
    Bench { runner, folder }
}

impl Bench {
    /// The events on disk.
    pub(super) fn events(&self, run_id: &RunId) -> Vec<Value> {
        events_in(&self.runner.store().path_of(run_id))
    }

    /// The types of the events on disk.
    pub(super) fn kinds(&self, run_id: &RunId) -> Vec<String> {
        let kind = |event: &Value| event["type"].as_str().unwrap().to_owned();
        self.events(run_id).iter().map(kind).collect()
    }

    /// The payload of the last event, which must be the terminal one, in a ledger that is closed.
    pub(super) async fn terminal(&self, run_id: &RunId) -> Value {
        let closed = self.runner.store().recover(run_id).await;
        assert!(
            !matches!(closed, Err(StoreError::Locked { .. })),
            "the ledger is still open"
        );
        let last = self.events(run_id).pop().unwrap();
        assert_eq!(last["type"], "run_completed");
        last["payload"].clone()
    }

    /// How many ledgers there are.
    pub(super) fn ledgers(&self) -> usize {
        let names = std::fs::read_dir(self.folder.path()).unwrap();
        let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.filter(|name| name.ends_with(".jsonl")).count()
    }
}

pub(super) fn skill() -> StartOptions {
    StartOptions::new("fake", JsonObject::parse(r#"{ "n": 0.10 }"#).unwrap())
}

pub(super) fn ok(text: &str) -> Answer {
    Ok(ToolCallResult::text(text))
}
