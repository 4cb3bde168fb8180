//! Verbs that reach what a system gives: clocks, chance, variables, files.

use std::time::{SystemTime, UNIX_EPOCH};
use std::{fs, io};

use skillrun_sdk::{SkillError, session};

use crate::divide;

/// A random number of 64 bits, in hexadecimal.
pub(crate) fn random() -> Result<(), SkillError> {
    say(&format!(
        "{:016x}",
        wasip2::random::random::get_random_u64()
    ))
}

/// Microseconds since 1970.
pub(crate) fn now() -> Result<(), SkillError> {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    say(&since.unwrap_or_default().as_micros().to_string())
}

/// `NAME=VALUE` of all variables, one a line, in order of their names.
pub(crate) fn env() -> Result<(), SkillError> {
    let mut lines: Vec<String> = std::env::vars()
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    lines.sort();
    say(&lines.join("\n"))
}

/// The text of a file.
pub(crate) fn read(path: &str) -> Result<(), SkillError> {
    tell(fs::read_to_string(path))
}

/// `PATH TEXT`: writes a file; `written`.
pub(crate) fn write(argument: &str) -> Result<(), SkillError> {
    let (path, text) = divide(argument, ' ');
    tell(fs::write(path, text).map(|()| "written".to_owned()))
}

/// The names in a folder, one a line, in order.
pub(crate) fn list(path: &str) -> Result<(), SkillError> {
    tell(names(path))
}

fn names(path: &str) -> io::Result<String> {
    let entries = fs::read_dir(path)?;
    let mut names = entries
        .map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()))
        .collect::<io::Result<Vec<String>>>()?;
    names.sort();
    Ok(names.join("\n"))
}

fn tell(result: io::Result<String>) -> Result<(), SkillError> {
    match result {
        Ok(text) => say(&text),
        Err(error) => say(&format!("error: io {error}")),
    }
}

fn say(text: &str) -> Result<(), SkillError> {
    Ok(session::emit_text(text)?)
}
