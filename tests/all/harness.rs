//! A home folder with skills in it, and the real binary working on it.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::Value;
use skillrun_test_artifacts::Guest;
use tempfile::TempDir;

/// A home folder that goes with the test.
pub(crate) struct Home {
    folder: TempDir,
}

/// What the binary left behind.
#[derive(Debug)]
pub(crate) struct Ran {
    /// The exit code; none when a signal ended it.
    pub(crate) exit: Option<i32>,
    /// Standard output.
    pub(crate) stdout: String,
    /// Standard error.
    pub(crate) stderr: String,
}

impl Home {
    /// A home with these skills installed.
    pub(crate) fn new(guests: &[Guest]) -> Self {
        let home = Self {
            folder: tempfile::tempdir().unwrap(),
        };
        for guest in guests {
            home.install(guest);
        }
        home
    }

    /// The folder.
    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// The folder of a skill.
    pub(crate) fn skill(&self, name: &str) -> PathBuf {
        self.path().join("skills").join(name)
    }

    /// Puts a guest into the skills folder.
    pub(crate) fn install(&self, guest: &Guest) {
        let skill = self.skill(guest.name);
        fs::create_dir_all(&skill).unwrap();
        for file in ["SKILL.md", "skill.toml"] {
            let source = Path::new(guest.folder).join(file);
            if source.exists() {
                fs::copy(source, skill.join(file)).unwrap();
            }
        }
        fs::copy(guest.wasm, skill.join("skill.wasm")).unwrap();
    }

    /// Writes config.toml.
    pub(crate) fn configure(&self, toml: &str) {
        fs::write(self.path().join("config.toml"), toml).unwrap();
    }

    /// The binary with this home, ready for more settings.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_skillrun"));
        command
            .args(arguments)
            .env("SKILLRUN_HOME", self.path())
            .env_remove("SKILLRUN_LOG")
            .stdin(Stdio::null());
        command
    }

    /// Runs the binary to its end.
    pub(crate) fn skillrun(&self, arguments: &[&str]) -> Ran {
        Ran::of(self.command(arguments).output().unwrap())
    }

    /// Runs the binary to its end with something on standard input.
    pub(crate) fn skillrun_with_stdin(&self, arguments: &[&str], stdin: &[u8]) -> Ran {
        let mut child = self.spawn(arguments, Stdio::piped());
        // A binary that refuses early closes the pipe early.
        let _closed = child.stdin.take().unwrap().write_all(stdin);
        Ran::of(child.wait_with_output().unwrap())
    }

    /// Starts the binary with its output captured.
    pub(crate) fn spawn(&self, arguments: &[&str], stdin: Stdio) -> Child {
        self.command(arguments)
            .stdin(stdin)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    }

    /// Runs a skill with `--json` and gives what was printed and the exit code.
    pub(crate) fn run_json(&self, skill: &str, input: &Value) -> (Value, i32) {
        let arguments = ["run", skill, "--json", "--input", "-"];
        let ran = self.skillrun_with_stdin(&arguments, input.to_string().as_bytes());
        (ran.json(), ran.exit.unwrap())
    }

    /// The events of a run, as its ledger has them.
    pub(crate) fn events(&self, run_id: &str) -> Vec<Value> {
        let ledger = self.ledger(run_id);
        let text = fs::read_to_string(&ledger).unwrap();
        text.lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }

    /// The events of one type.
    pub(crate) fn events_of(&self, run_id: &str, kind: &str) -> Vec<Value> {
        let mut events = self.events(run_id);
        events.retain(|event| event["type"] == kind);
        events
    }

    /// The path of a run's ledger.
    pub(crate) fn ledger(&self, run_id: &str) -> PathBuf {
        self.path().join("runs").join(format!("{run_id}.jsonl"))
    }

    /// The ids of all runs that have a ledger.
    pub(crate) fn run_ids(&self) -> Vec<String> {
        let Ok(entries) = fs::read_dir(self.path().join("runs")) else {
            return Vec::new();
        };
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let ids = names.filter_map(|name| name.strip_suffix(".jsonl").map(str::to_owned));
        let mut ids: Vec<String> = ids.collect();
        ids.sort();
        ids
    }
}

impl Ran {
    fn of(output: std::process::Output) -> Self {
        Self {
            exit: output.status.code(),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// Standard output as one JSON document.
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}
