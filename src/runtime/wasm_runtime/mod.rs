//! The runtime that there is: executions of WebAssembly components, carried out by backends.

mod launch;
mod stop;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use async_trait::async_trait;
use tokio_util::task::TaskTracker;

use super::backend::{Backend, BackendError, Instance};
use super::error::{RuntimeError, shown};
use super::mode::{Mode, ModeTools};
use super::record::{self, Read};
use super::statistics::{Counters, RuntimeStatistics};
use super::subscription::EventSubscription;
use super::table::{Seen, Table};
use super::types::{
    Execution, ExecutionFilter, ExecutionRef, Executions, LIST_EXECUTIONS_MAX, LaunchSpec,
    PROMPT_BYTES_MAX, Stopped,
};
use super::{Runtime, TurnEnd, workspace};
use crate::id::{ExecutionId, RunId};
use crate::ledger::{OfSession, RunQuery, RunState, Store, StoreError};
use crate::runner::Runner;

/// How long a backend has to end a turn when the grace is over. Protects whoever cancels a turn from a backend that
/// does not answer.
const TURN_END_MAX: Duration = Duration::from_secs(30);
/// How long a shutdown waits for executions. Protects it from a backend that does not answer.
const SHUTDOWN_MAX: Duration = Duration::from_secs(30);

/// What a [`WasmRuntime`] is made of.
pub struct RuntimeOptions {
    /// Whose store, executor and clock it uses.
    pub runner: Runner,
    /// Who carries executions out.
    pub backends: Vec<Arc<dyn Backend>>,
    /// The backend of launches that name none.
    pub default_backend: String,
    /// Where the tools of modes come from.
    pub mode_tools: Arc<dyn ModeTools>,
    /// Where folders are made that go with their executions.
    pub workspaces_dir: PathBuf,
    /// The folders below which a client of a surface may name one for an agent to work in.
    pub workspaces: Vec<PathBuf>,
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
pub struct WasmRuntime(Arc<Inner>);

struct Inner {
    options: RuntimeOptions,
    table: Arc<Table>,
    /// Launches so far; each has its own number.
    launches: AtomicU64,
    /// Executions that are looked after, until nothing of them is left.
    work: TaskTracker,
    base_url: RwLock<String>,
    counters: Arc<Counters>,
}

impl WasmRuntime {
    /// A runtime that launches at once.
    pub fn new(options: RuntimeOptions) -> Self {
        let table = Table::new(options.executions_max, options.retention);
        Self(Arc::new(Inner {
            options,
            table: Arc::new(table),
            launches: AtomicU64::new(0),
            work: TaskTracker::new(),
            base_url: RwLock::default(),
            counters: Arc::default(),
        }))
    }

    /// Lets all backends look after executions of an earlier process, and removes folders that those left. One
    /// that fails hides no other. To be called on start, by the one process that has the home folder.
    pub async fn recover(&self) -> Vec<BackendRecovery> {
        let mut recovered = Vec::new();
        for backend in &self.0.options.backends {
            recovered.push(BackendRecovery {
                name: backend.name().to_owned(),
                outcome: backend.recover().await,
            });
        }
        let (table, dir) = (
            Arc::clone(&self.0.table),
            self.0.options.workspaces_dir.clone(),
        );
        let removed = self.reading(move |store| {
            let is_over = |id: &ExecutionId| {
                let is_gone = match store.summary(id.run_id()) {
                    Ok(run) => run.state != RunState::Running || run.writer_pid.is_none(),
                    Err(error) => matches!(error, StoreError::NotFound { .. }),
                };
                is_gone && !table.has_ledger(id.run_id())
            };
            let removed = workspace::remove_left(&dir, is_over);
            if let Err(error) = removed {
                tracing::warn!(%error, "cannot look for workspaces that were left");
            }
            Ok(())
        });
        if let Err(error) = removed.await {
            tracing::warn!(%error, "cannot look for workspaces that were left");
        }
        recovered
    }

    /// What it has done since it was made, and has now.
    pub fn statistics(&self) -> RuntimeStatistics {
        self.0.counters.counted(self.table().live_executions())
    }

    /// Where executions are found on the daemon's HTTP interface from now on: what stands before `/` and the id
    /// of one.
    pub fn set_base_url(&self, url: &str) {
        let mut base_url = self
            .0
            .base_url
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        *base_url = url.trim_end_matches('/').to_owned();
    }

    fn url_of(&self, id: &ExecutionId) -> String {
        let base_url = self
            .0
            .base_url
            .read()
            .unwrap_or_else(PoisonError::into_inner);
        match base_url.is_empty() {
            true => String::new(),
            false => format!("{base_url}/{id}"),
        }
    }

