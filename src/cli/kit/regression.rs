//! Recorded runs, done again with a skill that was built: whether it still does the same.

use std::sync::Arc;

use crate::cli::assemble;
use crate::cli::commands::replay::sides;
use crate::clock::Clock;
use crate::config::{Config, Grants};
use crate::ledger::{Recorded, Store};
use crate::registry::{Registry, Skill};
use crate::runner::{
    ReplayOptions, ReplayVerdict, Runner, RunnerOptions, SkillExecutor, SkillExecutorOptions,
};
use crate::telemetry::chain;

use super::trial::Trial;

/// A skill that is ready to do recorded runs again.
pub(crate) struct Regression {
    name: String,
    runner: Runner,
    clock: Clock,
}

impl Regression {
    /// Makes one. Nothing is written to `store`.
    pub(crate) fn new(skill: Skill, config: &Config, store: Store) -> anyhow::Result<Self> {
        let clock = Clock::system();
        let name = skill.name.to_string();
        let executor = SkillExecutor::new(SkillExecutorOptions {
            grants: Grants::default(),
            instances_max: 1,
            ..SkillExecutorOptions::from_config(config, Registry::of([skill]), clock.clone())
        })?;
        let runner = Runner::new(RunnerOptions {
            store,
            executor: Arc::new(executor),
            admission: assemble::admission(config),
            clock: clock.clone(),
        });
        Ok(Self {
            name,
            runner,
            clock,
        })
    }

    /// Does a run again. One that cannot be done again has a problem, as one that goes another way.
    pub(crate) async fn run(&self, recorded: Recorded) -> Trial {
        let since = self.clock.stopwatch();
        let options = ReplayOptions {
            skill: Some(self.name.clone()),
            any_component: true,
            ..ReplayOptions::default()
        };
        let report = match self.runner.replay(recorded, options).await {
            Ok(report) => report,
            Err(error) => return Trial::not_run(chain(&error)),
        };
        let mut problems = Vec::new();
        if let ReplayVerdict::Diverged(difference) = &report.verdict {
            problems.push(format!("event {} is another one now", difference.seq));
            problems.extend(sides(&report.verdict));
            let missing = report.folders_missing.iter();
            problems.extend(missing.map(|folder| format!("it was done again without {folder}")));
        }
        Trial {
            code: report.code,
            duration_micros: since.elapsed_micros(),
            problems,
            ledger: None,
        }
    }
}
