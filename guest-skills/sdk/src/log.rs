//! Log lines, each a `log` event in the run's ledger. No line ever fails: a skill should not stop for
//! its log.

use crate::host;

/// How much a line matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Every step of the way.
    Trace,
    /// For whoever looks for a fault.
    Debug,
    /// What happens.
    Info,
    /// What is wrong and does not stop the work.
    Warn,
    /// What stops it.
    Error,
}

/// Writes one line with names and values beside it. A line is cut to 8 KiB.
pub fn write(level: Level, message: &str, fields: &[(&str, &str)]) {
    host::log(level, message, fields);
}

/// Writes one line at the level `trace`.
pub fn trace(message: &str) {
    write(Level::Trace, message, &[]);
}

/// Writes one line at the level `debug`.
pub fn debug(message: &str) {
    write(Level::Debug, message, &[]);
}

/// Writes one line at the level `info`.
pub fn info(message: &str) {
    write(Level::Info, message, &[]);
}

/// Writes one line at the level `warn`.
pub fn warn(message: &str) {
    write(Level::Warn, message, &[]);
}

/// Writes one line at the level `error`.
pub fn error(message: &str) {
    write(Level::Error, message, &[]);
}
