//! `skillrun runs explain`.

use crate::capability::Capability;
use crate::cli::display::shown;
use crate::cli::exit::Exit;
use crate::cli::printer::Printer;
use crate::id::RunId;
use crate::ledger::{ApprovalSource, Cause, Explanation, Setting, Store};
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
    printer.line(&format!("ended    {} ({code})", explanation.status))?;
    if let Some(said) = &explanation.message {
        printer.line(&format!("said     {}", shown(said)))?;
    }
    let seq = explanation.seq;
    let event = seq.map_or_else(String::new, |seq| format!(" (event {seq})"));
    printer.line(&format!("decided  {}{event}", decided(&explanation)))?;
    for setting in &explanation.settings {
        printer.line(&format!("change   {}: {}", setting.place, change(setting)))?;
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

/// A change that leaves what else is there as it is.
fn change(setting: &Setting) -> String {
    let (key, value) = (shown(&setting.key), shown(&setting.value));
    if setting.value.parse::<Capability>().is_ok() {
        format!("add \"{value}\" to {key}")
    } else {
        format!("set {key} to {value}")
    }
}

/// What decided, in words.
fn decided(explanation: &Explanation) -> String {
    match &explanation.cause {
        Cause::Unfinished => "nothing yet: the run has no end".to_owned(),
        Cause::Done => "nothing: the run has a result".to_owned(),
        Cause::Limit {
            key,
            value,
            source,
            above,
        } => {
            let whose = if *above {
                ", for the run above this one"
            } else {
                ""
            };
            format!(
                "limit {} = {value}, set by {}{whose}",
                shown(key),
                shown(source)
            )
        }
        Cause::Capability {
            capability,
            rule,
            wanted,
        } => {
            let rule = rule.as_deref().unwrap_or("denied");
            format!(
                "capability {}: {}; wanted {}",
                shown(capability),
                shown(rule),
                shown(wanted)
            )
        }
        Cause::Approval {
            approval_id,
            source,
            reason,
        } => {
            let reason = reason
                .as_deref()
                .map_or_else(String::new, |reason| format!(": {}", shown(reason)));
            format!(
                "approval {} was refused by {}{reason}",
                shown(approval_id),
                by(source)
            )
        }
        Cause::Input => "the input: it does not fit the skill's schema".to_owned(),
        Cause::Skill => "the skill itself: it reported an error".to_owned(),
        Cause::Bound => "a bound that no limit of the run sets; what was said names it".to_owned(),
        Cause::Guest => "the guest broke down; no setting changes that".to_owned(),
        Cause::Load => "the skill was not found or could not be loaded".to_owned(),
        Cause::Stopped => "somebody stopped the run, or its process is gone".to_owned(),
        Cause::Waiting => "a question that nobody has answered; the run is suspended".to_owned(),
        Cause::Record => "the record of the run, which does not say how it goes on".to_owned(),
        Cause::Host => "the host".to_owned(),
    }
}

fn by(source: &ApprovalSource) -> String {
    match serde_json::to_value(source) {
        Ok(serde_json::Value::String(word)) => word,
        _ => "somebody".to_owned(),
    }
}
