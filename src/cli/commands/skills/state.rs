//! `skillrun skills pin`, `enable`, `disable` and `remove`: what an operator decides about a skill.

use serde::Serialize;

use crate::capability::SkillName;
use crate::cli::display::{message, shown};
use crate::cli::exit::{Exit, Refused};
use crate::cli::printer::Printer;
use crate::cli::skill_source;
use crate::cli::table::table;
use crate::config::Config;
use crate::registry::{self, Change, Pin, PinReport};

/// What `--json` prints of a pin.
#[derive(Serialize)]
struct Document<'a> {
    name: &'a str,
    /// SHA-256 over everything that is read of the skill, as it is now.
    digest: String,
    component_digest: Option<&'a str>,
    accepted_digest: Option<String>,
    /// Whether the skill is accepted as it is now.
    accepted: bool,
    pin: Option<&'a Pin>,
    change: Option<&'a Change>,
}

pub(super) fn pin(
    argument: &str,
    accept: bool,
    config: &Config,
    printer: Printer,
) -> anyhow::Result<Exit> {
    let name = named(argument, config)?;
    let skills_dir = config.skills_dir();
    let report = match accept {
        true => registry::accept(&skills_dir, &name)?,
        false => registry::pin_report(&skills_dir, &name)?,
    };
    let report = report.ok_or_else(|| skill_source::unknown(argument, config))?;
    show(&name, &report, accept, printer)?;
    Ok(if accept || report.change.is_none() {
        Exit::Ok
    } else {
        Exit::Failed
    })
}

fn show(
    name: &SkillName,
    report: &PinReport,
    accept: bool,
    printer: Printer,
) -> anyhow::Result<()> {
    let pin = match accept {
        true => Some(&report.present),
        false => report.accepted.as_ref(),
    };
    let accepted = pin == Some(&report.present);
    if printer.json() {
        return printer.value(&Document {
            name: name.as_str(),
            digest: report.present.digest(),
            component_digest: report.present.component_digest(),
            accepted_digest: pin.map(Pin::digest),
            accepted,
            pin,
            change: report.change.as_ref(),
        });
    }
    let mut rows = vec![
        ("name", name.to_string()),
        ("digest", report.present.digest()),
        (
            "accepted",
            match pin {
                None => "nothing yet: it will be when it is first run".to_owned(),
                Some(pin) => pin.digest(),
            },
        ),
    ];
    let files = report.present.files.iter();
    rows.extend(files.map(|(path, digest)| ("file", format!("{digest}  {}", shown(path)))));
    let changes = report.change.iter().flat_map(Change::lines);
    rows.extend(changes.map(|line| ("change", shown(&line))));
    let rows: Vec<Vec<String>> = rows
        .into_iter()
        .map(|(key, value)| vec![key.to_owned(), value])
        .collect();
    for line in table(&["", ""], &rows).iter().skip(1) {
        printer.line(line)?;
    }
    if !accept && report.change.is_some() {
        printer.note(&message(
            "",
            &format!("{name} is refused until it is accepted"),
        ));
        printer.note(&format!("hint: skillrun skills pin {name} --accept"));
    }
    Ok(())
}

pub(super) fn set_enabled(
    argument: &str,
    enabled: bool,
    config: &Config,
    printer: Printer,
) -> anyhow::Result<Exit> {
    let name = named(argument, config)?;
    let was_enabled = registry::set_enabled(&config.skills_dir(), &name, enabled)?
        .ok_or_else(|| skill_source::unknown(argument, config))?;
    if printer.json() {
        printer.value(&serde_json::json!({
            "name": name,
            "enabled": enabled,
            "was_enabled": was_enabled,
        }))?;
    } else {
        let state = if enabled { "enabled" } else { "disabled" };
        printer.line(&format!("{name}: {state}"))?;
    }
    Ok(Exit::Ok)
}

pub(super) fn remove(argument: &str, config: &Config, printer: Printer) -> anyhow::Result<Exit> {
    let name = named(argument, config)?;
    if !registry::remove(&config.skills_dir(), &name)? {
        return Err(skill_source::unknown(argument, config).into());
    }
    if printer.json() {
        printer.value(&serde_json::json!({ "name": name, "removed": true }))?;
    } else {
        printer.line(&format!("{name}: removed"))?;
    }
    Ok(Exit::Ok)
}

/// A text that is no name by the rules is the name of no skill.
fn named(argument: &str, config: &Config) -> Result<SkillName, Refused> {
    let name = argument.parse();
    name.map_err(|_| skill_source::unknown(argument, config))
}
