//! The programs that build skills: where they are, and running them.

use std::fs::{self, File};
use std::io::{Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::Context;

use crate::cli::exit::Refused;

/// The variable that names folders, as `PATH` does, in which tools are looked for first.
pub(crate) const TOOLS_VARIABLE: &str = "SKILLRUN_TOOLS";
/// Bytes that are shown of what a failed tool said, from its end. Protects the screen.
const SHOWN_BYTES_MAX: u64 = 32 * 1024;
/// Bytes of a tool's standard output that are read. Protects this process's memory.
const STDOUT_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// Where tools are looked for, in this order.
#[derive(Debug, Clone)]
pub(super) struct Toolchain {
    folders: Vec<PathBuf>,
}

impl Toolchain {
    /// The folders of [`TOOLS_VARIABLE`], then `own` of the project, then those of `PATH`.
    pub(super) fn of(own: &[PathBuf]) -> Self {
        let listed = |variable| {
            let value = std::env::var_os(variable).unwrap_or_default();
            std::env::split_paths(&value)
                .filter(|folder| folder.is_absolute())
                .collect::<Vec<_>>()
        };
        let mut folders = listed(TOOLS_VARIABLE);
        folders.extend_from_slice(own);
        folders.extend(listed("PATH"));
        Self { folders }
    }

    /// The program of that name, if there is one.
    pub(super) fn find(&self, tool: &str) -> Option<PathBuf> {
        let is_program = |path: &PathBuf| {
            fs::metadata(path)
                .is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
        };
        self.folders
            .iter()
            .map(|folder| folder.join(tool))
            .find(is_program)
    }

    /// A command that runs the program of that name, and finds others in the same order.
    ///
    /// # Errors
    /// There is no such program; `install` says what to do about it.
    pub(super) fn command(&self, tool: &str, install: &str) -> anyhow::Result<Command> {
        let program = self.find(tool).ok_or_else(|| missing(tool, install))?;
        let mut command = Command::new(program);
        let path = std::env::join_paths(&self.folders)
            .with_context(|| format!("a folder in PATH or {TOOLS_VARIABLE} has a colon in it"))?;
        command.env("PATH", path).stdin(Stdio::null());
        Ok(command)
    }
}

fn missing(tool: &str, install: &str) -> Refused {
    let message = format!(
        "{tool} is missing: it is in no folder of {TOOLS_VARIABLE}, of the project or of PATH"
    );
    Refused::failed(message).with_hint(install)
}

/// Runs a tool to its end and gives what it wrote to standard output.
///
/// # Errors
/// It cannot be started, or it failed; the error has the end of what it said.
pub(super) fn run(command: &mut Command) -> anyhow::Result<Vec<u8>> {
    let tool = Path::new(command.get_program());
    let tool = tool
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    run_as(&tool, command)
}

/// As [`run`], for a command that the author knows by another name than that of its program.
///
/// # Errors
/// As of [`run`].
pub(super) fn run_as(tool: &str, command: &mut Command) -> anyhow::Result<Vec<u8>> {
    let failed = || format!("cannot run {tool}");
    // Files and not pipes: both are written at the same time, and only their ends may be of use.
    let mut stdout = tempfile::tempfile().with_context(failed)?;
    let mut stderr = tempfile::tempfile().with_context(failed)?;
    let status = command
        .stdout(stdout.try_clone().with_context(failed)?)
        .stderr(stderr.try_clone().with_context(failed)?)
        .status()
        .with_context(failed)?;
    if status.success() {
        stdout.rewind().with_context(failed)?;
        let mut bytes = Vec::new();
        stdout
            .take(STDOUT_BYTES_MAX)
            .read_to_end(&mut bytes)
            .with_context(failed)?;
        return Ok(bytes);
    }
    let mut said = end_of(&mut stdout).with_context(failed)?;
    said.push_str(&end_of(&mut stderr).with_context(failed)?);
    let said = said.trim_end();
    let message = if said.is_empty() {
        format!("{tool} failed with {status}")
    } else {
        format!("{tool} failed with {status}:\n{said}")
    };
    Err(Refused::failed(message).into())
}

/// The last lines of a file, whole ones only when it is cut.
fn end_of(file: &mut File) -> std::io::Result<String> {
    let length = file.metadata()?.len();
    let start = length.saturating_sub(SHOWN_BYTES_MAX);
    file.seek(SeekFrom::Start(start))?;
    let mut bytes = Vec::new();
    file.take(SHOWN_BYTES_MAX).read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes);
    Ok(match text.split_once('\n') {
        Some((_cut, rest)) if start > 0 => format!("…\n{rest}"),
        _ => text.into_owned(),
    })
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::{SHOWN_BYTES_MAX, run};

    #[test]
    fn a_tool_that_fails_is_told_with_the_end_of_what_it_said() {
        let bytes = SHOWN_BYTES_MAX * 2;
        let script = format!(
            "head -c {bytes} /dev/zero | tr '\\0' a; echo; echo almost; echo wrong >&2; exit 3"
        );
        let failed = run(Command::new("sh").args(["-c", &script])).unwrap_err();
        let message = failed.to_string();
        assert!(
            message.starts_with("sh failed with exit status: 3:\n…\n"),
            "{}",
            &message[..80]
        );
        assert!(message.ends_with("almost\nwrong"), "{}", message.len());
        assert_eq!(
            run(Command::new("sh").args(["-c", "printf out; printf err >&2"])).unwrap(),
            b"out"
        );
    }
}
