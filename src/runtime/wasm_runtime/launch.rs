//! Launches: everything up to an execution that is registered, or to nothing.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::FutureExt as _;

use super::WasmRuntime;
use crate::capability::{Capability, FsAccess};
use crate::clock::{Clock, Stopwatch};
use crate::id::{ExecutionId, RunId};
use crate::ledger::{Json, SessionFacts, StoreError};
use crate::runner::{SessionObserver, SessionSignal, Terms, WORKSPACE_GUEST_PATH};
use crate::runtime::backend::{Backend, BackendError, CreateRequest, Created, LedgerPart};
use crate::runtime::error::{RuntimeError, shown};
use crate::runtime::launch_request::Launch;
use crate::runtime::mode::Mode;
use crate::runtime::record::{self, Read};
use crate::runtime::statistics::Counters;
use crate::runtime::table::{Plan, Slot, Table};
use crate::runtime::types::{ExecutionRef, LaunchSpec};
use crate::runtime::workspace::{self, MadeFolder, WorkspaceError};

/// The ledger that a launch takes up.
struct Prior {
    first: SessionFacts,
    parts: u32,
}

/// A launch that can be begun.
struct Prepared {
    backend: Arc<dyn Backend>,
    facts: Arc<SessionFacts>,
    launch: Launch,
    part: LedgerPart,
    /// The name of the folder that is to be made for it.
    folder: Option<String>,
    mode: Mode,
}

/// Tells the table what becomes of an execution.
struct Observer {
    table: Arc<Table>,
    slot: Slot,
    counters: Arc<Counters>,
    clock: Clock,
    /// Since the turn began that goes on.
    turn: Mutex<Option<Stopwatch>>,
}

impl SessionObserver for Observer {
    fn signal(&self, signal: SessionSignal) {
        self.count(&signal);
        self.table.apply(&self.slot, signal);
    }
}

impl Observer {
    fn count(&self, signal: &SessionSignal) {
        let mut turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        match signal {
            SessionSignal::TurnBegun { .. } => *turn = Some(self.clock.stopwatch()),
            SessionSignal::TurnEnded { .. } => {
                if let Some(begun) = turn.take() {
                    self.counters.turn_ended(begun.elapsed_micros());
                }
            }
            SessionSignal::Booted { .. } | SessionSignal::Ready { .. } => {}
        }
    }
}

/// A launch that is not registered yet. Dropped, it is forgotten.
struct Unregistered {
    table: Arc<Table>,
    slot: Slot,
}

impl Drop for Unregistered {
    fn drop(&mut self) {
        // One that was registered stays.
        self.table.abandon(&self.slot);
    }
}

fn ephemeral_folder(run_id: &RunId) -> Option<String> {
    // The same for each part of a ledger, since the agent is granted again what it was granted first.
    Some(ExecutionId::new(run_id, 1)?.to_string())
}

impl WasmRuntime {
    pub(super) async fn launch_spec(&self, spec: LaunchSpec) -> Result<ExecutionRef, RuntimeError> {
        let launch = Launch::of(spec)?;
        let prior = match &launch.prior_session {
            Some(run_id) => Some(self.prior(run_id.clone()).await?),
            None => None,
        };
        let prepared = self.prepare(launch, prior).await?;
        let slot = Slot {
            id: prepared.facts.execution_id.clone(),
            number: self.0.launches.fetch_add(1, Ordering::Relaxed),
        };
        let plan = Plan {
            number: slot.number,
            facts: Arc::clone(&prepared.facts),
            metadata: prepared.launch.metadata.clone(),
            prompt: prepared.launch.prompt.clone(),
        };
        let now = self.0.options.runner.clock().now();
        let runtime = self.clone();
        let launched = self.table().join(plan, now, move || {
            let unregistered = Unregistered {
                table: Arc::clone(&runtime.0.table),
                slot,
            };
            runtime.begin(prepared, unregistered).boxed().shared()
        })?;
        launched.await
    }