    /// Launches nothing any more, interrupts what goes on, and waits for its end. Everything can be taken up by
    /// another process.
    pub async fn shutdown(&self) {
        self.0.table.close();
        for backend in &self.0.options.backends {
            backend.interrupt();
        }
        self.0.work.close();
        let mut live = self.0.table.live_count();
        let all_over = async {
            // The sender is in the table.
            let _none_live = live.wait_for(|live| *live == 0).await;
            self.0.work.wait().await;
        };
        if tokio::time::timeout(SHUTDOWN_MAX, all_over).await.is_err() {
            tracing::error!("executions did not end, and are left to their backends");
        }
    }

    fn table(&self) -> &Table {
        &self.0.table
    }

    fn store(&self) -> &Store {
        self.0.options.runner.store()
    }

    /// Reads ledgers, which may be long, on a thread where nobody waits for others.
    async fn reading<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Store) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, RuntimeError> {
        let store = self.store().clone();
        let read = tokio::task::spawn_blocking(move || read(&store)).await;
        Ok(read.unwrap_or(Err(StoreError::ShutDown))?)
    }

    /// An execution, from the table or from its ledger.
    async fn find(&self, id: &ExecutionId) -> Result<Execution, RuntimeError> {
        let now = self.0.options.runner.clock().now();
        let found = match self.table().look(id, now) {
            Seen::Known(execution) => Some(*execution),
            Seen::Hidden => None,
            Seen::Unknown => {
                let wanted = id.clone();
                self.reading(move |store| record::execution(store, &wanted))
                    .await?
            }
        };
        let mut found = found.ok_or_else(|| RuntimeError::not_found(&id.to_string()))?;
        found.agentctl_url = self.url_of(id);
        Ok(found)
    }

    async fn change_mode(&self, id: ExecutionId, mode: Mode) -> Result<bool, RuntimeError> {
        // Those of one execution one after the other, so that what is told of it is what it has.
        let changes = self.table().mode_changes(&id)?;
        let _one_at_a_time = changes.lock().await;
        let (instance, before) = self.table().begin_mode_change(&id)?;
        let is_other = before != mode.as_str();
        let changed = match is_other {
            true => self.set_surface(&id, &*instance, mode).await,
            false => Ok(()),
        };
        let now = (is_other && changed.is_ok()).then(|| mode.as_str().to_owned());
        self.table().end_mode_change(&id, now);
        changed.map(|()| is_other)
    }

    async fn set_surface(
        &self,
        id: &ExecutionId,
        instance: &dyn Instance,
        mode: Mode,
    ) -> Result<(), RuntimeError> {
        let surface = self.0.options.mode_tools.surface(mode, id);
        let changed = instance.set_surface(surface).await;
        changed.map_err(|error| match error {
            BackendError::Over => RuntimeError::not_found(&id.to_string()),
            error => RuntimeError::Mode {
                id: id.clone(),
                source: Arc::new(error),
            },
        })
    }
}

/// The execution of that id.
///
/// # Errors
/// It is empty, or no id at all.
fn parsed(id: &str) -> Result<ExecutionId, RuntimeError> {
    if id.is_empty() {
        let problem = "expected the id of an execution, found nothing";
        return Err(RuntimeError::invalid("id", problem));
    }
    let parsed = id.parse::<ExecutionId>();
    parsed.map_err(|error| RuntimeError::invalid("id", error.to_string()))
}

/// A prompt that somebody waits for. Dropped, it is taken back.
struct Waiting<'a> {
    table: &'a Table,
    id: &'a ExecutionId,
    ticket: u64,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        // When its turn is over there is nothing to be found.
        if let Some((instance, generation)) = self.table.withdraw(self.id, self.ticket) {
            instance.cancel_turn(generation);
        }
    }
}

#[async_trait]
impl Runtime for WasmRuntime {
    async fn launch(&self, spec: LaunchSpec) -> Result<ExecutionRef, RuntimeError> {
        self.launch_spec(spec).await
    }

    async fn resume(&self, id: &str, prompt: &str) -> Result<TurnEnd, RuntimeError> {
        let id = parsed(id)?;
        if prompt.is_empty() || prompt.len() > PROMPT_BYTES_MAX {
            let bytes = prompt.len();
            let problem = format!("expected 1 to {PROMPT_BYTES_MAX} bytes, found {bytes}");
            return Err(RuntimeError::invalid("prompt", problem));
        }
        let (ticket, answer) = self.table().enqueue(&id, prompt.to_owned())?;
        let _waiting = Waiting {
            table: self.table(),
            id: &id,
            ticket,
        };
        let answer = answer.await;
        answer.unwrap_or_else(|_forgotten| Err(RuntimeError::not_found(&id.to_string())))
    }

