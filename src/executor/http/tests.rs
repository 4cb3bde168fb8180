//! Requests against a record that a test fills, and a server that answers once.

use std::collections::BTreeMap;
use std::io;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::future::BoxFuture;
use http_body_util::{BodyExt as _, Full};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use wasmtime_wasi_http::{Error, WasiHttpHooks as _};

use super::calls::Calls;
use super::error::ExchangeError;
use super::unread::Unread;
use super::wire::{Answer, Client};
use super::{HttpOptions, Outgoing, Resolve};
use crate::call::SessionUpdate;
use crate::capability::Policy;
use crate::clock::Clock;
use crate::config::{Secret, SecretSource};
use crate::executor::guest_record::GuestRecord;
use crate::executor::provided::Provided;
use crate::executor::run_host::{
    Denial, GuestEvent, HttpCallId, HttpEnd, HttpRequest, HttpResponse, LogLevel, LogOrigin,
    RecalledHttp, RecordRefused, RunFacts, RunHost, RunTime, Unrecorded,
};
use crate::limits::{Budget, LimitKey, LimitOverrides, LimitReached, Limits, Source};
use crate::outcome::OutcomeCode;

/// What is replaced in a response, and by what.
const SECRET: &str = "hunter2";
const REPLACEMENT: &str = "[redacted:KEY]";

type Fields = Vec<(String, String)>;

/// A record: what it says of requests, and which events of them came.
#[derive(Default)]
struct Kept {
    nothing: Unrecorded,
    made: AtomicU64,
    recalled: Mutex<BTreeMap<String, RecalledHttp>>,
    /// With these, no event may come while the run could end.
    calls: Mutex<Weak<Calls>>,
    events: Mutex<Vec<String>>,
    responses: Mutex<Vec<HttpResponse>>,
    /// What was asked of the record: which request, and with which fields.
    asked: Mutex<Vec<(String, Fields)>>,
}

impl Kept {
    fn keep(&self, event: String) {
        if let Some(calls) = self.calls.lock().unwrap().upgrade() {
            assert!(calls.is_locked(), "the run could end at {event}");
        }
        self.events.lock().unwrap().push(event);
    }

    fn events(&self) -> Vec<String> {
        self.events.lock().unwrap().clone()
    }

    fn recall(&self, call_id: &str, end: RecalledHttp) {
        let mut recalled = self.recalled.lock().unwrap();
        recalled.insert(call_id.to_owned(), end);
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
        self.nothing.now()
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

    fn provided(&self) -> &dyn Provided {
        &self.nothing
    }

    fn emit(&self, event: GuestEvent<'_>) -> Result<u64, RecordRefused> {
        self.nothing.emit(event)
    }

    fn tell(&self, update: &SessionUpdate) -> Result<(), RecordRefused> {
        self.nothing.tell(update)
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

    fn denied(&self, denial: Denial<'_>) {
        let id = denial.call_id.unwrap_or("none");
        self.keep(format!("{id} denied {}", denial.capability));
    }

    fn next_http_call(&self) -> HttpCallId {
        let n = self.made.fetch_add(1, Ordering::Relaxed) + 1;
        id(&format!("http#{n}"))
    }

    fn recall_http<'a>(
        &'a self,
        id: &'a HttpCallId,
        request: HttpRequest<'a>,
    ) -> BoxFuture<'a, Result<Option<RecalledHttp>, RecordRefused>> {
        let asked = format!("{} {} {}", id.call_id, request.method, request.url);
        let headers = request.headers.to_vec();
        self.asked.lock().unwrap().push((asked, headers));
        let recalled = self.recalled.lock().unwrap().get(&id.call_id).cloned();
        Box::pin(std::future::ready(Ok(recalled)))
    }

    fn http_call<'a>(
        &'a self,
        id: &'a HttpCallId,
        _request: HttpRequest<'a>,
    ) -> BoxFuture<'a, Result<(), RecordRefused>> {
        self.keep(format!("{} call", id.call_id));
        Box::pin(std::future::ready(Ok(())))
    }

    fn redact_http(&self, end: HttpEnd) -> Result<HttpEnd, RecordRefused> {
        let clean = |text: &str| text.replace(SECRET, REPLACEMENT);
        Ok(match end {
            Ok(response) => Ok(HttpResponse {
                headers: response
                    .headers
                    .iter()
                    .map(|(name, value)| (clean(name), clean(value)))
                    .collect(),
                body: match std::str::from_utf8(&response.body) {
                    Ok(text) => clean(text).into(),
                    Err(_not_text) => response.body,
                },
                status: response.status,
            }),
            Err(reason) => Err(clean(&reason)),
        })
    }

    fn http_result(
        &self,
        id: &HttpCallId,
        end: Result<&HttpResponse, &str>,
        _duration_micros: u64,
    ) -> Result<(), RecordRefused> {
        let ended = match end {
            Ok(response) => {
                self.responses.lock().unwrap().push(response.clone());
                response.status.to_string()
            }
            Err(reason) => reason.to_owned(),
        };
        self.keep(format!("{} {ended}", id.call_id));
        Ok(())
    }
}

