//! How closely a wall-time limit is kept.

use anyhow::{Result, bail};
use skillrun::limits::LimitOverrides;
use skillrun::outcome::OutcomeCode;
use skillrun::runner::{Caller, JsonObject, StartOptions, Terms};

use crate::ours::Ours;
use crate::report::{Rounds, per_call_micros};

const LIMIT_MS: i64 = 200;
const ROUNDS: usize = 5;

/// Runs guests that compute and guests that wait into their limit, and prints by how much the run
/// outlived it.
pub(crate) fn overshoot(ours: &Ours) -> Result<()> {
    let runner = ours.runner(ours.executor())?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()?;
    let mut rounds = Rounds::default();
    let verbs = [
        ("limit 200 ms, spin", r#"{"verb":"spin"}"#),
        (
            "limit 200 ms, wait on a clock",
            r#"{"verb":"sleep","ms":3600000}"#,
        ),
    ];
    for _ in 0..ROUNDS {
        for (name, verb) in verbs {
            let options = StartOptions {
                terms: Terms {
                    limits: LimitOverrides::from([("wall_time_ms".to_owned(), LIMIT_MS)]),
                    ..Terms::default()
                },
                ..StartOptions::new("probe", JsonObject::parse(verb)?)
            };
            let micros = per_call_micros(1, || {
                match runtime.block_on(runner.run(Caller::new(), options)) {
                    Err(error) if error.code() == OutcomeCode::TimeLimit => Ok(()),
                    other => bail!("expected the limit, got {other:?}"),
                }
            })?;
            rounds.add(name, micros);
        }
    }
    rounds.print();
    Ok(())
}
