//! What must not be seen in errors and logs.

use std::sync::Arc;

use crate::config::{McpEndpoint, McpServer, SECRET_BYTES_MIN, Secret};

/// Bytes of a foreign text that are shown. Protects logs, and ledgers, which keep errors.
const TEXT_BYTES_MAX: usize = 8 * 1024;

/// Values that are taken out of whatever a server says of itself: its secret, and what its environment
/// was given. Shorter ones than a secret has would be found in what is none.
#[derive(Clone, Default)]
pub(super) struct Hidden(Arc<[String]>);

impl Hidden {
    pub(super) fn of(server: &McpServer, secret: Option<&Secret>) -> Self {
        let mut values: Vec<String> = secret.iter().map(|one| one.value().to_owned()).collect();
        if let McpEndpoint::Process(process) = &server.endpoint {
            let given = process.env.values().map(|value| value.value().to_owned());
            let passed = process.pass_env.iter();
            let passed = passed.filter_map(|name| std::env::var(name).ok());
            values.extend(given.chain(passed));
        }
        Self::values(values)
    }

    /// With each line of a value that has several, since logs are read line by line, and as JSON spells it.
    fn values(values: Vec<String>) -> Self {
        let lines = values.iter().flat_map(|value| value.lines());
        let mut found: Vec<String> = lines.map(str::to_owned).collect();
        found.extend(values);
        let quoted = found.iter().filter_map(|value| {
            let quoted = serde_json::to_string(value).ok()?;
            let inside = quoted.strip_prefix('"')?.strip_suffix('"')?;
            (inside != value).then(|| inside.to_owned())
        });
        let quoted: Vec<String> = quoted.collect();
        found.extend(quoted);
        found.retain(|value| value.len() >= SECRET_BYTES_MIN);
        // The longest first: a value may be a part of another.
        found.sort_by_key(|value| std::cmp::Reverse(value.len()));
        found.dedup();
        Self(found.into())
    }

    /// The longest of them, in bytes.
    pub(super) fn bytes_max(&self) -> usize {
        self.0.first().map_or(0, String::len)
    }

    /// A foreign text without them, cut.
    pub(super) fn clean(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for value in self.0.iter() {
            text = text.replace(value, "[hidden]");
        }
        text.truncate(text.floor_char_boundary(TEXT_BYTES_MAX));
        text
    }
}

#[cfg(test)]
mod tests {
    use super::{Hidden, TEXT_BYTES_MAX};

    #[test]
    fn hidden_values_are_taken_out_and_long_texts_cut() {
        let hidden = Hidden::values(vec!["hunter2".to_owned(), "hunter2-long".to_owned()]);
        let cleaned = hidden.clean("a hunter2 b hunter2-long c");
        assert_eq!(cleaned, "a [hidden] b [hidden] c");
        let hidden = Hidden::values(vec!["BEGIN KEY\nAAAA\"BBBB\nEND".to_owned()]);
        assert_eq!(hidden.clean("key AAAA\"BBBB."), "key [hidden].");
        let quoted = r#"{"KEY":"BEGIN KEY\nAAAA\"BBBB\nEND"}"#;
        assert_eq!(hidden.clean(quoted), r#"{"KEY":"[hidden]"}"#);
        let long = hidden.clean(&"ä".repeat(TEXT_BYTES_MAX));
        assert_eq!(long.len(), TEXT_BYTES_MAX);
    }
}
