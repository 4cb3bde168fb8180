//! The two engines, their epochs, and the linkers.

use std::path::PathBuf;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use wasmtime::component::{Component, HasSelf, Linker};

use super::artifact::{Artifacts, Facts};
use super::bindings::agent::AgentPre;
use super::bindings::agent::skillrun::skill::session;
use super::bindings::{Skill, SkillPre};
use super::cache::Cache;
use super::engine_config::{PoolSize, engine_config};
use super::fit;
use super::http::{self, Client, HttpOptions};
use super::load_error::{self, LoadError, World};
use super::operation::Operations;
use super::program::{Entry, Program};
use super::state::HostState;
use super::wasi;
use crate::clock::Clock;
use crate::config::Loading;
use crate::limits::{LimitKey, Limits};

/// How often a guest that computes hands its thread back. Protects the others on the same thread.
const TICK: Duration = Duration::from_millis(10);

/// GiB of addresses that a memory of the pool takes, whatever it may hold.
const MEMORY_ADDRESS_GIB: u64 = 4;

/// What an engine is sized by.
#[derive(Debug, Clone)]
pub struct EngineOptions {
    /// Instances at once; calls beyond it are refused, so admit no more than this.
    pub instances_max: usize,
    /// The limits of which the largest memory and table are taken; a component that needs more from
    /// the start is refused when it is loaded.
    pub limits: Limits,
    /// Bounds on what is compiled.
    pub loading: Loading,
    /// Where compiled components are kept for the next process, if anywhere.
    pub cache_dir: Option<PathBuf>,
    /// How outgoing requests are carried out.
    pub http: HttpOptions,
    /// Where time comes from.
    pub clock: Clock,
}

/// Compiles components and keeps them. Cheap to clone.
#[derive(Clone)]
pub struct Engine(Arc<Inner>);

struct Inner {
    options: EngineOptions,
    plain: Half,
    /// For components that use the component model's `async`; made when the first one comes.
    concurrent: OnceLock<Half>,
    /// Held while it is made, because a second pool of that size may be one too many.
    making: Mutex<()>,
    cache: Cache,
    artifacts: Option<Artifacts>,
    http: Arc<Client>,
}

/// One engine with everything that belongs to it.
struct Half {
    engine: wasmtime::Engine,
    linker: Linker<HostState>,
    ticks: Arc<Ticks>,
}

impl Engine {
    /// Makes an engine; the pool's addresses are reserved here, memory is not used before a run.
    ///
    /// # Errors
    /// The machine cannot reserve a pool of that size.
    pub fn new(options: EngineOptions) -> Result<Self, EngineError> {
        let plain = Half::new(&options, false)?;
        let dir = options.cache_dir.clone();
        Ok(Self(Arc::new(Inner {
            cache: Cache::new(options.loading.compile_time_ms),
            artifacts: dir.map(|dir| Artifacts::new(dir, &plain.engine, options.clock.clone())),
            http: Arc::new(Client::new(options.http.clone())),
            options,
            plain,
            concurrent: OnceLock::new(),
            making: Mutex::default(),
        })))
    }

    /// The component with this content, compiled and linked. A component is compiled once, however
    /// many ask for it at the same time, and never on the caller's thread; where there is a `cache_dir`,
    /// once for all processes that share it, unless its own bytes say something of its functions.
    ///
    /// `digest` is the SHA-256, in hexadecimal, of the bytes that `read` gives; the caller sees to it
    /// that it is. They are asked for only when the component has to be compiled. It needs a tokio
    /// runtime with timers.
    ///
    /// # Errors
    /// The bytes cannot be had, are no component, need something that this host does not have, do not
    /// fit, or are not compiled in time.
    pub async fn load(
        &self,
        digest: &str,
        read: impl FnOnce() -> Result<Vec<u8>, LoadError> + Send + 'static,
    ) -> Result<Arc<Program>, LoadError> {
        let (fetching, compiling) = (Arc::clone(&self.0), Arc::clone(&self.0));
        let (wanted, compiled) = (digest.to_owned(), digest.to_owned());
        self.0
            .cache
            .get_or_load(
                digest,
                move || fetching.fetch(&wanted),
                move || compiling.compile(&compiled, &read()?),
            )
            .await
    }
}