/// Knows no name, and counts who asks.
#[derive(Default)]
struct Counting(AtomicU64);

#[async_trait]
impl Resolve for Counting {
    async fn resolve(&self, _host: &str) -> io::Result<Vec<IpAddr>> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Err(io::ErrorKind::NotFound.into())
    }
}

fn record(host: &Arc<Kept>, limits: Limits) -> Arc<GuestRecord> {
    let budget = Arc::new(Budget::new(Arc::new(limits), None));
    let host = Arc::<Kept>::clone(host);
    Arc::new(GuestRecord::new(host, budget, Clock::system()))
}

fn policy(effective: &[&str]) -> Arc<Policy> {
    let effective = effective.iter().map(|text| text.parse().unwrap());
    Arc::new(Policy {
        effective: effective.collect(),
        ..Policy::default()
    })
}

/// The requests of a run that may do this much.
struct Run {
    host: Arc<Kept>,
    record: Arc<GuestRecord>,
    resolver: Arc<Counting>,
    outgoing: Outgoing,
    /// Whether the fields of its requests nearly are as large as they may be.
    large_header: bool,
}

impl Run {
    fn new(host: Arc<Kept>, effective: &[&str], record_only: bool) -> Self {
        Self::with_secrets(host, effective, record_only, Vec::new())
    }

    fn with_secrets(
        host: Arc<Kept>,
        effective: &[&str],
        record_only: bool,
        secrets: Vec<Secret>,
    ) -> Self {
        let record = record(&host, Limits::default());
        let resolver = Arc::new(Counting::default());
        let client = Client::new(HttpOptions {
            resolver: Arc::<Counting>::clone(&resolver),
            secrets,
            ..HttpOptions::default()
        });
        let (client, policy) = (Arc::new(client), policy(effective));
        let outgoing = Outgoing::new(client, policy, Arc::clone(&record), record_only);
        Self {
            host,
            record,
            resolver,
            outgoing: outgoing.unwrap(),
            large_header: false,
        }
    }

    /// Makes a request with a body of so many bytes: the whole response, or the error.
    async fn post(&mut self, url: &str, bytes: usize) -> Result<http::Response<Bytes>, Error> {
        let body = Full::new(Bytes::from(vec![b'x'; bytes]));
        let body = body.map_err(|never| match never {}).boxed_unsync();
        let request = http::Request::builder().method("POST").uri(url);
        let mine = if self.large_header { 32_000 } else { 1 };
        let request = request.header("x-mine", "1".repeat(mine)).body(body);
        let request = request.unwrap();
        let nothing = Box::new(std::future::ready(Ok(())));
        let sent = self.outgoing.send_request(request, None, nothing);
        let (response, _nothing) = Box::into_pin(sent).await?;
        let (head, body) = response.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        Ok(http::Response::from_parts(head, body))
    }

