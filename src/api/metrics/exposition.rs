//! All figures at one moment, and how each is written.

use std::fmt::Error;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;

use super::{Requests, process};
use crate::api::Api;
use crate::histogram::{BOUNDS_MICROS, Counted};
use crate::ledger::StoreStatistics;
use crate::runner::{EngineStatistics, RunnerStatistics};
use crate::runtime::RuntimeStatistics;
use crate::trace::TraceCounts;

/// Microseconds of a second.
const SECOND_MICROS: f64 = 1_000_000.0;

/// All figures at one moment.
#[derive(Debug)]
pub(super) struct Exposition {
    runner: RunnerStatistics,
    runtime: RuntimeStatistics,
    store: StoreStatistics,
    store_is_available: bool,
    engine: EngineStatistics,
    skills: Skills,
    requests: Requests,
    request_duration: Counted,
    streams: Streams,
    traces: Option<TraceCounts>,
    draining: bool,
    resident_bytes: Option<u64>,
    open_descriptors: Option<u64>,
    descriptors_max: Option<u64>,
}

/// Streams of events.
#[derive(Debug)]
struct Streams {
    clients: u64,
    lagged: u64,
    frames: u64,
    bytes: u64,
}

#[derive(Debug)]
struct Skills {
    enabled: usize,
    disabled: usize,
    refused: usize,
}

impl Exposition {
    pub(super) fn of(api: &Api) -> Self {
        let host = api.host();
        let skills = host.skills().current();
        let streams = api.streams().stats();
        Self {
            runner: host.runner().statistics(),
            runtime: host.runtime().statistics(),
            store: host.store().statistics(),
            store_is_available: host.store().healthy().is_ok(),
            engine: host.runner().executor().statistics(),
            skills: Skills {
                enabled: skills.skills().len(),
                disabled: skills.disabled().len(),
                refused: skills.refused().len(),
            },
            requests: api.metrics().requests(),
            request_duration: api.metrics().duration.counted(),
            streams: Streams {
                clients: streams.clients(),
                lagged: streams.lagged(),
                frames: streams.frames(),
                bytes: streams.bytes(),
            },
            traces: api.traces(),
            draining: api.is_draining(),
            resident_bytes: process::resident_bytes(),
            open_descriptors: process::open_descriptors(),
            descriptors_max: process::descriptors_max(),
        }
    }

    fn runs(&self, out: &mut Writer<'_>) -> Result<(), Error> {
        let runs = &self.runner;
        out.counter(
            "runs_started",
            "Runs whose first event is on record",
            runs.started,
        )?;
        out.counter(
            "runs_resumed",
            "How often a run went on from its ledger",
            runs.resumed,
        )?;
        let help = "Runs that were sent away for want of room";
        out.counter("runs_refused", help, runs.refused)?;
        let help = "Ends of runs; one that is suspended and goes on has several";
        let mut ended = out.family("runs_ended", help, MetricType::Counter)?;
        for ((status, code), count) in &runs.ended {
            ended.count([("status", status), ("code", code)], *count)?;
        }
        let help = "Runs that go on or wait for a place";
        out.gauge("runs_going_on", help, number(runs.going_on))?;
        let help = "Runs that wait for a place and are inside no other";
        out.gauge("runs_queued", help, number(runs.queued))?;
        let help = "Runs that are suspended and waited for here";
        out.gauge("runs_suspended", help, number(runs.suspended))?;
        let help = "Questions that runs of this process wait for, suspended ones too";
        out.gauge("approvals_pending", help, number(runs.approvals_pending))?;
        let help = "Work of runs that ended, time in the queue apart";
        out.histogram("run_duration_seconds", help, &runs.duration)?;
        let help = "Time in the queue of runs that had to wait";
        out.histogram("run_queued_seconds", help, &runs.queued_time)
    }

