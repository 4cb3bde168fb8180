//! A run that is done again, beside reading its ledger.

use std::fs;
use std::time::Duration;

use anyhow::{Context as _, Result};
use serde_json::Value;
use skillrun::config::ApprovalPolicy;
use skillrun::id::RunId;
use skillrun::ledger::{Entry, Event, Position};
use skillrun::runner::{Caller, ResumeOptions, Runner};

use crate::place::{Place, asking, terms};
use crate::{median, ms_since, now};

/// Calls that are on record.
const CALLS: u64 = 10_000;
const ROUNDS: usize = 7;
const LATER_MS: u64 = 3_600_000;
const LOOK_INTERVAL: Duration = Duration::from_millis(5);

pub(crate) fn beside_reading() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let place = Place::new(folder.path(), LATER_MS)?;
    let runtime = skillrun::runner::runtime_builder().build()?;
    let start = now();
    let run_id = runtime.block_on(interrupted(&place))?;
    println!(
        "{CALLS} calls live, loading included: {:.0} ms",
        ms_since(start)
    );
    let name = format!("{run_id}.jsonl");
    let ledger = place.runs_dir().join(&name);
    let (mut read, mut replayed, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let start = now();
        let bytes = fs::read(&ledger)?;
        let mut lines = 0;
        for line in bytes
            .split(|&byte| byte == b'\n')
            .filter(|line| !line.is_empty())
        {
            serde_json::from_slice::<Value>(line)?;
            lines += 1;
        }
        let reading = ms_since(start);
        anyhow::ensure!(lines > 2 * CALLS, "{lines} lines");

        let copy = tempfile::tempdir()?;
        let elsewhere = place.elsewhere(copy.path());
        let runner = elsewhere.runner()?;
        fs::copy(&ledger, elsewhere.runs_dir().join(&name))?;
        let options = ResumeOptions {
            terms: terms(ApprovalPolicy::Yes)?,
            ..ResumeOptions::default()
        };
        let start = now();
        runtime.block_on(runner.resume(Caller::new(), &run_id, options))?;
        let replaying = ms_since(start);
        read.push(reading);
        replayed.push(replaying);
        ratios.push(replaying / reading);
    }
    println!("reading and parsing its ledger: {:.1} ms", median(read));
    println!("going on from its ledger:       {:.1} ms", median(replayed));
    println!("ratio: {:.2}", median(ratios));
    Ok(())
}

async fn interrupted(place: &Place) -> Result<RunId> {
    let runner = place.runner()?;
    let started = runner.start(Caller::new(), asking(CALLS)?).await?;
    let mut looks = tokio::time::interval(LOOK_INTERVAL);
    while !has_asked(&runner, &started.run_id)? {
        looks.tick().await;
    }
    runner.shutdown().await;
    Ok(started.run_id)
}

fn has_asked(runner: &Runner, run_id: &RunId) -> Result<bool> {
    let store = runner.store();
    let last = store.summary(run_id)?.head.seq;
    let mut events = store.follow(run_id, Position::default())?;
    events.skip_to(last)?;
    let entry = events.next_entry()?.context("a run without events")?;
    Ok(
        matches!(&entry, Entry::Record(record) if matches!(record.event(), Event::ApprovalRequest(_))),
    )
}
