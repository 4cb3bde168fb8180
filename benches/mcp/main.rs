//! What MCP adds: `tools/call` of `greet` on standard input and output and over HTTP, of clients with sessions and without,
//! beside the same run through the library; one call after the other, and 64 at once.
//!
//! Printed are medians over rounds, in each of which every way has its turn, and ratios to the library in the same
//! round. Standard input and output are pipes, and clients have a runtime of their own. `cargo bench --bench mcp`, with
//! `each` or `together` behind `--` for one part alone.
#![expect(clippy::print_stdout, reason = "figures are what a benchmark is for")]

mod http;
mod place;
mod requests;
mod stdio;
mod ways;

use std::env;
use std::time::Instant;

use anyhow::Result;
use skillrun::config::Durability;

use crate::ways::Ways;

const ROUNDS: usize = 7;
/// Calls of each way in one round, one after the other.
const CALLS: usize = 300;
/// Calls of each way in one round, so many at once.
const CALLS_TOGETHER: usize = 1_280;
const AT_ONCE: usize = 64;

fn main() -> Result<()> {
    // `cargo bench` passes flags of its own beside these words.
    let words: Vec<String> = env::args()
        .skip(1)
        .filter(|word| !word.starts_with('-'))
        .collect();
    let wanted = |part: &str| words.is_empty() || words.iter().any(|word| word == part);
    for durability in [Durability::Sync, Durability::Relaxed] {
        if wanted("each") {
            println!("\ntools/call of greet, {durability:?}, one after the other");
            println!("way                  p50 of a call   of the library's");
            let report = |micros: f64| format!("{micros:>10.0} µs");
            print(
                &rounds(durability, 1, |calls| median(calls.micros))?,
                report,
            );
        }
        if wanted("together") {
            println!("\ntools/call of greet, {durability:?}, {AT_ONCE} at once");
            println!("way                  calls a second  of the library's");
            let report = |per_second: f64| format!("{per_second:>10.0} /s");
            print(
                &rounds(durability, AT_ONCE, |calls| calls.per_second)?,
                report,
            );
        }
    }
    Ok(())
}

/// What was measured of some calls of one way.
struct Calls {
    /// How long each took.
    micros: Vec<f64>,
    per_second: f64,
}

/// The figures of one way, one for each round, and what each is of the library's in that round.
struct Figures {
    name: &'static str,
    figures: Vec<f64>,
    ratios: Vec<f64>,
}

/// Has every way call in each round.
fn rounds(
    durability: Durability,
    at_once: usize,
    figure: impl Fn(Calls) -> f64,
) -> Result<Vec<Figures>> {
    let folder = tempfile::tempdir()?;
    let mut ways = Ways::new(folder.path(), durability, at_once)?;
    let count = if at_once == 1 { CALLS } else { CALLS_TOGETHER };
    let mut all: Vec<Figures> = Vec::new();
    // The first round compiles, and is not counted.
    for round in 0..=ROUNDS {
        let mut of_library = f64::NAN;
        for (place, name) in ways::NAMES.into_iter().enumerate() {
            let start = now();
            let micros = ways.call(name, count)?;
            #[expect(clippy::cast_precision_loss, reason = "a few thousand")]
            let per_second = micros.len() as f64 * 1e6 / micros_since(start);
            let figure = figure(Calls { micros, per_second });
            if place == 0 {
                of_library = figure;
            }
            if round == 0 {
                all.push(Figures {
                    name,
                    figures: Vec::new(),
                    ratios: Vec::new(),
                });
            } else if let Some(way) = all.get_mut(place) {
                way.figures.push(figure);
                way.ratios.push(figure / of_library);
            }
        }
    }
    Ok(all)
}

fn print(ways: &[Figures], report: impl Fn(f64) -> String) {
    for way in ways {
        println!(
            "{:<20} {} {:>16.2} x",
            way.name,
            report(median(way.figures.clone())),
            median(way.ratios.clone())
        );
    }
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

/// The figure in the middle of all.
fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures.get(figures.len() / 2).copied().unwrap_or(f64::NAN)
}
