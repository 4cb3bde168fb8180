//! Set-up of the process's own diagnostics.
//!
//! Diagnostics go to standard error, never to standard output, which carries data only. What skills
//! did is in their ledgers; this is about the host.

use std::io::IsTerminal as _;

use tracing_subscriber::EnvFilter;

/// The environment variable that selects what is logged, in the syntax of `tracing`'s `EnvFilter`.
pub const LOG_VARIABLE: &str = "SKILLRUN_LOG";

/// What is logged unless that variable is set. The MCP library prints whole messages of servers.
const DEFAULT_FILTER: &str = "warn,rmcp=off";

/// Installs the process-wide subscriber: lines on standard error, warnings and above unless
/// `SKILLRUN_LOG` says otherwise. A subscriber that the embedder installed before stays.
pub fn init() {
    let filter =
        EnvFilter::try_from_env(LOG_VARIABLE).unwrap_or_else(|_| EnvFilter::new(DEFAULT_FILTER));
    // The error means that the embedder has a subscriber already, which is the one to keep.
    let _kept = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(std::io::stderr().is_terminal())
        .with_writer(std::io::stderr)
        .try_init();
}

/// An error and its causes on one line, outermost first. Errors here never repeat their causes, so
/// this is the whole of what there is to say.
pub fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    let texts: Vec<String> = causes.map(ToString::to_string).collect();
    texts.join(": ")
}
