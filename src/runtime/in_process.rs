//! Executions inside this process.

use crate::runner::Runner;

/// The name of the backend inside this process.
pub const IN_PROCESS: &str = "in-process";

/// Carries executions out inside this process.
#[derive(Clone)]
pub struct InProcess {
    runner: Runner,
}

impl InProcess {
    /// Carries them out by this runner.
    pub fn new(runner: Runner) -> Self {
        Self { runner }
    }
}
