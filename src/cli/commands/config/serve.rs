//! `[serve]`, as it is shown and checked.

use std::os::unix::fs::MetadataExt as _;

use super::{CONFIGURED, Finding, Setting};
use crate::config::{Config, Serve, TokenSource};
use crate::registry::Severity;
use crate::telemetry::chain;

pub(super) fn settings(serve: &Serve) -> Vec<Setting> {
    let default = Serve::default();
    let number = |name: &str, value: u64, default: u64| {
        Setting::of(&format!("serve.{name}"), &value, &default)
    };
    let size = |value: usize| u64::try_from(value).unwrap_or(u64::MAX);
    let mut settings = vec![Setting::of("serve.listen", &serve.listen, &default.listen)];
    match &serve.token {
        None => {}
        Some(TokenSource::File(file)) => {
            let file = file.display().to_string();
            settings.push(Setting::new("serve.token_file", file, CONFIGURED));
        }
        Some(TokenSource::Env(variable)) => {
            settings.push(Setting::new("serve.token_env", variable, CONFIGURED));
        }
    }
    for (key, list) in [
        ("serve.hosts", &serve.hosts),
        ("serve.origins", &serve.origins),
    ] {
        if !list.is_empty() {
            settings.push(Setting::new(key, list.join(", "), CONFIGURED));
        }
    }
    let numbers = [
        (
            "connections_max",
            size(serve.connections_max),
            size(default.connections_max),
        ),
        (
            "streams_max",
            size(serve.streams_max),
            size(default.streams_max),
        ),
        (
            "body_bytes_max",
            size(serve.body_bytes_max),
            size(default.body_bytes_max),
        ),
        (
            "header_timeout_ms",
            serve.header_timeout_ms,
            default.header_timeout_ms,
        ),
        (
            "request_timeout_ms",
            serve.request_timeout_ms,
            default.request_timeout_ms,
        ),
        ("heartbeat_ms", serve.heartbeat_ms, default.heartbeat_ms),
        (
            "stall_timeout_ms",
            serve.stall_timeout_ms,
            default.stall_timeout_ms,
        ),
        ("drain_ms", serve.drain_ms, default.drain_ms),
        (
            "disk_free_bytes_min",
            serve.disk_free_bytes_min,
            default.disk_free_bytes_min,
        ),
    ];
    settings.extend(numbers.map(|(name, value, default)| number(name, value, default)));
    let open = (&serve.metrics_open, &default.metrics_open);
    settings.push(Setting::of("serve.metrics_open", open.0, open.1));
    settings
}

/// What is wrong with who may ask. A token that cannot be read stops `serve` alone, and so does none.
pub(super) fn findings(config: &Config) -> Vec<Finding> {
    let serve = &config.serve;
    let mut findings = Vec::new();
    let mut find = |severity, key: &str, problem| {
        findings.push(Finding {
            severity,
            key: key.to_owned(),
            problem,
        });
    };
    let key = match &serve.token {
        Some(TokenSource::File(_)) => "serve.token_file",
        Some(TokenSource::Env(_)) => "serve.token_env",
        None => "serve.listen",
    };
    if let Err(error) = config.read_serve_token() {
        find(Severity::Error, key, chain(&error));
    }
    if serve.token.is_none() && !serve.listen.ip().is_loopback() {
        let problem = format!(
            "{} is no loopback address, and there is no token",
            serve.listen
        );
        find(Severity::Error, key, problem);
    }
    if let Some(TokenSource::File(file)) = &serve.token {
        let about = std::fs::metadata(config.home.join(file));
        if about.is_ok_and(|about| about.mode() & 0o077 != 0) {
            let problem = "others than its owner may read or write the file".to_owned();
            find(Severity::Warning, key, problem);
        }
    }
    findings
}
