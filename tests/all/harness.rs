//! A home folder with skills in it, and the real binary working on it.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder};
use std::io::Write as _;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError, mpsc};
use std::time::Duration;

use rustix::net::sockopt::set_socket_reuseaddr;
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, getsockname, socket_with};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use skillrun::ledger::Digest;
use skillrun_test_artifacts::Guest;
use tempfile::TempDir;

/// A machine that is busy with other tests is no reason to give a compilation up.
const PATIENT: &str = "[engine]\ncompile_time_ms = 600_000";

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
        self.install_as(guest, guest.name, Path::new(guest.folder));
    }

    /// Puts a guest into the skills folder under another name, with what `folder` has beside a component.
    pub(crate) fn install_as(&self, guest: &Guest, name: &str, folder: &Path) {
        let skill = self.skill(name);
        fs::create_dir_all(&skill).unwrap();
        for file in ["SKILL.md", "skill.toml"] {
            let source = folder.join(file);
            if source.exists() {
                fs::copy(source, skill.join(file)).unwrap();
            }
        }
        fs::copy(guest.wasm, skill.join("skill.wasm")).unwrap();
        self.warm(guest);
    }

    /// Puts into the cache what a guest is compiled to, so that not every test compiles it anew. It was
    /// compiled by the binary itself, for a home that all tests share, and in as much time as it takes.
    fn warm(&self, guest: &Guest) {
        static COMPILED: Mutex<BTreeMap<&str, String>> = Mutex::new(BTreeMap::new());
        let shared = Path::new(env!("CARGO_TARGET_TMPDIR")).join("warm");
        let mut compiled = COMPILED.lock().unwrap_or_else(PoisonError::into_inner);
        let digest = compiled.entry(guest.name).or_insert_with(|| {
            fs::create_dir_all(&shared).unwrap();
            fs::write(shared.join("config.toml"), PATIENT).unwrap();
            let mut inspect = self.command(&["skills", "inspect", guest.wasm]);
            let inspected = inspect.env("SKILLRUN_HOME", &shared).output().unwrap();
            assert!(inspected.status.success(), "{inspected:?}");
            Digest::of(&fs::read(guest.wasm).unwrap()).to_string()
        });
        self.take_compiled(&shared, digest);
    }

    /// Copies what a component was compiled to from another home.
    pub(crate) fn take_compiled(&self, other: &Path, digest: &str) {
        let cache = self.path().join("cache");
        DirBuilder::new()
            .mode(0o700)
            .recursive(true)
            .create(&cache)
            .unwrap();
        for entry in fs::read_dir(other.join("cache")).unwrap() {
            let entry = entry.unwrap();
            if entry.file_name().to_string_lossy().starts_with(digest) {
                fs::copy(entry.path(), cache.join(entry.file_name())).unwrap();
            }
        }
    }

    /// Writes a skill's skill.toml, and accepts the skill as it is then.
    #[track_caller]
    pub(crate) fn write_manifest(&self, skill: &str, toml: &str) {
        fs::write(self.skill(skill).join("skill.toml"), toml).unwrap();
        let accepted = self.skillrun(&["skills", "pin", skill, "--accept"]);
        assert_eq!(accepted.exit, Some(0), "{accepted:?}");
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
        let mut running = Running::of(self.command(arguments).stdin(Stdio::piped()));
        // A binary that refuses early closes the pipe early.
        let _closed = running.child().stdin.take().unwrap().write_all(stdin);
        running.end()
    }

    /// Starts the binary and lets it work.
    pub(crate) fn start(&self, arguments: &[&str]) -> Running {
        Running::of(&mut self.command(arguments))
    }

    /// Waits until a run has an event of that type on disk.
    #[track_caller]
    pub(crate) fn wait_for_event(&self, run_id: &str, kind: &str) {
        let mark = format!("\"type\":\"{kind}\"");
        eventually(&format!("{kind} of {run_id}"), || {
            let text = fs::read(self.ledger(run_id)).ok()?;
            let whole = text.len() - text.iter().rev().take_while(|&&b| b != b'\n').count();
            String::from_utf8_lossy(&text[..whole])
                .contains(&mark)
                .then_some(())
        });
    }

    /// Runs a skill with `--json` and gives what was printed and the exit code.
    pub(crate) fn run_json(&self, skill: &str, input: &Value) -> (Value, i32) {
        let arguments = ["run", skill, "--json", "--input", "-"];
        let ran = self.skillrun_with_stdin(&arguments, input.to_string().as_bytes());
        (ran.json(), ran.exit.unwrap())
    }

    /// The events of a run, as its ledger has them.
    #[track_caller]
    pub(crate) fn events(&self, run_id: &str) -> Vec<Value> {
        events_in(&self.ledger(run_id))
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

/// The events in a ledger. Whoever reads while a line is written may find the first part of it alone: it is read again
/// until it ends with a whole one.
#[track_caller]
pub(crate) fn events_in(ledger: &Path) -> Vec<Value> {
    let text = eventually("whole lines", || {
        let text = fs::read(ledger).unwrap();
        text.last()
            .is_none_or(|&last| last == b'\n')
            .then_some(text)
    });
    let text = String::from_utf8(text).unwrap();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// The binary at work, with its output captured. It ends with the test.
pub(crate) struct Running(Option<Child>);

impl Running {
    /// Starts a command with its output captured.
    pub(crate) fn of(command: &mut Command) -> Self {
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        Self(Some(command.spawn().unwrap()))
    }

    /// The process.
    pub(crate) fn child(&mut self) -> &mut Child {
        self.0.as_mut().unwrap()
    }

    /// Whether it still works.
    pub(crate) fn is_alive(&mut self) -> bool {
        self.child().try_wait().unwrap().is_none()
    }

    /// Sends it a signal.
    pub(crate) fn signal(&mut self, signal: Signal) {
        let pid = Pid::from_child(self.child());
        kill_process(pid, signal).unwrap();
    }

    /// Waits for its end.
    pub(crate) fn end(mut self) -> Ran {
        Ran::of(self.0.take().unwrap().wait_with_output().unwrap())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            // It may have ended by itself.
            let _killed = child.kill();
            let _reaped = child.wait();
        }
    }
}

/// A port of loopback that the system gives to nobody else while this is there. Whoever connects to it is refused until
/// somebody listens on it, which whoever is told of it can.
pub(crate) struct Reserved {
    pub(crate) address: SocketAddr,
    /// It is bound and does not listen; sockets that are bound beside it have to say, as servers do, that they may be.
    _socket: OwnedFd,
}

impl Reserved {
    pub(crate) fn new() -> Self {
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let (family, kind) = (AddressFamily::INET, SocketType::STREAM);
        let socket = socket_with(family, kind, SocketFlags::CLOEXEC, None).unwrap();
        set_socket_reuseaddr(&socket, true).unwrap();
        bind(&socket, &any).unwrap();
        let address = getsockname(&socket).unwrap().try_into().unwrap();
        Self {
            address,
            _socket: socket,
        }
    }
}

/// How often a condition is looked at, and how many times before the test gives up: 60 s.
const LOOK_INTERVAL: Duration = Duration::from_millis(5);
const LOOKS_MAX: u32 = 12_000;

/// Looks again and again until there is something to be found.
#[track_caller]
pub(crate) fn eventually<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let (_silent, interval) = mpsc::channel::<()>();
    for _ in 0..LOOKS_MAX {
        if let Some(found) = look() {
            return found;
        }
        let _timeout = interval.recv_timeout(LOOK_INTERVAL);
    }
    panic!("waited in vain for {what}")
}

impl Ran {
    /// What a process left behind.
    pub(crate) fn of(output: std::process::Output) -> Self {
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
