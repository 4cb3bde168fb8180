//! Lines of ledgers as clients see them: as they stand, but for the folders of the machine.

use std::borrow::Cow;

use super::session::WORKSPACE_GUEST_PATH;
use crate::capability::{Capability, HOST_DIR_ANY, Policy};
use crate::ledger::{Event, Record, SessionFacts};

/// The line, with `*` in place of each folder of the machine that the run was granted, and with that of an execution
/// under the name that the agent has for it. Only the lines with which a run begins or goes on have any; the digest
/// of one is that of the line as it stands in the ledger.
pub(crate) fn shown_line(record: &Record) -> Cow<'_, str> {
    let line = Cow::Borrowed(&*record.line);
    if !matches!(record.kind.as_str(), "run_started" | "run_resumed") {
        return line;
    }
    match record.event() {
        Event::RunStarted(started) => {
            let line = without_workspace(line, started.session.as_deref());
            let Some(policy) = started.policy else {
                return line;
            };
            let shown = without_host_dirs(policy.as_str());
            if shown == policy.as_str() {
                return line;
            }
            Cow::Owned(line.replacen(policy.as_str(), &shown, 1))
        }
        Event::RunResumed(resumed) => without_workspace(line, resumed.session.as_deref()),
        _ => line,
    }
}

/// The line with `/workspace` in place of the execution's folder on the machine.
fn without_workspace<'a>(line: Cow<'a, str>, session: Option<&SessionFacts>) -> Cow<'a, str> {
    let member = |path: &str| {
        let path = serde_json::to_string(path).unwrap_or_default();
        format!(r#""workspace_path":{path}"#)
    };
    let Some(path) = session.and_then(|facts| facts.workspace_path.as_deref()) else {
        return line;
    };
    Cow::Owned(line.replace(&member(path), &member(WORKSPACE_GUEST_PATH)))
}

/// A policy that cannot be read, such as one that is stored elsewhere, is not shown at all.
fn without_host_dirs(text: &str) -> String {
    let Ok(policy) = serde_json::from_str::<Policy>(text) else {
        return "null".to_owned();
    };
    let granted = policy.granted.iter().map(|grant| &grant.capability);
    let all = policy
        .requested
        .iter()
        .chain(granted)
        .chain(&policy.effective);
    let mut shown = text.to_owned();
    for capability in all.filter(|one| matches!(one, Capability::Fs { .. })) {
        let (Ok(as_it_is), Ok(without)) = (
            serde_json::to_string(capability),
            serde_json::to_string(&without_host_dir(capability)),
        ) else {
            return "null".to_owned();
        };
        shown = shown.replace(&as_it_is, &without);
    }
    shown
}

/// As it would be asked for by a skill that cannot know the folders of the machine.
pub(crate) fn without_host_dir(capability: &Capability) -> String {
    match capability {
        Capability::Fs {
            access, guest_dir, ..
        } => Capability::Fs {
            access: *access,
            host_dir: HOST_DIR_ANY.to_owned(),
            guest_dir: guest_dir.clone(),
        }
        .to_string(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::{without_host_dir, without_host_dirs};

    #[test]
    fn folders_of_the_machine_go_and_nothing_else() {
        let of = |host: &str| {
            format!(
                r#"{{"requested":["env:HOME","fs:ro:{host}=/in"],"granted":[{{"capability":"fs:ro:{host}=/in","source":"config"}}],"effective":["fs:ro:{host}=/in"]}}"#
            )
        };
        assert_eq!(without_host_dirs(&of("/home/me/a\\\"b")), of("*"));
        assert_eq!(without_host_dirs(&of("*")), of("*"));
        assert_eq!(
            without_host_dirs(r#"{"blob":"00","preview":"fs:/home"}"#),
            "null"
        );
    }

    #[test]
    fn no_folder_of_the_machine_is_shown() {
        for (capability, shown) in [
            ("fs:ro:/home/me/a=b=/in", "fs:ro:*=/in"),
            ("fs:rw:*=/out", "fs:rw:*=/out"),
            ("env:HOME", "env:HOME"),
            ("approval", "approval"),
        ] {
            assert_eq!(without_host_dir(&capability.parse().unwrap()), shown);
        }
    }
}