/// What an engine has now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct EngineStatistics {
    /// Instances that exist.
    pub instances: u64,
    /// Instances that can exist at once.
    pub instances_max: u64,
    /// Compiled components that are kept in memory.
    pub components: u64,
}

impl Engine {
    /// What this engine has now. Components that use the component model's `async` have a pool of their own,
    /// which counts from the first of them on.
    pub fn statistics(&self) -> EngineStatistics {
        let halves = [Some(&self.0.plain), self.0.concurrent.get()];
        let halves = halves.into_iter().flatten();
        let mut statistics = EngineStatistics {
            components: self.0.cache.programs(),
            ..EngineStatistics::default()
        };
        for half in halves {
            let pool = half.engine.pooling_allocator_metrics();
            statistics.instances += pool.map_or(0, |pool| pool.component_instances());
            statistics.instances_max +=
                u64::try_from(self.0.options.instances_max).unwrap_or(u64::MAX);
        }
        statistics
    }
}

impl Inner {
    /// The component as a process before this one compiled it. Whatever is wrong with that is found out
    /// anew, and told in more words, when it is compiled.
    fn fetch(&self, digest: &str) -> Option<Program> {
        let artifact = self.artifacts.as_ref()?.find(digest)?;
        let facts = artifact.facts;
        if facts.component_bytes > self.options.loading.component_bytes_max {
            return None;
        }
        let half = if facts.uses_async {
            self.concurrent().ok()?
        } else {
            &self.plain
        };
        let component = artifact.component(&half.engine)?;
        self.link(half, &component, &[]).ok()
    }

    fn compile(&self, digest: &str, bytes: &[u8]) -> Result<Program, LoadError> {
        load_error::check_header(bytes)?;
        let bytes_max = self.options.loading.component_bytes_max;
        if bytes.len() > usize_of(bytes_max) {
            return Err(LoadError::TooLarge {
                bytes: bytes.len(),
                bytes_max,
            });
        }
        fit::check(bytes, pool_size(&self.options))?;
        let (half, component) = self.component(bytes)?;
        let program = self.link(half, &component, bytes)?;
        if let Some(artifacts) = &self.artifacts
            && program.is_described_by_type()
        {
            let facts = Facts {
                uses_async: !std::ptr::eq(half, &self.plain),
                component_bytes: u64::try_from(bytes.len()).unwrap_or(u64::MAX),
            };
            artifacts.store(digest, facts, &component);
        }
        Ok(program)
    }

    /// Links a component. Of its `bytes` only what its author says of the functions of one that follows
    /// no world is read; there may be none.
    fn link(&self, half: &Half, component: &Component, bytes: &[u8]) -> Result<Program, LoadError> {
        let world = load_error::check_interfaces(&half.engine, component)?;
        let linked = half
            .linker
            .instantiate_pre(component)
            .map_err(|error| LoadError::invalid(&error))?;
        let entry = match world {
            World::Skill => {
                Entry::Skill(SkillPre::new(linked).map_err(|error| LoadError::invalid(&error))?)
            }
            World::Agent => {
                Entry::Agent(AgentPre::new(linked).map_err(|error| LoadError::invalid(&error))?)
            }
            World::Other => Entry::Operations(Operations::find(linked, bytes)?),
        };
        Ok(Program::new(
            entry,
            self.options.clock.clone(),
            Arc::clone(&half.ticks),
            load_error::imports_async_files(&half.engine, component),
            Arc::clone(&self.http),
        ))
    }

