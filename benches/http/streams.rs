//! One run that many clients watch.
//!
//! Events are recorded at a fixed rate, whoever reads them. Every client looks at the numbers at both ends of each
//! piece that it gets, so that a gap or a repeat between pieces ends the benchmark, and all have to come to the last
//! event. Ten more clients ask and never read.

use std::fs;
use std::io::Write as _;
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use skillrun::config::Durability;
use skillrun::id::RunId;
use skillrun::ledger::{Event, Log, Origin, Recorder, RunCompleted, RunStarted, RunStatus, Store};
use skillrun::outcome::OutcomeCode;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::time::{MissedTickBehavior, interval};

use crate::place::Place;
use crate::{micros_since, now, quantile};

const EVENTS_PER_SECOND: u64 = 10_000;
/// Events of one run.
const EVENTS: u64 = 20_000;
/// Clients that ask and never read, beside those that do.
const STALLED: usize = 10;
/// Clients that never read, for their memory.
const STALLED_FOR_MEMORY: usize = 200;
/// Bytes that a reader takes at once.
const READ_BYTES: usize = 16 * 1024;

/// When each event was recorded, in microseconds since the start; 0 before it was.
struct Times {
    start: Instant,
    recorded: Vec<AtomicU64>,
}

/// What one client saw.
#[derive(Default)]
struct Seen {
    bytes: u64,
    lagged: u64,
    /// For the oldest event of each piece: microseconds from record to receipt.
    delays: Vec<f64>,
}

pub(crate) fn of_one_run() -> Result<()> {
    println!(
        "\n{EVENTS} events of one run at {EVENTS_PER_SECOND} a second, {STALLED} further clients stalled"
    );
    println!(
        "clients   recorded/s   delivered/s     MB/s   all there after   p50 delay   p99 delay   lagged"
    );
    for clients in [1, 100, 1_000] {
        let folder = tempfile::tempdir()?;
        fs::write(
            folder.path().join("config.toml"),
            "[serve]\nstreams_max = 2000\n",
        )?;
        let place = Place::new(folder.path(), Durability::Relaxed)?;
        watched_by(&place, clients)?;
        if clients == 1 {
            memory_of_stalled(&place)?;
        }
    }
    Ok(())
}

fn watched_by(place: &Place, clients: usize) -> Result<()> {
    let store = place.host.store();
    let recorder = begin(place, store)?;
    let path = format!("/api/agent/runs/{}/events", recorder.run_id());
    let _stalled = stall(place.address, &path, STALLED)?;
    let times = Arc::new(Times {
        start: now(),
        recorded: (0..=EVENTS + 2).map(|_| AtomicU64::new(0)).collect(),
    });
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()?;
    let watching: Vec<_> = (0..clients)
        .map(|_| runtime.spawn(watch(place.address, path.clone(), Arc::clone(&times))))
        .collect();
    let recorded_for = runtime.block_on(record(recorder, Arc::clone(&times)))?;
    let mut all = Seen::default();
    for client in watching {
        let seen = runtime.block_on(client)??;
        all.bytes += seen.bytes;
        all.lagged += seen.lagged;
        all.delays.extend(seen.delays);
    }
    let seconds = micros_since(times.start) / 1e6;
    #[expect(clippy::cast_precision_loss, reason = "figures for people")]
    let (events, bytes, clients_f) = (EVENTS as f64, all.bytes as f64, clients as f64);
    println!(
        "{clients:>7} {:>12.0} {:>13.0} {:>8.1} {:>15.2} s {:>8.1} ms {:>8.1} ms {:>8}",
        events / recorded_for,
        events * clients_f / seconds,
        bytes / seconds / 1e6,
        seconds,
        quantile(&mut all.delays, 0.5) / 1e3,
        quantile(&mut all.delays, 0.99) / 1e3,
        all.lagged,
    );
    Ok(())
}

fn begin(place: &Place, store: &Store) -> Result<Recorder> {
    let started = RunStarted {
        skill: "bench".to_owned(),
        ..RunStarted::default()
    };
    let created = store.create(RunId::generate(), started);
    Ok(place.runtime.block_on(created)?.0)
}

/// Records at the rate, and gives the seconds that it took.
async fn record(recorder: Recorder, times: Arc<Times>) -> Result<f64> {
    let start = now();
    let mut ticks = interval(Duration::from_millis(1));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
    for seq in 2..=EVENTS + 1 {
        if seq % (EVENTS_PER_SECOND / 1_000) == 0 {
            ticks.tick().await;
        }
        let event = Event::from(Log {
            message: "one of very many lines that a skill logs".into(),
            ..Log::default()
        });
        note(&times, seq);
        recorder.record(Origin::Host, &event)?;
    }
    let end = RunCompleted::new(RunStatus::Ok, OutcomeCode::Ok);
    note(&times, EVENTS + 2);
    recorder.record(Origin::Host, &Event::from(end))?;
    Ok(micros_since(start) / 1e6)
}

