//! Tasks: runs that their client asks after, and does not wait for. Whatever is told of one is read from its ledger.

use rmcp::model::{ErrorData, Task, TaskStatus};

use super::Mcp;
use super::start::{internal, reading, started};
use crate::id::RunId;
use crate::ledger::{RunState, RunStatus};

impl Mcp {
    /// A run as the task that it is.
    pub(super) async fn task_of(&self, run_id: &RunId) -> Result<Task, ErrorData> {
        let (store, id) = (self.host().store().clone(), run_id.clone());
        let read = reading(move || Ok((store.summary(&id)?, started(&store, &id)?)));
        let (summary, started) = read.await.map_err(|error| internal(&error))?;
        let facts = started.and_then(|started| started.client?.task);
        let ttl_ms = facts.map_or(self.settings().task_ttl_ms, |task| task.ttl_ms);
        let now = self.host().clock().now();
        let task = Task::new(
            summary.run_id.as_str(),
            status(summary.state),
            summary.started_at.unwrap_or(now).to_string(),
            summary.ended_at.unwrap_or(now).to_string(),
        );
        let poll_interval_ms = self.settings().poll_interval_ms;
        Ok(task
            .with_ttl_ms(ttl_ms)
            .with_poll_interval_ms(poll_interval_ms))
    }
}

fn status(state: RunState) -> TaskStatus {
    match state {
        RunState::Ended(RunStatus::Cancelled) => TaskStatus::Cancelled,
        RunState::Ended(RunStatus::Ok | RunStatus::Error) => TaskStatus::Completed,
        RunState::Running | RunState::Ended(RunStatus::Suspended | RunStatus::Interrupted) => {
            TaskStatus::Working
        }
        RunState::Corrupt => TaskStatus::Failed,
    }
}
