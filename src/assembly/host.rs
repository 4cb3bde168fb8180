//! What is put together, as tools of agents reach it that are one of its parts.

use std::sync::{Arc, OnceLock, Weak};

use super::{AssemblyError, Inner, Skillrun};
use crate::config::Config;
use crate::registry::SkillSet;
use crate::runner::Runner;
use crate::runtime::Runtime;
use crate::runtime::modes::Host;

/// The whole, seen from a part of it that keeps none of it alive.
#[derive(Default)]
pub(super) struct Whole(OnceLock<Weak<Inner>>);

impl Whole {
    /// Says what it is, once that is there.
    pub(super) fn set(&self, skillrun: &Skillrun) {
        // There is one whole for each part, so that none was said before.
        let _first = self.0.set(Arc::downgrade(&skillrun.0));
    }

    fn get(&self) -> Option<Skillrun> {
        self.0.get()?.upgrade().map(Skillrun)
    }
}

impl Host for Whole {
    fn runner(&self) -> Option<Runner> {
        Some(self.get()?.runner().clone())
    }

    fn runtime(&self) -> Option<Arc<dyn Runtime>> {
        Some(Arc::new(self.get()?.runtime().clone()))
    }

    fn skills(&self) -> Option<SkillSet> {
        Some(self.get()?.skills().clone())
    }

    fn config(&self) -> Option<Arc<Config>> {
        Some(self.get()?.config())
    }

    fn reload(&self, config: Config) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        let whole = self.get().ok_or(AssemblyError::Over)?;
        Ok(whole.reload(config)?)
    }
}
