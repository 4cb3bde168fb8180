//! Child processes, each shown before it runs, and the folders they work in.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

/// The checkout.
pub(crate) fn root() -> &'static Path {
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    own.parent().unwrap_or(own)
}

/// Where cargo builds, which a developer can move.
pub(crate) fn target_folder() -> PathBuf {
    root().join(std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into()))
}

/// Prints one line of progress.
///
/// # Errors
/// When standard output is gone: then nobody reads what would follow.
pub(crate) fn say(line: &str) -> Result<()> {
    writeln!(std::io::stdout(), "{line}").context("cannot print")
}

/// Prints why the command failed. Where that cannot be printed, the exit code has to say it.
pub(crate) fn complain(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}

/// A cargo command on the active toolchain.
pub(crate) fn cargo(arguments: &[&str]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(arguments);
    command
}

/// Shows a command and runs it; its output goes where ours goes.
///
/// # Errors
/// When it cannot be started, and when it ends with anything but 0.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    say(&format!("$ {}", shown(command)))?;
    let status = command
        .status()
        .with_context(|| format!("cannot start {}", shown(command)))?;
    if !status.success() {
        bail!("{} ended with {status}", shown(command));
    }
    Ok(())
}

/// Shows a command, runs it, and shows and returns what it wrote to standard output.
///
/// # Errors
/// As [`run`], and when the output is not text.
pub(crate) fn run_and_read(command: &mut Command) -> Result<String> {
    say(&format!("$ {}", shown(command)))?;
    let output = command
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("cannot start {}", shown(command)))?;
    let text = String::from_utf8(output.stdout).context("the output is not UTF-8")?;
    say(text.trim_end())?;
    if !output.status.success() {
        bail!("{} ended with {}", shown(command), output.status);
    }
    Ok(text)
}

/// Whether a command can be started and ends with 0; its output is dropped.
pub(crate) fn succeeds(program: &str, arguments: &[&str]) -> bool {
    Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

/// The command as one would type it: what lies in the checkout is named from there, programs by
/// their name alone.
fn shown(command: &Command) -> String {
    let program = Path::new(command.get_program())
        .file_name()
        .unwrap_or(command.get_program());
    let mut words = vec![program.to_string_lossy().into_owned()];
    for argument in command.get_args() {
        let text = argument.to_string_lossy();
        let prefix = format!("{}/", root().display());
        let text = text.strip_prefix(&prefix).unwrap_or(&text);
        words.push(if text.contains([' ', '"', '{']) {
            format!("'{text}'")
        } else {
            text.to_owned()
        });
    }
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::{root, shown, succeeds};

    #[test]
    fn a_command_is_shown_as_one_would_type_it() {
        let mut command = Command::new("/usr/bin/skillrun");
        command
            .args(["run", "greet", "--input", r#"{"name":"Ada"}"#])
            .arg(root().join("src"));
        assert_eq!(
            shown(&command),
            r#"skillrun run greet --input '{"name":"Ada"}' src"#
        );
    }

    #[test]
    fn a_program_that_does_not_exist_does_not_succeed() {
        assert!(!succeeds("no-such-program", &[]));
    }
}
