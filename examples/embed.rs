//! The smallest embedding: runs one component a number of times and prints the last result.
//!
//! `cargo run --example embed -- <component.wasm> <input JSON> <runs folder> [times]`
#![expect(clippy::print_stdout, reason = "the result is what the example is for")]

use std::env;
use std::error::Error;
use std::path::Path;
use std::sync::Arc;

use skillrun::clock::Clock;
use skillrun::config::{Admission, Durability};
use skillrun::ledger::{Store, StoreOptions};
use skillrun::registry::{Registry, Skill};
use skillrun::runner::{
    Caller, JsonObject, Runner, RunnerOptions, SkillExecutor, SkillExecutorOptions, StartOptions,
};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [component, input, runs_dir, times @ ..] = arguments.as_slice() else {
        return Err("expected: <component.wasm> <input JSON> <runs folder> [times]".into());
    };
    let times: u32 = times.first().map_or(Ok(1), |times| times.parse())?;

    let skill = Skill::from_wasm(Path::new(component))?;
    let name = skill.name.to_string();
    let clock = Clock::system();
    let executor = SkillExecutor::new(SkillExecutorOptions {
        instances_max: 1,
        ..SkillExecutorOptions::new(Registry::of([skill]), clock.clone())
    })?;
    let runner = Runner::new(RunnerOptions {
        store: Store::open(StoreOptions {
            runs_dir: runs_dir.into(),
            durability: Durability::Relaxed,
            clock: clock.clone(),
        })?,
        executor: Arc::new(executor),
        admission: Admission::default(),
        clock,
    });

    let input = JsonObject::parse(input)?;
    let mut result = None;
    for _ in 0..times {
        let options = StartOptions::new(&name, input.clone());
        result = Some(runner.run(Caller::new(), options).await?.result);
    }
    if let Some(result) = result {
        println!("{}", result.output());
    }
    Ok(())
}
