//! The process that is stopped, and the checker in it.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use super::Tally;
use crate::process::{complain, succeeds, target_folder};

/// What a process is stopped by.
#[derive(Debug, Clone, Copy)]
pub(super) enum Fault {
    Killed,
    Cut,
}

/// The program, and a folder for what it says.
pub(super) struct Driver {
    program: PathBuf,
    folder: PathBuf,
}

/// Makes a folder, or empties it.
pub(super) fn empty(folder: &Path) -> Result<()> {
    if folder.exists() {
        fs::remove_dir_all(folder).with_context(|| format!("cannot empty {}", folder.display()))?;
    }
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))
}

impl Driver {
    pub(super) fn new(program: &Path) -> Result<Self> {
        let folder = target_folder().join("faults");
        // One that was stopped leaves its disk mounted; mostly there is none, which is no failure.
        let disk = folder.join("disk");
        let _was_mounted = succeeds("umount", &[&disk.to_string_lossy()]);
        empty(&folder)?;
        Ok(Self {
            program: program.to_owned(),
            folder,
        })
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// The file that promises are written to.
    pub(super) fn promises(&self) -> PathBuf {
        self.folder.join("promises")
    }

    /// The program with its promises going into the file, after those that are there.
    pub(super) fn command(
        &self,
        through: &[&str],
        part: &[&str],
        ledgers: &Path,
    ) -> Result<Command> {
        let file = File::options()
            .create(true)
            .append(true)
            .open(self.promises())
            .context("cannot open the file of promises")?;
        let mut command = match through {
            [] => Command::new(&self.program),
            [first, rest @ ..] => {
                let mut command = Command::new(first);
                command.args(rest).arg(&self.program);
                command
            }
        };
        let (name, more) = part.split_first().context("no part")?;
        command.arg(name).arg(ledgers).args(more);
        command
            .stdin(Stdio::null())
            .stdout(file)
            .stderr(Stdio::null());
        Ok(command)
    }

    /// Holds the ledgers against the promises and adds what was found.
    pub(super) fn check(&self, ledgers: &Path, fault: Fault, tally: &mut Tally) -> Result<()> {
        let promises = fs::read(self.promises()).unwrap_or_default();
        // A promise that was not told to its end was not made.
        let end = promises
            .iter()
            .rposition(|byte| *byte == b'\n')
            .map_or(0, |at| at + 1);
        let fault = match fault {
            Fault::Killed => "killed",
            Fault::Cut => "cut",
        };
        let mut child = Command::new(&self.program)
            .arg("check")
            .arg(ledgers)
            .arg(fault)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot start the checker")?;
        if let Some(mut stdin) = child.stdin.take() {
            stdin.write_all(promises.get(..end).unwrap_or_default())?;
        }
        let output = child.wait_with_output()?;
        let text = String::from_utf8_lossy(&output.stdout);
        let Some(summary) = text.lines().last().filter(|line| line.starts_with("runs ")) else {
            bail!("the checker ended with {} and said {text:?}", output.status);
        };
        let number = |name: &str| -> usize {
            let mut words = summary.split(' ').skip_while(|word| *word != name);
            words
                .nth(1)
                .and_then(|number| number.parse().ok())
                .unwrap_or(0)
        };
        tally.faults += 1;
        tally.runs += number("runs");
        tally.promises += number("promises");
        tally.torn += number("torn");
        tally.closed += number("closed");
        tally.violations += number("violations");
        if number("violations") > 0 || !output.status.success() {
            complain(&text);
            self.keep(ledgers)?;
        }
        Ok(())
    }

    /// Keeps what a promise was broken in, for whoever looks for the cause.
    fn keep(&self, ledgers: &Path) -> Result<()> {
        self.keep_as("broken", ledgers)
    }

    /// As [`Driver::keep`], under a name, in place of what is kept under that.
    pub(super) fn keep_as(&self, name: &str, ledgers: &Path) -> Result<()> {
        let kept = self.folder.join(name);
        empty(&kept)?;
        for entry in fs::read_dir(ledgers)? {
            let entry = entry?;
            if entry.file_type()?.is_file() {
                fs::copy(entry.path(), kept.join(entry.file_name()))?;
            }
        }
        fs::copy(self.promises(), kept.join("promises"))?;
        Ok(())
    }

    /// Forgets the promises of the last fault.
    pub(super) fn forget(&self) -> Result<()> {
        File::create(self.promises()).context("cannot empty the file of promises")?;
        Ok(())
    }
}
