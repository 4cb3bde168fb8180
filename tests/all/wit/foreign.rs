//! Components that other tools make for a world that is not ours: they run as operations.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Value, json};
use skillrun::clock::Clock;
use skillrun::executor::{Call, Engine, EngineOptions, HttpOptions, Unrecorded};
use skillrun::limits::{Budget, Limits};

use super::{root, succeed, tool};
use crate::executor::PATIENT;
use crate::harness::Home;

fn sources() -> PathBuf {
    root().join("tests/all/wit/tally")
}

/// Calls each function, on one engine: an interpreter takes long to compile.
async fn runs_as_operations(component: &Path) {
    let limits = Limits::default();
    let engine = Engine::new(EngineOptions {
        instances_max: 1,
        limits: limits.clone(),
        loading: PATIENT,
        cache_dir: None,
        http: HttpOptions::default(),
        clock: Clock::system(),
    })
    .unwrap();
    let bytes = std::fs::read(component).unwrap();
    let program = engine.load("tally", move || Ok(bytes)).await.unwrap();
    let run = async |function: &str, input: Value| -> Value {
        let called = program
            .call(Call {
                host: Arc::new(Unrecorded::default()),
                policy: Arc::default(),
                protected: Arc::default(),
                budget: Arc::new(Budget::new(Arc::new(limits.clone()), None)),
                seed: [7; 32],
                environment: Arc::default(),
                operation: Some(function.to_owned()),
                input: input.to_string(),
                record_only: false,
                workspace_dir: None,
            })
            .await;
        let text = match called {
            Ok(output) => output,
            Err(failure) => failure.details.unwrap_or(failure.message),
        };
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
    };
    assert_eq!(
        run("count", json!({ "text": "to be or not to be" })).await,
        json!([
            { "text": "to", "count": 2 },
            { "text": "be", "count": 2 },
            { "text": "or", "count": 1 },
            { "text": "not", "count": 1 },
        ])
    );
    assert_eq!(
        run("words.count", json!({ "text": "" })).await,
        json!({ "code": "err", "details": "there are no words" })
    );
    // To a script a whole number is a float, which is exact up to here.
    let ends = json!({ "numbers": [(1_i64 << 53) - 1, 1 - (1_i64 << 53), -1] });
    assert_eq!(run("sum", ends).await, json!(-1));
    let refused = run("sum", json!({ "numbers": [1, u64::MAX] })).await;
    assert_eq!(refused["details"]["path"], "$.numbers[1]", "{refused}");
}

#[tokio::test]
async fn a_component_of_a_script_runs_as_operations() {
    let folder = tempfile::tempdir().unwrap();
    let component = folder.path().join("tally.wasm");
    succeed(
        tool("node_modules/.bin/componentize-qjs")
            .args(["--world", "tally", "--sync", "--wit"])
            .arg(sources())
            .arg("--js")
            .arg(sources().join("tally.js"))
            .arg("--output")
            .arg(&component),
    );
    runs_as_operations(&component).await;
    let arguments = ["run", component.to_str().unwrap(), "--function", "sum"];
    let ran =
        Home::new(&[]).skillrun(&[&arguments[..], &["--input", r#"{"numbers":[2,3]}"#]].concat());
    assert_eq!((ran.exit, ran.stdout.trim()), (Some(0), "5"), "{ran:?}");
}

#[tokio::test]
async fn a_component_of_a_python_module_runs_as_operations() {
    let folder = tempfile::tempdir().unwrap();
    // The build writes compiled modules beside the source.
    std::fs::copy(sources().join("app.py"), folder.path().join("app.py")).unwrap();
    let component = folder.path().join("tally.wasm");
    succeed(
        tool("python/bin/componentize-py")
            .args(["--quiet", "--world", "tally", "--wit-path"])
            .arg(sources())
            .args(["componentize", "app", "--python-path"])
            .arg(folder.path())
            .arg("--output")
            .arg(&component),
    );
    runs_as_operations(&component).await;
}
