//! What it costs that runs can go on.
//!
//! A run of 10,000 calls of a tool that is done again from its ledger, beside reading the same ledger line by
//! line; what it costs that its calls are on record, beside a host that answers and keeps nothing; the memory of runs that wait for people; and the time from an answer to the end of the run that
//! waited for it, alone and among all those others. `cargo bench --bench resume`, with `replay`, `journal` or `waiting`
//! behind `--` for one part alone.
#![expect(clippy::print_stdout, reason = "figures are what a benchmark is for")]

mod journal;
#[path = "../measured/mod.rs"]
mod measured;
mod place;
mod replay;
mod waiting;

use std::env;
use std::time::Instant;

use anyhow::Result;

use self::measured::{median, micros_since, now};

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

fn ms_since(start: Instant) -> f64 {
    micros_since(start) / 1e3
}
