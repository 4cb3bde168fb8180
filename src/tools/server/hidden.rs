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
        values.retain(|value| value.len() >= SECRET_BYTES_MIN);
        // The longest first: a value may be a part of another.
        values.sort_by_key(|value| std::cmp::Reverse(value.len()));
        Self(values.into())
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
        let hidden = Hidden(vec!["hunter2-long".to_owned(), "hunter2".to_owned()].into());
        let cleaned = hidden.clean("a hunter2 b hunter2-long c");
        assert_eq!(cleaned, "a [hidden] b [hidden] c");
        let long = hidden.clean(&"ä".repeat(TEXT_BYTES_MAX));
        assert_eq!(long.len(), TEXT_BYTES_MAX);
    }
}
