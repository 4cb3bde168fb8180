//! A host whose time goes by tokio's clock, which a test pauses, and that has a record of waits.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::future::BoxFuture;
use skillrun::clock::Timestamp;
use skillrun::executor::{
    Denial, GuestEvent, HttpCallId, HttpRequest, HttpResponse, LogLevel, LogOrigin, Provided,
    RecalledHttp, RecordRefused, RunFacts, RunHost, RunTime, Unrecorded,
};
use skillrun::limits::LimitReached;
use tokio::time::Instant;

/// When the run began.
pub(super) const BEGUN_MICROS: i64 = 1_800_000_000_000_000;

/// What became of a wait, and how long the run had gone on by then.
pub(super) type Waited = (Vec<u32>, Duration);

pub(super) struct TimedHost {
    nothing: Unrecorded,
    /// How long it takes to look at a clock.
    look_takes: Duration,
    time: Mutex<Time>,
    record: Mutex<VecDeque<Waited>>,
    polls: Mutex<Vec<Waited>>,
    entered: AtomicBool,
    exits: Mutex<Vec<(String, bool)>>,
    /// The record has something else where the next wait is.
    pub(super) differs: bool,
}

struct Time {
    /// When this began to be so, and how long the run had gone on by then.
    since: (Instant, Duration),
    /// What the guest was told last.
    told: Duration,
}

impl Time {
    fn elapsed(&self) -> Duration {
        self.since.1 + self.since.0.elapsed()
    }
}

impl TimedHost {
    /// A run that begins now, or one that goes on from a record.
    pub(super) fn new(record: impl Into<VecDeque<Waited>>) -> Self {
        Self {
            nothing: Unrecorded::default(),
            look_takes: Duration::ZERO,
            time: Mutex::new(Time {
                since: (Instant::now(), Duration::ZERO),
                told: Duration::ZERO,
            }),
            record: Mutex::new(record.into()),
            polls: Mutex::default(),
            entered: AtomicBool::new(false),
            exits: Mutex::default(),
            differs: false,
        }
    }

    pub(super) fn with_slow_looks(look_takes: Duration) -> Self {
        Self {
            look_takes,
            ..Self::new([])
        }
    }

    /// What became of the waits that were on no record.
    pub(super) fn polls(&self) -> Vec<Waited> {
        self.polls.lock().unwrap().clone()
    }

    /// Whether a step was entered.
    pub(super) fn is_in_step(&self) -> bool {
        self.entered.load(Ordering::Relaxed)
    }

    /// The steps that were left.
    pub(super) fn exits(&self) -> Vec<(String, bool)> {
        self.exits.lock().unwrap().clone()
    }
}

impl RunHost for TimedHost {
    fn facts(&self) -> &RunFacts {
        self.nothing.facts()
    }

    fn attempt(&self) -> u32 {
        1
    }

    fn now(&self) -> RunTime {
        let mut time = self.time.lock().unwrap();
        time.since.1 += self.look_takes;
        if time.elapsed() - time.told >= Duration::from_secs(1) {
            time.told = time.elapsed();
        }
        let micros = i64::try_from(time.told.as_micros()).unwrap();
        RunTime {
            time: Timestamp::from_unix_micros(BEGUN_MICROS + micros),
            elapsed: time.told,
            left: Duration::MAX,
        }
    }

    fn until(&self, elapsed: Duration) -> Duration {
        elapsed.saturating_sub(self.time.lock().unwrap().elapsed())
    }

    fn recall_poll(&self) -> Result<Option<Vec<u32>>, RecordRefused> {
        if self.differs {
            return Err(RecordRefused::Unavailable);
        }
        Ok(self.record.lock().unwrap().pop_front().map(|(ready, at)| {
            *self.time.lock().unwrap() = Time {
                since: (Instant::now(), at),
                told: at,
            };
            ready
        }))
    }

    fn polled(&self, ready: &[u32], _waited_micros: u64) -> Result<(), RecordRefused> {
        let mut time = self.time.lock().unwrap();
        time.told = time.elapsed();
        self.polls.lock().unwrap().push((ready.to_vec(), time.told));
        Ok(())
    }

    fn provided(&self) -> &dyn Provided {
        &self.nothing
    }

    fn emit(&self, event: GuestEvent<'_>) -> Result<u64, RecordRefused> {
        self.nothing.emit(event)
    }

    fn tell(&self, _update: &skillrun::call::SessionUpdate) -> Result<(), RecordRefused> {
        Err(RecordRefused::Unavailable)
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
        self.entered.store(true, Ordering::Relaxed);
        Ok(name.to_owned())
    }

    fn exit(&self, node_id: &str, _duration_micros: u64, success: bool) {
        let exit = (node_id.to_owned(), success);
        self.exits.lock().unwrap().push(exit);
    }

    fn denied(&self, _denial: Denial<'_>) {}

    fn next_http_call(&self) -> HttpCallId {
        HttpCallId::default()
    }

    fn recall_http<'a>(
        &'a self,
        id: &'a HttpCallId,
        request: HttpRequest<'a>,
    ) -> BoxFuture<'a, Result<Option<RecalledHttp>, RecordRefused>> {
        self.nothing.recall_http(id, request)
    }

    fn http_call<'a>(
        &'a self,
        id: &'a HttpCallId,
        request: HttpRequest<'a>,
    ) -> BoxFuture<'a, Result<(), RecordRefused>> {
        self.nothing.http_call(id, request)
    }

    fn redact_http(
        &self,
        end: Result<HttpResponse, String>,
    ) -> Result<Result<HttpResponse, String>, RecordRefused> {
        self.nothing.redact_http(end)
    }

    fn http_result(
        &self,
        id: &HttpCallId,
        outcome: Result<&HttpResponse, &str>,
        duration_micros: u64,
    ) -> Result<(), RecordRefused> {
        self.nothing.http_result(id, outcome, duration_micros)
    }
}
