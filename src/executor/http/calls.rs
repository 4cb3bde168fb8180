//! Which requests are on record without a result, so that each gets one.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::error::ExchangeError;
use crate::clock::Stopwatch;
use crate::executor::guest_record::GuestRecord;
use crate::executor::run_host::{HttpCallId, HttpRequest, HttpResponse, RecordRefused};
use crate::limits::LimitKey;

/// Bytes from which on the record keeps the fields of a message or a body beside its lines, where they
/// are bounded in another way.
const INLINE_BYTES_MAX: u64 = 64 * 1024;
/// What stands in a line for one of those: where it is, and how it begins.
const REFERENCE_BYTES: u64 = 1024;
/// What the two lines of a request take beside that, the reason why there is no response included, so
/// that a flood of empty ones ends too.
const LINES_OVERHEAD_BYTES: u64 = 2 * 256;
/// Quotes, brackets and commas of a header field.
const FIELD_OVERHEAD_BYTES: u64 = 8;

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

    /// Counts what an event puts into the lines of the record.
    fn charge(&self, bytes: u64) -> Result<(), ExchangeError> {
        let taken = self.record.budget().take(LimitKey::GuestEventBytes, bytes);
        taken.map_err(ExchangeError::RecordFull)
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
        self.charge(request_bytes(&request))?;
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
        let charged = outcome.map_or(Ok(()), |response| self.charge(response_bytes(&response)));
        let recorded = charged.and_then(|()| {
            let recorded = host.http_result(&id, outcome, since.elapsed_micros());
            recorded.map_err(ExchangeError::Unrecorded)
        });
        if let Err(
            error @ (ExchangeError::RecordFull(_)
            | ExchangeError::Unrecorded(RecordRefused::Invalid { .. })),
        ) = &recorded
        {
            // There was no room for the response; that it came is worth a line.
            let reason = error.recorded();
            let _kept_by_the_recorder = host.http_result(&id, Err(&reason), since.elapsed_micros());
        }
        recorded
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

/// Bytes that a request takes in the lines of the record, with the end of it if that is no response.
fn request_bytes(request: &HttpRequest<'_>) -> u64 {
    LINES_OVERHEAD_BYTES
        .saturating_add(text_bytes(request.url))
        .saturating_add(message_bytes(request.headers, request.body))
}

/// What a response takes there.
fn response_bytes(response: &HttpResponse<'_>) -> u64 {
    message_bytes(response.headers, response.body)
}

fn message_bytes(headers: &[(String, String)], body: &[u8]) -> u64 {
    let fields = headers.iter().map(|(name, value)| {
        text_bytes(name)
            .saturating_add(text_bytes(value))
            .saturating_add(FIELD_OVERHEAD_BYTES)
    });
    let body = match std::str::from_utf8(body) {
        // Nobody has to look through one that is large as it is.
        _ if len(body) > INLINE_BYTES_MAX => len(body),
        Ok(text) => text_bytes(text),
        // In base64, four characters stand for three bytes.
        Err(_not_text) => len(body).div_ceil(3).saturating_mul(4),
    };
    let fields = fields.fold(0, u64::saturating_add);
    inline_bytes(fields).saturating_add(inline_bytes(body))
}

fn inline_bytes(bytes: u64) -> u64 {
    if bytes > INLINE_BYTES_MAX {
        REFERENCE_BYTES
    } else {
        bytes
    }
}

/// Bytes of a text as JSON, without its quotes.
fn text_bytes(text: &str) -> u64 {
    let escapes = text.bytes().map(|byte| match byte {
        b'"' | b'\\' | 0x08 | b'\t' | b'\n' | 0x0c | b'\r' => 1,
        0..=0x1f => 5,
        _ => 0,
    });
    len(text.as_bytes()).saturating_add(escapes.sum())
}

fn len(bytes: &[u8]) -> u64 {
    u64::try_from(bytes.len()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex, Weak};
    use std::time::Duration;

    use futures_util::future::BoxFuture;

    use super::{Calls, text_bytes};
    use crate::clock::Clock;
    use crate::executor::guest_record::GuestRecord;
    use crate::executor::http::error::ExchangeError;
    use crate::executor::provided::Provided;
    use crate::executor::run_host::{
        Denial, GuestEvent, HttpCallId, HttpRequest, HttpResponse, LogLevel, LogOrigin,
        RecalledHttp, RecordRefused, RunFacts, RunHost, RunTime, Unrecorded,
    };
    use crate::limits::{Budget, LimitOverrides, LimitReached, Limits, Source};

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

        fn attempt(&self) -> u32 {
            1
        }

        fn now(&self) -> RunTime {
            Unrecorded::default().now()
        }

        fn until(&self, elapsed: Duration) -> Duration {
            elapsed
        }

        fn recall_poll(&self) -> Result<Option<Vec<u32>>, RecordRefused> {
            Ok(None)
        }

        fn polled(&self, _ready: &[u32], _waited_micros: u64) -> Result<(), RecordRefused> {
            Ok(())
        }

        fn recall_http<'a>(
            &'a self,
            _id: &'a HttpCallId,
            _request: HttpRequest<'a>,
        ) -> BoxFuture<'a, Result<Option<RecalledHttp>, RecordRefused>> {
            Box::pin(std::future::ready(Ok(None)))
        }

        fn provided(&self) -> &dyn Provided {
            &self.nothing
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
            effect: crate::call::Effect::Write,
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

    #[test]
    fn a_text_is_as_long_as_it_is_in_json() {
        let all: String = ('\0'..='\u{2ff}').collect();
        for text in ["", "plain", &all] {
            let json = serde_json::to_string(text).unwrap();
            assert_eq!(text_bytes(text), json.len() as u64 - 2, "{text:?}");
        }
    }

    #[tokio::test]
    async fn what_comes_on_record_is_bounded_and_large_values_lie_beside_it() {
        let bytes_max = LimitOverrides::from([("guest_event_bytes".to_owned(), 10_000)]);
        let limits = Limits::default().with(Source::Config, &bytes_max);
        let (host, calls) = calls(limits.unwrap());
        let full = |ended: Option<ExchangeError>| {
            let message = ended.unwrap().to_string();
            let expected = "not recorded: guest_event_bytes limit of 10000 reached (set by config)";
            assert_eq!(message, expected);
        };
        let response = |body| HttpResponse {
            status: 200,
            headers: &[],
            body,
        };
        // Two large bodies, and then a response and a request for which nothing is left.
        let large = [b'x'; 100_000];
        let first = calls.begin(id("1"), request(&large)).await.unwrap();
        first.end(Ok(response(&large))).unwrap();
        let second = calls.begin(id("2"), request(b"")).await.unwrap();
        full(second.end(Ok(response(&[b'x'; 8_000]))).err());
        let third = calls.begin(id("3"), request(b"")).await.unwrap();
        third.end(Ok(response(b"short"))).unwrap();
        full(calls.begin(id("4"), request(&[0xff; 6_000])).await.err());
        assert_eq!(
            host.events(),
            [
                "1 call",
                "1 200",
                "2 call",
                "2 internal-error: not recorded: guest_event_bytes limit of 10000 reached (set by config)",
                "3 call",
                "3 200",
            ]
        );
    }
}
