//! The end of a run, for whoever waits for it.

use std::time::Duration;

use super::blocking;
use crate::api::Api;
use crate::api::dto::run::Outcome;
use crate::api::problem::Problem;
use crate::clock::Timestamp;
use crate::id::RunId;
use crate::ledger::{Entry, Event, RunStatus, StoreError};
use crate::runner::{RunError, RunHandle};

/// How often it is looked whether a run goes on that is suspended and was not begun by this request.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// Waits for the end of a run; none when that is not there in time, or the surface closes before.
pub(super) async fn within(
    api: &Api,
    run_id: &RunId,
    handle: Option<RunHandle>,
    wait: Duration,
) -> Result<Option<Outcome>, Problem> {
    let ended = async {
        match handle {
            Some(handle) => of_handle(api, run_id, handle).await,
            None => of_ledger(api, run_id).await,
        }
    };
    tokio::select! {
        ended = ended => ended.map(Some),
        () = tokio::time::sleep(wait) => Ok(None),
        () = api.closing().cancelled() => Ok(None),
    }
}

async fn of_handle(api: &Api, run_id: &RunId, handle: RunHandle) -> Result<Outcome, Problem> {
    match handle.wait().await {
        Ok(outcome) => Ok(outcome.into()),
        Err(error @ (RunError::LedgerUnavailable { .. } | RunError::ShuttingDown)) => {
            Err(error.into())
        }
        // It has no answer, and why is on record.
        Err(error) => match recorded(api, run_id).await? {
            Some(outcome) => Ok(outcome),
            None => Err(error.into()),
        },
    }
}

/// Waits for the end of a run that somebody else has begun.
async fn of_ledger(api: &Api, run_id: &RunId) -> Result<Outcome, Problem> {
    loop {
        let store = api.host().store().clone();
        let followed = run_id.clone();
        let mut events = blocking(move || Ok(store.subscribe_newest(&followed)?)).await?;
        while events.next().await?.is_some() {}
        if let Some(outcome) = recorded(api, run_id).await? {
            return Ok(outcome);
        }
        tokio::time::sleep(LOOK_INTERVAL).await;
    }
}

/// The end of a run as it is on record; none while there is none.
async fn recorded(api: &Api, run_id: &RunId) -> Result<Option<Outcome>, Problem> {
    let (store, run_id) = (api.host().store().clone(), run_id.clone());
    blocking(move || {
        let summary = store.summary(&run_id)?;
        let last = store.read(&run_id, summary.head.seq, 1)?;
        let Some(Entry::Record(record)) = last.entries.first() else {
            return Ok(None);
        };
        let event = match store.whole(&run_id, record.event()) {
            // The result is gone, and the run has ended all the same.
            Err(StoreError::Blob { .. } | StoreError::BlobContent { .. }) => record.event(),
            event => event?,
        };
        let Event::RunCompleted(completed) = event else {
            return Ok(None);
        };
        if completed.status == RunStatus::Suspended {
            return Ok(None);
        }
        let started_at = summary.started_at.unwrap_or(record.time);
        Ok(Some(Outcome::recorded(
            run_id,
            started_at,
            summary.head,
            completed,
        )))
    })
    .await
}

/// When a run began that is on record; none when there is no such run.
pub(super) async fn started_at(api: &Api, run_id: &RunId) -> Result<Option<Timestamp>, Problem> {
    let (store, run_id) = (api.host().store().clone(), run_id.clone());
    blocking(move || match store.summary(&run_id) {
        Ok(summary) => Ok(summary.started_at),
        Err(StoreError::NotFound { .. }) => Ok(None),
        Err(error) => Err(error.into()),
    })
    .await
}
