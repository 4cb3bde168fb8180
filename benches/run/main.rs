//! What a run costs over a bare call of the same component.
//!
//! In one process, in turn: raw wasmtime under the same engine configuration (instantiate, call,
//! drop), `SkillExecutor::call_tool`, and a whole run with its ledger; the same call without fuel and
//! epochs, which is what the bounds cost; and loading what was compiled before. Printed are medians over
//! rounds and ratios; the machine's noise is in both sides of a ratio. `cargo bench --bench run`, with
//! `load` for the last of these alone, or with `time` for what clocks, timers and waits cost.

#[path = "../../src/executor/engine_config.rs"]
mod engine_config;
mod limits;
mod load;
mod ours;
mod raw;
mod report;
mod time;

use std::env;
use std::path::Path;

use anyhow::Result;
use skillrun_test_artifacts::PROBE;

use self::ours::Ours;
use self::raw::{Files, Raw};
use self::report::{Rounds, per_call_micros};

/// Rounds in which every variant has its turn.
const ROUNDS: usize = 15;
/// Calls of one variant in one round.
const CALLS: u32 = 2_000;

fn main() -> Result<()> {
    // `cargo bench` passes flags of its own beside this word.
    if env::args().any(|argument| argument == "load") {
        load::loads()?;
        return load::warm_start();
    }
    if env::args().any(|argument| argument == "time") {
        return time::costs();
    }
    let wasm = Path::new(PROBE.wasm);
    let folder = tempfile::tempdir()?;
    let raw = Raw::new(wasm, true)?;
    let unbounded = Raw::new(wasm, false)?;
    let ours = Ours::new(wasm, folder.path())?;

    let mut rounds = Rounds::default();
    for _ in 0..ROUNDS {
        rounds.add(
            "raw: instantiate + call + drop",
            per_call_micros(CALLS, || raw.calls(CALLS, Files::None))?,
        );
        rounds.add(
            "raw without fuel and epochs",
            per_call_micros(CALLS, || unbounded.calls(CALLS, Files::None))?,
        );
        rounds.add("call_tool", ours.call_tool_micros(CALLS)?);
        rounds.add(
            "raw + 2 writes, one open file",
            per_call_micros(CALLS, || raw.calls(CALLS, Files::OneOpen))?,
        );
        rounds.add(
            "raw + own file: open, lock, 2 writes, close",
            per_call_micros(CALLS, || raw.calls(CALLS, Files::OneEach))?,
        );
        rounds.add(
            "run, ledger not durable",
            per_call_micros(CALLS, || ours.runs(CALLS))?,
        );
    }
    rounds.print();
    rounds.ratio("call_tool", "raw: instantiate + call + drop", 1.3);
    rounds.ratio("call_tool", "raw without fuel and epochs", 1.5);
    rounds.ratio(
        "run, ledger not durable",
        "raw + 2 writes, one open file",
        1.3,
    );
    rounds.ratio(
        "run, ledger not durable",
        "raw + own file: open, lock, 2 writes, close",
        1.3,
    );

    threads(&raw, &ours)?;
    limits::overshoot(&ours)?;
    time::costs()?;
    drop((raw, unbounded, ours));
    load::loads()?;
    load::warm_start()?;
    Ok(())
}

/// The rate of two threads over the rate of one.
fn threads(raw: &Raw, ours: &Ours) -> Result<()> {
    let mut rounds = Rounds::default();
    for _ in 0..ROUNDS {
        rounds.add(
            "raw, 1 thread",
            per_call_micros(CALLS, || raw.on_threads(1, CALLS))?,
        );
        rounds.add(
            "raw, 2 threads",
            per_call_micros(2 * CALLS, || raw.on_threads(2, CALLS))?,
        );
        rounds.add(
            "run, 1 thread",
            per_call_micros(CALLS, || ours.on_threads(1, CALLS))?,
        );
        rounds.add(
            "run, 2 threads",
            per_call_micros(2 * CALLS, || ours.on_threads(2, CALLS))?,
        );
    }
    rounds.print();
    rounds.speed_up("raw, 2 threads", "raw, 1 thread", 1.6);
    rounds.speed_up("run, 2 threads", "run, 1 thread", 1.6);
    Ok(())
}