    fn executions(&self, out: &mut Writer<'_>) -> Result<(), Error> {
        let executions = &self.runtime;
        let live = executions.live;
        let help = "Executions of agents whose first event is on record";
        out.counter("executions_launched", help, executions.launched)?;
        let help = "Ends of executions";
        let mut ended = out.family("executions_ended", help, MetricType::Counter)?;
        for ((status, code), count) in &executions.ended {
            ended.count([("status", status), ("code", code)], *count)?;
        }
        let mut now = out.family("executions", "Executions that are live", MetricType::Gauge)?;
        for (status, count) in [
            ("pending", live.pending),
            ("starting", live.starting),
            ("ready", live.ready),
            ("running", live.running),
        ] {
            now.level([("status", status)], number(count))?;
        }
        let help = "Prompts that wait for their turn";
        out.gauge("prompts_queued", help, number(live.prompts_queued))?;
        let help = "Turns of executions, from the prompt to the end";
        out.histogram("turn_duration_seconds", help, &executions.turns)
    }

    fn ledgers(&self, out: &mut Writer<'_>) -> Result<(), Error> {
        let store = &self.store;
        out.histogram("ledger_sync_seconds", "Syncs of ledgers", &store.syncs)?;
        let help = "Ledgers that were taken up";
        out.counter("ledger_recoveries", help, store.taken_up)?;
        let help = "Ends of ledgers that were no event, and were set aside";
        out.counter("ledger_torn_tails", help, store.torn_tails)?;
        let help = "Writes and syncs of ledgers that failed";
        out.counter("ledger_failures", help, store.failures)?;
        let help = "Whether ledgers can be written";
        out.gauge("ledger_available", help, self.store_is_available.into())
    }

    fn engine(&self, out: &mut Writer<'_>) -> Result<(), Error> {
        let engine = &self.engine;
        out.gauge("engine_instances", "Instances that exist", engine.instances)?;
        let help = "Instances that can exist at once";
        out.gauge("engine_instances_max", help, engine.instances_max)?;
        let help = "Compiled components that are kept in memory";
        out.gauge("engine_components", help, engine.components)?;
        let mut skills = out.family("skills", "Skills that are installed", MetricType::Gauge)?;
        for (state, count) in [
            ("enabled", self.skills.enabled),
            ("disabled", self.skills.disabled),
            ("refused", self.skills.refused),
        ] {
            skills.level([("state", state)], number(count))?;
        }
        Ok(())
    }

    fn http(&self, out: &mut Writer<'_>) -> Result<(), Error> {
        let help = "Requests that were answered, by route, method and status";
        let mut requests = out.family("http_requests", help, MetricType::Counter)?;
        for (kind, count) in &self.requests {
            let status = kind.status.to_string();
            let labels = [
                ("route", kind.route.as_str()),
                ("method", kind.method),
                ("status", &status),
            ];
            requests.count(labels, *count)?;
        }
        let help = "Time from the head of a request to the head of its answer";
        out.histogram(
            "http_request_duration_seconds",
            help,
            &self.request_duration,
        )
    }

    fn streams(&self, out: &mut Writer<'_>) -> Result<(), Error> {
        let streams = &self.streams;
        out.gauge(
            "stream_clients",
            "Clients of streams of events",
            streams.clients,
        )?;
        let help = "How often a client was told that it is behind";
        out.counter("stream_lags", help, streams.lagged)?;
        let help = "Events that were handed out, to each client of its own";
        out.counter("stream_events", help, streams.frames)?;
        let help = "Bytes that were handed out to clients";
        out.counter("stream_bytes", help, streams.bytes)
    }

    /// Nothing where nothing is exported.
    fn traces(&self, out: &mut Writer<'_>) -> Result<(), Error> {
        let Some(traces) = &self.traces else {
            return Ok(());
        };
        let help = "Spans that the collector took";
        out.counter("trace_spans_exported", help, traces.exported)?;
        let help = "Spans that it did not take, or not in time";
        out.counter("trace_spans_dropped", help, traces.dropped)?;
        let help = "Runs whose spans were not made at all";
        out.counter("trace_runs_dropped", help, traces.runs_dropped)
    }

