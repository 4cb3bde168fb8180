//! Set-up of the process's own diagnostics.
//!
//! Diagnostics go to standard error, never to standard output, which carries data only. What skills
//! did is in their ledgers; this is about the host.

use std::io::IsTerminal as _;

use tracing_subscriber::EnvFilter;

/// The environment variable that selects what is logged, in the syntax of `tracing`'s `EnvFilter`.
pub const LOG_VARIABLE: &str = "SKILLRUN_LOG";

/// What is logged unless that variable is set.
const DEFAULT_FILTER: &str = "warn";
/// The MCP library, which prints whole messages of servers, and what is in them. It is silent unless the
/// variable names it.
const MCP_LIBRARY: &str = "rmcp";

/// Installs the process-wide subscriber: lines on standard error, warnings and above unless
/// `SKILLRUN_LOG` says otherwise. A subscriber that the embedder installed before stays.
pub fn init() {
    let asked = std::env::var(LOG_VARIABLE).ok();
    let asked = asked.filter(|asked| EnvFilter::try_new(asked).is_ok());
    let filter = EnvFilter::new(filter(asked.as_deref().unwrap_or_default()));
    // The error means that the embedder has a subscriber already, which is the one to keep.
    let _kept = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(std::io::stderr().is_terminal())
        .with_writer(std::io::stderr)
        .try_init();
}

/// The filter that is meant by what the variable says.
fn filter(asked: &str) -> String {
    let asked = if asked.is_empty() {
        DEFAULT_FILTER
    } else {
        asked
    };
    if asked.contains(MCP_LIBRARY) {
        return asked.to_owned();
    }
    format!("{asked},{MCP_LIBRARY}=off")
}

/// An error and its causes on one line, outermost first. Errors here never repeat their causes, so
/// this is the whole of what there is to say.
pub fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    let texts: Vec<String> = causes.map(ToString::to_string).collect();
    texts.join(": ")
}

#[cfg(test)]
mod tests {
    use super::filter;

    #[test]
    fn the_mcp_library_is_silent_unless_it_is_named() {
        for (asked, expected) in [
            ("", "warn,rmcp=off"),
            ("trace", "trace,rmcp=off"),
            ("skillrun=debug", "skillrun=debug,rmcp=off"),
            ("info,rmcp=trace", "info,rmcp=trace"),
        ] {
            assert_eq!(filter(asked), expected);
        }
    }
}
