//! Lines of ledgers as clients see them: as they stand, but for the folders of the machine.

use std::borrow::Cow;

use super::dto::skill::without_host_dir;
use crate::capability::{Capability, Policy};
use crate::ledger::{Event, Record};

/// The line, with `*` in place of each folder of the machine that the run was granted. Only the first line of a run
/// has any; its digest is that of the line as it stands in the ledger.
pub(super) fn shown_line(record: &Record) -> Cow<'_, str> {
    let line = Cow::Borrowed(&*record.line);
    if record.kind != "run_started" {
        return line;
    }
    let Event::RunStarted(started) = record.event() else {
        return line;
    };
    let Some(policy) = started.policy else {
        return line;
    };
    let shown = without_host_dirs(policy.as_str());
    if shown == policy.as_str() {
        return line;
    }
    Cow::Owned(record.line.replacen(policy.as_str(), &shown, 1))
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

#[cfg(test)]
mod tests {
    use super::without_host_dirs;

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
}
