//! Which requests are on record without a result, so that each gets one.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::error::ExchangeError;
use crate::clock::Stopwatch;
use crate::executor::guest_record::GuestRecord;
use crate::executor::run_host::{HttpCallId, HttpRequest, HttpResponse, RecordRefused};

/// The requests of one run that are on record without a result. When the run ends it records what
/// became of them, before the run is seen to end, and takes no more.
pub(super) struct Calls {
    record: Arc<GuestRecord>,
    open: Mutex<Open>,
}

#[derive(Default)]
struct Open {
    ended: bool,
    calls: BTreeMap<String, (HttpCallId, Stopwatch)>,
}

impl Calls {
    pub(super) fn new(record: Arc<GuestRecord>) -> Self {
        Self {
            record,
            open: Mutex::default(),
        }
    }

    fn open(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts a request on record. Nothing of it may be sent before this returns.
    pub(super) async fn begin(
        self: &Arc<Self>,
        id: HttpCallId,
        request: HttpRequest<'_>,
    ) -> Result<OpenCall, ExchangeError> {
        {
            let mut open = self.open();
            if open.ended {
                return Err(ExchangeError::RunEnded);
            }
            let since = self.record.stopwatch();
            open.calls.insert(id.call_id.clone(), (id.clone(), since));
        }
        let call = OpenCall {
            calls: Arc::clone(self),
            call_id: id.call_id.clone(),
        };
        let recorded = self.record.host().http_call(&id, request).await;
        if let Err(refused) = recorded {
            self.open().calls.remove(&id.call_id);
            return Err(ExchangeError::Unrecorded(refused));
        }
        Ok(call)
    }

    /// Puts the end of a request on record, unless that was done.
    fn end(
        &self,
        call_id: &str,
        outcome: Result<HttpResponse<'_>, &str>,
    ) -> Result<(), ExchangeError> {
        // The lock is held while the event is written, so that none comes after the run's end.
        let mut open = self.open();
        let Some((id, since)) = open.calls.remove(call_id) else {
            return Err(ExchangeError::RunEnded);
        };
        let host = self.record.host();
        let refused = match host.http_result(&id, outcome, since.elapsed_micros()) {
            Ok(()) => return Ok(()),
            Err(refused) => refused,
        };
        let error = ExchangeError::Unrecorded(refused.clone());
        if matches!(refused, RecordRefused::Invalid { .. }) {
            // There was no room for the response; that it came is worth a line.
            let reason = error.recorded();
            let _kept_by_the_recorder = host.http_result(&id, Err(&reason), since.elapsed_micros());
        }
        Err(error)
    }

    /// Records what became of the requests that are not over when the run is.
    pub(super) fn finish(&self) {
        let reason = ExchangeError::RunEnded.recorded();
        let mut open = self.open();
        open.ended = true;
        for (id, since) in std::mem::take(&mut open.calls).into_values() {
            let host = self.record.host();
            let _kept_by_the_recorder = host.http_result(&id, Err(&reason), since.elapsed_micros());
        }
    }
}

/// A request that is on record and goes on. Dropped without an end, the guest gave it up.
pub(super) struct OpenCall {
    calls: Arc<Calls>,
    call_id: String,
}

impl OpenCall {
    /// Puts the end on record. The guest may see it when this returns.
    pub(super) fn end(self, outcome: Result<HttpResponse<'_>, &str>) -> Result<(), ExchangeError> {
        self.calls.end(&self.call_id, outcome)
    }
}

impl Drop for OpenCall {
    fn drop(&mut self) {
        let reason = ExchangeError::GivenUp.recorded();
        // It was recorded already, unless the guest let go of it.
        let _recorded = self.calls.end(&self.call_id, Err(&reason));
    }
}
