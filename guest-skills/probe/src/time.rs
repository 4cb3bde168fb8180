//! Clocks, timers and waits, as a test spells them.

use std::time::{Duration, Instant};

use serde::Deserialize;
use serde_json::{Value, json};
use wasip2::cli::stdin::get_stdin;
use wasip2::clocks::{monotonic_clock, wall_clock};
use wasip2::io::poll::{Pollable, poll};

/// What to do with time.
#[derive(Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(crate) struct Wanted {
    #[serde(rename = "do")]
    steps: Vec<Step>,
}

/// One thing, after the one before. Timers are made first, all of them at the same time.
#[derive(Deserialize)]
#[serde(tag = "step", rename_all = "snake_case", deny_unknown_fields)]
enum Step {
    /// Both clocks, in microseconds: the time of day, and the time since the run began.
    Look {},
    /// The smallest steps of the clocks, in nanoseconds.
    Resolutions {},
    /// Makes a timer and keeps it.
    Timer { ms: u64 },
    /// Makes one by the moment when it is ready and keeps it.
    TimerAt { ms: u64 },
    /// Keeps something to wait for that is always ready.
    Stdin {},
    /// Waits for all that is kept, and gives the places of those that are ready.
    Poll {},
    /// Waits for one of them.
    Block { place: usize },
    /// Whether one of them is ready.
    Ready { place: usize },
    /// Looks at the clock until so much has gone by, and gives how much that was.
    BusyWait { ms: u64 },
    /// Reads a clock so many times.
    Looks { times: u64 },
    /// Waits so many times for a timer of no time.
    Timers { times: u64 },
    /// Waits so many times for all that is kept.
    Polls { times: u64 },
}

/// Does the things, and gives what came of each.
pub(crate) fn make(wanted: Wanted) -> Value {
    let mut kept: Vec<Pollable> = Vec::new();
    let steps = wanted.steps.iter();
    steps.map(|step| one(step, &mut kept)).collect()
}

fn one(step: &Step, kept: &mut Vec<Pollable>) -> Value {
    match step {
        Step::Look {} => {
            let wall = wall_clock::now();
            let wall = wall.seconds * 1_000_000 + u64::from(wall.nanoseconds) / 1_000;
            json!([wall, monotonic_clock::now() / 1_000])
        }
        Step::Resolutions {} => {
            let wall = wall_clock::resolution();
            json!([
                wall.seconds * 1_000_000_000 + u64::from(wall.nanoseconds),
                monotonic_clock::resolution()
            ])
        }
        Step::Timer { ms } => keep(kept, monotonic_clock::subscribe_duration(ms * 1_000_000)),
        Step::TimerAt { ms } => keep(kept, monotonic_clock::subscribe_instant(ms * 1_000_000)),
        Step::Stdin {} => {
            // It is held back until its stream is gone.
            let stdin = Box::leak(Box::new(get_stdin()));
            keep(kept, stdin.subscribe())
        }
        Step::Poll {} => json!(poll(&kept.iter().collect::<Vec<_>>())),
        Step::Block { place } => {
            if let Some(one) = kept.get(*place) {
                one.block();
            }
            Value::Null
        }
        Step::Ready { place } => json!(kept.get(*place).map(Pollable::ready)),
        Step::BusyWait { ms } => {
            let begun = Instant::now();
            while begun.elapsed() < Duration::from_millis(*ms) {}
            json!(begun.elapsed().as_millis() as u64)
        }
        Step::Looks { times } => json!((0..*times).map(|_| monotonic_clock::now()).max()),
        Step::Timers { times } => {
            (0..*times).for_each(|_| monotonic_clock::subscribe_duration(0).block());
            Value::Null
        }
        Step::Polls { times } => {
            let all: Vec<&Pollable> = kept.iter().collect();
            json!((0..*times).map(|_| poll(&all).len()).sum::<usize>())
        }
    }
}

fn keep(kept: &mut Vec<Pollable>, one: Pollable) -> Value {
    kept.push(one);
    Value::Null
}
