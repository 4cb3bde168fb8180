//! Bytes that may be anything, at the gate where components are loaded.
//!
//! Nothing may panic, and nothing of the component runs: what is refused says why, and what is loaded
//! can be described when it is of no world of ours, with a schema for each of its operations.
#![no_main]

use std::sync::{Arc, OnceLock};

use libfuzzer_sys::fuzz_target;
use skillrun::clock::{Clock, Timestamp};
use skillrun::config::Loading;
use skillrun::executor::{Engine, EngineOptions, HttpOptions};
use skillrun::ledger::Digest;
use skillrun::limits::Limits;
use tokio::runtime::Runtime;

fuzz_target!(|bytes: &[u8]| {
    let (runtime, engine) = gate();
    let digest = Digest::of(bytes).to_string();
    let bytes = bytes.to_owned();
    runtime.block_on(async {
        let program = match engine.load(&digest, move || Ok(bytes)).await {
            Ok(program) => program,
            Err(refused) => {
                assert!(!refused.to_string().is_empty());
                return;
            }
        };
        // A skill of our world describes itself, and may fail at it.
        let Ok(descriptor) = program.describe(Arc::new(Limits::default())).await else {
            return;
        };
        for operation in &descriptor.operations {
            assert!(operation.input_schema.is_object() && operation.output_schema.is_object());
        }
    });
});

/// One engine for all inputs.
fn gate() -> &'static (Runtime, Engine) {
    static GATE: OnceLock<(Runtime, Engine)> = OnceLock::new();
    GATE.get_or_init(|| {
        let engine = Engine::new(EngineOptions {
            instances_max: 1,
            limits: Limits::default(),
            loading: Loading::default(),
            cache_dir: None,
            http: HttpOptions::default(),
            clock: Clock::manual(Timestamp::from_unix_micros(0)),
        });
        (Runtime::new().unwrap(), engine.unwrap())
    })
}
