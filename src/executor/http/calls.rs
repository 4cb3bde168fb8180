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
        let call = OpenCall {
            calls: Arc::clone(self),
            call_id: id.call_id.clone(),
        };
        let recorded = {
            // The lock is held while the event is written, so that the end of the run, which ends what is
            // open, comes before it or after it.
            let mut open = self.open();
            if open.ended {
                return Err(ExchangeError::RunEnded);
            }
            let since = self.record.stopwatch();
            open.calls.insert(id.call_id.clone(), (id.clone(), since));
            self.record.host().http_call(&id, request)
        };
        if let Err(refused) = recorded.await {
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

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex, Weak};

    use futures_util::future::BoxFuture;

    use super::Calls;
    use crate::clock::Clock;
    use crate::executor::guest_record::GuestRecord;
    use crate::executor::http::error::ExchangeError;
    use crate::executor::run_host::{
        Denial, GuestEvent, HttpCallId, HttpEffect, HttpRequest, HttpResponse, LogLevel, LogOrigin,
        RecordRefused, RunFacts, RunHost, Unrecorded,
    };
    use crate::limits::{Budget, LimitReached, Limits};

    /// Keeps which events of requests came, and whether the run could have ended in the middle of one.
    #[derive(Default)]
    struct Kept {
        nothing: Unrecorded,
        calls: Mutex<Weak<Calls>>,
        events: Mutex<Vec<String>>,
    }

    impl Kept {
        fn keep(&self, event: String) {
            let calls = self.calls.lock().unwrap().upgrade().unwrap();
            assert!(
                calls.open.try_lock().is_err(),
                "the run could end at {event}"
            );
            self.events.lock().unwrap().push(event);
        }

        fn events(&self) -> Vec<String> {
            self.events.lock().unwrap().clone()
        }
    }

    impl RunHost for Kept {
        fn facts(&self) -> &RunFacts {
            self.nothing.facts()
        }

        fn emit(&self, event: GuestEvent<'_>) -> Result<u64, RecordRefused> {
            self.nothing.emit(event)
        }

        fn log(
            &self,
            _level: LogLevel,
            _origin: LogOrigin,
            _message: &str,
            _fields: &[(String, String)],
        ) -> Result<(), RecordRefused> {
            Ok(())
        }

        fn logs_dropped(&self, _lines: u64, _limit: LimitReached) {}

        fn enter(&self, name: &str) -> Result<String, RecordRefused> {
            self.nothing.enter(name)
        }

        fn exit(&self, _node_id: &str, _duration_micros: u64, _success: bool) {}

        fn denied(&self, _denial: Denial<'_>) {}

        fn next_http_call(&self) -> HttpCallId {
            HttpCallId::default()
        }

        fn http_call<'a>(
            &'a self,
            id: &'a HttpCallId,
            _request: HttpRequest<'a>,
        ) -> BoxFuture<'a, Result<(), RecordRefused>> {
            self.keep(format!("{} call", id.call_id));
            Box::pin(std::future::ready(Ok(())))
        }

        fn http_result(
            &self,
            id: &HttpCallId,
            outcome: Result<HttpResponse<'_>, &str>,
            _duration_micros: u64,
        ) -> Result<(), RecordRefused> {
            let outcome =
                outcome.map_or_else(str::to_owned, |response| response.status.to_string());
            self.keep(format!("{} {outcome}", id.call_id));
            Ok(())
        }
    }

    fn calls(limits: Limits) -> (Arc<Kept>, Arc<Calls>) {
        let host = Arc::new(Kept::default());
        let budget = Arc::new(Budget::new(Arc::new(limits), None));
        let record = GuestRecord::new(Arc::<Kept>::clone(&host), budget, Clock::system());
        let calls = Arc::new(Calls::new(Arc::new(record)));
        *host.calls.lock().unwrap() = Arc::downgrade(&calls);
        (host, calls)
    }

    fn id(call_id: &str) -> HttpCallId {
        HttpCallId {
            call_id: call_id.to_owned(),
            ..HttpCallId::default()
        }
    }

    fn request(body: &[u8]) -> HttpRequest<'_> {
        HttpRequest {
            method: "POST",
            url: "http://a.example/",
            headers: &[],
            body,
            effect: HttpEffect::Write,
        }
    }

    /// A run ends before a request is on record or after it, and never between.
    #[tokio::test]
    async fn each_request_on_record_has_one_end() {
        let (host, calls) = calls(Limits::default());
        let open = calls.begin(id("1"), request(b"")).await.unwrap();
        let given_up = calls.begin(id("2"), request(b"")).await.unwrap();
        drop(given_up);
        calls.finish();
        assert_eq!(open.end(Err("late")), Err(ExchangeError::RunEnded));
        let late = calls.begin(id("3"), request(b"")).await;
        assert_eq!(late.err(), Some(ExchangeError::RunEnded));
        assert_eq!(
            host.events(),
            [
                "1 call",
                "2 call",
                "2 connection-terminated: the guest gave the request up",
                "1 connection-terminated: the run ended",
            ]
        );
    }
}
