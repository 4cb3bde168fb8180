//! From a configuration to the parts that work together.
//!
//! [`Skillrun`] is what an embedder has of all of it: a store, skills, and a runner that carries runs out. Each
//! part can be replaced before it is built.

#[cfg(any(feature = "server", feature = "mcp"))]
mod descriptions;
mod host;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

#[cfg(any(feature = "server", feature = "mcp"))]
use self::descriptions::Descriptions;
use self::host::Whole;
use crate::clock::Clock;
use crate::config::{Config, ConfigError};
use crate::ledger::{RedactError, Store, StoreError, StoreOptions};
use crate::models::{ModelName, ModelProvider, Models};
use crate::registry::{Registry, RegistryError, SkillSet, WatchError, Watcher};
use crate::runner::{
    EngineError, Executor, HttpOptions, Runner, RunnerOptions, SkillExecutor, SkillExecutorOptions,
};
use crate::runtime::modes::{ModeParts, ModeToolset};
use crate::runtime::{
    Backend, InProcess, ModeTools, RuntimeOptions, Subprocess, WasmRuntime, WorkerProgram,
};
use crate::tools::{HostTool, ToolNameError, Toolbox};

/// Why parts cannot be put together, or a configuration not be taken over.
#[derive(Debug, thiserror::Error)]
pub enum AssemblyError {
    /// A file or a value that the configuration names cannot be used.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A secret cannot be kept out of ledgers.
    #[error("cannot use {setting} of config.toml")]
    Secret {
        /// What of the configuration it is.
        setting: String,
        /// Why not.
        source: RedactError,
    },
    /// The folder of ledgers cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The folder of skills cannot be read.
    #[error(transparent)]
    Registry(#[from] RegistryError),
    /// The folder of skills cannot be watched.
    #[error(transparent)]
    Watch(#[from] WatchError),
    /// A tool of the host cannot be offered.
    #[error(transparent)]
    Tool(#[from] ToolNameError),
    /// The engine cannot be made.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// What was put together is there no more.
    #[error("the process comes to its end")]
    Over,
}

/// Whom skills can reach, if they may.
#[derive(Default, Clone)]
pub struct Providers {
    /// How requests are made, and with which secrets.
    pub http: HttpOptions,
    /// Who serves models.
    pub models: Models,
    /// The tools of servers and of the host.
    pub tools: Toolbox,
}

impl Providers {
    /// Everything that the operator configured. The values of secrets and keys stay out of every ledger of
    /// `store` from now on. Nothing is connected to, and no server is started, before it is needed.
    ///
    /// # Errors
    /// A secret, a key or a certificate cannot be used.
    pub fn from_config(
        config: &Config,
        store: &Store,
        clock: &Clock,
    ) -> Result<Self, AssemblyError> {
        let http = Self::http(config, store)?;
        let certificates = http.ca_certificates.clone();
        let keys = config.read_model_keys()?;
        for (provider, key) in &keys {
            let kept = store.redact(key.name(), key.value());
            kept.map_err(|source| AssemblyError::Secret {
                setting: format!("the key of model_providers.{provider}"),
                source,
            })?;
        }
        Ok(Self {
            models: Models::from_config(config, &keys, certificates.clone(), clock),
            tools: Toolbox::from_config(config, &http.secrets, certificates),
            http,
        })
    }

    /// How requests are made, and nothing else.
    ///
    /// # Errors
    /// A secret or a certificate cannot be used.
    pub fn http(config: &Config, store: &Store) -> Result<HttpOptions, AssemblyError> {
        let secrets = config.read_secrets()?;
        for secret in &secrets {
            let kept = store.redact(secret.name(), secret.value());
            kept.map_err(|source| AssemblyError::Secret {
                setting: format!("secrets.{}", secret.name()),
                source,
            })?;
        }
        Ok(HttpOptions {
            secrets,
            ca_certificates: config.read_ca_file()?,
            ..HttpOptions::from(&config.http)
        })
    }
}

/// What the embedder adds to whatever the configuration names.
#[derive(Default, Clone)]
struct Own {
    executor: Option<Arc<dyn Executor>>,
    tools: Vec<Arc<dyn HostTool>>,
    models: BTreeMap<String, Arc<dyn ModelProvider>>,
    aliases: BTreeMap<String, ModelName>,
}

/// The parts of a [`Skillrun`] before they are put together.
pub struct Builder {
    config: Config,
    clock: Clock,
    store: Option<Store>,
    skills: Option<SkillSet>,
    watches_skills: bool,
    own: Own,
    backends: Vec<Arc<dyn Backend>>,
    worker: Option<WorkerProgram>,
    mode_tools: Option<Arc<dyn ModeTools>>,
}

impl Builder {
    /// Where time comes from: the system's clocks, unless this is said.
    #[must_use]
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    /// The ledgers, instead of those of the home folder.
    #[must_use]
    pub fn store(mut self, store: Store) -> Self {
        self.store = Some(store);
        self
    }

    /// The skills, instead of those that are installed in the home folder.
    #[must_use]
    pub fn skills(mut self, skills: impl Into<SkillSet>) -> Self {
        self.skills = Some(skills.into());
        self
    }

    /// Takes up changes of the installed skills as long as this lives.
    #[must_use]
    pub fn watch_skills(mut self) -> Self {
        self.watches_skills = true;
        self
    }

    /// Who carries runs out, instead of the WebAssembly engine. Tools and models are its own business then.
    #[must_use]
    pub fn executor(mut self, executor: Arc<dyn Executor>) -> Self {
        self.own.executor = Some(executor);
        self
    }

    /// Adds a tool that skills may call if `tool:<its name>` is granted to them.
    #[must_use]
    pub fn host_tool(mut self, tool: Arc<dyn HostTool>) -> Self {
        self.own.tools.push(tool);
        self
    }

    /// Adds who serves models, under the name that stands before the `/` of `llm:provider/model`.
    #[must_use]
    pub fn model_provider(mut self, name: &str, provider: Arc<dyn ModelProvider>) -> Self {
        self.own.models.insert(name.to_owned(), provider);
        self
    }

    /// Adds a name of the operator's for a model, as `[model_aliases]` does.
    #[must_use]
    pub fn model_alias(mut self, alias: &str, model: ModelName) -> Self {
        self.own.aliases.insert(alias.to_owned(), model);
        self
    }

    /// Adds who carries out executions of agents that name it, or that name none if it is
    /// `runtime.default_backend`.
    #[must_use]
    pub fn backend(mut self, backend: Arc<dyn Backend>) -> Self {
        self.backends.push(backend);
        self
    }

    /// Adds the backend `subprocess`, which carries each execution out in a process of its own: this program, which
    /// has to call [`crate::runtime::work`] with its standard streams.
    #[must_use]
    pub fn worker(mut self, program: WorkerProgram) -> Self {
        self.worker = Some(program);
        self
    }

    /// Where the tools of agents in each mode come from, instead of those that reach this home.
    #[must_use]
    pub fn mode_tools(mut self, tools: Arc<dyn ModeTools>) -> Self {
        self.mode_tools = Some(tools);
        self
    }

    /// Puts the parts together. The folder of ledgers is made if it is not there; of runs whose process is
    /// gone, [`Runner::recover`] takes care.
    ///
    /// # Errors
    /// A part cannot be made.
    pub fn build(self) -> Result<Skillrun, AssemblyError> {
        let Self {
            config,
            clock,
            store,
            skills,
            watches_skills,
            own,
            mut backends,
            worker,
            mode_tools,
        } = self;
        let store = match store {
            Some(store) => store,
            None => Store::open(StoreOptions {
                runs_dir: config.runs_dir(),
                durability: config.durability,
                clock: clock.clone(),
            })?,
        };
        let mut watcher = None;
        let skills = match skills {
            Some(skills) => skills,
            None if watches_skills => {
                let started = Watcher::start(&config.skills_dir(), clock.clone())?;
                let skills = started.skills();
                watcher = Some(started);
                skills
            }
            None => Registry::load(&config.skills_dir())?.into(),
        };
        let (executor, tools) = own.executor(&config, &store, &skills, &clock)?;
        let runner = Runner::new(RunnerOptions {
            store,
            executor,
            admission: config.runs,
            clock,
        });
        let whole = Arc::new(Whole::default());
        let host = Arc::clone(&whole);
        let parts = ModeParts::of_host(host, config.documents_dir());
        let mode_tools = match mode_tools {
            Some(tools) => tools,
            None => Arc::new(ModeToolset::new(&parts)?),
        };
        if let Some(program) = worker {
            let subprocess = Subprocess::new(program, runner.clone());
            backends.push(Arc::new(subprocess.with_parts(parts)));
        }
        let runtime = runtime(&config, &runner, backends, mode_tools);
        #[cfg(any(feature = "server", feature = "mcp"))]
        let descriptions = Descriptions::new(runner.clock().clone());
        let skillrun = Skillrun(Arc::new(Inner {
            current: Mutex::new(Current {
                config: Arc::new(config),
                tools,
            }),
            skills,
            runner,
            runtime,
            #[cfg(any(feature = "server", feature = "mcp"))]
            descriptions,
            own,
            _watcher: watcher,
        }));
        whole.set(&skillrun);
        Ok(skillrun)
    }
}

/// What launches agents, as the configuration says: inside this process, or by one of these backends.
fn runtime(
    config: &Config,
    runner: &Runner,
    mut backends: Vec<Arc<dyn Backend>>,
    mode_tools: Arc<dyn ModeTools>,
) -> WasmRuntime {
    backends.push(Arc::new(InProcess::new(runner.clone())));
    let settings = &config.runtime;
    WasmRuntime::new(RuntimeOptions {
        runner: runner.clone(),
        backends,
        default_backend: settings.default_backend.clone(),
        mode_tools,
        workspaces_dir: config.workspaces_dir(),
        workspaces: settings.workspaces.clone(),
        executions_max: settings.executions_max,
        grace: settings.grace(),
        retention: settings.retention(),
    })
}

impl Own {
    /// Who carries runs out as the configuration says, and the tools of which servers may be running.
    fn executor(
        &self,
        config: &Config,
        store: &Store,
        skills: &SkillSet,
        clock: &Clock,
    ) -> Result<(Arc<dyn Executor>, Toolbox), AssemblyError> {
        if let Some(executor) = &self.executor {
            return Ok((Arc::clone(executor), Toolbox::new()));
        }
        let Providers {
            http,
            mut models,
            mut tools,
        } = Providers::from_config(config, store, clock)?;
        for tool in &self.tools {
            tools = tools.with_host_tool(Arc::clone(tool))?;
        }
        for (name, provider) in &self.models {
            models = models.with_provider(name, Arc::clone(provider));
        }
        for (alias, model) in &self.aliases {
            models = models.with_alias(alias, model.clone());
        }
        let executor = SkillExecutor::new(SkillExecutorOptions {
            http,
            models,
            tools: tools.clone(),
            ..SkillExecutorOptions::from_config(config, skills.clone(), clock.clone())
        })?;
        Ok((Arc::new(executor), tools))
    }
}

/// Everything that it takes to run skills, put together. Cheap to clone.
#[derive(Clone)]
pub struct Skillrun(Arc<Inner>);

struct Inner {
    current: Mutex<Current>,
    skills: SkillSet,
    runner: Runner,
    runtime: WasmRuntime,
    #[cfg(any(feature = "server", feature = "mcp"))]
    descriptions: Descriptions,
    own: Own,
    /// Keeps `skills` as the folder is.
    _watcher: Option<Watcher>,
}

/// What a new configuration takes the place of.
struct Current {
    config: Arc<Config>,
    tools: Toolbox,
}

impl Skillrun {
    /// Begins with a configuration, which [`Config::load`] reads from a home folder.
    pub fn builder(config: Config) -> Builder {
        Builder {
            config,
            clock: Clock::system(),
            store: None,
            skills: None,
            watches_skills: false,
            own: Own::default(),
            backends: Vec::new(),
            worker: None,
            mode_tools: None,
        }
    }

    fn current(&self) -> MutexGuard<'_, Current> {
        self.0
            .current
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// The configuration as it is now.
    pub fn config(&self) -> Arc<Config> {
        Arc::clone(&self.current().config)
    }

    /// The ledgers.
    pub fn store(&self) -> &Store {
        self.0.runner.store()
    }

    /// The skills.
    pub fn skills(&self) -> &SkillSet {
        &self.0.skills
    }

    /// What starts, resumes and cancels runs.
    pub fn runner(&self) -> &Runner {
        &self.0.runner
    }

    /// What launches, prompts and stops agents.
    pub fn runtime(&self) -> &WasmRuntime {
        &self.0.runtime
    }

    /// What skills say of themselves, for the surfaces that show it.
    #[cfg(any(feature = "server", feature = "mcp"))]
    pub(crate) fn descriptions(&self) -> &Descriptions {
        &self.0.descriptions
    }

    /// Where time comes from.
    pub fn clock(&self) -> &Clock {
        self.0.runner.clock()
    }

    /// Takes a new configuration over: whatever begins or goes on from now on is held to it. Runs that have
    /// begun stay as they are, with the servers that they use, which end with the last of them. `runs`, `runtime` and
    /// `serve` are not taken over, and nothing is if this fails.
    ///
    /// # Errors
    /// What the configuration names cannot be used, or the machine has no room for another engine beside those
    /// that runs still use.
    pub fn reload(&self, config: Config) -> Result<(), AssemblyError> {
        let (store, skills, clock) = (self.store(), self.skills(), self.clock());
        let (executor, tools) = self.0.own.executor(&config, store, skills, clock)?;
        let taken_over = Current {
            config: Arc::new(config),
            tools,
        };
        let before = std::mem::replace(&mut *self.current(), taken_over);
        self.runner().replace_executor(executor);
        drop(before);
        Ok(())
    }

    /// Interrupts what goes on, waits until all of it has its end on record, and ends the servers of tools.
    pub async fn shutdown(&self) {
        self.0.runtime.shutdown().await;
        self.0.runner.shutdown().await;
        let tools = self.current().tools.clone();
        tools.shutdown().await;
    }
}
