//! What a look at a clock, a timer and a wait cost over those of `wasmtime-wasi` alone.

use std::path::Path;

use anyhow::Result;
use skillrun::runner::JsonObject;
use skillrun_test_artifacts::PROBE;

use crate::ours::{Ours, run_once};
use crate::raw::Raw;
use crate::report::{Rounds, per_call_micros};

const ROUNDS: usize = 15;
/// So often within one run, of which the rest then hardly counts.
const TIMES: u32 = 10_000;

/// Prints what each costs within a run with its ledger, and without either.
pub(crate) fn costs() -> Result<()> {
    let wasm = Path::new(PROBE.wasm);
    let folder = tempfile::tempdir()?;
    let raw = Raw::new(wasm, true)?;
    let ours = Ours::new(wasm, folder.path())?;
    let runner = ours.runner(ours.executor())?;
    let kinds = [
        (
            "raw: look at a clock",
            "run: look at a clock",
            r#"{"step":"looks""#,
        ),
        (
            "raw: timer of no time",
            "run: timer of no time",
            r#"{"step":"timers""#,
        ),
        (
            "raw: wait for one of two",
            "run: wait for one of two",
            r#"{"step":"timer","ms":3600000},{"step":"stdin"},{"step":"polls""#,
        ),
    ];
    let mut rounds = Rounds::default();
    for _ in 0..ROUNDS {
        for (control, name, steps) in kinds {
            let verb = format!(r#"{{"verb":"time","do":[{steps},"times":{TIMES}}}]}}"#);
            rounds.add(control, per_call_micros(TIMES, || raw.once(&verb))?);
            let input = JsonObject::parse(&verb)?;
            let run = || run_once(&runner, input).map(drop);
            rounds.add(name, per_call_micros(TIMES, run)?);
        }
    }
    rounds.print();
    Ok(())
}