fn note(times: &Times, seq: u64) {
    let place = usize::try_from(seq).unwrap_or(usize::MAX);
    if let Some(time) = times.recorded.get(place) {
        let micros = u64::try_from(times.start.elapsed().as_micros()).unwrap_or(u64::MAX);
        time.store(micros, Ordering::Relaxed);
    }
}

async fn watch(address: SocketAddr, path: String, times: Arc<Times>) -> Result<Seen> {
    let mut stream = tokio::net::TcpStream::connect(address).await?;
    stream.write_all(head(address, &path).as_bytes()).await?;
    let mut stream = BufReader::with_capacity(READ_BYTES, stream);
    let mut line = String::new();
    while line != "\r\n" {
        line.clear();
        stream.read_line(&mut line).await?;
    }
    let (mut seen, mut last, mut chunk) = (Seen::default(), 0, Vec::new());
    loop {
        line.clear();
        stream.read_line(&mut line).await?;
        let length = usize::from_str_radix(line.trim_end(), 16).context("no length of a chunk")?;
        chunk.resize(length + 2, 0);
        stream.read_exact(&mut chunk).await?;
        if length == 0 {
            ensure!(last == EVENTS + 2, "the stream ended after event {last}");
            return Ok(seen);
        }
        seen.bytes += u64::try_from(length)?;
        if chunk.starts_with(b"event: lagged") {
            seen.lagged += 1;
        }
        if !chunk.starts_with(b"id: ") {
            continue;
        }
        let first = id(&chunk)?;
        ensure!(first == last + 1, "event {first} came after {last}");
        let from = chunk.windows(6).rposition(|it| it == b"\n\nid: ");
        last = id(chunk.get(from.map_or(0, |at| at + 2)..).unwrap_or_default())?;
        let recorded = times.recorded.get(usize::try_from(first)?);
        let recorded = recorded.map_or(0, |time| time.load(Ordering::Relaxed));
        if recorded > 0 {
            #[expect(clippy::cast_precision_loss, reason = "a figure for people")]
            seen.delays
                .push(micros_since(times.start) - recorded as f64);
        }
    }
}

/// The number that an event begins with.
fn id(event: &[u8]) -> Result<u64> {
    let digits = event.strip_prefix(b"id: ").context("no id")?;
    let end = digits.iter().position(|byte| *byte == b'\n');
    let digits = digits.get(..end.unwrap_or(0)).unwrap_or_default();
    Ok(std::str::from_utf8(digits)?.parse()?)
}

fn head(address: SocketAddr, path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: {address}\r\n\r\n")
}

/// Clients that ask and never read.
fn stall(address: SocketAddr, path: &str, clients: usize) -> Result<Vec<TcpStream>> {
    let one = |_| {
        let mut stream = TcpStream::connect(address)?;
        rustix::net::sockopt::set_socket_recv_buffer_size(&stream, 4096)?;
        stream.write_all(head(address, path).as_bytes())?;
        Ok(stream)
    };
    (0..clients).map(one).collect()
}

/// What clients cost that ask for a run that is over and never read.
fn memory_of_stalled(place: &Place) -> Result<()> {
    let runs = place
        .host
        .store()
        .list(&skillrun::ledger::RunQuery::newest(1))?;
    let run = runs.runs.first().context("no run")?;
    let path = format!("/api/agent/runs/{}/events", run.run_id);
    let before = resident_kib()?;
    let stalled = stall(place.address, &path, STALLED_FOR_MEMORY)?;
    // They are served as far as they are when one that came last has everything.
    let times = Times {
        start: now(),
        recorded: Vec::new(),
    };
    place
        .runtime
        .block_on(watch(place.address, path, Arc::new(times)))?;
    let each = resident_kib()?.saturating_sub(before) / u64::try_from(stalled.len())?;
    println!(
        "{:>7} further clients that never read: {each} KiB each (aim <= 1024 KiB)",
        stalled.len()
    );
    Ok(())
}

fn resident_kib() -> Result<u64> {
    let status = fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let Some(line) = line else {
        bail!("the system does not tell what memory a process has");
    };
    Ok(line.trim().trim_end_matches(" kB").trim().parse()?)
}
