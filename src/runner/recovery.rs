//! Runs whose process is gone: found on start, and carried on or closed, as the operator configured it.

use std::collections::BTreeSet;

use super::context::Caller;
use super::error::{ResumeError, RunError};
use super::executor::Terms;
use super::resume::ResumeOptions;
use super::suspend::Woken;
use super::{Gate, RUNS_ABOVE_MAX, RunHandle, Runner, Started};
use crate::clock::Timestamp;
use crate::config::{OnRestart, OnTimeout, Recovery};
use crate::id::RunId;
use crate::ledger::{
    Abandoned, Entry, Event, LIST_RUNS_MAX, Position, ResumeReason, RunQuery, RunState, RunStatus,
    StoreError, Summary,
};
use crate::outcome::OutcomeCode;

/// What became of a run whose process is gone.
#[derive(Debug)]
pub struct Recovered {
    /// The run.
    pub run_id: RunId,
    /// How it goes on; or why it does not.
    pub outcome: Result<Started, NotRestarted>,
}

/// Why a run whose process is gone does not go on by itself. It can be resumed, if somebody asks for it.
#[derive(Debug, thiserror::Error)]
pub enum NotRestarted {
    /// The operator wants it so.
    #[error("runs.on_restart is \"interrupt\"")]
    Configured,
    /// It has gone on by itself as often as it may.
    #[error(
        "it went on by itself {restarts} times: expected at most {restarts_max} (runs.restarts_max)"
    )]
    TooOften {
        /// How often.
        restarts: u64,
        /// How often it may.
        restarts_max: u64,
    },
    /// It stopped in the middle of its record, for this reason, and would again.
    #[error("it ended as {0}")]
    Stopped(OutcomeCode),
    /// It goes on with the run that it is inside of.
    #[error("it goes on with run {0}, which it is inside of")]
    Inside(RunId),
    /// The run that it is inside of goes on no more, so that nobody waits for it.
    #[error("run {0}, which it is inside of, goes on no more")]
    Orphaned(RunId),
    /// It is an execution of an agent, which waits for who launches it again.
    #[error("it is an execution of an agent, which goes on when it is launched again")]
    Execution,
    /// It cannot be taken up.
    #[error("cannot take it up")]
    Refused(#[source] Box<RunError>),
}

impl Runner {
    /// Looks for runs whose process is gone: those without an end are closed as interrupted, and they and those
    /// that were interrupted or suspended before go on, if `recovery` says so. To be called on start, before new
    /// runs are taken. When this returns no run seems to go on that nobody carries out. It can be killed at any
    /// point and called again; runs of other processes are left alone.
    ///
    /// A run that was suspended waits on here, without an instance. One that is inside another goes on with
    /// that one.
    ///
    /// # Errors
    /// The folder of ledgers cannot be read. What cannot be closed is in `closed`, with the reason.
    pub async fn recover(
        &self,
        recovery: Recovery,
    ) -> Result<(Vec<Abandoned>, Vec<Recovered>), StoreError> {
        let closed = self.store().close_abandoned().await?;
        let mut recovered = Vec::new();
        for status in [RunStatus::Interrupted, RunStatus::Suspended] {
            for run_id in self.runs_in(RunState::Ended(status)).await? {
                let outcome = match self.restart(&run_id, recovery).await {
                    // Somebody else was first.
                    Err(NotRestarted::Refused(error)) if is_taken(&error) => continue,
                    outcome => outcome,
                };
                recovered.push(Recovered { run_id, outcome });
            }
        }
        Ok((closed, recovered))
    }

    /// The runs that are in a state, the oldest first.
    async fn runs_in(&self, state: RunState) -> Result<Vec<RunId>, StoreError> {
        let listed = self.reading(move |runner| {
            let mut query = RunQuery {
                state: Some(state),
                ..RunQuery::newest(LIST_RUNS_MAX)
            };
            let mut runs = Vec::new();
            loop {
                let listing = runner.store().list(&query)?;
                runs.extend(listing.runs.into_iter().map(|run| run.run_id));
                match listing.next {
                    Some(next) => query.after = Some(next),
                    None => break,
                }
            }
            runs.reverse();
            Ok(runs)
        });
        listed.await
    }

