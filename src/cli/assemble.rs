//! From configuration to the parts that commands work with.

use crate::clock::Clock;
use crate::config::Config;
use crate::ledger::{Store, StoreError, StoreOptions};
use crate::registry::Registry;
use crate::runner::{EngineError, SkillExecutor, SkillExecutorOptions};

/// Instances that one command needs at once. A pool of this size costs nothing to make.
const INSTANCES_MAX: usize = 16;

pub(crate) fn store(config: &Config, clock: &Clock) -> Result<Store, StoreError> {
    Store::open(StoreOptions {
        runs_dir: config.runs_dir(),
        durability: config.durability,
        clock: clock.clone(),
    })
}

pub(crate) fn executor(
    registry: Registry,
    config: &Config,
    clock: &Clock,
) -> Result<SkillExecutor, EngineError> {
    let instances_max = config.runs.at_once_max.min(INSTANCES_MAX);
    SkillExecutor::new(SkillExecutorOptions {
        instances_max,
        ..SkillExecutorOptions::from_config(config, registry, clock.clone())
    })
}
