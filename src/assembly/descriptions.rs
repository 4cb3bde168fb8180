//! What skills say of themselves, kept: to be told, code of theirs has to run.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::time::Instant;

use crate::registry::Skill;
use crate::runner::{Descriptor, Executor, ExecutorError};

/// Skills that are asked at once. Protects runs from whoever only looks.
const ASKED_AT_ONCE_MAX: usize = 2;
/// Descriptors that are kept. Protects memory from a folder whose components change all the time; with more
/// skills than that, some are asked again.
const KEPT_MAX: usize = 256;

/// For how long a skill that could not say what it is is not asked again. Protects whoever lists skills from one that takes
/// its time to fail.
const FAILURE_TIME: Duration = Duration::from_secs(30);

/// What came of asking, and for how long that holds; for ever if it is not said.
type Kept = (Result<Arc<Descriptor>, ExecutorError>, Option<Instant>);

/// What was said, by the SHA-256 of the component that said it.
pub(crate) struct Descriptions {
    kept: Mutex<HashMap<String, Kept>>,
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

    fn kept(&self) -> MutexGuard<'_, HashMap<String, Kept>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the skill says of itself.
    pub(crate) async fn of(
        &self,
        executor: &dyn Executor,
        skill: &Skill,
    ) -> Result<Arc<Descriptor>, ExecutorError> {
        if let Some(kept) = self.lately(skill) {
            return kept;
        }
        // It is never closed.
        let _place = self.places.acquire().await.ok();
        // Whoever was there before may have asked the same.
        if let Some(kept) = self.lately(skill) {
            return kept;
        }
        let said = executor.describe(skill.name.as_str()).await.map(Arc::new);
        let until = said.is_err().then(|| Instant::now() + FAILURE_TIME);
        let mut kept = self.kept();
        if kept.len() >= KEPT_MAX {
            kept.clear();
        }
        kept.insert(digest(skill).to_owned(), (said.clone(), until));
        said
    }

    /// What came of asking the skill, if that was lately.
    fn lately(&self, skill: &Skill) -> Option<Result<Arc<Descriptor>, ExecutorError>> {
        let kept = self.kept();
        let (said, until) = kept.get(digest(skill))?;
        let holds = until.is_none_or(|until| Instant::now() < until);
        holds.then(|| said.clone())
    }

    /// What the skill said of itself, if it was asked lately.
    pub(crate) fn known(&self, skill: &Skill) -> Option<Arc<Descriptor>> {
        self.lately(skill)?.ok()
    }
}

/// By which a skill is known here: other skills with the same component say the same.
fn digest(skill: &Skill) -> &str {
    let component = skill.component.as_ref();
    component.map_or("", |component| component.sha256.as_str())
}
