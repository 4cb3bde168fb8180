//! The process of a worker, with all that it starts.

use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::time::timeout;

use super::WorkerProgram;

/// A worker in a process group of its own, in which its servers of tools are, too. All of that ends with this value.
pub(super) struct Process {
    child: Child,
    /// None once it was killed.
    group: Option<Pid>,
}

/// What a worker reads and writes.
pub(super) struct Pipes {
    pub(super) stdin: ChildStdin,
    pub(super) stdout: ChildStdout,
}

impl Process {
    /// Starts it.
    ///
    /// # Errors
    /// There is no such program, or it cannot be started: why, in words.
    pub(super) fn start(worker: &WorkerProgram) -> Result<(Self, Pipes), String> {
        let environment = worker.environment.iter();
        let spawned = Command::new(&worker.program)
            .args(&worker.arguments)
            .envs(environment.map(|(name, value)| (name, value)))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // An interrupt from a terminal is this process's to pass on.
            .process_group(0)
            .kill_on_drop(true)
            .spawn();
        let mut child = spawned.map_err(|error| {
            let program = worker.program.display();
            format!("cannot start {program}: {error}")
        })?;
        let group = child.id().and_then(|id| i32::try_from(id).ok());
        let pipes = (child.stdin.take(), child.stdout.take());
        let process = Self {
            child,
            group: group.and_then(Pid::from_raw),
        };
        match pipes {
            (Some(stdin), Some(stdout)) => Ok((process, Pipes { stdin, stdout })),
            _ => Err("the worker has no pipes".to_owned()),
        }
    }

    /// Kills it with everything that it started, and waits until it is gone.
    pub(super) async fn killed(mut self) -> Option<ExitStatus> {
        self.kill();
        self.child.wait().await.ok()
    }

    /// Gives it time to end by itself, and then kills what is left.
    pub(super) async fn ended(mut self, time: Duration) {
        let _late = timeout(time, self.child.wait()).await;
        self.kill();
    }

    fn kill(&mut self) {
        // The number of a group is not given to another one while a process of it lives, and system-wide numbers do
        // not come round within the moment between the end of the last one and this.
        if let Some(group) = self.group.take() {
            // There may be nobody left.
            let _gone = kill_process_group(group, Signal::KILL);
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}
