//! `skillrun skills validate`.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::assembly::Providers;
use crate::cli::display::message;
use crate::cli::exit::{Exit, Refused};
use crate::cli::printer::Printer;
use crate::cli::{assemble, skill_source};
use crate::clock::Clock;
use crate::config::Config;
use crate::registry::{self, Finding, Position, Registry, Severity};
use crate::runner::Executor as _;
use crate::telemetry::chain;

pub(super) async fn validate(
    argument: &str,
    config: &Config,
    printer: Printer,
) -> anyhow::Result<Exit> {
    let path = if skill_source::is_path(argument) {
        argument.into()
    } else {
        config.skills_dir().join(argument)
    };
    // A link that leads nowhere is there, and is a finding.
    if path.symlink_metadata().is_err() {
        let refused = Refused::not_found(format!("no such skill: {}", path.display()));
        return Err(refused
            .with_hint("skillrun skills list shows the skills there are")
            .into());
    }
    let mut found: Vec<Found> = registry::validate(&path).iter().map(Found::from).collect();
    let is_error = |found: &Found| found.severity == Severity::Error;
    if !found.iter().any(is_error) {
        found.extend(unloadable(&path, config).await?);
    }
    let is_valid = !found.iter().any(is_error);
    if printer.json() {
        let findings: Vec<Value> = found.iter().map(Found::json).collect();
        printer.value(&serde_json::json!({ "valid": is_valid, "findings": findings }))?;
    } else {
        for found in &found {
            printer.line(&message(&format!("{}: ", found.word()), &found.text()))?;
        }
        let place = path.display();
        printer.note(&if is_valid {
            message("", &format!("{place}: valid"))
        } else {
            message("error: ", &format!("{place} is not valid"))
        });
    }
    Ok(if is_valid { Exit::Ok } else { Exit::Failed })
}

/// Loads the component, which only the engine can judge, and asks it what it is.
pub(crate) async fn unloadable(path: &Path, config: &Config) -> anyhow::Result<Option<Found>> {
    let skill = skill_source::read(path)?;
    let Some(component) = skill.component.clone() else {
        return Ok(None);
    };
    let name = skill.name.to_string();
    let executor = assemble::executor(
        Registry::of([skill]),
        config,
        &Clock::system(),
        Providers::default(),
    )?;
    Ok(executor.describe(&name).await.err().map(|error| Found {
        severity: Severity::Error,
        file: component.path,
        position: None,
        problem: chain(&error),
    }))
}

/// One thing that is wrong, from the registry or from the engine.
pub(crate) struct Found {
    severity: Severity,
    file: PathBuf,
    position: Option<Position>,
    pub(crate) problem: String,
}

impl From<&Finding> for Found {
    fn from(finding: &Finding) -> Self {
        Self {
            severity: finding.severity,
            file: finding.file.clone(),
            position: finding.position,
            problem: chain(&finding.problem),
        }
    }
}

impl Found {
    fn word(&self) -> &'static str {
        match self.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
        }
    }

    pub(crate) fn text(&self) -> String {
        let file = self.file.display();
        match self.position {
            Some(Position { line, column }) => format!("{file}:{line}:{column}: {}", self.problem),
            None => format!("{file}: {}", self.problem),
        }
    }

    fn json(&self) -> Value {
        serde_json::json!({
            "severity": self.word(),
            "file": self.file,
            "line": self.position.map(|position| position.line),
            "column": self.position.map(|position| position.column),
            "problem": self.problem,
        })
    }
}
