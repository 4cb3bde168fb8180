//! `skillrun skills`.

use std::path::{Path, PathBuf};

use serde::Serialize;
use serde_json::Value;

use crate::capability::Policy;
use crate::cli::args::SkillsCommand;
use crate::cli::display::{json, message, shown};
use crate::cli::exit::{Exit, Refused};
use crate::cli::printer::Printer;
use crate::cli::table::table;
use crate::cli::{assemble, skill_source};
use crate::clock::Clock;
use crate::config::Config;
use crate::limits::{LimitKey, Limits};
use crate::registry::{self, Finding, Position, Registry, Severity, Skill};
use crate::runner::{Executor, HttpOptions, Terms};
use crate::telemetry::chain;

pub(crate) async fn skills(
    command: SkillsCommand,
    config: &Config,
    printer: Printer,
) -> anyhow::Result<Exit> {
    match command {
        SkillsCommand::List => list(config, printer),
        SkillsCommand::Inspect { skill } => inspect(&skill, config, printer).await,
        SkillsCommand::Validate { skill } => validate(&skill, config, printer).await,
    }
}

/// A skill in a list.
#[derive(Serialize)]
struct Row<'a> {
    name: &'a str,
    flavor: Option<&'a str>,
    description: &'a str,
    component_digest: Option<&'a str>,
}

impl<'a> From<&'a Skill> for Row<'a> {
    fn from(skill: &'a Skill) -> Self {
        Self {
            name: skill.name.as_str(),
            flavor: skill.flavor.as_deref(),
            description: &skill.description,
            component_digest: skill.component.as_ref().map(|c| c.sha256.as_str()),
        }
    }
}

fn list(config: &Config, printer: Printer) -> anyhow::Result<Exit> {
    let registry = Registry::load(&config.skills_dir());
    let rows: Vec<Row<'_>> = registry.skills().map(|skill| Row::from(&**skill)).collect();
    let refused: Vec<String> = registry.refused().iter().map(|e| chain(e)).collect();
    if printer.json() {
        printer.value(&serde_json::json!({ "skills": rows, "refused": refused }))?;
    } else {
        let cells: Vec<Vec<String>> = rows
            .iter()
            .map(|row| {
                let flavor = row.flavor.unwrap_or("-");
                vec![
                    row.name.to_owned(),
                    flavor.to_owned(),
                    shown(row.description),
                ]
            })
            .collect();
        printer.table(&["NAME", "FLAVOR", "DESCRIPTION"], &cells)?;
        for reason in &refused {
            printer.note(&message("error: ", reason));
        }
        if !refused.is_empty() {
            printer.note("hint: skillrun skills validate NAME shows all that is wrong");
        }
    }
    Ok(if refused.is_empty() {
        Exit::Ok
    } else {
        Exit::Failed
    })
}

/// A skill, seen closely.
#[derive(Serialize)]
struct Closeup<'a> {
    #[serde(flatten)]
    row: Row<'a>,
    version: String,
    input_schema: Value,
    output_schema: Value,
    policy: &'a Policy,
    limits: &'a Limits,
    warnings: Vec<String>,
}

async fn inspect(argument: &str, config: &Config, printer: Printer) -> anyhow::Result<Exit> {
    let source = skill_source::find(argument, config)?;
    let clock = Clock::system();
    let executor = assemble::executor(
        source.registry.clone(),
        config,
        &clock,
        HttpOptions::default(),
    )?;
    let profile = executor.profile(&source.name, &Terms::default())?;
    let descriptor = match source.registry.get(&source.name) {
        Some(skill) if skill.component.is_none() => None,
        _ => Some(executor.describe(&source.name).await?),
    };
    let skill = source
        .registry
        .get(&source.name)
        .ok_or_else(|| Refused::not_found(format!("unknown skill {argument:?}")))?;
    let schema = |text: Option<&str>| text.and_then(|text| serde_json::from_str(text).ok());
    let described = descriptor.as_ref();
    let manifest = &skill.manifest;
    let closeup = Closeup {
        row: Row::from(&*skill),
        version: described.map(|d| d.version.clone()).unwrap_or_default(),
        input_schema: manifest
            .input_schema
            .clone()
            .or_else(|| schema(described.map(|d| &*d.input_schema)))
            .unwrap_or_default(),
        output_schema: manifest
            .output_schema
            .clone()
            .or_else(|| schema(described.map(|d| &*d.output_schema)))
            .unwrap_or_default(),
        policy: &profile.policy,
        limits: &profile.limits,
        warnings: skill.warnings.iter().map(|w| chain(w)).collect(),
    };
    if printer.json() {
        printer.value(&closeup)?;
    } else {
        show(&closeup, printer)?;
    }
    Ok(Exit::Ok)
}

fn show(skill: &Closeup<'_>, printer: Printer) -> anyhow::Result<()> {
    let schema = |schema: &Value| match schema {
        Value::Null => "any".to_owned(),
        schema => json(&schema.to_string()),
    };
    let capabilities = |list: &[crate::capability::Capability]| match list {
        [] => "none".to_owned(),
        list => list
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>()
            .join("  "),
    };
    let mut rows = vec![
        vec!["name".to_owned(), skill.row.name.to_owned()],
        vec!["version".to_owned(), shown(&skill.version)],
        vec![
            "flavor".to_owned(),
            skill.row.flavor.unwrap_or("unknown").to_owned(),
        ],
        vec!["description".to_owned(), shown(skill.row.description)],
        vec![
            "component".to_owned(),
            skill
                .row
                .component_digest
                .unwrap_or("none: prompt-only")
                .to_owned(),
        ],
        vec!["input schema".to_owned(), schema(&skill.input_schema)],
        vec!["output schema".to_owned(), schema(&skill.output_schema)],
        vec![
            "requested".to_owned(),
            capabilities(&skill.policy.requested),
        ],
        vec![
            "effective".to_owned(),
            capabilities(&skill.policy.effective),
        ],
    ];
    rows.extend(LimitKey::ALL.iter().map(|&key| {
        let limit = skill.limits.get(key);
        let value = match limit.value {
            value if key == LimitKey::Fuel && value == key.max_value() => "unlimited".to_owned(),
            value => value.to_string(),
        };
        vec![
            key.as_str().to_owned(),
            format!("{value} ({})", limit.source),
        ]
    }));
    for line in table(&["", ""], &rows).iter().skip(1) {
        printer.line(line)?;
    }
    skill
        .warnings
        .iter()
        .for_each(|warning| printer.note(&message("warning: ", warning)));
    Ok(())
}

async fn validate(argument: &str, config: &Config, printer: Printer) -> anyhow::Result<Exit> {
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
async fn unloadable(path: &Path, config: &Config) -> anyhow::Result<Option<Found>> {
    let skill = skill_source::read(path)?;
    let Some(component) = skill.component.clone() else {
        return Ok(None);
    };
    let name = skill.name.to_string();
    let executor = assemble::executor(
        Registry::of([skill]),
        config,
        &Clock::system(),
        HttpOptions::default(),
    )?;
    Ok(executor.describe(&name).await.err().map(|error| Found {
        severity: Severity::Error,
        file: component.path,
        position: None,
        problem: chain(&error),
    }))
}

/// One thing that is wrong, from the registry or from the engine.
struct Found {
    severity: Severity,
    file: PathBuf,
    position: Option<Position>,
    problem: String,
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

    fn text(&self) -> String {
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