    async fn cancel_turn(&self, id: &str) -> Result<Option<TurnEnd>, RuntimeError> {
        let id = parsed(id)?;
        let Some(turn) = self.table().turn(&id)? else {
            return Ok(None);
        };
        turn.instance.cancel_turn(turn.generation);
        let bound = self.0.options.grace.saturating_add(TURN_END_MAX);
        // In a task of its own: whoever does not wait for so long leaves no execution behind that does not answer.
        let ended = self.0.work.spawn(async move {
            match tokio::time::timeout(bound, turn.answer).await {
                Ok(Ok(answer)) => answer.map(Some),
                Ok(Err(_forgotten)) => Err(RuntimeError::not_found(&id.to_string())),
                Err(_elapsed) => {
                    turn.instance.stop();
                    Err(RuntimeError::unresponsive(id, "a turn", bound))
                }
            }
        });
        ended.await.unwrap_or(Err(RuntimeError::ShuttingDown))
    }

    async fn stop(&self, id: &str, reason: &str) -> Result<Stopped, RuntimeError> {
        self.stop_one(&parsed(id)?, None, reason).await
    }

    async fn stop_children(
        &self,
        parent: &str,
        reason: &str,
    ) -> Result<Vec<Stopped>, RuntimeError> {
        let parent = parsed(parent)?;
        self.find(&parent).await?;
        self.stop_below(&parent, reason).await
    }

    async fn stop_child(
        &self,
        parent: &str,
        id: &str,
        reason: &str,
    ) -> Result<Stopped, RuntimeError> {
        let (parent, id) = (parsed(parent)?, parsed(id)?);
        self.stop_one(&id, Some(&parent), reason).await
    }

    async fn get_execution(&self, id: &str) -> Result<Execution, RuntimeError> {
        self.find(&parsed(id)?).await
    }

    async fn list_executions(&self, filter: ExecutionFilter) -> Result<Executions, RuntimeError> {
        let query = RunQuery {
            session: Some(match &filter.session_id {
                Some(session) => OfSession::One(session.clone()),
                None => OfSession::Any,
            }),
            after: filter.after.clone(),
            limit: match filter.limit {
                0 => LIST_EXECUTIONS_MAX,
                limit => limit.min(LIST_EXECUTIONS_MAX),
            },
            ..RunQuery::default()
        };
        let table = Arc::clone(&self.0.table);
        let listed = self.reading(move |store| {
            let listing = store.list(&query)?;
            let runs: Vec<RunId> = listing.runs.into_iter().map(|run| run.run_id).collect();
            let mut known: HashMap<RunId, Option<Execution>> = table.newest_of(&runs);
            let mut executions = Vec::new();
            for run_id in runs {
                let execution = match known.remove(&run_id) {
                    Some(known) => known,
                    // One that was removed meanwhile, or cannot be read, is not shown.
                    None => Read::ledger(store, &run_id, None)
                        .ok()
                        .and_then(Read::execution),
                };
                executions.extend(execution);
            }
            Ok((executions, listing.next))
        });
        let (mut executions, next) = listed.await?;
        executions.retain(|execution| {
            filter
                .status
                .is_none_or(|status| execution.status == status)
                && (filter.parent.is_none() || execution.parent == filter.parent)
        });
        for execution in &mut executions {
            execution.agentctl_url = self.url_of(&execution.id);
        }
        Ok(Executions { executions, next })
    }

    async fn list_children(&self, parent: &str) -> Result<Vec<Execution>, RuntimeError> {
        let parent = parsed(parent)?;
        self.find(&parent).await?;
        let now = self.0.options.runner.clock().now();
        let mut children = self.table().children(&parent, now, LIST_EXECUTIONS_MAX);
        for child in &mut children {
            child.agentctl_url = self.url_of(&child.id);
        }
        Ok(children)
    }

    async fn subscribe_events(
        &self,
        id: &str,
        from: Option<u64>,
    ) -> Result<EventSubscription, RuntimeError> {
        let id = parsed(id)?;
        let execution = self.find(&id).await?;
        let progress = self.table().progress(&id);
        let (session_id, started_at) = (execution.session_id, execution.started_at);
        EventSubscription::new(self.store(), id, session_id, started_at, from, progress)
    }

    async fn set_mcp_mode(&self, id: &str, mode: &str) -> Result<bool, RuntimeError> {
        let id = parsed(id)?;
        let mode: Mode = mode.parse().map_err(|error| match error {
            RuntimeError::UnknownMode { mode } => RuntimeError::UnknownMode { mode: shown(&mode) },
            error => error,
        })?;
        // In a task of its own: a change that was begun is not left half made.
        let runtime = self.clone();
        let changed = self
            .0
            .work
            .spawn(async move { runtime.change_mode(id, mode).await });
        changed.await.unwrap_or(Err(RuntimeError::ShuttingDown))
    }
}
