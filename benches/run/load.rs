//! What it costs to load what a process before this one compiled.
#![expect(clippy::print_stdout, reason = "figures are what a benchmark is for")]

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use skillrun::clock::Clock;
use skillrun::config::Loading;
use skillrun::executor::LoadError;
use skillrun::ledger::Digest;
use skillrun::limits::Limits;
use skillrun::registry::Registry;
use skillrun::runner::{Executor as _, SkillExecutor, SkillExecutorOptions, runtime_builder};
use skillrun_test_artifacts::PROBE;
use wasmtime::Engine;
use wasmtime::component::{Component, Linker};

use crate::engine_config::engine_config;
use crate::raw::{POOL, State, link_wasi, stub_host_interfaces};
use crate::report::{Rounds, per_call_micros};

const ROUNDS: usize = 15;

/// A busy machine is no reason to give the first compilation up.
const PATIENT: Loading = Loading {
    component_bytes_max: 64 * 1024 * 1024,
    compile_time_ms: 600_000,
};

/// A component with a Python interpreter in it. The tests build it; without it the rest is measured.
const PYTHON: &str = "target/guests/greet-py/skill.wasm";

fn components() -> Vec<(&'static str, &'static str, PathBuf)> {
    let mut components = vec![(
        "load probe, ours",
        "load probe, raw",
        PathBuf::from(PROBE.wasm),
    )];
    let python = PathBuf::from(PYTHON);
    if python.exists() {
        components.push(("load python, ours", "load python, raw", python));
    }
    components
}

/// Loads through our engine beside the engine's own load of the same file, both linked.
pub(crate) fn loads() -> Result<()> {
    let runtime = runtime_builder().worker_threads(2).build()?;
    let mut rounds = Rounds::default();
    for (ours, raw, wasm) in components() {
        let cache_dir = tempfile::tempdir()?;
        let bytes = fs::read(&wasm)?;
        let digest = Digest::of(&bytes).to_string();
        let options = skillrun::executor::EngineOptions {
            instances_max: 256,
            limits: Limits::default(),
            loading: PATIENT,
            cache_dir: Some(cache_dir.path().to_owned()),
            http: skillrun::executor::HttpOptions::default(),
            clock: Clock::system(),
        };
        let engine = skillrun::executor::Engine::new(options.clone())?;
        runtime.block_on(engine.load(&digest, || Ok(bytes)))?;
        drop(engine);
        let mut files = fs::read_dir(cache_dir.path())?;
        let file = files.next().context("nothing is cached")??.path();
        let control = Control::new(&file)?;
        for _ in 0..ROUNDS {
            let engine = skillrun::executor::Engine::new(options.clone())?;
            let absent = || {
                Err(LoadError::Unreadable {
                    reason: "it is cached".to_owned(),
                })
            };
            let load = || {
                runtime.block_on(engine.load(&digest, absent))?;
                Ok(())
            };
            rounds.add(ours, per_call_micros(1, load)?);
            rounds.add(raw, per_call_micros(1, || control.load(&file))?);
        }
    }
    rounds.print();
    for (ours, raw, _) in components() {
        rounds.ratio(ours, raw, 1.3);
    }
    Ok(())
}

/// The engine alone, under our configuration.
struct Control {
    engine: Engine,
    linker: Linker<State>,
}

impl Control {
    fn new(file: &Path) -> Result<Self> {
        let engine = Engine::new(&engine_config(POOL, false))?;
        let mut linker = Linker::<State>::new(&engine);
        link_wasi(&mut linker)?;
        let component = deserialize(&engine, file)?;
        stub_host_interfaces(&mut linker, &engine, &component)?;
        Ok(Self { engine, linker })
    }

    fn load(&self, file: &Path) -> Result<()> {
        let component = deserialize(&self.engine, file)?;
        self.linker.instantiate_pre(&component)?;
        Ok(())
    }
}

#[expect(
    unsafe_code,
    reason = "the control does what ours does, without its checks"
)]
fn deserialize(engine: &Engine, file: &Path) -> Result<Component> {
    // SAFETY: the file was made by this process, in a folder that only its user can open.
    Ok(unsafe { Component::deserialize_file(engine, file) }?)
}

/// A process that begins with twenty skills, two of them in Python: reads all, loads all, and asks each
/// what it is.
pub(crate) fn warm_start() -> Result<()> {
    let home = tempfile::tempdir()?;
    let skills_dir = home.path().join("skills");
    let probe = fs::read(PROBE.wasm)?;
    let python = fs::read(PYTHON).unwrap_or_else(|_not_built| probe.clone());
    let names: Vec<String> = (0..20).map(|n| format!("skill-{n}")).collect();
    for (n, name) in names.iter().enumerate() {
        let folder = skills_dir.join(name);
        fs::create_dir_all(&folder)?;
        let front_matter = format!("---\nname: {name}\ndescription: One of twenty\n---\n");
        fs::write(folder.join("SKILL.md"), front_matter)?;
        let mut wasm = if n < 2 { python.clone() } else { probe.clone() };
        // A custom section that makes each a component of its own.
        wasm.extend([0, 2, 1, u8::try_from(n)?.saturating_add(b'a')]);
        fs::write(folder.join("skill.wasm"), wasm)?;
    }
    let runtime = runtime_builder().worker_threads(2).build()?;
    let start = || {
        let executor = SkillExecutor::new(SkillExecutorOptions {
            loading: PATIENT,
            cache_dir: Some(home.path().join("cache")),
            ..SkillExecutorOptions::new(Registry::load(&skills_dir)?, Clock::system())
        })?;
        let described = names.iter().map(|name| executor.describe(name));
        for described in runtime.block_on(futures_util::future::join_all(described)) {
            described?;
        }
        Ok(())
    };
    let cold = per_call_micros(1, start)?;
    let mut rounds = Rounds::default();
    for _ in 0..ROUNDS {
        rounds.add("start with 20 skills", per_call_micros(1, start)?);
        let registry = || {
            Registry::load(&skills_dir)?;
            Ok(())
        };
        rounds.add("... of that, reading them", per_call_micros(1, registry)?);
    }
    rounds.print();
    println!(
        "the first start, which compiles: {:.1} s (aim of the others: below 1 s)",
        cold / 1e6
    );
    Ok(())
}