    /// The component on the engine that it needs: the plain one, unless it uses `async`, which that one
    /// does not know, or the version of WASI that does.
    fn component(&self, bytes: &[u8]) -> Result<(&Half, Component), LoadError> {
        let plain = Component::new(&self.plain.engine, bytes);
        if let Ok(component) = &plain
            && !load_error::imports_async_wasi(&self.plain.engine, component)
        {
            return Ok((&self.plain, component.clone()));
        }
        let half = self.concurrent().map_err(|error| match &plain {
            Ok(_) => LoadError::Engine(error),
            Err(refused) => LoadError::invalid(refused),
        })?;
        match (Component::new(&half.engine, bytes), &plain) {
            (Ok(component), _) => Ok((half, component)),
            (Err(_), Err(refused)) => Err(LoadError::invalid(refused)),
            (Err(refused), Ok(_)) => Err(LoadError::invalid(&refused)),
        }
    }

    fn concurrent(&self) -> Result<&Half, EngineError> {
        let _one_at_a_time = self.making.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(half) = self.concurrent.get() {
            return Ok(half);
        }
        let half = Half::new(&self.options, true)?;
        Ok(self.concurrent.get_or_init(|| half))
    }
}

impl Half {
    fn new(options: &EngineOptions, concurrency: bool) -> Result<Self, EngineError> {
        let failed = |error: wasmtime::Error| EngineError {
            instances_max: options.instances_max,
            address_gib: u64::from(pool_size(options).memories_max())
                .saturating_mul(MEMORY_ADDRESS_GIB),
            reason: format!("{error:#}"),
        };
        let engine = wasmtime::Engine::new(&engine_config(pool_size(options), concurrency))
            .map_err(failed)?;
        let mut linker = Linker::new(&engine);
        wasi::add_to_linker(&mut linker).map_err(failed)?;
        if concurrency {
            wasmtime_wasi::p3::add_to_linker(&mut linker).map_err(failed)?;
        }
        http::add_to_linker(&mut linker).map_err(failed)?;
        Skill::add_to_linker::<_, HasSelf<HostState>>(&mut linker, |state| state)
            .map_err(failed)?;
        session::add_to_linker::<_, HasSelf<HostState>>(&mut linker, |state| state)
            .map_err(failed)?;
        let ticks = Ticks::start(engine.clone()).map_err(|error| failed(error.into()))?;
        Ok(Self {
            engine,
            linker,
            ticks: Arc::new(ticks),
        })
    }
}

fn pool_size(options: &EngineOptions) -> PoolSize {
    PoolSize {
        instances_max: u32::try_from(options.instances_max).unwrap_or(u32::MAX),
        memory_bytes_max: usize_of(options.limits.value(LimitKey::MemoryBytes)),
        table_elements_max: usize_of(options.limits.value(LimitKey::TableElements)),
    }
}

fn usize_of(value: u64) -> usize {
    usize::try_from(value).unwrap_or(usize::MAX)
}

/// The thread that moves an engine's epoch on; it ends when this is dropped.
pub(crate) struct Ticks(
    #[expect(dead_code, reason = "dropping it ends the thread")] mpsc::Sender<()>,
);

impl Ticks {
    fn start(engine: wasmtime::Engine) -> std::io::Result<Self> {
        let (alive, gone) = mpsc::channel();
        let ticking = std::thread::Builder::new().name("epoch".to_owned());
        ticking.spawn(move || {
            while gone.recv_timeout(TICK) == Err(RecvTimeoutError::Timeout) {
                engine.increment_epoch();
            }
        })?;
        Ok(Self(alive))
    }
}

/// The pool cannot be made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "cannot make a pool of {instances_max} instances (runs.at_once_max), which takes {address_gib} GiB of addresses: {reason}"
)]
pub struct EngineError {
    instances_max: usize,
    address_gib: u64,
    reason: String,
}

impl EngineError {
    /// What to do about it.
    pub fn hint(&self) -> String {
        "lower runs.at_once_max in config.toml, or let the process have more addresses (ulimit -v), which take no memory"
            .to_owned()
    }
}
