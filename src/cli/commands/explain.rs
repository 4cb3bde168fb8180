//! `skillrun runs explain`.

use crate::cli::display::shown;
use crate::cli::exit::Exit;
use crate::cli::printer::Printer;
use crate::id::RunId;
use crate::ledger::{Cause, Store};
use crate::outcome::OutcomeCode;

pub(crate) fn explain(run_id: &RunId, store: &Store, printer: Printer) -> anyhow::Result<Exit> {
    let explanation = store.explain(run_id)?;
    if printer.json() {
        printer.value(&explanation)?;
        return Ok(Exit::Ok);
    }
    let code = explanation.code.map_or("-", OutcomeCode::as_str);
    printer.line(&format!("run      {run_id}"))?;
    if let Some(skill) = &explanation.skill {
        printer.line(&format!("skill    {}", shown(skill)))?;
    }
    // What has no end did not end as anything.
    let label = match explanation.cause {
        Cause::Unfinished => "status",
        _ => "ended",
    };
    printer.line(&format!("{label:<8} {} ({code})", explanation.status))?;
    if let Some(said) = &explanation.message {
        printer.line(&format!("said     {}", shown(said)))?;
    }
    let seq = explanation.seq;
    let event = seq.map_or_else(String::new, |seq| format!(" (event {seq})"));
    printer.line(&format!(
        "decided  {}{event}",
        shown(&explanation.cause.to_string())
    ))?;
    for setting in &explanation.settings {
        printer.line(&format!(
            "change   {}: {}",
            setting.place,
            shown(&setting.to_string())
        ))?;
    }
    if let Some(hint) = &explanation.hint {
        printer.line(&format!("hint     {}", shown(hint)))?;
    }
    if explanation.denials > 0 && !matches!(explanation.cause, Cause::Capability { .. }) {
        let denials = explanation.denials;
        printer.line(&format!(
            "denied   {denials} host calls, which did not decide"
        ))?;
    }
    Ok(Exit::Ok)
}
