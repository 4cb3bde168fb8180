//! What it costs that runs can go on.
//!
//! A run of 10,000 calls of a tool that is done again from its ledger, beside reading the same ledger line by
//! line; what it costs that its calls are on record, beside a host that answers and keeps nothing; the memory of runs that wait for people; and the time from an answer to the end of the run that
//! waited for it, alone and among all those others. `cargo bench --bench resume`, with `replay`, `journal` or `waiting`
//! behind `--` for one part alone.
#![expect(clippy::print_stdout, reason = "figures are what a benchmark is for")]

mod journal;
mod place;
mod replay;
mod waiting;

use std::env;
use std::time::Instant;

use anyhow::Result;

fn main() -> Result<()> {
    // `cargo bench` passes flags of its own beside these words.
    let words: Vec<String> = env::args()
        .skip(1)
        .filter(|word| !word.starts_with('-'))
        .collect();
    let wanted = |part: &str| words.is_empty() || words.iter().any(|word| word == part);
    if wanted("replay") {
        replay::beside_reading()?;
    }
    if wanted("journal") {
        journal::on_and_off()?;
    }
    if wanted("waiting") {
        waiting::costs()?;
    }
    Ok(())
}

#[expect(
    clippy::disallowed_methods,
    reason = "a benchmark reads the machine's own clock"
)]
fn now() -> Instant {
    Instant::now()
}

fn ms_since(start: Instant) -> f64 {
    start.elapsed().as_secs_f64() * 1e3
}

fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures.get(figures.len() / 2).copied().unwrap_or(f64::NAN)
}
