//! What an execution costs: until it is ready, for one prompt, for those who watch, and while nobody asks for anything;
//! and a thousand at once.
//!
//! `cargo bench --bench runtime`, with `prompts`, `watchers` or `memory` behind `--` for one part alone.
#![expect(clippy::print_stdout, reason = "figures are what a benchmark is for")]

mod memory;
mod place;
mod prompts;
mod watchers;

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
    if wanted("prompts") {
        prompts::beside_a_run()?;
    }
    if wanted("watchers") {
        watchers::of_one_execution()?;
    }
    if wanted("memory") {
        memory::of_idle_executions()?;
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

fn micros_since(start: Instant) -> f64 {
    start.elapsed().as_secs_f64() * 1e6
}

fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures.get(figures.len() / 2).copied().unwrap_or(f64::NAN)
}
