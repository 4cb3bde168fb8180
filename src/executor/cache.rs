//! Components that were compiled, by digest, each compiled once.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{OnceCell, Semaphore};

use super::load_error::LoadError;
use super::program::Program;

/// Components kept at most. Protects the host's memory: one takes a few MiB to some tens.
const PROGRAMS_MAX: usize = 256;

/// Compilations at once; each uses every processor by itself. Protects the threads that make ledgers
/// durable, which are the same ones, and the host's memory.
const COMPILATIONS_AT_ONCE_MAX: usize = 2;

type Slot = Arc<OnceCell<Arc<Program>>>;

pub(crate) struct Cache {
    slots: Mutex<Slots>,
    /// Bounds compilations that go on at once.
    at_once: Arc<Semaphore>,
}

#[derive(Default)]
struct Slots {
    by_digest: HashMap<Box<str>, Entry>,
    uses: u64,
}

struct Entry {
    slot: Slot,
    used: u64,
}

impl Cache {
    pub(crate) fn new() -> Self {
        Self {
            slots: Mutex::default(),
            at_once: Arc::new(Semaphore::new(COMPILATIONS_AT_ONCE_MAX)),
        }
    }

    /// The program for `digest`, made by `load` unless it is there. Those who ask meanwhile wait for
    /// the same one; a failure is not kept, so the next one tries again.
    pub(crate) async fn get_or_load(
        &self,
        digest: &str,
        load: impl FnOnce() -> Result<Program, LoadError> + Send + 'static,
    ) -> Result<Arc<Program>, LoadError> {
        let slot = self.slot(digest);
        if let Some(program) = slot.get() {
            return Ok(Arc::clone(program));
        }
        let at_once = Arc::clone(&self.at_once);
        // A task of its own goes on when the caller goes, and those who wait share its result.
        let loading = tokio::spawn(async move {
            let compile = async move {
                let _place = at_once.acquire_owned().await;
                match tokio::task::spawn_blocking(load).await {
                    Ok(loaded) => loaded.map(Arc::new),
                    Err(_panicked) => Err(LoadError::CompilerFailed),
                }
            };
            slot.get_or_try_init(|| compile).await.map(Arc::clone)
        });
        loading.await.unwrap_or(Err(LoadError::CompilerFailed))
    }

    fn slot(&self, digest: &str) -> Slot {
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
        let slot = Slot::default();
        let entry = Entry {
            slot: Arc::clone(&slot),
            used,
        };
        slots.by_digest.insert(digest.into(), entry);
        slot
    }
}
