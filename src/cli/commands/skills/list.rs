//! `skillrun skills list`.

use std::ffi::OsStr;

use super::Row;
use crate::cli::display::{message, shown};
use crate::cli::exit::Exit;
use crate::cli::printer::Printer;
use crate::config::Config;
use crate::registry::{LoadError, Registry};
use crate::telemetry::chain;

pub(super) fn list(config: &Config, printer: Printer) -> anyhow::Result<Exit> {
    let registry = Registry::load(&config.skills_dir())?;
    let enabled = registry
        .skills()
        .map(|skill| Row::of(skill, Some("enabled")));
    let disabled = registry
        .disabled()
        .map(|skill| Row::of(skill, Some("disabled")));
    let changed = registry.refused().iter().filter_map(changed);
    let mut rows: Vec<Row<'_>> = enabled.chain(disabled).chain(changed).collect();
    rows.sort_by_key(|row| row.name);
    let refused: Vec<String> = registry.refused().iter().map(|e| chain(e)).collect();
    if printer.json() {
        printer.value(&serde_json::json!({ "skills": rows, "refused": refused }))?;
    } else {
        let cell = |text: Option<&str>| text.unwrap_or("-").to_owned();
        let cells: Vec<Vec<String>> = rows
            .iter()
            .map(|row| {
                vec![
                    row.name.to_owned(),
                    cell(row.state),
                    cell(row.flavor),
                    shown(row.description),
                ]
            })
            .collect();
        printer.table(&["NAME", "STATE", "FLAVOR", "DESCRIPTION"], &cells)?;
        for error in registry.refused() {
            printer.note(&message("error: ", &chain(error)));
            printer.note(&message("hint: ", &error.hint()));
        }
    }
    Ok(if refused.is_empty() {
        Exit::Ok
    } else {
        Exit::Failed
    })
}

/// A skill that would be in order, were it the one that was accepted. Nothing that it says of itself
/// is repeated.
fn changed(error: &LoadError) -> Option<Row<'_>> {
    error.change()?;
    Some(Row {
        name: error.path.file_name().and_then(OsStr::to_str)?,
        state: Some("changed"),
        flavor: None,
        description: "",
        component_digest: None,
    })
}
