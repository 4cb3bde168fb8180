//! `[telemetry]`: traces.

use std::collections::BTreeMap;

use serde::Deserialize;
use url::Url;

use super::file::{Number, Place};
use super::mcp_server::target;
use super::{Config, ConfigError, ConfigProblem, Secret, SecretSource};
use crate::capability::Capability;

/// What stands behind the address of a collector.
const TRACES_PATH: &str = "/v1/traces";
/// Two minutes: a collector that takes longer has to be told less.
const TIMEOUT_MS_MAX: u64 = 120_000;

/// `[telemetry]`: what others are told of traces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Telemetry {
    /// Whether requests of skills, to models and to servers of tools carry the place in the trace. That shows
    /// the trace id to whoever gets them.
    pub propagate: bool,
    /// Whether spans that are exported tell what was asked and answered.
    pub content: bool,
    /// Where spans are sent, by OTLP over HTTP: the whole address. None: what the variables
    /// `OTEL_EXPORTER_OTLP_TRACES_ENDPOINT` and `OTEL_EXPORTER_OTLP_ENDPOINT` say, and nowhere without them.
    pub otlp_endpoint: Option<Url>,
    /// The secret that is put into these requests, by its name in `[secrets]`.
    pub otlp_secret: Option<String>,
    /// Milliseconds in which a batch of spans has to be taken, repetitions included, 100 to 120,000.
    pub otlp_timeout_ms: u64,
}

impl Default for Telemetry {
    fn default() -> Self {
        Self {
            propagate: true,
            content: false,
            otlp_endpoint: None,
            otlp_secret: None,
            otlp_timeout_ms: 10_000,
        }
    }
}

impl Config {
    /// The secret of `[telemetry]`, if there is to be one.
    ///
    /// # Errors
    /// It is not there, or is none.
    pub fn read_otlp_secret(&self) -> Result<Option<Secret>, ConfigError> {
        let Some(name) = &self.telemetry.otlp_secret else {
            return Ok(None);
        };
        let mut secrets = self.read_secrets()?.into_iter();
        Ok(secrets.find(|secret| secret.name() == name))
    }
}

/// The section as it stands in the file.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct TelemetrySection {
    propagate: Option<bool>,
    content: bool,
    otlp_endpoint: Option<toml::Spanned<String>>,
    otlp_secret: Option<toml::Spanned<String>>,
    otlp_timeout_ms: Number,
}

/// The settings that a section is.
pub(super) fn settings(
    place: &Place<'_>,
    section: TelemetrySection,
    secrets: &BTreeMap<String, SecretSource>,
) -> Result<Telemetry, ConfigProblem> {
    let default = Telemetry::default();
    let invalid = |line, key, expected| ConfigProblem::Setting {
        line,
        key,
        expected,
    };
    let endpoint = section.otlp_endpoint.as_ref().map(|endpoint| {
        let line = place.line(endpoint);
        let expected = "http(s)://host[:port][/path], without a user, a ? and a #";
        address(endpoint.get_ref()).ok_or(invalid(line, "telemetry.otlp_endpoint", expected))
    });
    let endpoint = endpoint.transpose()?;
    if let Some(secret) = &section.otlp_secret {
        let source = secrets.get(secret.get_ref());
        let is_for_it = endpoint.as_ref().is_some_and(|endpoint| {
            let place = source.map(|source| format!("net:{}#POST", source.url).parse());
            match (place, target(endpoint.as_str())) {
                (Some(Ok(Capability::Net(place))), Some(target)) => place.covers(&target),
                _ => false,
            }
        });
        if !is_for_it {
            let expected = "the name of one of [secrets], which is for telemetry.otlp_endpoint";
            return Err(invalid(
                place.line(secret),
                "telemetry.otlp_secret",
                expected,
            ));
        }
    }
    Ok(Telemetry {
        propagate: section.propagate.unwrap_or(default.propagate),
        content: section.content,
        otlp_endpoint: endpoint,
        otlp_secret: section.otlp_secret.map(toml::Spanned::into_inner),
        otlp_timeout_ms: place.number(
            "telemetry.otlp_timeout_ms",
            &section.otlp_timeout_ms,
            default.otlp_timeout_ms,
            100..=TIMEOUT_MS_MAX,
        )?,
    })
}

/// The whole address that spans are sent to.
fn address(text: &str) -> Option<Url> {
    if text.contains('?') {
        return None;
    }
    target(text)?;
    Url::parse(&format!("{}{TRACES_PATH}", text.trim_end_matches('/'))).ok()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use crate::config::{Config, ConfigProblem};
    use crate::telemetry::chain;

    fn parse(text: &str) -> Result<Config, ConfigProblem> {
        crate::config::file::parse(Path::new("home"), text)
    }

    const SECRET: &str = "[secrets.K]\nenv = \"K\"\nurl = \"https://a/v1/\"\nheader = \"x\"\n";

    #[test]
    fn spans_are_sent_below_the_address_of_the_collector() {
        for (given, whole) in [
            ("http://127.0.0.1:4318", "http://127.0.0.1:4318/v1/traces"),
            ("https://a/", "https://a/v1/traces"),
            ("https://a/otlp", "https://a/otlp/v1/traces"),
        ] {
            let config = parse(&format!("[telemetry]\notlp_endpoint = \"{given}\""));
            let endpoint = config.unwrap().telemetry.otlp_endpoint;
            assert_eq!(endpoint.unwrap().as_str(), whole);
        }
        let named = "[telemetry]\notlp_endpoint = \"https://a\"\notlp_secret = \"K\"";
        let config = parse(&format!("{SECRET}{named}")).unwrap();
        assert_eq!(config.telemetry.otlp_secret.as_deref(), Some("K"));
        assert!(config.telemetry.propagate && !config.telemetry.content);
    }

    #[test]
    fn what_cannot_be_used_is_refused_by_its_line() {
        for (text, part) in [
            (
                "otlp_endpoint = \"a:4318\"",
                "line 6: telemetry.otlp_endpoint",
            ),
            (
                "otlp_endpoint = \"http://u:p@a\"",
                "line 6: telemetry.otlp_endpoint",
            ),
            (
                "otlp_endpoint = \"http://a?b\"",
                "line 6: telemetry.otlp_endpoint",
            ),
            ("otlp_secret = \"K\"", "line 6: telemetry.otlp_secret"),
            (
                "otlp_endpoint = \"https://b\"\notlp_secret = \"K\"",
                "line 7: telemetry.otlp_secret",
            ),
            (
                "otlp_endpoint = \"https://a\"\notlp_secret = \"L\"",
                "line 7: telemetry.otlp_secret",
            ),
            (
                "otlp_timeout_ms = 99",
                "telemetry.otlp_timeout_ms = 99 is out of range",
            ),
            ("sampling = 1", "sampling"),
        ] {
            let problem = parse(&format!("{SECRET}[telemetry]\n{text}")).unwrap_err();
            assert!(
                chain(&problem).contains(part),
                "{text}: {}",
                chain(&problem)
            );
        }
    }
}
