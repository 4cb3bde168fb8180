//! The two engines, their epochs, and the linkers.

use std::path::PathBuf;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use wasmtime::component::{Component, HasSelf, Linker};

use super::bindings::{Skill, SkillPre};
use super::cache::Cache;
use super::engine_config::{PoolSize, engine_config};
use super::fit;
use super::http::{self, Client, HttpOptions};
use super::load_error::{self, LoadError};
use super::program::Program;
use super::state::HostState;
use crate::clock::Clock;
use crate::config::Loading;
use crate::limits::{LimitKey, Limits};

/// How often a guest that computes hands its thread back. Protects the others on the same thread.
const TICK: Duration = Duration::from_millis(10);

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
        Ok(Self(Arc::new(Inner {
            http: Arc::new(Client::new(options.http.clone())),
            options,
            plain,
            concurrent: OnceLock::new(),
            making: Mutex::default(),
            cache: Cache::new(),
        })))
    }

    /// The component with this content, compiled and linked. A component is compiled once, however
    /// many ask for it at the same time, and never on the caller's thread.
    ///
    /// `digest` is the SHA-256, in hexadecimal, of the bytes that `read` gives; the caller sees to it
    /// that it is. They are asked for only when the component is not there yet.
    ///
    /// # Errors
    /// The bytes cannot be had, are no component, need something that this host does not have, or do
    /// not fit.
    pub async fn load(
        &self,
        digest: &str,
        read: impl FnOnce() -> Result<Vec<u8>, LoadError> + Send + 'static,
    ) -> Result<Arc<Program>, LoadError> {
        let inner = Arc::clone(&self.0);
        self.0
            .cache
            .get_or_load(digest, move || inner.compile(&read()?))
            .await
    }
}

impl Inner {
    fn compile(&self, bytes: &[u8]) -> Result<Program, LoadError> {
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
        load_error::check_interfaces(&half.engine, &component)?;
        let linked = half
            .linker
            .instantiate_pre(&component)
            .map_err(|error| LoadError::invalid(&error))?;
        let skill = SkillPre::new(linked).map_err(|error| LoadError::invalid(&error))?;
        Ok(Program::new(
            skill,
            self.options.clock.clone(),
            Arc::clone(&half.ticks),
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
            reason: format!("{error:#}"),
        };
        let engine = wasmtime::Engine::new(&engine_config(pool_size(options), concurrency))
            .map_err(failed)?;
        let mut linker = Linker::new(&engine);
        wasmtime_wasi::p2::add_to_linker_async(&mut linker).map_err(failed)?;
        if concurrency {
            wasmtime_wasi::p3::add_to_linker(&mut linker).map_err(failed)?;
        }
        http::add_to_linker(&mut linker).map_err(failed)?;
        Skill::add_to_linker::<_, HasSelf<HostState>>(&mut linker, |state| state)
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
    "cannot make an engine with a pool of {instances_max} instances (runs.at_once_max in config.toml): {reason}"
)]
pub struct EngineError {
    instances_max: usize,
    reason: String,
}
