//! Closes runs whose process is gone.

use std::sync::Arc;

use super::error::StoreError;
use super::event::Origin;
use super::list::{LIST_RUNS_MAX, RunQuery};
use super::payload::{Head, RunCompleted, RunStatus};
use super::prune;
use super::recorder::Shelf;
use super::recover::recover;
use super::state::Phase;
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
    // Files that cannot be removed say nothing about the runs that are to be closed.
    if let Err(error) = prune::finish(&shelf.folder) {
        tracing::warn!(
            error = &error as &dyn std::error::Error,
            "removed runs left files behind"
        );
    }
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
                    // It goes on, it came to an end or was removed just now, or it is not ours.
                    Err(
                        StoreError::Locked { .. }
                        | StoreError::NotFound { .. }
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
    // An end after the place where the ledger was cut would cover the cut up.
    let noted = index_of(shelf).head(run_id);
    // Since it was listed, the run may have been suspended, and then it waits for somebody, or closed
    // by another call of this.
    let (recorder, _) = recover(shelf, run_id, |phase| phase == Phase::Running, noted)?;
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

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::clock::{Clock, Timestamp};
    use crate::config::Durability;
    use crate::ledger::bus::Bus;
    use crate::ledger::folder::Folder;
    use crate::ledger::health::Health;
    use crate::ledger::payload::RunStarted;
    use crate::ledger::pending::SilentRuns;
    use crate::ledger::redact::Redactions;
    use crate::ledger::store::{Store, StoreOptions};
    use crate::ledger::sync::Flusher;

    fn stores(dir: &std::path::Path) -> (Store, Arc<Shelf>) {
        let durability = Durability::Relaxed;
        let clock = Clock::manual(Timestamp::from_unix_micros(1_778_691_736_049_000));
        let shelf = Shelf {
            folder: Folder::open(dir).unwrap(),
            durability,
            clock: clock.clone(),
            health: Health::default(),
            flusher: Flusher::default(),
            bus: Bus::default(),
            redactions: Redactions::default(),
            decided: tokio::sync::Notify::new(),
            counters: crate::ledger::statistics::Counters::default(),
            silent: SilentRuns::default(),
        };
        let options = StoreOptions {
            runs_dir: dir.to_owned(),
            durability,
            clock,
        };
        (Store::open(options).unwrap(), Arc::new(shelf))
    }

    #[tokio::test]
    async fn a_run_that_came_to_an_end_since_it_was_listed_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let (store, shelf) = stores(dir.path());
        // Absent for the run whose process is gone, and which the first of two calls closes.
        for end in [
            Some((RunStatus::Suspended, OutcomeCode::Interrupted)),
            Some((RunStatus::Ok, OutcomeCode::Ok)),
            None,
        ] {
            let run_id = RunId::generate();
            let started = store.create(run_id.clone(), RunStarted::default()).await;
            let (recorder, _) = started.unwrap();
            if let Some((status, code)) = end {
                let end = RunCompleted::new(status, code).into();
                recorder.record(Origin::Host, &end).unwrap();
            }
            drop(recorder);
            if end.is_none() {
                close(&shelf, &run_id).unwrap();
            }
            let before = fs::read_to_string(store.path_of(&run_id)).unwrap();
            let refused = close(&shelf, &run_id);
            assert!(matches!(refused, Err(StoreError::Ended { .. })));
            let after = fs::read_to_string(store.path_of(&run_id)).unwrap();
            assert_eq!(after, before);
            assert_eq!(after.matches("\"run_completed\"").count(), 1);
        }
    }
}
