//! Runs that wait for people: their memory, and how soon they go on.

use std::time::Duration;

use anyhow::{Context as _, Result};
use skillrun::ledger::{ApprovalDecision, ApprovalSource, Store};
use skillrun::runner::{Caller, Runner, Started};

use crate::place::{Place, asking};
use crate::{median, ms_since, now};

/// Runs that wait.
const WAITING: usize = 10_000;
/// Runs that wait before the memory is looked at for the first time.
const WARM: usize = 500;
const ROUNDS_HERE: usize = 30;
const ROUNDS_ELSEWHERE: usize = 10;
const LOOK_INTERVAL: Duration = Duration::from_millis(10);
const AT_ONCE_MS: u64 = 1;

pub(crate) fn costs() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let place = Place::new(folder.path(), AT_ONCE_MS)?;
    let runtime = skillrun::runner::runtime_builder().build()?;
    runtime.block_on(async {
        let runner = place.runner()?;
        answers(&place, &runner, "alone").await?;
        let mut waiting = wait(&runner, WARM).await?;
        let before = resident_bytes()?;
        waiting.extend(wait(&runner, WAITING - WARM).await?);
        let after = resident_bytes()?;
        let taken = after.saturating_sub(before) / (WAITING - WARM);
        println!(
            "{WAITING} runs wait: {} MiB resident, {taken} bytes for each",
            after >> 20
        );
        answers(&place, &runner, "among them").await?;
        runner.interrupt();
        Ok(())
    })
}

/// Starts so many runs more, and waits until all of them are suspended.
async fn wait(runner: &Runner, runs: usize) -> Result<Vec<Started>> {
    let all = runner.suspended() + runs;
    let mut waiting = Vec::with_capacity(runs);
    for _ in 0..runs {
        waiting.push(runner.start(Caller::new(), asking(1)?).await?);
    }
    let mut looks = tokio::time::interval(LOOK_INTERVAL);
    while runner.suspended() < all {
        looks.tick().await;
    }
    Ok(waiting)
}

/// The time from a decision to the end of the run, which has nothing left to do then.
async fn answers(place: &Place, runner: &Runner, how: &str) -> Result<()> {
    let elsewhere = place.store()?;
    let rounds = [
        ("in this process", runner.store(), ROUNDS_HERE),
        ("in another", &elsewhere, ROUNDS_ELSEWHERE),
    ];
    for (place, store, rounds) in rounds {
        let mut took = Vec::new();
        for _ in 0..rounds {
            took.push(answer(runner, store).await?);
        }
        println!(
            "from an answer {place} to the end, {how}: {:.1} ms",
            median(took)
        );
    }
    Ok(())
}

async fn answer(runner: &Runner, store: &Store) -> Result<f64> {
    let started = wait(runner, 1).await?.pop().context("no run")?;
    let yes = ApprovalDecision {
        approved: true,
        reason: String::new(),
        source: ApprovalSource::Api,
        option: None,
        answer: None,
    };
    let start = now();
    store.decide(&started.run_id, None, &yes)?;
    started.handle.wait().await?;
    Ok(ms_since(start))
}

/// What the system says of this process.
fn resident_bytes() -> Result<usize> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find(|line| line.starts_with("VmRSS:"));
    let kib = line.and_then(|line| line.split_ascii_whitespace().nth(1));
    let kib: usize = kib.context("no VmRSS")?.parse()?;
    Ok(kib * 1024)
}
