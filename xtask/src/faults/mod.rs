//! What the ledger must stand, done to it: kills, failing disks, power cuts; and what runs must stand, which
//! are killed and resumed.
//!
//! A process of its own, `examples/ledger_faults`, writes ledgers and says what it was promised. It is
//! stopped in every way there is, and then held against its word by the one checker in it. What needs
//! a tool or a right that is missing is skipped, and says so.

mod disk;
mod driver;
mod kill;
mod power;
mod resume;
mod syscalls;

use std::path::Path;

use anyhow::{Context, Result, bail};

use self::driver::Driver;
use crate::process::{cargo, run, say, target_folder};

/// How often what is left to chance is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scale {
    /// A thousand times.
    Full,
    /// Often enough to see that it works.
    Quick,
}

impl Scale {
    fn rounds(self) -> usize {
        match self {
            Self::Full => 1000,
            Self::Quick => 25,
        }
    }
}

/// How often runs are killed that are resumed then, unless a number is given.
pub(crate) const RESUME_KILLS: usize = 1000;

/// What was done and what came of it.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    faults: usize,
    runs: usize,
    promises: usize,
    torn: usize,
    /// Runs that were left without an end.
    closed: usize,
    violations: usize,
}

/// Builds the binary and the process with the checker in it.
fn build() -> Result<Driver> {
    run(&mut cargo(&[
        "build",
        "--package",
        "skillrun",
        "--bin",
        "skillrun",
        "--example",
        "ledger_faults",
    ]))?;
    Driver::new(&target_folder().join("debug/examples/ledger_faults"))
}

/// Kills and resumes runs, so many kills at least, and fails if anything did not hold.
pub(crate) fn run_resume(kills: usize) -> Result<()> {
    let driver = build()?;
    say(RESUME)?;
    let violations = resume::kill_and_resume(&driver, kills)?;
    if violations > 0 {
        bail!("{violations} violations");
    }
    say("\n== every run came to its end")
}

const RESUME: &str = "\n== Runs killed and resumed until they end";

/// Does everything, prints the figures, and fails if any promise was broken.
pub(crate) fn run_all(scale: Scale) -> Result<()> {
    let driver = build()?;
    let mut violations = 0;
    for (name, campaign) in CAMPAIGNS {
        say(&format!("\n== {name}"))?;
        let Some(tally) = campaign(&driver, scale).with_context(|| format!("{name} failed"))?
        else {
            continue;
        };
        say(&format!(
            "  {} faults, {} runs, {} promises checked, {} torn ends, {} violations",
            tally.faults, tally.runs, tally.promises, tally.torn, tally.violations
        ))?;
        violations += tally.violations;
    }
    say(RESUME)?;
    violations += resume::kill_and_resume(&driver, scale.rounds())?;
    say("\n== Every offset, every bit, short writes: the tests of the ledger")?;
    run(&mut cargo(&[
        "test",
        "--package",
        "skillrun",
        "--test",
        "all",
        "ledger::",
    ]))?;
    if violations > 0 {
        bail!("{violations} violations");
    }
    say("\n== no promise was broken")
}

/// `None` when this machine does not allow it.
type Campaign = fn(&Driver, Scale) -> Result<Option<Tally>>;

const CAMPAIGNS: [(&str, Campaign); 6] = [
    ("Killed at a random moment", kill::at_random),
    ("Killed at each system call of a run", syscalls::kill_once),
    (
        "Killed at each system call of recovery",
        syscalls::kill_recovery,
    ),
    ("Each sync and each write fails once", syscalls::fail),
    ("The disk is full, and has room again", disk::fill),
    ("The power is cut", power::cut),
];

/// A folder for one fault, in memory where there is such a place: what a process is promised when it
/// is killed does not depend on the disk.
fn scratch(driver: &Driver) -> Result<std::path::PathBuf> {
    let memory = Path::new("/dev/shm");
    let place = if memory.is_dir() {
        memory.join(format!("skillrun-faults-{}", std::process::id()))
    } else {
        driver.folder().join("scratch")
    };
    driver::empty(&place)?;
    Ok(place)
}
