//! `[mcp_servers]`, as it is shown and tried.

use std::path::Path;

use super::{CONFIGURED, DEFAULT, Finding, Setting, joined, word};
use crate::config::{McpEndpoint, McpProcess, McpServer};
use crate::registry::Severity;

/// What is set for one server. Of its environment only the names are shown, of a query nothing.
pub(super) fn settings(name: &str, server: &McpServer) -> Vec<Setting> {
    let key = |key: &str| format!("mcp_servers.{name}.{key}");
    let configured = |name: &str, value: String| Setting::new(key(name), value, CONFIGURED);
    let mut settings = Vec::new();
    match &server.endpoint {
        McpEndpoint::Process(process) => {
            settings.push(configured("command", process.command.join(" ")));
            if !process.env.is_empty() {
                let names: Vec<&str> = process.env.keys().map(String::as_str).collect();
                let hidden = format!("{} (values hidden)", names.join("  "));
                settings.push(configured("env", hidden));
            }
            if !process.pass_env.is_empty() {
                settings.push(configured("pass_env", joined(&process.pass_env)));
            }
            if let Some(dir) = &process.dir {
                settings.push(configured("dir", dir.display().to_string()));
            }
        }
        McpEndpoint::Http { url, secret } => {
            let shown = match url.split_once('?') {
                Some((place, _)) => format!("{place}?[hidden]"),
                None => url.clone(),
            };
            settings.push(configured("url", shown));
            if let Some(secret) = secret {
                settings.push(configured("secret", secret.clone()));
            }
        }
    }
    let every = ["*".to_owned()];
    let tools = if server.tools == every {
        DEFAULT
    } else {
        CONFIGURED
    };
    settings.push(Setting::new(key("tools"), joined(&server.tools), tools));
    for (name, value, default) in [
        ("timeout_ms", server.timeout_ms, McpServer::CALL_TIME_MS),
        (
            "start_timeout_ms",
            server.start_timeout_ms,
            McpServer::START_TIME_MS,
        ),
    ] {
        settings.push(Setting::of(&key(name), &value, &default));
    }
    for (tool, effect) in &server.effects {
        settings.push(configured(&format!("effects.{tool}"), word(effect)));
    }
    settings
}

/// What of it cannot work on this machine. No server is started for that.
pub(super) fn findings(home: &Path, name: &str, server: &McpServer) -> Vec<Finding> {
    let McpEndpoint::Process(process) = &server.endpoint else {
        return Vec::new();
    };
    let finding = |severity, key: &str, problem: String| Finding {
        severity,
        key: format!("mcp_servers.{name}.{key}"),
        problem,
    };
    let mut findings = Vec::new();
    let dir = process.dir.as_ref().map(|dir| home.join(dir));
    if let Some(dir) = dir.as_ref().filter(|dir| !dir.is_dir()) {
        let problem = format!("{} is no folder", dir.display());
        findings.push(finding(Severity::Error, "dir", problem));
    }
    if let Some(program) = process.command.first().filter(|_| !is_there(process)) {
        let problem = format!("there is no program {program}");
        findings.push(finding(Severity::Error, "command", problem));
    }
    for variable in &process.pass_env {
        if std::env::var_os(variable).is_none() {
            let problem = format!("the variable {variable} is not set");
            findings.push(finding(Severity::Warning, "pass_env", problem));
        }
    }
    findings
}

/// Whether there is such a program. Where one that is named by a relative path would be looked for only
/// its start shows.
fn is_there(process: &McpProcess) -> bool {
    let Some(program) = process.command.first().map(Path::new) else {
        return false;
    };
    if program.components().count() > 1 || program.is_absolute() {
        return program.is_relative() || program.is_file();
    }
    let given = process.env.get("PATH").map(|path| path.value().into());
    let path = given
        .or_else(|| std::env::var_os("PATH"))
        .unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}
