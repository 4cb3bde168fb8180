//! What a line means that was typed.

use crate::call::PermissionOption;
use crate::cli::questions;
use crate::ledger::ApprovalDecision;

/// What can be typed beside prompts.
pub(super) const HELP: [&str; 5] = [
    "/mode task|config|office   give the agent the tools of another mode",
    "/plan                      show its plan",
    "/stop                      end the execution",
    "/quit, Ctrl-D              leave",
    "Ctrl-C                     cancel the turn; twice within a second, or between turns: leave",
];

/// What a line means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Line {
    /// Nothing.
    Empty,
    /// The agent is told this.
    Prompt(String),
    /// Which commands are there.
    Help,
    /// Another mode.
    Mode(String),
    /// The plan as it is.
    Plan,
    /// The end of the execution.
    Stop,
    /// The end of the chat.
    Quit,
    /// No command that there is.
    Unknown(String),
}

/// What a line means that answers no question.
pub(super) fn parse(line: &str) -> Line {
    let line = line.trim();
    let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    match (word, rest.trim()) {
        ("", _) => Line::Empty,
        ("/help", "") => Line::Help,
        ("/mode", mode) if !mode.is_empty() => Line::Mode(mode.to_owned()),
        ("/plan", "") => Line::Plan,
        ("/stop", "") => Line::Stop,
        ("/quit" | "/exit", "") => Line::Quit,
        (word, _) if word.starts_with('/') => Line::Unknown(word.to_owned()),
        _ => Line::Prompt(line.to_owned()),
    }
}

/// What a line says about a question: which choice by its id or its number, or no, each with a reason behind it; of
/// a question without choices yes or no.
pub(super) fn answer(line: &str, options: &[PermissionOption]) -> Option<ApprovalDecision> {
    let line = line.trim();
    if let Some(decision) = questions::decision(line, options) {
        return Some(decision);
    }
    let (number, reason) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    let at = number.parse::<usize>().ok()?.checked_sub(1)?;
    let option = options.get(at)?;
    questions::decision(&format!("{} {reason}", option.id), options)
}

#[cfg(test)]
mod tests {
    use super::{Line, answer, parse};
    use crate::call::PermissionOption;

    #[test]
    fn a_line_is_a_command_only_with_a_slash_before_it() {
        for (line, expected) in [
            ("", Line::Empty),
            ("  ", Line::Empty),
            (" help me ", Line::Prompt("help me".to_owned())),
            ("/help", Line::Help),
            ("/mode  office", Line::Mode("office".to_owned())),
            ("/mode", Line::Unknown("/mode".to_owned())),
            ("/plan", Line::Plan),
            ("/stop", Line::Stop),
            ("/stop it", Line::Unknown("/stop".to_owned())),
            ("/quit", Line::Quit),
            ("/etc/passwd?", Line::Unknown("/etc/passwd?".to_owned())),
        ] {
            assert_eq!(parse(line), expected, "{line:?}");
        }
    }

    #[test]
    fn a_choice_is_named_by_its_id_or_its_number() {
        let option = |id: &str| PermissionOption {
            id: id.to_owned(),
            label: id.to_owned(),
        };
        let options = [option("allow"), option("deny"), option("1")];
        for (line, approved, chosen, reason) in [
            ("allow", true, Some("allow"), ""),
            ("deny  not now", true, Some("deny"), "not now"),
            ("2 not now", true, Some("deny"), "not now"),
            // An id counts before a number.
            ("1", true, Some("1"), ""),
            ("n never", false, None, "never"),
        ] {
            let decision = answer(line, &options).unwrap();
            assert_eq!(decision.approved, approved, "{line:?}");
            assert_eq!(decision.option.as_deref(), chosen, "{line:?}");
            assert_eq!(decision.reason, reason, "{line:?}");
        }
        for line in ["", "0", "4", "y", "allowed", "perhaps"] {
            assert!(answer(line, &options).is_none(), "{line:?}");
        }
        assert!(answer("y", &[]).unwrap().approved);
        assert!(answer("1", &[]).is_none());
    }
}