    fn event_bytes(&self) -> u64 {
        self.record.budget().used(LimitKey::GuestEventBytes)
    }
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

fn response(body: &[u8]) -> HttpResponse {
    HttpResponse {
        status: 200,
        headers: vec![("x-a".to_owned(), "\u{fffd}".to_owned())],
        body: Bytes::copy_from_slice(body),
    }
}

const URL: &str = "http://a.example/x";
const NET: &str = "net:http://a.example/#POST";

/// What is on record of a request is all that the guest gets, and nothing is done for it.
#[tokio::test]
async fn a_request_that_is_on_record_reaches_nobody() {
    let host = Arc::new(Kept::default());
    host.recall("http#1", RecalledHttp::Response(response(b"\xffbody")));
    let failed = "HTTP-response-body-size(1000): too much";
    host.recall("http#2", RecalledHttp::Failed(failed.to_owned()));
    let rule = "address: it is not public".to_owned();
    host.recall("http#3", RecalledHttp::Denied { rule });
    let mut run = Run::new(host, &[NET], false);
    let got = run.post(URL, 3).await.unwrap();
    assert_eq!(
        (got.status().as_u16(), &got.body()[..]),
        (200, &b"\xffbody"[..])
    );
    let value = got.headers().get("x-a").unwrap();
    assert_eq!(value.as_bytes(), "\u{fffd}".as_bytes());
    assert!(!run.record.was_denied());
    let error = run.post(URL, 3).await.unwrap_err();
    assert!(
        matches!(error, Error::HttpResponseBodySize(Some(1000))),
        "{error:?}"
    );
    let error = run.post(URL, 3).await.unwrap_err();
    assert!(matches!(error, Error::DestinationIpProhibited), "{error:?}");
    let last = run.record.last_denial();
    assert_eq!(
        last.as_deref(),
        Some("net:http://a.example/x#POST: address: it is not public")
    );
    assert_eq!(
        (run.host.events(), run.resolver.0.load(Ordering::Relaxed)),
        (vec![], 0)
    );
    let asked = run.host.asked.lock().unwrap()[2].0.clone();
    assert_eq!(asked, "http#3 POST http://a.example/x");
    // What comes after the record is live.
    let error = run.post(URL, 3).await.unwrap_err();
    assert!(matches!(error, Error::DnsError { .. }), "{error:?}");
    assert_eq!(run.resolver.0.load(Ordering::Relaxed), 1);
    let ended = "http#4 DNS-error: cannot resolve the host: entity not found";
    assert_eq!(run.host.events(), ["http#4 call", ended]);
}

/// Live and from the record the guest gets the same, and takes the same room.
#[tokio::test]
async fn a_response_is_given_as_it_is_recorded() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let serving = async {
        for body in ["the key is hunter2", "no key here......."] {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut request = Vec::new();
            while !request.ends_with(b"xxx") {
                stream.read_buf(&mut request).await.unwrap();
            }
            let head = "HTTP/1.1 200 OK\r\nX-Odd: \u{e4}hunter2\r\nX-hunter2: 1\r\nContent-Length: 18\r\n\r\n";
            let mut head = head.replace('\u{e4}', "?").into_bytes();
            head.iter_mut()
                .filter(|byte| **byte == b'?')
                .for_each(|byte| *byte = 0xe4);
            stream
                .write_all(&[&head, body.as_bytes()].concat())
                .await
                .unwrap();
        }
    };
    let (net, url) = (
        format!("net:http://{address}/#POST"),
        format!("http://{address}/"),
    );
    let mut live = Run::new(Arc::default(), &[&net], false);
    let asking = async {
        [
            live.post(&url, 3).await.unwrap(),
            live.post(&url, 3).await.unwrap(),
        ]
    };
    let ((), got) = tokio::join!(serving, asking);
    assert_eq!(&got[0].body()[..], b"the key is [redacted:KEY]");
    assert_eq!(got[0].headers().get("content-length"), None);
    assert_eq!(got[1].headers().get("content-length").unwrap(), "18");
    for got in &got {
        let odd = got.headers().get("x-odd").unwrap();
        assert_eq!(odd.as_bytes(), "\u{fffd}[redacted:KEY]".as_bytes());
        assert!(!format!("{got:?}").contains(SECRET), "{got:?}");
    }
    let host = Arc::new(Kept::default());
    let responses = live.host.responses.lock().unwrap().clone();
    for (n, response) in responses.into_iter().enumerate() {
        host.recall(&format!("http#{}", n + 1), RecalledHttp::Response(response));
    }
    let mut again = Run::new(host, &[&net], false);
    for got in got {
        let same = again.post(&url, 3).await.unwrap();
        assert_eq!(
            (same.status(), same.headers()),
            (got.status(), got.headers())
        );
        assert_eq!(same.body(), got.body());
    }
    assert_eq!(again.event_bytes(), live.event_bytes());
    assert_eq!(again.host.events(), [""; 0]);
}

/// Elsewhere the secrets are not there, and all that can be had is what is on record.
#[tokio::test]
async fn with_the_record_alone_nothing_is_sent_and_no_secret_is_needed() {
    let granted = [NET, "secret:KEY"];
    let (client, record) = (
        Client::new(HttpOptions::default()),
        record(&Arc::default(), Limits::default()),
    );
    let refused = Outgoing::new(Arc::new(client), policy(&granted), record, false);
    assert_eq!(refused.err().unwrap().code, OutcomeCode::LoadError);
    let host = Arc::new(Kept::default());
    host.recall("http#1", RecalledHttp::Response(response(b"body")));
    let mut run = Run::new(host, &granted, true);
    assert_eq!(&run.post(URL, 3).await.unwrap().body()[..], b"body");
    let error = run.post(URL, 3).await.unwrap_err();
    let Error::InternalError(Some(message)) = error else {
        panic!("{error:?}");
    };
    assert!(message.contains("the record does not say"), "{message}");
    assert_eq!(
        (run.host.events(), run.resolver.0.load(Ordering::Relaxed)),
        (vec![], 0)
    );
}

