//! Executions that nobody asks for anything: what each of them takes beside its own linear memory.

use std::fs;

use anyhow::{Context as _, Result};
use skillrun::runner::runtime_builder;
use skillrun::runtime::Runtime as _;

use crate::place::Place;
use crate::{micros_since, now};

const LIVE: usize = 1_000;
/// Executions before the memory is looked at for the first time.
const WARM: usize = 100;

pub(crate) fn of_idle_executions() -> Result<()> {
    let home = tempfile::tempdir()?;
    let runtime = runtime_builder().build()?;
    runtime.block_on(async {
        let place = Place::new(home.path(), LIVE)?;
        let mut live = Vec::with_capacity(LIVE);
        for _ in 0..WARM {
            live.push(prompted(&place).await?);
        }
        let before = Resident::now()?;
        let since = now();
        for _ in WARM..LIVE {
            live.push(prompted(&place).await?);
        }
        let micros = micros_since(since);
        let after = Resident::now()?;
        let each = |before: usize, after: usize| after.saturating_sub(before) / (LIVE - WARM) / 1024;
        println!(
            "{LIVE} live executions, each prompted once: {} KiB for each beside {} KiB of its linear memory (aim: at most 64), {} MiB in all, {:.1} s for {} launches and prompts",
            each(before.rest, after.rest),
            each(before.linear, after.linear),
            (after.rest + after.linear) >> 20,
            micros / 1e6,
            LIVE - WARM,
        );
        let since = now();
        for id in &live {
            place.runtime().resume(id, "count").await?;
        }
        println!("one prompt to each of them: {:.0} µs each", micros_since(since) / 1e3);
        let since = now();
        place.host.shutdown().await;
        println!("all of them interrupted: {:.0} ms", micros_since(since) / 1e3);
        Ok(())
    })
}

async fn prompted(place: &Place) -> Result<String> {
    let id = place.ready().await?;
    place.runtime().resume(&id, "remember x").await?;
    Ok(id)
}

/// Bytes of this process that are in memory.
struct Resident {
    /// Those of linear memories.
    linear: usize,
    /// All others.
    rest: usize,
}

impl Resident {
    /// Linear memories are the largest area of addresses that hang together: the pool has 4 GiB for each.
    fn now() -> Result<Self> {
        let maps = fs::read_to_string("/proc/self/smaps")?;
        let mut areas: Vec<(usize, usize, usize)> = Vec::new();
        for line in maps.lines() {
            if let Some(range) = range(line) {
                match areas.last_mut() {
                    Some(last) if last.1 == range.0 => last.1 = range.1,
                    _ => areas.push((range.0, range.1, 0)),
                }
            } else if let Some(kib) = line.strip_prefix("Rss:") {
                let kib: usize = kib.trim().trim_end_matches(" kB").parse()?;
                areas.last_mut().context("memory of nothing")?.2 += kib * 1024;
            }
        }
        let all: usize = areas.iter().map(|area| area.2).sum();
        let pool = areas.iter().max_by_key(|area| area.1 - area.0);
        let linear = pool.context("no memory")?.2;
        Ok(Self {
            linear,
            rest: all - linear,
        })
    }
}

/// The addresses at the beginning of a line that has some.
fn range(line: &str) -> Option<(usize, usize)> {
    let (range, _) = line.split_once(' ')?;
    let (from, to) = range.split_once('-')?;
    let hex = |text| usize::from_str_radix(text, 16).ok();
    Some((hex(from)?, hex(to)?))
}
