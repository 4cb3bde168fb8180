//! What benchmarks have in common: the machine's own clock, and the figure in the middle.

use std::time::Instant;

#[expect(
    clippy::disallowed_methods,
    reason = "a benchmark reads the machine's own clock"
)]
pub(crate) fn now() -> Instant {
    Instant::now()
}

pub(crate) fn micros_since(start: Instant) -> f64 {
    start.elapsed().as_secs_f64() * 1e6
}

/// The figure in the middle of all.
pub(crate) fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures.get(figures.len() / 2).copied().unwrap_or(f64::NAN)
}
