//! The executor with real components, in process: what a test of the binary cannot see.

mod artifacts;
mod call;
mod load;
mod operations;
mod time;
mod timed_host;

use std::sync::Arc;

use skillrun::clock::Clock;
use skillrun::config::Loading;
use skillrun::executor::{
    Call, Engine, EngineOptions, HttpOptions, LoadError, Program, Unrecorded,
};
use skillrun::ledger::Digest;
use skillrun::limits::{Budget, LimitOverrides, Limits, Source};
use skillrun_test_artifacts::PROBE;

/// A machine that is busy with other tests is no reason to give a compilation up.
pub(crate) const PATIENT: Loading = Loading {
    component_bytes_max: 64 * 1024 * 1024,
    compile_time_ms: 600_000,
};

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
        loading: PATIENT,
        cache_dir: None,
        http: HttpOptions::default(),
        clock: Clock::system(),
    })
    .unwrap()
}

fn engine_with(loading: Loading) -> Engine {
    Engine::new(EngineOptions {
        instances_max: 2,
        limits: limits(&[]),
        loading,
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

/// A skill in the text form of WebAssembly. `core` is what its module holds beside memory and the exports
/// that a skill needs; `run` is the body of its function, before it answers `null`; `outer` stands before
/// the module in the component, and `with` is what the module imports.
pub(crate) fn skill_of(outer: &str, with: &str, core: &str, run: &str) -> Vec<u8> {
    let types = r#"
        (type $d0 (record (field "name" string) (field "version" string) (field "description" string)
            (field "input-schema" string) (field "output-schema" string)))
        (type $e0 (record (field "message" string) (field "code" string) (field "details" string)))"#;
    let text = format!(
        r#"(component
            {outer}
            (core module $m
                {core}
                (memory (export "memory") 1)
                (data (i32.const 20) "\20\00\00\00\04\00\00\00")
                (data (i32.const 32) "null")
                (func (export "realloc") (param i32 i32 i32 i32) (result i32) (i32.const 1024))
                (func (export "describe") (result i32) (i32.const 256))
                (func (export "run") (param i32 i32) (result i32) {run} (i32.const 16)))
            (core instance $i (instantiate $m {with}))
            {types}
            (func $describe (result $d0) (canon lift (core func $i "describe") (memory (core memory $i "memory"))))
            (func $run (param "input" string) (result (result string (error $e0)))
                (canon lift (core func $i "run") (memory (core memory $i "memory")) (realloc (core func $i "realloc"))))
            (component $handler
                {types}
                (import "d" (type $d (eq $d0)))
                (import "e" (type $e (eq $e0)))
                (import "describe" (func $describe (result $d)))
                (import "run" (func $run (param "input" string) (result (result string (error $e)))))
                (export $dx "descriptor" (type $d))
                (export $ex "skill-error" (type $e))
                (export "describe" (func $describe) (func (result $dx)))
                (export "run" (func $run)
                    (func (param "input" string) (result (result string (error $ex))))))
            (instance $h (instantiate $handler (with "d" (type $d0)) (with "e" (type $e0))
                (with "describe" (func $describe)) (with "run" (func $run))))
            (export "skillrun:skill/handler@0.1.0" (instance $h)))"#
    );
    wat::parse_str(text).unwrap()
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
        protected: Arc::default(),
        budget: Arc::new(Budget::new(Arc::new(limits), None)),
        seed: [7; 32],
        environment: Arc::default(),
        operation: None,
        input: verb.to_owned(),
        record_only: false,
        workspace_dir: None,
    }
}
