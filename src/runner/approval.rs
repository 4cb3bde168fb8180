//! Decisions after which a run goes on, also one that nobody waits for.

use super::context::Caller;
use super::error::{ResumeError, RunError};
use super::resume::ResumeOptions;
use super::{RUNS_ABOVE_MAX, Runner};
use crate::id::RunId;
use crate::ledger::{
    ApprovalDecision, DecideError, Gate, ResumeReason, RunState, RunStatus, StoreError,
};
use crate::telemetry::chain;

impl Runner {
    /// Decides as [`crate::ledger::Store::decide`] does. A run that is suspended, for which no process may be waiting, goes on here
    /// then; unless what its first caller granted to it would be missing, or another process takes it up.
    ///
    /// # Errors
    /// As for [`crate::ledger::Store::decide`].
    pub async fn decide(
        &self,
        run_id: &RunId,
        approval_id: Option<&str>,
        decision: ApprovalDecision,
    ) -> Result<Gate, DecideError> {
        let (store, run_id, approval_id) = (
            self.store().clone(),
            run_id.clone(),
            approval_id.map(str::to_owned),
        );
        let decided = tokio::task::spawn_blocking(move || {
            store.decide(&run_id, approval_id.as_deref(), &decision)
        });
        let gate = decided.await.unwrap_or(Err(StoreError::ShutDown.into()))?;
        self.go_on_if_suspended(&gate.run_id).await;
        Ok(gate)
    }

    /// Takes up the run, or the outermost one that it is inside of, if that is suspended and nobody here waits
    /// for it. Whether it works changes nothing about the decision.
    async fn go_on_if_suspended(&self, run_id: &RunId) {
        let id = run_id.clone();
        let run_id = match self
            .reading(move |runner| runner.suspended_above(&id))
            .await
        {
            Ok(Some(run_id)) => run_id,
            Ok(None) => return,
            Err(error) => {
                tracing::warn!(%run_id, error = chain(&error), "cannot tell whether it is suspended");
                return;
            }
        };
        let options = ResumeOptions {
            reason: ResumeReason::Decided,
            ..ResumeOptions::default()
        };
        match self.start_resume(Caller::new(), &run_id, options).await {
            Ok(_goes_on) => {}
            Err(RunError::NotResumed(ResumeError::Ledger {
                source: StoreError::Locked { .. } | StoreError::Ended { .. },
                ..
            })) => {}
            Err(error) => {
                tracing::warn!(%run_id, error = chain(&error), "what is decided does not go on");
            }
        }
    }

    fn suspended_above(&self, run_id: &RunId) -> Result<Option<RunId>, StoreError> {
        let mut summary = self.store().summary(run_id)?;
        for _ in 0..RUNS_ABOVE_MAX {
            let Some(parent) = summary.parent_run_id.take() else {
                break;
            };
            summary = self.store().summary(&parent)?;
        }
        let is_suspended = summary.state == RunState::Ended(RunStatus::Suspended);
        let is_waited_for = self.is_live(&summary.run_id);
        Ok((is_suspended && !is_waited_for).then_some(summary.run_id))
    }
}
