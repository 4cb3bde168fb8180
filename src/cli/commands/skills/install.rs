//! `skillrun skills install`.

use std::path::Path;

use serde::Serialize;

use super::validate;
use crate::cli::display::message;
use crate::cli::exit::{Exit, Refused};
use crate::cli::printer::Printer;
use crate::config::Config;
use crate::registry::{
    Change, InstallError, InstallOutcome, InstallStatus, LoadError, PackageError, Staged,
};
use crate::telemetry::chain;

/// What `--json` prints of an installation.
#[derive(Serialize)]
struct Document<'a> {
    name: &'a str,
    status: InstallStatus,
    digest: String,
    component_digest: Option<&'a str>,
    change: Option<&'a Change>,
}

pub(super) async fn install(
    source: &Path,
    accept: bool,
    config: &Config,
    printer: Printer,
) -> anyhow::Result<Exit> {
    if source.symlink_metadata().is_err() {
        let message = format!("no such file or folder: {}", source.display());
        return Err(Refused::not_found(message).into());
    }
    let staged = Staged::open(source, &config.skills_dir()).map_err(|e| explain(e, source))?;
    // Only the engine can tell whether the component is one that can be run.
    if let Some(found) = validate::unloadable(&staged.skill().folder, config).await? {
        let message = format!("{}: {}", source.display(), found.problem);
        return Err(Refused::invalid(message).into());
    }
    let outcome = staged.commit(accept).map_err(|e| explain(e, source))?;
    show(&outcome, printer)?;
    Ok(Exit::Ok)
}

fn explain(error: InstallError, source: &Path) -> anyhow::Error {
    match error {
        InstallError::Package(PackageError::UnknownFormat { .. }) => {
            Refused::usage(chain(&error)).into()
        }
        InstallError::Package(error) => {
            let message = format!("{}: {}", source.display(), chain(&error));
            Refused::invalid(message).into()
        }
        InstallError::Invalid(error) => Refused::invalid(everything_wrong(&error)).into(),
        InstallError::Changed { name, change } => {
            let message = format!(
                "skill {:?} is not the one that was accepted:\n{}",
                name.as_str(),
                change.lines().join("\n")
            );
            Refused::changed(message, *change)
                .with_hint("the same command with --accept puts it in its place")
                .into()
        }
        error => error.into(),
    }
}

/// An archive cannot be validated, so everything that is wrong in it is told here.
fn everything_wrong(error: &LoadError) -> String {
    let mut text = format!("no valid skill in {}:", error.path.display());
    for finding in &error.findings {
        text.push('\n');
        text.push_str(&chain(finding));
    }
    text
}

fn show(outcome: &InstallOutcome, printer: Printer) -> anyhow::Result<()> {
    if printer.json() {
        return printer.value(&Document {
            name: outcome.name.as_str(),
            status: outcome.status,
            digest: outcome.pin.digest(),
            component_digest: outcome.pin.component_digest(),
            change: outcome.change.as_ref(),
        });
    }
    let did = match outcome.status {
        InstallStatus::Installed => "installed",
        InstallStatus::Replaced => "replaced",
        InstallStatus::Unchanged => "unchanged",
    };
    printer.line(&format!("{}: {did}", outcome.name))?;
    for line in outcome.change.iter().flat_map(Change::lines) {
        printer.note(&message("  ", &line));
    }
    if outcome.change.is_none() {
        for capability in &outcome.pin.capabilities {
            printer.note(&message("  asks for ", &capability.to_string()));
        }
    }
    Ok(())
}
