//! What skills say of themselves, kept: to be told, code of theirs has to run.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Semaphore;

use crate::registry::Skill;
use crate::runner::{Descriptor, Executor, ExecutorError};

/// Skills that are asked at once. Protects runs from whoever only looks.
const ASKED_AT_ONCE_MAX: usize = 2;
/// Descriptors that are kept. Protects memory from a folder whose components change all the time; with more
/// skills than that, some are asked again.
const KEPT_MAX: usize = 256;

/// What was said, by the SHA-256 of the component that said it.
pub(crate) struct Descriptions {
    kept: Mutex<HashMap<String, Arc<Descriptor>>>,
    places: Semaphore,
}

impl Descriptions {
    /// Nothing was said yet.
    pub(crate) fn new() -> Self {
        Self {
            kept: Mutex::default(),
            places: Semaphore::new(ASKED_AT_ONCE_MAX),
        }
    }

    fn kept(&self) -> MutexGuard<'_, HashMap<String, Arc<Descriptor>>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the skill says of itself.
    pub(crate) async fn of(
        &self,
        executor: &dyn Executor,
        skill: &Skill,
    ) -> Result<Arc<Descriptor>, ExecutorError> {
        if let Some(known) = self.known(skill) {
            return Ok(known);
        }
        // It is never closed.
        let _place = self.places.acquire().await.ok();
        // Whoever was there before may have asked the same.
        if let Some(known) = self.known(skill) {
            return Ok(known);
        }
        let said = Arc::new(executor.describe(skill.name.as_str()).await?);
        let mut kept = self.kept();
        if kept.len() >= KEPT_MAX {
            kept.clear();
        }
        kept.insert(digest(skill).to_owned(), Arc::clone(&said));
        Ok(said)
    }

    /// What the skill said of itself, if it was asked lately.
    pub(crate) fn known(&self, skill: &Skill) -> Option<Arc<Descriptor>> {
        self.kept().get(digest(skill)).cloned()
    }
}

/// By which a skill is known here: other skills with the same component say the same.
fn digest(skill: &Skill) -> &str {
    let component = skill.component.as_ref();
    component.map_or("", |component| component.sha256.as_str())
}