    /// What the ledger says that is to be taken up.
    async fn prior(&self, run_id: RunId) -> Result<Prior, RuntimeError> {
        let id = run_id.clone();
        let read = self.reading(move |store| match Read::ledger(store, &id, None) {
            Err(StoreError::NotFound { .. }) => Ok(None),
            read => read.map(Some),
        });
        let invalid = |problem| RuntimeError::invalid("prior_session", problem);
        let read = read.await?;
        let read = read.ok_or_else(|| invalid(format!("there is no ledger of run {run_id}")))?;
        let parts = read.parts;
        let no_agent = || invalid(format!("run {run_id} is no execution of an agent"));
        let first = read.first.ok_or_else(no_agent)?;
        // No backend is asked for what none can do.
        match read.is_closed {
            true => Err(refused(&first, StoreError::Ended { run_id }.into())),
            false => Ok(Prior { first, parts }),
        }
    }

    fn backend(&self, name: &str) -> Result<Arc<dyn Backend>, RuntimeError> {
        let options = &self.0.options;
        let name = match name {
            "" => options.default_backend.as_str(),
            name => name,
        };
        let named = options
            .backends
            .iter()
            .find(|backend| backend.name() == name);
        named.cloned().ok_or_else(|| RuntimeError::UnknownExecutor {
            name: shown(name),
            known: options
                .backends
                .iter()
                .map(|backend| backend.name().to_owned())
                .collect(),
        })
    }

    /// The backend of a launch.
    ///
    /// # Errors
    /// There is none of that name; or a client of a surface may not name it, since the operator chose one that
    /// isolates more.
    fn backend_of(&self, launch: &Launch) -> Result<Arc<dyn Backend>, RuntimeError> {
        let backend = self.backend(&launch.executor_id)?;
        if !launch.is_foreign {
            return Ok(backend);
        }
        let default = self.backend("")?;
        if backend.name() == default.name() || backend.isolation() >= default.isolation() {
            return Ok(backend);
        }
        Err(RuntimeError::LessIsolated {
            name: backend.name().to_owned(),
            default_backend: default.name().to_owned(),
        })
    }

    /// Everything that can be known before anything is begun.
    async fn prepare(
        &self,
        mut launch: Launch,
        prior: Option<Prior>,
    ) -> Result<Prepared, RuntimeError> {
        let backend = self.backend_of(&launch)?;
        if let Some(prior) = &prior {
            inherit(&mut launch, &prior.first)?;
        }
        let agent = launch.agent_profile_id.clone();
        let check = self.0.options.runner.executor().check(&agent);
        check.map_err(|error| RuntimeError::Launch {
            agent,
            source: Arc::new(error.into()),
        })?;
        let run_id = launch.prior_session.clone().unwrap_or_else(RunId::generate);
        let workspace_path = match launch.workspace_path.take() {
            Some(path) => {
                let below = launch.is_foreign.then(|| self.0.options.workspaces.clone());
                let checked = blocking(move || workspace::check(&path, below.as_deref())).await?;
                Some(checked.map_err(|error| shown_to(launch.is_foreign, error))?)
            }
            None => None,
        };
        let is_made = launch.is_ephemeral && workspace_path.is_none();
        let folder = is_made.then(|| ephemeral_folder(&run_id)).flatten();
        let made_path = match &folder {
            Some(name) => {
                let workspaces = self.0.options.workspaces_dir.clone();
                let made_in = blocking(move || workspace::made_in(&workspaces)).await??;
                made_in.join(name).to_str().map(str::to_owned)
            }
            None => None,
        };
        let part = prior
            .as_ref()
            .map_or(1, |prior| prior.parts.saturating_add(1));
        let malformed = || RuntimeError::invalid("prior_session", "it is of the original system");
        let facts = SessionFacts {
            execution_id: ExecutionId::new(&run_id, part).ok_or_else(malformed)?,
            session_id: launch
                .session_id
                .clone()
                .unwrap_or_else(|| run_id.to_string()),
            task_id: launch.task_id.clone(),
            agent_profile_id: launch.agent_profile_id.clone(),
            executor_id: backend.name().to_owned(),
            workspace_path: workspace_path.or(made_path),
            repository_id: launch.repository_id.clone(),
            is_ephemeral: folder.is_some(),
            mcp_mode: launch.mode.as_str().to_owned(),
            parent_execution_id: launch.parent.clone(),
            metadata: Json::from_serialize(&launch.metadata).unwrap_or_default(),
        };
        Ok(Prepared {
            backend,
            facts: Arc::new(facts),
            part: match prior {
                None => LedgerPart::Begin,
                Some(_) => LedgerPart::TakeUp {
                    retry_ambiguous: launch.retry_ambiguous,
                },
            },
            folder,
            mode: launch.mode,
            launch,
        })
    }

