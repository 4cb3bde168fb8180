//! What HTTP adds: a run that is asked for over it beside the same run through the library, at 16 and at 64
//! clients; a page of 50 among 100,000 runs; and one run that 1,000 clients watch.
//!
//! `cargo bench --bench http`, with `runs`, `list` or `streams` behind `--` for one part alone.
#![expect(clippy::print_stdout, reason = "figures are what a benchmark is for")]

mod client;
mod list;
#[path = "../measured/mod.rs"]
mod measured;
mod place;
mod runs;
mod streams;

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
    if wanted("runs") {
        runs::beside_the_library()?;
    }
    if wanted("list") {
        list::one_page()?;
    }
    if wanted("streams") {
        streams::of_one_run()?;
    }
    Ok(())
}

/// The figure below which that part of all lies.
fn quantile(figures: &mut [f64], part: f64) -> f64 {
    figures.sort_by(f64::total_cmp);
    let last = figures.len().saturating_sub(1);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "a place in a list that is not empty"
    )]
    let place = (last as f64 * part) as usize;
    figures.get(place).copied().unwrap_or(f64::NAN)
}
