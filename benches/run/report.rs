//! Medians and ratios.
#![expect(clippy::print_stdout, reason = "figures are what a benchmark is for")]

use std::time::Instant;

use anyhow::Result;

/// Figures by name, one a round, in microseconds a call.
#[derive(Default)]
pub(crate) struct Rounds(Vec<(&'static str, Vec<f64>)>);

/// The time of one call when `work` makes `calls` of them.
#[expect(
    clippy::disallowed_methods,
    reason = "a benchmark reads the machine's own clock"
)]
pub(crate) fn per_call_micros(calls: u32, work: impl FnOnce() -> Result<()>) -> Result<f64> {
    let start = Instant::now();
    work()?;
    Ok(start.elapsed().as_secs_f64() * 1e6 / f64::from(calls))
}

impl Rounds {
    pub(crate) fn add(&mut self, name: &'static str, micros: f64) {
        match self.0.iter_mut().find(|(known, _)| *known == name) {
            Some((_, figures)) => figures.push(micros),
            None => self.0.push((name, vec![micros])),
        }
    }

    pub(crate) fn print(&self) {
        println!(
            "\n{:<46} {:>9} {:>9} {:>9}",
            "µs a call", "min", "median", "max"
        );
        for (name, figures) in &self.0 {
            let sorted = sorted(figures);
            let (min, max) = (sorted.first(), sorted.last());
            println!(
                "{name:<46} {:>9.2} {:>9.2} {:>9.2}",
                min.unwrap_or(&f64::NAN),
                median(&sorted),
                max.unwrap_or(&f64::NAN)
            );
        }
    }

    /// Prints the median ratio, round by round, of `ours` over `control`.
    pub(crate) fn ratio(&self, ours: &str, control: &str, aim: f64) {
        let ratio = self.paired(ours, control, |ours, control| ours / control);
        println!("{ours} / {control}: {ratio:.2} x (aim: at most {aim})");
    }

    /// Prints how much faster `many` is than `one`.
    pub(crate) fn speed_up(&self, many: &str, one: &str, aim: f64) {
        let ratio = self.paired(many, one, |many, one| one / many);
        println!("{many} over {one}: {ratio:.2} x the rate (aim: at least {aim})");
    }

    fn paired(&self, a: &str, b: &str, ratio: impl Fn(f64, f64) -> f64) -> f64 {
        let of = |name: &str| {
            self.0
                .iter()
                .find(|(known, _)| *known == name)
                .map(|(_, figures)| figures)
        };
        let (Some(a), Some(b)) = (of(a), of(b)) else {
            return f64::NAN;
        };
        let ratios: Vec<f64> = a.iter().zip(b).map(|(&a, &b)| ratio(a, b)).collect();
        median(&sorted(&ratios))
    }
}

fn sorted(figures: &[f64]) -> Vec<f64> {
    let mut sorted = figures.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted
}

fn median(sorted: &[f64]) -> f64 {
    sorted.get(sorted.len() / 2).copied().unwrap_or(f64::NAN)
}
