//! What an execution costs: until it is ready, for one prompt, for those who watch, and while nobody asks for anything;
//! and a thousand at once.
//!
//! `cargo bench --bench runtime`, with `prompts`, `watchers` or `memory` behind `--` for one part alone.
#![expect(clippy::print_stdout, reason = "figures are what a benchmark is for")]

#[path = "../measured/mod.rs"]
mod measured;
mod memory;
mod place;
mod prompts;
mod watchers;

use std::env;

use anyhow::Result;

use self::measured::{median, micros_since, now};

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