/// What a secret takes in the record has a fixed size, and no bound depends on one.
#[tokio::test]
async fn a_request_takes_the_same_room_without_its_secret() {
    let home = tempfile::tempdir().unwrap();
    std::fs::write(home.path().join("key"), "v".repeat(8_000)).unwrap();
    let source = SecretSource {
        file: Some("key".into()),
        env: None,
        url: "http://a.example/".to_owned(),
        header: "x-key".to_owned(),
        prefix: "Bearer ".to_owned(),
    };
    let secret = Secret::read(home.path(), "KEY", &source).unwrap();
    let (mut taken, mut asked) = (Vec::new(), Vec::new());
    for secrets in [vec![secret], Vec::new()] {
        let host = Arc::new(Kept::default());
        host.recall("http#1", RecalledHttp::Response(response(b"body")));
        let mut run = Run::with_secrets(host, &[NET, "secret:KEY"], true, secrets);
        run.large_header = true;
        run.post(URL, 3).await.unwrap();
        taken.push(run.event_bytes());
        asked.push(run.host.asked.lock().unwrap()[0].1.clone());
    }
    assert_eq!(taken[0], taken[1]);
    let shown = ("x-key".to_owned(), "Bearer [secret:KEY]".to_owned());
    assert_eq!(asked[0].last(), Some(&shown));
    assert_eq!(asked[0][..asked[0].len() - 1], asked[1]);
}

fn calls(limits: Limits) -> (Arc<Kept>, Arc<Calls>) {
    let host = Arc::new(Kept::default());
    let calls = Arc::new(Calls::new(record(&host, limits)));
    *host.calls.lock().unwrap() = Arc::downgrade(&calls);
    (host, calls)
}

/// A run ends before a request is on record or after it, and never between.
#[tokio::test]
async fn each_request_on_record_has_one_end() {
    let (host, calls) = calls(Limits::default());
    let open = calls.begin(id("1"), request(b"")).await.unwrap();
    let given_up = calls.begin(id("2"), request(b"")).await.unwrap();
    drop(given_up);
    calls.finish();
    let late = open.end(Err(ExchangeError::ResponseHeader)).err();
    assert_eq!(late, Some(ExchangeError::RunEnded));
    let late = calls.begin(id("3"), request(b"")).await;
    assert_eq!(late.err(), Some(ExchangeError::RunEnded));
    calls.write(|_record| panic!("the run ended"));
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

/// What is open when a run is cut off in its middle, a replay has to find open.
#[tokio::test]
async fn a_run_that_is_cut_off_leaves_its_requests_open() {
    let (host, calls) = calls(Limits::default());
    let open = calls.begin(id("1"), request(b"")).await.unwrap();
    let given_up = calls.begin(id("2"), request(b"")).await.unwrap();
    calls.abandon();
    drop(given_up);
    let late = open.end(Err(ExchangeError::ResponseHeader)).err();
    assert_eq!(late, Some(ExchangeError::RunEnded));
    calls.finish();
    assert_eq!(host.events(), ["1 call", "2 call"]);
}

#[tokio::test]
async fn what_comes_on_record_is_bounded_and_large_values_lie_beside_it() {
    let bytes_max = LimitOverrides::from([("guest_event_bytes".to_owned(), 10_000)]);
    let limits = Limits::default().with(Source::Config, &bytes_max);
    let (host, calls) = calls(limits.unwrap());
    let limit = Limits::default().get(LimitKey::HttpResponseBytes);
    let unread = Unread::new(limit, 4);
    let answer = |body: &[u8]| {
        let hold = unread.hold(0, 0).unwrap();
        let response = response(body);
        Ok(Answer { response, hold })
    };
    let charge = |body| calls.charge_request("http://a.example/", &[], body, 0);
    let full = "not recorded: guest_event_bytes limit of 10000 reached (set by config)";
    // Two large bodies, and then a response and a request for which nothing is left.
    let large = [b'x'; 100_000];
    charge(&large).unwrap();
    let first = calls.begin(id("1"), request(&large)).await.unwrap();
    first.end(answer(&large)).unwrap();
    charge(b"").unwrap();
    let second = calls.begin(id("2"), request(b"")).await.unwrap();
    let refused = second.end(answer(&[b'x'; 8_000])).err().unwrap();
    assert_eq!(
        refused,
        ExchangeError::Recorded(format!("internal-error: {full}"))
    );
    charge(b"").unwrap();
    let third = calls.begin(id("3"), request(b"")).await.unwrap();
    third.end(answer(b"short")).unwrap();
    assert_eq!(charge(&[0xff; 6_000]).unwrap_err().to_string(), full);
    assert_eq!(
        host.events(),
        [
            "1 call",
            "1 200",
            "2 call",
            &format!("2 internal-error: {full}"),
            "3 call",
            "3 200",
        ]
    );
}
