//! The example skills that are not in Rust: each is built by its own `build.sh`, as an author builds
//! it, and run by the real binary.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::{root, succeed, tool};
use crate::harness::Home;

struct Example {
    name: &'static str,
    flavor: &'static str,
    /// What its `build.sh` calls.
    tools: &'static [&'static str],
}

const TYPESCRIPT: Example = Example {
    name: "greet-ts",
    flavor: "ts",
    tools: &[
        "node_modules/.bin/jco",
        "node_modules/.bin/tsc",
        "node_modules/.bin/esbuild",
        "node_modules/.bin/componentize-qjs",
    ],
};

const PYTHON: Example = Example {
    name: "greet-py",
    flavor: "py",
    tools: &["python/bin/componentize-py"],
};

/// Two tests that need an example must not both build it.
static BUILDING: Mutex<()> = Mutex::new(());

/// The folder of the example in Python, whose component holds an interpreter.
pub(crate) fn python() -> PathBuf {
    PYTHON.build()
}

/// An interpreter takes long to compile where other tests run at the same time.
const PATIENT: &str = "[engine]\ncompile_time_ms = 600_000";

impl Example {
    /// The skill's folder, built when anything that goes into it has changed.
    #[track_caller]
    fn build(&self) -> PathBuf {
        let _one_at_a_time = BUILDING.lock().unwrap_or_else(PoisonError::into_inner);
        for path in self.tools {
            tool(path);
        }
        let source = root().join("guest-skills").join(self.name);
        let skill = root().join("target/guests").join(self.name);
        let stamp = skill.join("inputs.sha256");
        let wanted = digest(&[
            source.clone(),
            root().join("wit"),
            root().join("tests/toolchains"),
        ]);
        let is_fresh = fs::read_to_string(&stamp).is_ok_and(|built_from| built_from == wanted);
        if !is_fresh || !skill.join("skill.wasm").exists() {
            succeed(Command::new("bash").arg(source.join("build.sh")));
            fs::write(&stamp, wanted).unwrap();
        }
        skill
    }

    /// Runs the skill and looks at what it answered and at what is on record.
    fn greets(&self) {
        let home = Home::new(&[]);
        home.configure(PATIENT);
        let skill = self.build();
        let skill = skill.to_str().unwrap();

        let (document, exit) = home.run_json(skill, &json!({ "name": "Ada" }));
        assert_eq!(exit, 0, "{document}");
        let run_id = &document["run_id"];
        assert_eq!(document["code"], "ok");
        assert_eq!(
            document["output"],
            json!({ "greeting": "Hello, Ada!", "run_id": run_id })
        );

        let inspected = home
            .skillrun(&["runs", "inspect", run_id.as_str().unwrap(), "--json"])
            .json();
        assert_eq!(inspected["run"]["skill"], self.name);
        assert_eq!(inspected["run"]["flavor"], self.flavor);
        assert_eq!(inspected["run"]["status"], "ok");
        assert_eq!(
            on_record(&inspected),
            [
                "host run_started",
                "guest node_enter step:compose#1",
                "guest node_exit step:compose#1 true",
                "guest log info composed a greeting",
                "guest custom greeted Ada",
                "host run_completed ok",
            ]
        );
    }

    /// Runs the skill on input that does not fit the schema that it says it has.
    fn refuses(&self) {
        let home = Home::new(&[]);
        home.configure(PATIENT);
        let skill = self.build();
        let (document, exit) = home.run_json(skill.to_str().unwrap(), &json!({ "name": "" }));
        assert_eq!(exit, 2, "{document}");
        assert_eq!(document["code"], "invalid_input");
    }
}

/// The events, each as who says that it happened, what it is, and what the example put into it.
fn on_record(inspected: &Value) -> Vec<String> {
    let word = |value: &Value| {
        value
            .as_str()
            .map_or_else(|| value.to_string(), str::to_owned)
    };
    let line = |event: &Value| {
        let payload = &event["payload"];
        let said: &[&str] = match event["type"].as_str().unwrap() {
            "node_enter" => &["node_id"],
            "node_exit" => &["node_id", "success"],
            "log" => &["level", "message"],
            "custom" => &["name", "data"],
            "run_completed" => &["code"],
            _ => &[],
        };
        let who_and_what = [&event["source"], &event["type"]].map(word);
        let said = said.iter().map(|field| word(&payload[field]));
        let words: Vec<String> = who_and_what.into_iter().chain(said).collect();
        words.join(" ")
    };
    let events = inspected["events"].as_array().unwrap();
    events.iter().map(line).collect()
}

/// SHA-256 over all files below the folders, with their paths.
fn digest(folders: &[PathBuf]) -> String {
    let mut files = Vec::new();
    for folder in folders {
        list(folder, &mut files);
    }
    files.sort();
    let mut sha256 = Sha256::new();
    for file in files {
        let bytes = fs::read(&file).unwrap();
        sha256.update(file.to_string_lossy().as_bytes());
        sha256.update(bytes.len().to_le_bytes());
        sha256.update(bytes);
    }
    format!("{:x}", sha256.finalize())
}

fn list(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            list(&path, files);
        } else {
            files.push(path);
        }
    }
}

#[test]
fn the_example_in_typescript_greets_and_refuses() {
    TYPESCRIPT.greets();
    TYPESCRIPT.refuses();
}

#[test]
fn the_example_in_python_greets_and_refuses() {
    PYTHON.greets();
    PYTHON.refuses();
}

#[test]
fn a_file_that_changes_changes_the_digest() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a");
    let of = |text: &str| {
        fs::write(&file, text).unwrap();
        digest(&[folder.path().to_owned()])
    };
    assert_eq!(of("1"), of("1"));
    assert_ne!(of("1"), of("2"));
}