    /// Begins an execution, and registers it. Dropped before that, it leaves nothing behind.
    async fn begin(
        self,
        prepared: Prepared,
        unregistered: Unregistered,
    ) -> Result<ExecutionRef, RuntimeError> {
        let Prepared {
            backend,
            facts,
            launch,
            part,
            folder,
            mode,
        } = prepared;
        let folder = match folder {
            None => None,
            Some(name) => {
                let workspaces = self.0.options.workspaces_dir.clone();
                let made = blocking(move || MadeFolder::make(&workspaces, &name)).await?;
                Some(made?.0)
            }
        };
        let slot = unregistered.slot.clone();
        let created = backend.create(CreateRequest {
            run_id: slot.id.run_id().clone(),
            part,
            facts: (*facts).clone(),
            metadata: launch.input,
            terms: Terms {
                limits: launch.limits,
                grants: {
                    let workspace = facts.workspace_path.iter().map(|path| grant(path));
                    workspace.chain(launch.grants).collect()
                },
                approvals: None,
            },
            surface: self.0.options.mode_tools.surface(mode, &slot.id),
            grace: self.0.options.grace,
            observer: Arc::new(Observer {
                table: Arc::clone(&self.0.table),
                slot: slot.clone(),
                counters: Arc::clone(&self.0.counters),
                clock: self.0.options.runner.clock().clone(),
                turn: Mutex::default(),
            }),
        });
        let Created {
            instance,
            started_at,
            ended,
        } = created.await.map_err(|error| refused(&facts, error))?;
        // From here to its end nothing is waited for, so that it is never dropped halfway.
        let registered = self.table().register(&slot, &instance, started_at);
        self.0.counters.launched();
        if registered.is_err() {
            instance.stop();
        }
        let look_after = self.clone().look_after(slot.clone(), ended, folder);
        self.0.work.spawn(look_after);
        drop(unregistered);
        registered.map(|()| ExecutionRef {
            agentctl_url: self.url_of(&slot.id),
            id: slot.id,
            session_id: facts.session_id.clone(),
            started_at,
        })
    }
}

/// What a launch that takes a ledger up has from there. It speaks of the same agent and the same session.
fn inherit(launch: &mut Launch, first: &SessionFacts) -> Result<(), RuntimeError> {
    let same = |field: &str, given: &str, recorded: &str| match given == recorded {
        true => Ok(()),
        false => {
            let problem = format!("expected {recorded:?}, as the ledger has it, found {given:?}");
            Err(RuntimeError::invalid(field, problem))
        }
    };
    if launch.agent_profile_id.is_empty() {
        launch.agent_profile_id.clone_from(&first.agent_profile_id);
    }
    same(
        "agent_profile_id",
        &launch.agent_profile_id,
        &first.agent_profile_id,
    )?;
    let session_id = launch
        .session_id
        .get_or_insert_with(|| first.session_id.clone());
    same("session_id", session_id, &first.session_id)?;
    if launch.task_id.is_none() {
        launch.task_id.clone_from(&first.task_id);
    }
    if launch.repository_id.is_none() {
        launch.repository_id.clone_from(&first.repository_id);
    }
    if launch.metadata.is_empty() {
        launch.metadata = record::metadata(&first.metadata);
    }
    // A path is not taken from a ledger: whoever can write one could grant any folder.
    if launch.workspace_path.is_none() {
        launch.is_ephemeral |= first.is_ephemeral;
    }
    Ok(())
}

/// What whoever launches is told of a folder. What there is where nothing was opened is not for a client to know.
fn shown_to(is_foreign: bool, error: WorkspaceError) -> WorkspaceError {
    match error {
        WorkspaceError::Unusable { path, .. } if is_foreign => WorkspaceError::NotOpened { path },
        error => error,
    }
}

fn grant(path: &str) -> Capability {
    Capability::Fs {
        access: FsAccess::ReadWrite,
        host_dir: path.to_owned(),
        guest_dir: WORKSPACE_GUEST_PATH.to_owned(),
    }
}

fn refused(facts: &SessionFacts, error: BackendError) -> RuntimeError {
    RuntimeError::Launch {
        agent: facts.agent_profile_id.clone(),
        source: Arc::new(error),
    }
}

/// Does what blocks on a thread for it.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, WorkspaceError> + Send + 'static,
) -> Result<Result<T, WorkspaceError>, RuntimeError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|_shut_down| RuntimeError::ShuttingDown)
}
