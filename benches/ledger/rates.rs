//! How fast events are taken.
#![expect(clippy::print_stdout, reason = "figures are what a benchmark is for")]
#![expect(
    clippy::disallowed_methods,
    reason = "a benchmark reads the machine's own clock"
)]

use std::fs::{self, File};
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Result;
use skillrun::config::Durability;
use skillrun::id::RunId;
use skillrun::ledger::{Origin, Store};
use tokio::runtime::Runtime;
use tokio::task::JoinSet;

use crate::{event, raw, started, store};

/// Rounds in which ours and the control have their turn.
const ROUNDS: usize = 5;
const DURABLE_EVENTS: usize = 4_000;
const WRITTEN_EVENTS: usize = 200_000;
const STARTS: usize = 300;

/// Durable events of several runs at once.
pub(crate) fn durable(folder: &Path) -> Result<()> {
    println!("\ndurable events/s, each writer its own run");
    let runtime = Runtime::new()?;
    let store = store(folder, Durability::Sync)?;
    let bytes = line_bytes(&runtime, &store)?;
    for writers in [1, 4, 16, 64] {
        let count = DURABLE_EVENTS / writers.max(4);
        let (mut rates, mut raws, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
        for round in 0..ROUNDS {
            let place = folder.join(format!("{writers}-{round}"));
            fs::create_dir(&place)?;
            let control = rate(writers * count, || {
                raw::durable(&place, writers, count, bytes)
            })?;
            let ours = rate(writers * count, || {
                runtime.block_on(append(&store, writers, count))
            })?;
            rates.push(ours);
            raws.push(control);
            ratios.push(ours / control);
        }
        println!(
            "{writers:>3} writers: {:>7.0} ours, {:>7.0} raw, {:.2} of raw (aim: at least 0.70 at 16)",
            median(rates),
            median(raws),
            median(ratios)
        );
    }
    Ok(())
}

async fn append(store: &Store, writers: usize, count: usize) -> Result<()> {
    let mut tasks = JoinSet::new();
    for _ in 0..writers {
        let store = store.clone();
        tasks.spawn(async move {
            let (recorder, _) = store.create(RunId::generate(), started()).await?;
            let event = event();
            for _ in 0..count {
                recorder.record_durable(Origin::Host, &event).await?;
            }
            anyhow::Ok(())
        });
    }
    while let Some(ended) = tasks.join_next().await {
        ended??;
    }
    Ok(())
}

/// The time until a new run is acknowledged.
pub(crate) fn start(folder: &Path) -> Result<()> {
    let runtime = Runtime::new()?;
    let store = store(folder, Durability::Sync)?;
    let bytes = line_bytes(&runtime, &store)?;
    let place = File::open(folder)?;
    let (mut ours, mut raws) = (Vec::new(), Vec::new());
    for number in 0..STARTS {
        let start = Instant::now();
        raw::start(&place, &folder.join(number.to_string()), bytes)?;
        raws.push(start.elapsed());
        let start = Instant::now();
        runtime.block_on(store.create(RunId::generate(), started()))?;
        ours.push(start.elapsed());
    }
    let (ours, raw) = (p50(ours), p50(raws));
    let aim = raw.mul_f64(1.3) + Duration::from_millis(1);
    println!("\nrun_started, p50: {ours:?} ours, {raw:?} raw (aim: at most {aim:?})");
    Ok(())
}

/// Events that nobody waits for, through one recorder.
pub(crate) fn written(folder: &Path) -> Result<()> {
    let runtime = Runtime::new()?;
    println!("\nevents/s that are not waited for, one recorder");
    for durability in [Durability::Sync, Durability::Relaxed] {
        let store = store(folder, durability)?;
        let bytes = line_bytes(&runtime, &store)?;
        let (recorder, _) = runtime.block_on(store.create(RunId::generate(), started()))?;
        let event = event();
        let ours = rate(WRITTEN_EVENTS, || {
            for _ in 0..WRITTEN_EVENTS {
                recorder.record(Origin::Host, &event)?;
            }
            Ok(())
        })?;
        let path = folder.join(format!("raw-{durability:?}"));
        let control = rate(WRITTEN_EVENTS, || {
            raw::written(&path, WRITTEN_EVENTS, bytes)
        })?;
        println!("{durability:?}: {ours:.0} ours, {control:.0} raw write (aim: at least 50000)");
    }
    Ok(())
}

/// The length of the line that the event makes.
fn line_bytes(runtime: &Runtime, store: &Store) -> Result<usize> {
    let (recorder, _) = runtime.block_on(store.create(RunId::generate(), started()))?;
    let before = fs::metadata(store.path_of(recorder.run_id()))?.len();
    recorder.record(Origin::Host, &event())?;
    let after = fs::metadata(store.path_of(recorder.run_id()))?.len();
    Ok(usize::try_from(after - before)?)
}

/// How often a second something is done that `work` does `count` times.
pub(crate) fn rate(count: usize, work: impl FnOnce() -> Result<()>) -> Result<f64> {
    let start = Instant::now();
    work()?;
    let count = f64::from(u32::try_from(count)?);
    Ok(count / start.elapsed().as_secs_f64())
}

fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures.get(figures.len() / 2).copied().unwrap_or(f64::NAN)
}

fn p50(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times.get(times.len() / 2).copied().unwrap_or_default()
}
