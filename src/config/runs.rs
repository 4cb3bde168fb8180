//! `[runs]`: how many runs there are at once, and what becomes of those whose process is gone.

use serde::{Deserialize, Serialize};

/// `runs.on_restart` and `runs.restarts_max`: what becomes of runs whose process is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Recovery {
    /// Whether they go on.
    pub on_restart: OnRestart,
    /// How often one run goes on without having been asked to.
    pub restarts_max: u64,
}

impl Default for Recovery {
    fn default() -> Self {
        Self {
            on_restart: OnRestart::default(),
            restarts_max: 3,
        }
    }
}

/// What becomes of a run whose process is gone.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnRestart {
    /// It goes on.
    #[default]
    Resume,
    /// It is closed as interrupted, until somebody resumes it.
    Interrupt,
}

/// Bounds on runs that go on at once, from `[runs]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Admission {
    /// Runs that go on at once and are inside no other, 1 to 10,000.
    pub at_once_max: usize,
    /// Runs inside runs that go on at once, 8 to 900; further ones wait. With `at_once_max` it sizes the
    /// engine's pool of instances.
    pub nested_max: usize,
    /// Runs that may wait for one of those places, 0 to 100,000; beyond it a start is refused.
    pub queue_max: usize,
}

impl Default for Admission {
    fn default() -> Self {
        Self {
            at_once_max: 256,
            nested_max: 256,
            queue_max: 1024,
        }
    }
}

impl Admission {
    /// Instances that all those runs need at once.
    pub fn instances_max(&self) -> usize {
        self.at_once_max.saturating_add(self.nested_max)
    }
}
