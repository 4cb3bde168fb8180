//! `skillrun skills inspect`.

use serde::Serialize;
use serde_json::Value;

use super::Row;
use crate::assembly::Providers;
use crate::capability::{Capability, Policy};
use crate::cli::display::{json, message, shown};
use crate::cli::exit::{Exit, Refused};
use crate::cli::printer::Printer;
use crate::cli::table::table;
use crate::cli::{assemble, skill_source};
use crate::clock::Clock;
use crate::config::Config;
use crate::limits::{LimitKey, Limits};
use crate::registry::Registry;
use crate::runner::{Executor, OperationDescriptor, RefusedFunction, Terms};
use crate::telemetry::chain;

/// A skill, seen closely.
#[derive(Serialize)]
struct Closeup<'a> {
    #[serde(flatten)]
    row: Row<'a>,
    /// SHA-256 over everything that is read of the skill.
    digest: String,
    /// Whether it was accepted as it is; none for a skill that is not installed.
    pinned: Option<bool>,
    version: String,
    input_schema: Value,
    output_schema: Value,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    operations: &'a [OperationDescriptor],
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    refused: &'a [RefusedFunction],
    policy: &'a Policy,
    limits: &'a Limits,
    warnings: Vec<String>,
}

pub(super) async fn inspect(
    argument: &str,
    config: &Config,
    printer: Printer,
) -> anyhow::Result<Exit> {
    let source = skill_source::find(argument, &[], config)?;
    // A function of the skill may stand behind a dot; what is looked at is the skill.
    let name = source.name.split('.').next().unwrap_or(&source.name);
    let disabled = source.registry.get_disabled(name);
    let state = if disabled.is_some() {
        "disabled"
    } else {
        "enabled"
    };
    // To look at a skill is not to run it, so one that is disabled is looked at like any other.
    let registry = match disabled {
        Some(skill) => Registry::of([skill]),
        None => source.registry.clone(),
    };
    let executor = assemble::executor(
        registry.clone(),
        config,
        &Clock::system(),
        Providers::default(),
    )?;
    let profile = executor.profile(name, &Terms::default())?;
    let descriptor = match registry.get(name) {
        Some(skill) if skill.component.is_none() => None,
        _ => Some(executor.describe(name).await?),
    };
    let skill = registry
        .get(name)
        .ok_or_else(|| Refused::not_found(format!("unknown skill {argument:?}")))?;
    let is_pinned = skill.is_pinned();
    let schema = |text: Option<&str>| text.and_then(|text| serde_json::from_str(text).ok());
    let described = descriptor.as_ref();
    let manifest = &skill.manifest;
    let closeup = Closeup {
        row: Row::of(&skill, is_pinned.map(|_| state)),
        digest: skill.pin().digest(),
        pinned: is_pinned,
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
        operations: described.map(|d| &*d.operations).unwrap_or_default(),
        refused: described.map(|d| &*d.refused).unwrap_or_default(),
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

fn schema(schema: &Value) -> String {
    match schema {
        Value::Null => "any".to_owned(),
        schema => json(&schema.to_string()),
    }
}

/// What can be called in a component that follows no world, and what cannot.
fn operation_rows(skill: &Closeup<'_>) -> Vec<Vec<String>> {
    let mut rows = Vec::new();
    for operation in skill.operations {
        let about = match operation.description.as_str() {
            "" => shown(&operation.full_name),
            description => shown(description),
        };
        rows.push(vec![format!("operation {}", shown(&operation.name)), about]);
        let schemas = [
            ("  input schema", &operation.input_schema),
            ("  output schema", &operation.output_schema),
        ];
        rows.extend(schemas.map(|(label, of)| vec![label.to_owned(), schema(of)]));
    }
    rows.extend(skill.refused.iter().map(|function| {
        let why_not = format!("{}: {}", shown(&function.name), function.reason);
        vec!["not callable".to_owned(), why_not]
    }));
    rows
}

fn show(skill: &Closeup<'_>, printer: Printer) -> anyhow::Result<()> {
    let mut rows = identity(skill);
    rows.extend([
        vec!["input schema".to_owned(), schema(&skill.input_schema)],
        vec!["output schema".to_owned(), schema(&skill.output_schema)],
    ]);
    rows.extend(operation_rows(skill));
    rows.extend(policy(skill.policy));
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

/// What it asks for, what it is granted and what it gets: one capability a line, because they are long.
fn policy(policy: &Policy) -> Vec<Vec<String>> {
    let granted = policy.granted.iter().map(|grant| {
        let (capability, source) = (&grant.capability, grant.source);
        format!("{capability} ({source})")
    });
    let texts = |list: &[Capability]| list.iter().map(Capability::to_string).collect();
    let lists: [(&str, Vec<String>); 4] = [
        ("requested", texts(&policy.requested)),
        ("granted", granted.collect()),
        ("effective", texts(&policy.effective)),
        (
            "missing",
            policy.missing().map(Capability::to_string).collect(),
        ),
    ];
    let mut rows = Vec::new();
    for (title, mut lines) in lists {
        if lines.is_empty() {
            lines.push("none".to_owned());
        }
        for (index, line) in lines.into_iter().enumerate() {
            let title = if index == 0 { title } else { "" };
            rows.push(vec![title.to_owned(), shown(&line)]);
        }
    }
    rows
}

/// What it is, and whether it may be run.
fn identity(skill: &Closeup<'_>) -> Vec<Vec<String>> {
    let row = &skill.row;
    let pinned = match skill.pinned {
        None => "no: it was named by its path",
        Some(false) => "not yet: it will be when it is first run",
        Some(true) => "yes",
    };
    let component = row.component_digest.unwrap_or("none: prompt-only");
    let rows = [
        ("name", row.name.to_owned()),
        ("version", shown(&skill.version)),
        ("flavor", row.flavor.unwrap_or("unknown").to_owned()),
        ("description", shown(row.description)),
        ("component", component.to_owned()),
        ("digest", skill.digest.clone()),
        ("state", row.state.unwrap_or("not installed").to_owned()),
        ("pinned", pinned.to_owned()),
    ];
    let pair = |(key, value): (&str, String)| vec![key.to_owned(), value];
    rows.into_iter().map(pair).collect()
}
