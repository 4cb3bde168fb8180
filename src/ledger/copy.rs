//! A new ledger that repeats the beginning of another one.

use std::sync::Arc;

use super::create::create;
use super::decision::binding;
use super::error::StoreError;
use super::event::Event;
use super::payload::RunOrigin;
use super::recorder::{Recorder, Shelf};
use super::replay::{Recalled, Recorded, read_record};
use super::store::Store;
use crate::id::RunId;

impl Store {
    /// Starts the ledger of the new run `run_id`, which repeats the events of `source` before the one
    /// numbered `until_seq`, with their times. Its `run_started` names where they come from.
    ///
    /// # Errors
    /// As [`Store::create`], and an event of `source` cannot be read.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub async fn copy(
        &self,
        source: Recorded,
        run_id: RunId,
        until_seq: u64,
    ) -> Result<(Recorder, Recorded), StoreError> {
        let shelf = Arc::clone(&self.0);
        tokio::task::spawn_blocking(move || copy(&shelf, &source, run_id, until_seq))
            .await
            .unwrap_or(Err(StoreError::ShutDown))
    }
}

fn copy(
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
    let mut repeated = 0;
    source.each_before(until_seq, &mut |recalled| {
        repeated += u64::from(is_repeated(&recalled));
        Ok(())
    })?;
    started.repeated_events = Some(repeated);
    let component = started.component_digest.clone();
    let (recorder, _) = create(shelf, run_id.clone(), started)?;
    source.each_before(until_seq, &mut |recalled| {
        if !is_repeated(&recalled) {
            return Ok(());
        }
        let mut recalled = source.whole(recalled)?;
        if let Event::ApprovalRequest(request) = &mut recalled.event {
            // Whoever answers it here answers it for this run.
            let payload = request.payload.clone().unwrap_or_default();
            let component = component.as_deref();
            let binding = binding(
                &run_id,
                component,
                request.prompt.as_str(),
                payload.as_str(),
            );
            request.binding = Some(binding.to_string());
        }
        let copied = recorder.record_as_of(recalled.time, recalled.origin, &recalled.event);
        copied.map_err(|source| StoreError::Record {
            run_id: run_id.clone(),
            source,
        })
    })?;
    let recorded = read_record(shelf, &run_id)?;
    Ok((recorder, recorded))
}

/// Whether an event is one of the run, and not of the file or the process that it was in.
fn is_repeated(recalled: &Recalled) -> bool {
    let is_own = matches!(
        recalled.event,
        Event::RunStarted(_) | Event::RunCompleted(_)
    );
    !is_own && !recalled.event.is_torn_tail(recalled.origin)
}
