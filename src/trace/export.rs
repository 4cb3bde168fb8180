//! Sends spans to a collector, by OTLP over HTTP.
//!
//! An [`Exporter`] follows the runs that end, reads their ledgers and sends what they did. No run waits for it, and
//! none fails because of it: what a collector does not take in time is dropped and counted.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, UNIX_EPOCH};

use http::HeaderMap;
use opentelemetry::trace::{SpanContext, Status, TraceFlags, TraceState};
use opentelemetry::{InstrumentationScope, KeyValue, trace as otel};
use opentelemetry_otlp::{
    ExporterBuildError, OTEL_EXPORTER_OTLP_ENDPOINT, OTEL_EXPORTER_OTLP_TRACES_ENDPOINT,
    SpanExporter, WithExportConfig as _, WithHttpConfig as _,
};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{SpanData, SpanEvents, SpanExporter as _, SpanLinks};
use reqwest::redirect;
use tokio::task::JoinHandle;
use tokio::time::{sleep, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

use super::SERVICE_NAME;
use super::collect::Collector;
use super::span::{Part, Span, SpanKind, SpanStatus, Value};
use crate::config::{Config, ConfigError, Secret};
use crate::ledger::{EndedRuns, Entry, Position, RunLeft, Store, StoreError};
use crate::telemetry::chain;
use crate::tls;

/// Spans of one request to the collector. Protects the collector, which bounds its requests.
const BATCH_SPANS_MAX: usize = 512;
/// For how long spans wait for others to be sent with.
const BATCH_TIME: Duration = Duration::from_millis(500);
/// For how long a shutdown waits for what is not sent yet. Protects whoever wants the process to end.
const FLUSH_TIME: Duration = Duration::from_secs(5);
/// For how long a connection may be made. Protects the spans after these from an address that does not answer.
const CONNECT_TIME: Duration = Duration::from_secs(10);

/// What an [`Exporter`] is made of.
pub struct ExporterOptions {
    /// The ledgers of the runs that it follows.
    pub store: Store,
    /// The whole address that spans are sent to; none: what the variables of OpenTelemetry say.
    pub endpoint: Option<String>,
    /// What is put into requests.
    pub secret: Option<Secret>,
    /// Certificates in DER form that are trusted beside those of the system.
    pub ca_certificates: Vec<Vec<u8>>,
    /// In which time a batch has to be taken, repetitions included.
    pub timeout: Duration,
    /// Whether spans tell what was asked and answered.
    pub has_content: bool,
}

impl ExporterOptions {
    /// What the operator configured; none when spans are to be sent nowhere.
    ///
    /// # Errors
    /// The secret, or a certificate, cannot be used.
    pub fn from_config(config: &Config, store: &Store) -> Result<Option<Self>, ConfigError> {
        let settings = &config.telemetry;
        let variables = [
            OTEL_EXPORTER_OTLP_TRACES_ENDPOINT,
            OTEL_EXPORTER_OTLP_ENDPOINT,
        ];
        let is_set = |name: &&str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        if settings.otlp_endpoint.is_none() && !variables.iter().any(is_set) {
            return Ok(None);
        }
        Ok(Some(Self {
            store: store.clone(),
            endpoint: settings.otlp_endpoint.as_ref().map(ToString::to_string),
            secret: config.read_otlp_secret()?,
            ca_certificates: config.read_ca_file()?,
            timeout: Duration::from_millis(settings.otlp_timeout_ms),
            has_content: settings.content,
        }))
    }
}

/// Why there can be no exporter.
#[derive(Debug, thiserror::Error)]
pub enum ExporterError {
    /// TLS cannot be set up.
    #[error("cannot set up TLS for the export of traces")]
    Tls(#[source] rustls::Error),
    /// The client cannot be made.
    #[error("cannot set up the client for the export of traces")]
    Client(#[source] reqwest::Error),
    /// A variable of OpenTelemetry holds something that cannot be used.
    #[error("cannot set up the export of traces")]
    Settings(#[source] ExporterBuildError),
}

/// What became of spans so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TraceCounts {
    /// Spans that the collector took.
    pub exported: u64,
    /// Spans that it did not take, or not in time.
    pub dropped: u64,
    /// Runs whose spans were not made at all, because there were too many or their ledgers could not be read.
    pub runs_dropped: u64,
}

/// Reads what became of spans so far, as long as anybody wants to know. Cheap to clone.
#[derive(Debug, Clone)]
pub struct TraceCounter(Arc<Counts>);

impl TraceCounter {
    /// What became of spans so far.
    pub fn counts(&self) -> TraceCounts {
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        TraceCounts {
            exported: of(&self.0.exported),
            dropped: of(&self.0.dropped),
            runs_dropped: of(&self.0.runs_dropped),
        }
    }
}

#[derive(Debug, Default)]
struct Counts {
    exported: AtomicU64,
    dropped: AtomicU64,
    runs_dropped: AtomicU64,
}

/// Sends the spans of runs that end to a collector.
pub struct Exporter {
    store: Store,
    sender: SpanExporter,
    timeout: Duration,
    has_content: bool,
    scope: InstrumentationScope,
    counts: Arc<Counts>,
    /// Whether the last batch was not taken: a collector that is away is complained of once.
    is_failing: AtomicBool,
}

/// An exporter at work. Dropping it ends it, with what is not sent yet.
#[derive(Debug)]
pub struct ExporterHandle {
    counts: Arc<Counts>,
    shutdown: CancellationToken,
    work: JoinHandle<()>,
}

impl Exporter {
    /// An exporter that does nothing yet. The system's certificates are read.
    ///
    /// # Errors
    /// What was configured cannot be used.
    pub fn new(options: ExporterOptions) -> Result<Self, ExporterError> {
        let tls = tls::trusting(&options.ca_certificates).map_err(ExporterError::Tls)?;
        let mut headers = HeaderMap::new();
        if let Some(secret) = &options.secret {
            headers.insert(secret.header().clone(), secret.field().clone());
        }
        // A redirect would carry the secret and the spans to where the operator did not send them.
        let client = reqwest::Client::builder()
            .tls_backend_preconfigured(tls)
            .redirect(redirect::Policy::none())
            .no_proxy()
            .connect_timeout(CONNECT_TIME)
            .timeout(options.timeout)
            .user_agent(concat!("skillrun/", env!("CARGO_PKG_VERSION")))
            .default_headers(headers)
            .build();
        let client = client.map_err(|error| ExporterError::Client(error.without_url()))?;
        let mut builder = SpanExporter::builder()
            .with_http()
            .with_http_client(client)
            .with_timeout(options.timeout);
        if let Some(endpoint) = options.endpoint {
            builder = builder.with_endpoint(endpoint);
        }
        let mut sender = builder.build().map_err(ExporterError::Settings)?;
        let version = env!("CARGO_PKG_VERSION");
        let resource = Resource::builder_empty().with_attributes([
            KeyValue::new("service.name", SERVICE_NAME),
            KeyValue::new("service.version", version),
        ]);
        sender.set_resource(&resource.build());
        Ok(Self {
            store: options.store,
            sender,
            timeout: options.timeout,
            has_content: options.has_content,
            scope: InstrumentationScope::builder(SERVICE_NAME)
                .with_version(version)
                .build(),
            counts: Arc::default(),
            is_failing: AtomicBool::new(false),
        })
    }

    /// Follows the runs that end from now on, in a task of its own.
    ///
    /// # Panics
    /// Outside of a tokio runtime with its timers on.
    pub fn start(self) -> ExporterHandle {
        let shutdown = CancellationToken::new();
        let ended = self.store.ended_runs();
        let counts = Arc::clone(&self.counts);
        let work = tokio::spawn(self.follow(ended, shutdown.clone()));
        ExporterHandle {
            counts,
            shutdown,
            work,
        }
    }

    async fn follow(self, mut ended: EndedRuns, shutdown: CancellationToken) {
        let mut batch = Vec::new();
        let late = async {
            shutdown.cancelled().await;
            sleep(FLUSH_TIME).await;
        };
        // Whatever is being done by then is given up: a collector that is slow holds up nobody's end.
        let is_late = tokio::select! {
            () = self.work(&mut ended, &mut batch, &shutdown) => false,
            () = late => true,
        };
        if is_late {
            self.drop_spans(batch.len(), "shutdown does not wait longer");
            while let Some(next) = ended.next_now() {
                let runs = next.map_or_else(|forgotten| forgotten, |_| 1);
                self.counts.runs_dropped.fetch_add(runs, Ordering::Relaxed);
            }
        }
    }

    /// Sends the spans of runs as they end, and after `shutdown` of those that have ended by then.
    async fn work(
        &self,
        ended: &mut EndedRuns,
        batch: &mut Vec<SpanData>,
        shutdown: &CancellationToken,
    ) {
        let mut send_at = sleep(BATCH_TIME).deadline();
        loop {
            tokio::select! {
                next = ended.next() => match next {
                    Some(next) => {
                        if batch.is_empty() {
                            send_at = sleep(BATCH_TIME).deadline();
                        }
                        self.take(next, batch).await;
                    }
                    None => break,
                },
                () = sleep_until(send_at), if !batch.is_empty() => self.send(batch, 1).await,
                () = shutdown.cancelled() => break,
            }
            self.send(batch, BATCH_SPANS_MAX).await;
        }
        while let Some(next) = ended.next_now() {
            self.take(next, batch).await;
            self.send(batch, BATCH_SPANS_MAX).await;
        }
        self.send(batch, 1).await;
    }

    /// Makes the spans of a run that was left, of that part of it which ended then.
    async fn take(&self, left: Result<RunLeft, u64>, batch: &mut Vec<SpanData>) {
        let (runs, reason) = match left {
            Err(forgotten) => (forgotten, "too many runs end at once".to_owned()),
            Ok(left) => {
                let (store, has_content) = (self.store.clone(), self.has_content);
                let read = move || last_part(&store, left, has_content);
                match tokio::task::spawn_blocking(read).await {
                    Ok(Ok(part)) => {
                        // What its caller does not record would stand alone.
                        let part = part.filter(|part| part.is_sampled);
                        batch.extend(part.iter().flat_map(|part| self.data(part)));
                        return;
                    }
                    Ok(Err(error)) => (1, chain(&error)),
                    Err(error) => (1, error.to_string()),
                }
            }
        };
        self.counts.runs_dropped.fetch_add(runs, Ordering::Relaxed);
        tracing::warn!(runs, reason, "cannot make spans of runs");
    }

    /// Sends batches as long as there are so many spans.
    async fn send(&self, batch: &mut Vec<SpanData>, spans_min: usize) {
        while batch.len() >= spans_min.max(1) {
            let spans: Vec<SpanData> = batch.drain(..batch.len().min(BATCH_SPANS_MAX)).collect();
            let sent = Sent {
                counts: &self.counts,
                spans: spans.len(),
            };
            match timeout(self.timeout, self.sender.export(spans)).await {
                Ok(Ok(())) => {
                    sent.taken();
                    if self.is_failing.swap(false, Ordering::Relaxed) {
                        tracing::info!("spans are taken again");
                    }
                }
                Ok(Err(error)) => self.complain(&chain(&error)),
                Err(_elapsed) => self.complain("the collector did not answer in time"),
            }
        }
    }

    fn complain(&self, reason: &str) {
        if !self.is_failing.swap(true, Ordering::Relaxed) {
            tracing::warn!(reason, "cannot export spans, which are dropped");
        }
    }

    fn drop_spans(&self, spans: usize, reason: &str) {
        let spans = u64::try_from(spans).unwrap_or(u64::MAX);
        if spans > 0 {
            self.counts.dropped.fetch_add(spans, Ordering::Relaxed);
            tracing::warn!(spans, reason, "spans were dropped");
        }
    }

    fn data<'a>(&'a self, part: &'a Part) -> impl Iterator<Item = SpanData> + 'a {
        part.spans
            .iter()
            .enumerate()
            .map(|(index, span)| self.span_data(span, index == 0 && part.is_parent_remote))
    }

    fn span_data(&self, span: &Span, is_parent_remote: bool) -> SpanData {
        let attributes = span.attributes.iter();
        let time = |micros: i64| UNIX_EPOCH + Duration::from_micros(micros.max(0).unsigned_abs());
        SpanData {
            span_context: SpanContext::new(
                otel::TraceId::from_bytes(span.trace_id.to_bytes()),
                otel::SpanId::from_bytes(span.span_id.to_bytes()),
                TraceFlags::SAMPLED,
                false,
                TraceState::default(),
            ),
            parent_span_id: span.parent_span_id.map_or(otel::SpanId::INVALID, |id| {
                otel::SpanId::from_bytes(id.to_bytes())
            }),
            parent_span_is_remote: is_parent_remote,
            span_kind: match span.kind {
                SpanKind::Internal => otel::SpanKind::Internal,
                SpanKind::Client => otel::SpanKind::Client,
            },
            name: span.name.clone().into(),
            start_time: time(span.start_micros),
            end_time: time(span.end_micros),
            attributes: attributes
                .map(|(key, value)| match value.clone() {
                    Value::Text(text) => KeyValue::new(*key, text),
                    Value::Int(number) => KeyValue::new(*key, number),
                    Value::Float(number) => KeyValue::new(*key, number),
                    Value::Bool(flag) => KeyValue::new(*key, flag),
                })
                .collect(),
            dropped_attributes_count: 0,
            events: SpanEvents::default(),
            links: SpanLinks::default(),
            status: match &span.status {
                SpanStatus::Unset => Status::Unset,
                SpanStatus::Error(message) => Status::error(message.clone()),
            },
            instrumentation_scope: self.scope.clone(),
        }
    }
}

/// Spans that are being sent. Those of a request that is given up count as dropped.
struct Sent<'a> {
    counts: &'a Counts,
    spans: usize,
}

impl Sent<'_> {
    fn taken(mut self) {
        let spans = u64::try_from(std::mem::take(&mut self.spans)).unwrap_or(u64::MAX);
        self.counts.exported.fetch_add(spans, Ordering::Relaxed);
    }
}

impl Drop for Sent<'_> {
    fn drop(&mut self) {
        let spans = u64::try_from(self.spans).unwrap_or(u64::MAX);
        self.counts.dropped.fetch_add(spans, Ordering::Relaxed);
    }
}

impl ExporterHandle {
    /// What became of spans so far.
    pub fn counter(&self) -> TraceCounter {
        TraceCounter(Arc::clone(&self.counts))
    }

    /// Sends what is not sent yet, for five seconds at most, and ends. Call it when no run goes on any more.
    pub async fn shutdown(mut self) {
        self.shutdown.cancel();
        let _it_panicked = (&mut self.work).await;
    }
}

impl Drop for ExporterHandle {
    fn drop(&mut self) {
        self.work.abort();
    }
}

/// The part of a run that ended with that event.
fn last_part(store: &Store, left: RunLeft, has_content: bool) -> Result<Option<Part>, StoreError> {
    let mut collector = Collector::new(left.run_id.clone(), has_content);
    let mut follower = match store.follow(&left.run_id, Position::default()) {
        // It was removed meanwhile.
        Err(StoreError::NotFound { .. }) => return Ok(None),
        opened => opened?,
    };
    while let Some(entry) = follower.next_entry()? {
        let Entry::Record(record) = entry else {
            continue;
        };
        if record.seq > left.last_seq {
            break;
        }
        collector.push(&record);
    }
    Ok(collector.finish().pop())
}