    /// Goes on with a run whose process is gone, or waits on for what it was suspended for, if it may go on by itself.
    ///
    /// # Errors
    /// It does not, and is as it was.
    pub async fn restart(
        &self,
        run_id: &RunId,
        recovery: Recovery,
    ) -> Result<Started, NotRestarted> {
        let refused = |error: RunError| NotRestarted::Refused(Box::new(error));
        let read = |source| {
            let run_id = run_id.clone();
            refused(ResumeError::Ledger { run_id, source }.into())
        };
        let store = self.store();
        let summary = store.summary(run_id).map_err(read)?;
        if summary.session_id.is_some() {
            return Err(NotRestarted::Execution);
        }
        if let Some(parent) = summary.parent_run_id.clone() {
            return Err(match self.goes_on(&parent) {
                true => NotRestarted::Inside(parent),
                false => NotRestarted::Orphaned(parent),
            });
        }
        if recovery.on_restart == OnRestart::Interrupt {
            return Err(NotRestarted::Configured);
        }
        if summary.state == RunState::Ended(RunStatus::Suspended) {
            return self.wait_on(run_id, &summary).await.map_err(read);
        }
        match summary.code {
            None | Some(OutcomeCode::Interrupted) => {}
            Some(code) => return Err(NotRestarted::Stopped(code)),
        }
        let id = run_id.clone();
        let restarts = self.reading(move |runner| runner.restarts(&id));
        let restarts = restarts.await.map_err(read)?;
        if restarts >= recovery.restarts_max {
            let restarts_max = recovery.restarts_max;
            return Err(NotRestarted::TooOften {
                restarts,
                restarts_max,
            });
        }
        let options = ResumeOptions {
            reason: ResumeReason::Restart,
            ..ResumeOptions::default()
        };
        let resumed = self.start_resume(Caller::new(), run_id, options).await;
        resumed.map_err(refused)
    }

    /// Waits on for what a run was suspended for. It is not done again before that has come.
    async fn wait_on(&self, run_id: &RunId, summary: &Summary) -> Result<Started, StoreError> {
        let id = run_id.clone();
        let gates = self.reading(move |runner| {
            let mut gates = Vec::new();
            runner.open_gates(&id, &mut gates, &mut BTreeSet::new(), RUNS_ABOVE_MAX)?;
            Ok(gates)
        });
        let gates = gates.await?;
        let caller = Caller::new().of_one_run();
        let cancellation = caller.cancellation().clone();
        let started_at = summary.started_at.unwrap_or_else(|| self.clock().now());
        let options = ResumeOptions {
            reason: ResumeReason::Decided,
            ..ResumeOptions::default()
        };
        let (runner, id) = (self.clone(), run_id.clone());
        let live = self.0.live.enter_suspended(run_id, &cancellation);
        let work = async move {
            let _live = live;
            let decided = Box::pin(runner.when_decided(caller, id, &gates, options));
            match decided.await? {
                Woken::GoesOn(dispatch) => dispatch.carry_out().await,
                Woken::Ended(ended) => ended,
            }
        };
        Ok(Started {
            run_id: run_id.clone(),
            started_at,
            handle: RunHandle {
                cancellation,
                work: self.0.work.spawn(work),
            },
        })
    }

    /// The questions that a run waits for, in itself and in runs inside it. A run that was `seen` is not
    /// looked into again: ledgers may name each other.
    fn open_gates(
        &self,
        run_id: &RunId,
        gates: &mut Vec<Gate>,
        seen: &mut BTreeSet<RunId>,
        depth: usize,
    ) -> Result<(), StoreError> {
        seen.insert(run_id.clone());
        let store = self.store();
        let recorded = store.recorded(run_id)?;
        let (started, _) = recorded.started()?;
        let profile = self.executor().profile(&started.skill, &Terms::default());
        let rejects =
            profile.is_ok_and(|profile| profile.approvals.on_timeout == OnTimeout::Reject);
        for gate in store.gates(run_id)? {
            let is_recorded = recorded
                .call(&gate.approval_id)
                .is_some_and(|call| call.result.is_some());
            if is_recorded {
                continue;
            }
            let timeout = i64::try_from(gate.timeout_seconds).unwrap_or(i64::MAX);
            let micros = timeout.saturating_mul(1_000_000);
            let until = gate.asked_at.unix_micros().saturating_add(micros);
            gates.push(Gate {
                run_id: run_id.clone(),
                approval_id: gate.approval_id,
                until: rejects.then(|| Timestamp::from_unix_micros(until)),
            });
        }
        if depth == 0 {
            return Ok(());
        }
        for inside in recorded.open_inside()? {
            if !seen.contains(&inside) {
                self.open_gates(&inside, gates, seen, depth - 1)?;
            }
        }
        Ok(())
    }

    /// Whether a run has no end, or one after which it can go on.
    fn goes_on(&self, run_id: &RunId) -> bool {
        let summary = self.store().summary(run_id);
        summary.is_ok_and(|summary| summary.state.may_go_on())
    }

    /// How often a run went on without anybody having asked for it.
    fn restarts(&self, run_id: &RunId) -> Result<u64, StoreError> {
        let mut events = self.store().follow(run_id, Position::default())?;
        let mut restarts = 0;
        while let Some(entry) = events.next_entry()? {
            if let Entry::Record(record) = entry
                && let Event::RunResumed(resumed) = record.event()
                && resumed.reason == ResumeReason::Restart
            {
                restarts += 1;
            }
        }
        Ok(restarts)
    }
}

/// Whether a run was not taken up because somebody else has it, or it has come to its end.
fn is_taken(error: &RunError) -> bool {
    matches!(
        error,
        RunError::NotResumed(ResumeError::Ledger {
            source: StoreError::Locked { .. }
                | StoreError::Ended { .. }
                | StoreError::NotFound { .. },
            ..
        })
    )
}
