//! How fast ledgers are read, one and all of them.
#![expect(clippy::print_stdout, reason = "figures are what a benchmark is for")]
#![expect(
    clippy::disallowed_methods,
    reason = "a benchmark reads the machine's own clock"
)]

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use skillrun::config::Durability;
use skillrun::id::RunId;
use skillrun::ledger::{Origin, RunCompleted, RunQuery, RunStatus, Store, Verdict};
use skillrun::outcome::OutcomeCode;
use tokio::runtime::Runtime;

use crate::rates::rate;
use crate::{event, started, store};

const SCANNED_EVENTS: usize = 250_000;
const RUNS: usize = 100_000;
const EVENTS_PER_RUN: usize = 10;
const LISTED: usize = 50;
const MILLION: usize = 1_000_000;

/// The scan that recovery and `verify` make of a whole ledger.
pub(crate) fn scan(folder: &Path) -> Result<()> {
    let store = store(folder, Durability::Relaxed)?;
    let run_id = write(&Runtime::new()?, &store, SCANNED_EVENTS)?;
    let bytes = fs::metadata(store.path_of(&run_id))?.len();
    let start = Instant::now();
    let report = store.verify(&run_id, None)?;
    let seconds = start.elapsed().as_secs_f64();
    anyhow::ensure!(report.verdict() == Verdict::Ok, "{}", report.verdict());
    let mega = f64::from(u32::try_from(bytes / 1_000_000)?);
    println!(
        "\nscan of a ledger: {:.0} MB/s (aim: at least 200)",
        mega / seconds
    );
    Ok(())
}

/// The index made anew, and lists from it.
pub(crate) fn index(folder: &Path) -> Result<()> {
    let store = store(folder, Durability::Relaxed)?;
    let runtime = Runtime::new()?;
    for _ in 0..RUNS {
        write(&runtime, &store, EVENTS_PER_RUN)?;
    }
    store.update_index()?;
    fs::remove_file(folder.join("runs/index.db"))?;
    let rebuilt = rate(RUNS, || Ok(store.update_index()?))?;
    println!("\nindex of {RUNS} runs made anew: {rebuilt:.0} runs/s (aim: at least 20000)");
    let query = RunQuery::newest(LISTED);
    // The folder has to rest for a moment before its time of change tells anything.
    let mut quickest = Duration::MAX;
    let waited = Instant::now();
    while waited.elapsed() < Duration::from_secs(1) {
        quickest = quickest.min(list(&store, &query)?);
    }
    println!("list of {LISTED} of them: {quickest:?} (aim: at most 50ms)");
    write(&runtime, &store, EVENTS_PER_RUN)?;
    let after = list(&store, &query)?;
    println!("the same after a new run: {after:?}");
    let by_skill = RunQuery {
        skill: Some("bench".to_owned()),
        ..query
    };
    println!("the same of one skill: {:?}", list(&store, &by_skill)?);
    Ok(())
}

fn list(store: &Store, query: &RunQuery) -> Result<Duration> {
    let start = Instant::now();
    let listing = store.list(query)?;
    anyhow::ensure!(listing.runs.len() == LISTED, "{} runs", listing.runs.len());
    Ok(start.elapsed())
}

/// Memory over a ledger of a million events, written, read and checked.
pub(crate) fn million(folder: &Path) -> Result<()> {
    let store = store(folder, Durability::Relaxed)?;
    let before = peak_kib()?;
    let run_id = write(&Runtime::new()?, &store, MILLION)?;
    let written = peak_kib()?;
    store.verify(&run_id, None)?;
    let page = store.read(&run_id, 999_000, 100)?;
    anyhow::ensure!(page.entries.len() == 100, "{} lines", page.entries.len());
    let read = peak_kib()?;
    let bytes = fs::metadata(store.path_of(&run_id))?.len();
    println!(
        "\n{MILLION} events, {bytes} bytes: peak memory {before} KiB before, {written} KiB after \
         writing, {read} KiB after reading"
    );
    Ok(())
}

fn write(runtime: &Runtime, store: &Store, events: usize) -> Result<RunId> {
    let (recorder, _) = runtime.block_on(store.create(RunId::generate(), started()))?;
    let event = event();
    for _ in 2..events {
        recorder.record(Origin::Host, &event)?;
    }
    let end = RunCompleted::new(RunStatus::Ok, OutcomeCode::Ok);
    recorder.record(Origin::Host, &end.into())?;
    Ok(recorder.run_id().clone())
}

fn peak_kib() -> Result<u64> {
    let status = fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let number = line.and_then(|line| line.split_whitespace().next());
    Ok(number.context("the system does not tell")?.parse()?)
}
