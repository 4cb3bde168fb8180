//! The smallest embedding: runs one component a number of times and prints the last result.
//!
//! `cargo run --example embed -- <component.wasm> <input JSON> <home folder> [times]`
#![expect(clippy::print_stdout, reason = "the result is what the example is for")]

use std::env;
use std::error::Error;
use std::path::Path;

use skillrun::Skillrun;
use skillrun::config::{Config, Durability};
use skillrun::registry::{Registry, Skill};
use skillrun::runner::{Caller, JsonObject, StartOptions};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [component, input, home, times @ ..] = arguments.as_slice() else {
        return Err("expected: <component.wasm> <input JSON> <home folder> [times]".into());
    };
    let times: u32 = times.first().map_or(Ok(1), |times| times.parse())?;

    let mut config = Config::load(Path::new(home))?;
    config.durability = Durability::Relaxed;
    config.runs.at_once_max = 1;
    let skill = Skill::from_wasm(Path::new(component))?;
    let name = skill.name.to_string();
    let host = Skillrun::builder(config)
        .skills(Registry::of([skill]))
        .build()?;

    let input = JsonObject::parse(input)?;
    let mut result = None;
    for _ in 0..times {
        let options = StartOptions::new(&name, input.clone());
        let outcome = host.runner().run(Caller::new(), options).await?;
        result = Some(outcome.result);
    }
    if let Some(result) = result {
        println!("{}", result.output());
    }
    Ok(())
}
