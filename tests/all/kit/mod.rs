//! The author kit, as an author uses it: a project is made, tested, built and run, by the real binary and
//! with the pinned tools.

mod cases;
mod projects;
mod refusals;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use tempfile::TempDir;

use crate::harness::{Home, Ran};

/// An interpreter takes long to compile where other tests run at the same time.
const PATIENT: &str = "[engine]\ncompile_time_ms = 600_000";

/// A home, and a folder for projects.
struct Desk {
    home: Home,
    folder: TempDir,
}

impl Desk {
    fn new() -> Self {
        let home = Home::new(&[]);
        home.configure(PATIENT);
        Self {
            home,
            folder: tempfile::tempdir().unwrap(),
        }
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    /// The binary, which finds the pinned tools and needs no network.
    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.home.command(arguments);
        let toolchains = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/toolchains");
        let tools = ["node_modules/.bin", "python/bin"].map(|folder| toolchains.join(folder));
        command
            .current_dir(self.path())
            .env("SKILLRUN_TOOLS", std::env::join_paths(tools).unwrap())
            .env("CARGO_NET_OFFLINE", "true")
            .env("CARGO_TARGET_DIR", cargo_target());
        command
    }

    fn run(&self, arguments: &[&str]) -> Ran {
        Ran::of(self.command(arguments).output().unwrap())
    }

    /// Runs the binary, which has to succeed.
    #[track_caller]
    fn succeed(&self, arguments: &[&str]) -> Ran {
        let ran = self.run(arguments);
        assert_eq!(ran.exit, Some(0), "{arguments:?}: {ran:?}");
        ran
    }

    /// The verdicts of a project's cases, without the total.
    #[track_caller]
    fn verdicts(&self, arguments: &[&str]) -> Vec<Value> {
        let ran = self.run(&[&["test", "--json"], arguments].concat());
        let mut lines: Vec<Value> = ran
            .stdout
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        let total = lines.pop().unwrap_or_else(|| panic!("{ran:?}"));
        assert_eq!(total["cases"], lines.len(), "{ran:?}");
        let failed = lines.iter().filter(|line| line["passed"] == false).count();
        assert_eq!(total["failed"], failed, "{ran:?}");
        assert_eq!(ran.exit, Some(i32::from(failed > 0)), "{ran:?}");
        lines
    }
}

/// What Cargo made of the crates that every project needs is kept from test to test.
fn cargo_target() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("kit-target")
}

#[track_caller]
fn write(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}
