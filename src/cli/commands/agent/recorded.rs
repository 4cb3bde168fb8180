//! Executions as their ledgers have them, whoever carries them out.

use std::sync::Arc;

use async_trait::async_trait;

use crate::cli::assemble;
use crate::clock::Clock;
use crate::config::Config;
use crate::runner::{
    Executor, ExecutorError, GRACE_DEFAULT, JsonObject, RunContext, Runner, RunnerOptions,
    ToolCallResult,
};
use crate::runtime::{NoModeTools, RuntimeOptions, WasmRuntime};

/// Carries nothing out, so that there is no engine to be made.
struct Nothing;

#[async_trait]
impl Executor for Nothing {
    async fn call_tool(
        &self,
        _cx: &RunContext,
        name: &str,
        _arguments: JsonObject,
    ) -> Result<ToolCallResult, ExecutorError> {
        let (name, nearest) = (name.to_owned(), None);
        Err(ExecutorError::NotFound { name, nearest })
    }
}

/// A runtime that shows executions and launches none.
///
/// # Errors
/// The folder of ledgers cannot be used.
pub(super) fn runtime(config: &Config) -> anyhow::Result<WasmRuntime> {
    let clock = Clock::system();
    let runner = Runner::new(RunnerOptions {
        store: assemble::store(config, &clock)?,
        executor: Arc::new(Nothing),
        admission: assemble::admission(config),
        clock,
    });
    Ok(WasmRuntime::new(RuntimeOptions {
        runner,
        backends: Vec::new(),
        default_backend: String::new(),
        mode_tools: Arc::new(NoModeTools),
        workspaces_dir: config.home.join("workspaces"),
        workspaces: Vec::new(),
        executions_max: 0,
        grace: GRACE_DEFAULT,
        retention: std::time::Duration::ZERO,
    }))
}
