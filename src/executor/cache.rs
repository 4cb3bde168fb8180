//! Components that were compiled, by digest, each compiled once.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{OnceCell, Semaphore};
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use super::load_error::LoadError;
use super::program::Program;

/// Components kept at most. Protects the host's memory: one takes a few MiB to some tens.
const PROGRAMS_MAX: usize = 256;

/// Compilations at once; each uses every processor by itself. Protects the threads that make ledgers
/// durable, which are the same ones, and the host's memory.
const COMPILATIONS_AT_ONCE_MAX: usize = 2;

/// Compiled components that are fetched at once, each in some milliseconds. Protects the same threads,
/// and is apart so that none of these waits for a compilation.
const FETCHES_AT_ONCE_MAX: usize = 4;

#[derive(Default)]
struct Slot {
    program: OnceCell<Arc<Program>>,
    /// The compilation has taken longer than anybody is made to wait. It goes on, since a thread cannot
    /// be stopped, and whoever asks meanwhile is answered at once.
    is_late: AtomicBool,
}

pub(crate) struct Cache {
    slots: Mutex<Slots>,
    /// How long somebody waits for a compilation.
    compile_time_ms: u64,
    compilations: Arc<Semaphore>,
    fetches: Arc<Semaphore>,
}

#[derive(Default)]
struct Slots {
    by_digest: HashMap<Box<str>, Entry>,
    uses: u64,
}

struct Entry {
    slot: Arc<Slot>,
    used: u64,
}

impl Cache {
    pub(crate) fn new(compile_time_ms: u64) -> Self {
        Self {
            slots: Mutex::default(),
            compile_time_ms,
            compilations: Arc::new(Semaphore::new(COMPILATIONS_AT_ONCE_MAX)),
            fetches: Arc::new(Semaphore::new(FETCHES_AT_ONCE_MAX)),
        }
    }

    /// How many programs there are.
    pub(crate) fn programs(&self) -> u64 {
        let slots = self.slots.lock();
        let slots = slots.unwrap_or_else(PoisonError::into_inner);
        let there = slots.by_digest.values();
        let there = there.filter(|entry| entry.slot.program.get().is_some());
        u64::try_from(there.count()).unwrap_or(u64::MAX)
    }

    /// The program for `digest`: the one that is there, else what `fetch` finds, else what `compile`
    /// makes. Those who ask meanwhile wait for the same one; a failure is not kept, so the next one tries
    /// again.
    pub(crate) async fn get_or_load(
        &self,
        digest: &str,
        fetch: impl FnOnce() -> Option<Program> + Send + 'static,
        compile: impl FnOnce() -> Result<Program, LoadError> + Send + 'static,
    ) -> Result<Arc<Program>, LoadError> {
        let slot = self.slot(digest);
        if let Some(program) = slot.program.get() {
            return Ok(Arc::clone(program));
        }
        let limit_ms = self.compile_time_ms;
        let late = LoadError::CompileTime { limit_ms };
        if slot.is_late.load(Ordering::Acquire) {
            return Err(late);
        }
        let limit = Duration::from_millis(limit_ms);
        let (compilations, fetches) = (Arc::clone(&self.compilations), Arc::clone(&self.fetches));
        // A task of its own goes on when the caller goes, and those who wait share its result.
        let loading = tokio::spawn(async move {
            let load = async {
                let place = fetches.acquire_owned().await;
                if let Ok(Some(program)) = spawn_blocking(fetch).await {
                    return Ok(Arc::new(program));
                }
                drop(place);
                let _place = compilations.acquire_owned().await;
                let mut compiling = spawn_blocking(compile);
                let compiled = match timeout(limit, &mut compiling).await {
                    Ok(compiled) => compiled,
                    Err(_elapsed) => {
                        slot.is_late.store(true, Ordering::Release);
                        compiling.await
                    }
                };
                slot.is_late.store(false, Ordering::Release);
                compiled
                    .unwrap_or(Err(LoadError::CompilerFailed))
                    .map(Arc::new)
            };
            slot.program.get_or_try_init(|| load).await.map(Arc::clone)
        });
        match timeout(limit, loading).await {
            Ok(loaded) => loaded.unwrap_or(Err(LoadError::CompilerFailed)),
            Err(_elapsed) => Err(late),
        }
    }

    fn slot(&self, digest: &str) -> Arc<Slot> {
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        slots.uses = slots.uses.wrapping_add(1);
        let used = slots.uses;
        if let Some(entry) = slots.by_digest.get_mut(digest) {
            entry.used = used;
            return Arc::clone(&entry.slot);
        }
        if slots.by_digest.len() >= PROGRAMS_MAX {
            let oldest = slots.by_digest.iter().min_by_key(|(_, entry)| entry.used);
            if let Some(digest) = oldest.map(|(digest, _)| digest.clone()) {
                slots.by_digest.remove(&digest);
            }
        }
        let slot = Arc::new(Slot::default());
        let entry = Entry {
            slot: Arc::clone(&slot),
            used,
        };
        slots.by_digest.insert(digest.into(), entry);
        slot
    }
}