    fn process(&self, out: &mut Writer<'_>) -> Result<(), Error> {
        let mut build = out.family("build", "What runs here", MetricType::Info)?;
        build.info([("version", env!("CARGO_PKG_VERSION"))])?;
        let help = "Whether the process is about to end";
        out.gauge("draining", help, self.draining.into())?;
        for (name, help, value) in [
            (
                "process_resident_memory_bytes",
                "Resident memory",
                self.resident_bytes,
            ),
            (
                "process_open_fds",
                "Open descriptors",
                self.open_descriptors,
            ),
            (
                "process_max_fds",
                "Descriptors that may be open",
                self.descriptors_max,
            ),
        ] {
            if let Some(value) = value {
                out.gauge(name, help, value)?;
            }
        }
        Ok(())
    }
}

impl Collector for Exposition {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> Result<(), Error> {
        let out = &mut Writer(encoder);
        self.runs(out)?;
        self.executions(out)?;
        self.ledgers(out)?;
        self.engine(out)?;
        self.http(out)?;
        self.streams(out)?;
        self.traces(out)?;
        self.process(out)
    }
}

fn number(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}

/// Writes one figure after the other.
struct Writer<'a>(DescriptorEncoder<'a>);

/// Figures of one name that labels tell apart.
struct Family<'a>(prometheus_client::encoding::MetricEncoder<'a>);

impl Writer<'_> {
    fn family<'s>(
        &'s mut self,
        name: &'s str,
        help: &str,
        kind: MetricType,
    ) -> Result<Family<'s>, Error> {
        let encoder = self.0.encode_descriptor(name, help, None, kind)?;
        Ok(Family(encoder))
    }

    fn counter(&mut self, name: &str, help: &str, value: u64) -> Result<(), Error> {
        let mut family = self.family(name, help, MetricType::Counter)?;
        family
            .0
            .encode_counter::<NoLabelSet, u64, f64>(&value, None)
    }

    fn gauge(&mut self, name: &str, help: &str, value: u64) -> Result<(), Error> {
        let mut family = self.family(name, help, MetricType::Gauge)?;
        family.0.encode_gauge(&value)
    }

    fn histogram(&mut self, name: &str, help: &str, counted: &Counted) -> Result<(), Error> {
        let bounds = BOUNDS_MICROS.iter().zip(counted.buckets);
        let mut buckets: Vec<(f64, u64)> = bounds
            .map(|(bound, count)| (seconds(*bound), count))
            .collect();
        buckets.push((f64::INFINITY, counted.beyond));
        let mut family = self.family(name, help, MetricType::Histogram)?;
        let sum = seconds(counted.sum_micros);
        family
            .0
            .encode_histogram::<NoLabelSet>(sum, counted.count(), &buckets, None)
    }
}

impl Family<'_> {
    fn count<const N: usize>(
        &mut self,
        labels: [(&str, &str); N],
        value: u64,
    ) -> Result<(), Error> {
        let mut one = self.0.encode_family(&labels)?;
        one.encode_counter::<NoLabelSet, u64, f64>(&value, None)
    }

    fn level<const N: usize>(
        &mut self,
        labels: [(&str, &str); N],
        value: u64,
    ) -> Result<(), Error> {
        self.0.encode_family(&labels)?.encode_gauge(&value)
    }

    fn info<const N: usize>(&mut self, labels: [(&str, &str); N]) -> Result<(), Error> {
        self.0.encode_info(&labels)
    }
}

#[expect(
    clippy::cast_precision_loss,
    reason = "a sum of 2^53 microseconds is 285 years, and a reader has no more digits"
)]
fn seconds(micros: u64) -> f64 {
    micros as f64 / SECOND_MICROS
}
