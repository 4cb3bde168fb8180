//! Log lines, each a `log` event in the run's ledger.

use crate::bindings::skillrun::skill::log;

pub use log::Level;

/// Writes one line with names and values beside it.
pub fn write(level: Level, message: &str, fields: &[(&str, &str)]) {
    let fields: Vec<(String, String)> = fields
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect();
    log::write(level, message, &fields);
}

/// Writes one line at the level `info`.
pub fn info(message: &str) {
    log::write(Level::Info, message, &[]);
}

/// Writes one line at the level `warn`.
pub fn warn(message: &str) {
    log::write(Level::Warn, message, &[]);
}
