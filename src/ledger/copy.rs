//! A new ledger that repeats the beginning of another one.

use std::sync::Arc;

use super::error::StoreError;
use super::event::Event;
use super::payload::RunOrigin;
use super::recorder::{Recorder, Shelf};
use super::replay::{Recorded, read_record};
use super::store::create;
use crate::id::RunId;

/// See [`Store::copy`](super::Store::copy).
pub(super) fn copy(
    shelf: &Arc<Shelf>,
    source: &Recorded,
    run_id: RunId,
    until_seq: u64,
) -> Result<(Recorder, Recorded), StoreError> {
    let (mut started, started_at) = source.started()?;
    started.origin.get_or_insert_with(|| RunOrigin {
        run_id: source.run_id().clone(),
        started_at,
    });
    started.resumed_from = Some(source.run_id().clone());
    // Nobody waits for this one.
    started.parent_run_id = None;
    let (recorder, _) = create(shelf, run_id.clone(), started)?;
    source.each_before(until_seq, &mut |recalled| {
        if matches!(
            recalled.event,
            Event::RunStarted(_) | Event::RunCompleted(_)
        ) {
            return Ok(());
        }
        let recalled = source.whole(recalled)?;
        let copied = recorder.record_as_of(recalled.time, recalled.origin, &recalled.event);
        copied.map_err(|source| StoreError::Record {
            run_id: run_id.clone(),
            source,
        })
    })?;
    let recorded = read_record(shelf, &run_id)?;
    Ok((recorder, recorded))
}
