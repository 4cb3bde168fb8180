//! Ends of executions: by themselves, and because somebody wants it.

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, join_all};

use super::WasmRuntime;
use crate::id::ExecutionId;
use crate::outcome::OutcomeCode;
use crate::runtime::backend::End;
use crate::runtime::error::RuntimeError;
use crate::runtime::state::ExecutionStatus;
use crate::runtime::table::{Claim, Seen, Slot};
use crate::runtime::types::Stopped;
use crate::runtime::workspace::MadeFolder;

/// What two graces do not cover: getting through to the instance. Protects an execution that is in time from being
/// ended by force.
const SLACK: Duration = Duration::from_secs(1);
/// How long a backend has to end an execution by force. Protects whoever stops one from a backend that does not
/// answer.
const FORCED_END_MAX: Duration = Duration::from_secs(30);
/// Bytes of the reason of a stop. Protects ledgers.
const REASON_BYTES_MAX: usize = 4 * 1024;
/// The reason of a stop that has none.
const REASON_NONE: &str = "stopped";
/// Why children are stopped whose parent has ended.
const REASON_PARENT_ENDED: &str = "its parent has ended";

impl WasmRuntime {
    /// Waits for the end of an execution, and cleans up after it.
    pub(super) async fn look_after(
        self,
        slot: Slot,
        ended: BoxFuture<'static, End>,
        folder: Option<MadeFolder>,
    ) {
        let ended = AssertUnwindSafe(ended).catch_unwind().await;
        let end = ended.unwrap_or_else(|_panic| {
            End::failed(OutcomeCode::Internal, "the backend panicked".to_owned())
        });
        if let Some(folder) = folder {
            folder.remove().await;
        }
        let now = self.0.options.runner.clock().now();
        self.0.counters.ended(end.ending.into(), end.code);
        self.table().end(&slot, end, now);
        let children = self
            .table()
            .begin_stop_children(&slot.id, REASON_PARENT_ENDED);
        // A shutdown interrupts them by itself, so that they can go on.
        if !self.table().is_closed() {
            self.end_all(children, REASON_PARENT_ENDED).await;
        }
    }

    pub(super) async fn stop_one(
        &self,
        id: &ExecutionId,
        parent: Option<&ExecutionId>,
        reason: &str,
    ) -> Result<Stopped, RuntimeError> {
        let reason = checked(reason)?;
        let claims = self.table().begin_stop(id, &reason, parent)?;
        let ended = self.end_in_task(claims, reason).await?;
        let mut of_it = ended.into_iter().filter(|stopped| stopped.id == *id);
        let stopped = of_it.next();
        let stopped = stopped.ok_or_else(|| RuntimeError::not_found(&id.to_string()))?;
        if !stopped.status.is_terminal() {
            let bound = FORCED_END_MAX;
            return Err(RuntimeError::unresponsive(id.clone(), "it", bound));
        }
        Ok(stopped)
    }

    pub(super) async fn stop_below(
        &self,
        parent: &ExecutionId,
        reason: &str,
    ) -> Result<Vec<Stopped>, RuntimeError> {
        let reason = checked(reason)?;
        let claims = self.table().begin_stop_children(parent, &reason);
        self.end_in_task(claims, reason).await
    }

    /// In a task of its own, so that it goes on when nobody waits for it: nobody else could take it over.
    async fn end_in_task(
        &self,
        claims: Vec<Claim>,
        reason: String,
    ) -> Result<Vec<Stopped>, RuntimeError> {
        let runtime = self.clone();
        let ending = async move { runtime.end_all(claims, &reason).await };
        let ended = self.0.work.spawn(ending).await;
        ended.map_err(|_shut_down| RuntimeError::ShuttingDown)
    }

    /// Ends executions side by side.
    pub(super) async fn end_all(&self, claims: Vec<Claim>, reason: &str) -> Vec<Stopped> {
        for claim in &claims {
            claim.instance.finish(reason);
        }
        join_all(claims.into_iter().map(|claim| self.end_one(claim))).await
    }

    /// Waits for the end of an execution that was told to finish, and forces it when it takes too long.
    async fn end_one(&self, mut claim: Claim) -> Stopped {
        // Its turn has one grace, and its end another one.
        let bound = self.0.options.grace.saturating_mul(2).saturating_add(SLACK);
        let is_over = claim.progress.wait_for(|progress| progress.is_over);
        let forced = tokio::time::timeout(bound, is_over).await.is_err();
        if forced {
            claim.instance.stop();
            let is_over = claim.progress.wait_for(|progress| progress.is_over);
            if tokio::time::timeout(FORCED_END_MAX, is_over).await.is_err() {
                tracing::error!(execution_id = %claim.id, "its backend does not end it");
            }
        }
        let now = self.0.options.runner.clock().now();
        let status = match self.table().look(&claim.id, now) {
            Seen::Known(execution) => execution.status,
            Seen::Unknown | Seen::Hidden => ExecutionStatus::Stopped,
        };
        Stopped {
            status,
            forced,
            teardown_error: self.table().teardown_error(&claim.id),
            id: claim.id,
        }
    }
}

/// The reason of a stop, as it is kept.
fn checked(reason: &str) -> Result<String, RuntimeError> {
    if reason.len() > REASON_BYTES_MAX {
        let bytes = reason.len();
        let problem = format!("expected at most {REASON_BYTES_MAX} bytes, found {bytes}");
        return Err(RuntimeError::invalid("reason", problem));
    }
    Ok(match reason {
        "" => REASON_NONE.to_owned(),
        reason => reason.to_owned(),
    })
}
