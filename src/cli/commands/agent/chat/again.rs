//! How a chat is begun that goes on with this one.

use std::fmt::Write as _;

use crate::cli::args::ChatArgs;
use crate::cli::display::shown;
use crate::id::{ExecutionId, RunId};

/// What the command line of this chat says that the next one has to say too.
pub(super) struct Again {
    agent: String,
    flags: String,
}

impl Again {
    pub(super) fn of(args: &ChatArgs) -> Self {
        // An execution is named by its id, which does not say what it is an execution of.
        let agent = match args.agent.parse::<ExecutionId>() {
            Ok(_) => "SKILL".to_owned(),
            Err(_) => word(&args.agent),
        };
        let mut flags = String::new();
        if let Some(folder) = &args.workspace.workspace {
            let folder = word(&folder.to_string_lossy());
            let _infallible = write!(flags, " --workspace {folder}");
        }
        for capability in &args.grant {
            let capability = word(&capability.to_string());
            let _infallible = write!(flags, " --grant {capability}");
        }
        Self { agent, flags }
    }

    /// The command that goes on with a ledger.
    pub(super) fn command(&self, run_id: &RunId) -> String {
        let Self { agent, flags } = self;
        format!("skillrun agent chat {agent} --prior-session {run_id}{flags}")
    }
}

/// One word of a command line as a shell takes it.
fn word(text: &str) -> String {
    let is_plain =
        |character: char| character.is_ascii_alphanumeric() || "-_./:=,@+".contains(character);
    match !text.is_empty() && text.chars().all(is_plain) {
        true => text.to_owned(),
        false => shown(&format!("'{}'", text.replace('\'', r"'\''"))),
    }
}

#[cfg(test)]
mod tests {
    use super::word;

    #[test]
    fn a_word_stays_one_in_a_shell() {
        for (text, expected) in [
            ("chat", "chat"),
            ("./my-agent/", "./my-agent/"),
            ("llm:local/*", "'llm:local/*'"),
            ("my folder", "'my folder'"),
            ("it's", r"'it'\''s'"),
            ("$HOME", "'$HOME'"),
            ("", "''"),
        ] {
            assert_eq!(word(text), expected);
        }
    }
}
