//! What is measured: the executor and the runner of this crate.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use anyhow::{Context, Result};
use async_trait::async_trait;
use skillrun::clock::Clock;
use skillrun::config::{Admission, Durability};
use skillrun::ledger::{Store, StoreOptions};
use skillrun::registry::{Registry, Skill};
use skillrun::runner::{
    Caller, Executor, ExecutorError, JsonObject, RunContext, RunOutcome, Runner, RunnerOptions,
    SkillExecutor, SkillExecutorOptions, StartOptions, ToolCallResult,
};

pub(crate) struct Ours {
    executor: SkillExecutor,
    folder: PathBuf,
    folders: AtomicU32,
}

impl Ours {
    pub(crate) fn new(wasm: &Path, folder: &Path) -> Result<Self> {
        let registry = Registry::of([Skill::from_wasm(wasm)?]);
        Ok(Self {
            executor: SkillExecutor::new(SkillExecutorOptions::new(registry, Clock::system()))?,
            folder: folder.to_owned(),
            folders: AtomicU32::new(0),
        })
    }

    /// A runner whose ledgers go into a folder of their own, so that no round meets a larger folder
    /// than another.
    pub(crate) fn runner(&self, executor: Arc<dyn Executor>) -> Result<Runner> {
        let n = self.folders.fetch_add(1, Ordering::Relaxed);
        Ok(Runner::new(RunnerOptions {
            store: Store::open(StoreOptions {
                runs_dir: self.folder.join(n.to_string()),
                durability: Durability::Relaxed,
                clock: Clock::system(),
            })?,
            executor,
            admission: Admission::default(),
            clock: Clock::system(),
        }))
    }

    pub(crate) fn executor(&self) -> Arc<dyn Executor> {
        Arc::new(self.executor.clone())
    }

    /// Calls of the executor inside one run, so that no ledger but that run's is written.
    pub(crate) fn call_tool_micros(&self, calls: u32) -> Result<f64> {
        let inside = Arc::new(Inside {
            executor: self.executor.clone(),
            calls,
            micros: Mutex::new(None),
        });
        run_once(&self.runner(inside.clone())?, noop()?)?;
        let micros = *inside.micros.lock().unwrap_or_else(PoisonError::into_inner);
        micros.context("not measured")
    }

    pub(crate) fn runs(&self, calls: u32) -> Result<()> {
        runs(&self.runner(self.executor())?, calls)
    }

    pub(crate) fn on_threads(&self, threads: u32, calls: u32) -> Result<()> {
        let runner = self.runner(self.executor())?;
        thread::scope(|scope| {
            let work: Vec<_> = (0..threads)
                .map(|_| scope.spawn(|| runs(&runner, calls)))
                .collect();
            for thread in work {
                thread
                    .join()
                    .map_err(|_| anyhow::anyhow!("a thread panicked"))??;
            }
            Ok(())
        })
    }
}

fn runs(runner: &Runner, calls: u32) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()?;
    let input = noop()?;
    runtime.block_on(async {
        for _ in 0..calls {
            runner
                .run(Caller::new(), StartOptions::new("probe", input.clone()))
                .await?;
        }
        Ok(())
    })
}

pub(crate) fn run_once(runner: &Runner, input: JsonObject) -> Result<RunOutcome> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()?;
    Ok(runtime.block_on(runner.run(Caller::new(), StartOptions::new("probe", input)))?)
}

fn noop() -> Result<JsonObject> {
    Ok(JsonObject::parse(r#"{"verb":"noop"}"#)?)
}

/// An executor that measures another from inside a run.
struct Inside {
    executor: SkillExecutor,
    calls: u32,
    micros: Mutex<Option<f64>>,
}

#[async_trait]
impl Executor for Inside {
    async fn call_tool(
        &self,
        cx: &RunContext,
        name: &str,
        arguments: JsonObject,
    ) -> Result<ToolCallResult, ExecutorError> {
        // The first call compiles.
        let answer = self.executor.call_tool(cx, name, arguments.clone()).await?;
        let measured = measure(self.calls, || {
            self.executor.call_tool(cx, name, arguments.clone())
        })
        .await?;
        *self.micros.lock().unwrap_or_else(PoisonError::into_inner) = Some(measured);
        Ok(answer)
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "a benchmark reads the machine's own clock"
)]
async fn measure<T, F: Future<Output = Result<T, ExecutorError>>>(
    calls: u32,
    call: impl Fn() -> F,
) -> Result<f64, ExecutorError> {
    let start = std::time::Instant::now();
    for _ in 0..calls {
        call().await?;
    }
    Ok(start.elapsed().as_secs_f64() * 1e6 / f64::from(calls))
}
