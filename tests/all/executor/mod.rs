//! The executor with real components, in process: what a test of the binary cannot see.

mod call;
mod load;

use std::sync::Arc;

use skillrun::clock::Clock;
use skillrun::config::Loading;
use skillrun::executor::{
    Call, Engine, EngineOptions, HttpOptions, LoadError, Program, Unrecorded,
};
use skillrun::ledger::Digest;
use skillrun::limits::{Budget, LimitOverrides, Limits, Source};
use skillrun_test_artifacts::PROBE;

/// The default limits but for these.
fn limits(overrides: &[(&str, i64)]) -> Limits {
    let overrides: LimitOverrides = overrides
        .iter()
        .map(|&(key, value)| (key.to_owned(), value))
        .collect();
    Limits::default().with(Source::Config, &overrides).unwrap()
}

fn engine(instances_max: usize, limits: Limits) -> Engine {
    Engine::new(EngineOptions {
        instances_max,
        limits,
        loading: Loading::default(),
        cache_dir: None,
        http: HttpOptions::default(),
        clock: Clock::system(),
    })
    .unwrap()
}

async fn load(engine: &Engine, bytes: &[u8]) -> Result<Arc<Program>, LoadError> {
    let bytes = bytes.to_owned();
    let digest = Digest::of(&bytes).to_string();
    engine.load(&digest, move || Ok(bytes)).await
}

async fn probe(engine: &Engine) -> Arc<Program> {
    load(engine, &std::fs::read(PROBE.wasm).unwrap())
        .await
        .unwrap()
}

fn call(verb: &str, limits: Limits) -> Call {
    Call {
        host: Arc::new(Unrecorded::default()),
        policy: Arc::default(),
        budget: Arc::new(Budget::new(Arc::new(limits), None)),
        seed: [7; 32],
        input: verb.to_owned(),
    }
}
