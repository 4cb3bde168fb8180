//! Closes runs whose process is gone.

use std::sync::Arc;

use super::error::StoreError;
use super::event::Origin;
use super::list::{LIST_RUNS_MAX, RunQuery};
use super::payload::{Head, RunCompleted, RunStatus};
use super::prune;
use super::recorder::Shelf;
use super::recover::recover;
use super::store::index_of;
use super::summary::RunState;
use crate::id::RunId;
use crate::outcome::OutcomeCode;

/// What became of a run that had no end and no writer.
#[derive(Debug)]
pub struct Abandoned {
    /// The run.
    pub run_id: RunId,
    /// The newest line of its ledger, which now has an end; or why it has none.
    pub closed: Result<Head, StoreError>,
}

/// See [`Store::close_abandoned`](super::Store::close_abandoned).
pub(super) fn close_abandoned(shelf: &Arc<Shelf>) -> Result<Vec<Abandoned>, StoreError> {
    prune::finish(&shelf.folder).map_err(|error| shelf.folder.failed("prune", "", error))?;
    let mut closed = Vec::new();
    // What a power cut leaves at the end of a file can look like damage until it is looked at closely.
    for state in [RunState::Running, RunState::Corrupt] {
        let mut query = RunQuery {
            state: Some(state),
            ..RunQuery::newest(LIST_RUNS_MAX)
        };
        loop {
            let listing = index_of(shelf).list(&query)?;
            for run in listing.runs {
                match close(shelf, &run.run_id) {
                    // It goes on, its writer came to its end just now, or it is not ours.
                    Err(
                        StoreError::Locked { .. }
                        | StoreError::Ended { .. }
                        | StoreError::ReadOnly { .. },
                    ) => {}
                    // It was damaged before, and is shown so.
                    Err(
                        StoreError::Corrupt { .. }
                        | StoreError::NeverStarted { .. }
                        | StoreError::Io { .. },
                    ) if state == RunState::Corrupt => {}
                    outcome => closed.push(Abandoned {
                        run_id: run.run_id,
                        closed: outcome,
                    }),
                }
            }
            match listing.next {
                Some(next) => query.after = Some(next),
                None => break,
            }
        }
    }
    Ok(closed)
}

/// Each step may be the last one before this process is gone as well: until the end is recorded, the
/// run is found again by the next call.
fn close(shelf: &Arc<Shelf>, run_id: &RunId) -> Result<Head, StoreError> {
    let recorder = recover(shelf, run_id)?;
    let end = RunCompleted {
        error: Some("the process that carried the run out is gone".into()),
        ..RunCompleted::new(RunStatus::Interrupted, OutcomeCode::Interrupted)
    };
    recorder
        .record_durable_blocking(Origin::Host, &end.into())
        .map_err(|source| StoreError::Record {
            run_id: run_id.clone(),
            source,
        })?;
    Ok(recorder.head())
}
