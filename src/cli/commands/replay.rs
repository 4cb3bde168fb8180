//! `skillrun runs replay`.

use std::sync::Arc;

use serde::Serialize;

use super::runs::record;
use crate::assembly::Providers;
use crate::cli::args::ReplayArgs;
use crate::cli::assemble;
use crate::cli::display::message;
use crate::cli::exit::Exit;
use crate::cli::printer::Printer;
use crate::cli::skill_source;
use crate::clock::Clock;
use crate::config::Config;
use crate::id::RunId;
use crate::ledger::{Json, Store};
use crate::outcome::OutcomeCode;
use crate::runner::{ReplayOptions, ReplayReport, ReplayVerdict, Runner, RunnerOptions};

/// What `--json` prints.
#[derive(Serialize)]
struct Document<'a> {
    run_id: &'a RunId,
    skill: &'a str,
    verdict: &'a str,
    events: u64,
    /// The number of the event that is another one now.
    event: Option<u64>,
    recorded: Option<&'a str>,
    now: Option<&'a str>,
    /// What would come after the record.
    next: Option<&'a str>,
    code: Option<OutcomeCode>,
    output: Option<&'a Json>,
    runs_inside: usize,
    folders_missing: Vec<String>,
}

impl<'a> From<&'a ReplayReport> for Document<'a> {
    fn from(report: &'a ReplayReport) -> Self {
        let (difference, next) = match &report.verdict {
            ReplayVerdict::Same => (None, None),
            ReplayVerdict::SameSoFar { next } => (None, Some(next.as_str())),
            ReplayVerdict::Diverged(difference) => (Some(difference), None),
        };
        let missing = report.folders_missing.iter();
        Self {
            run_id: &report.run_id,
            skill: &report.skill,
            verdict: report.verdict.as_str(),
            events: report.events,
            event: difference.map(|difference| difference.seq),
            recorded: difference.map(|difference| difference.recorded.as_str()),
            now: difference.map(|difference| difference.now.as_str()),
            next,
            code: report.code,
            output: report.output.as_ref(),
            runs_inside: report.runs_inside,
            folders_missing: missing.map(ToString::to_string).collect(),
        }
    }
}

pub(crate) async fn replay(
    args: ReplayArgs,
    config: &Config,
    store: Store,
    printer: Printer,
) -> anyhow::Result<Exit> {
    let clock = Clock::system();
    let recorded = record(&args.record, &store)?;
    let source = match &args.skill {
        Some(skill) => skill_source::find(skill, &[], config)?,
        None => skill_source::installed(&recorded.started()?.0.skill, &[], config)?,
    };
    // Nobody is reached, so that no key is read and no server known.
    let executor = assemble::executor(source.registry, config, &clock, Providers::default())?;
    let runner = Runner::new(RunnerOptions {
        store,
        executor: Arc::new(executor),
        admission: assemble::admission(config),
        clock,
    });
    let options = ReplayOptions {
        skill: Some(source.name),
        folders: args.grant,
        any_component: false,
    };
    let report = runner.replay(recorded, options).await?;
    if printer.json() {
        printer.value(&Document::from(&report))?;
    } else {
        tell(&report, printer)?;
    }
    Ok(match report.verdict {
        ReplayVerdict::Same | ReplayVerdict::SameSoFar { .. } => Exit::Ok,
        ReplayVerdict::Diverged(_) => Exit::Failed,
    })
}

fn tell(report: &ReplayReport, printer: Printer) -> anyhow::Result<()> {
    let (run_id, events) = (&report.run_id, report.events);
    match &report.verdict {
        ReplayVerdict::Same => printer.line(&format!("{run_id}: same, {events} events"))?,
        ReplayVerdict::SameSoFar { .. } => {
            printer.line(&format!(
                "{run_id}: same as far as the record goes, {events} events"
            ))?;
        }
        ReplayVerdict::Diverged(difference) => {
            let seq = difference.seq;
            printer.line(&format!("{run_id}: diverged at event {seq} of {events}"))?;
        }
    }
    for line in sides(&report.verdict) {
        printer.line(&message("  ", &line))?;
    }
    if report.runs_inside > 0 {
        let inside = report.runs_inside;
        printer.note(&format!(
            "runs inside it: {inside}; each has a record of its own, which is replayed by itself"
        ));
    }
    for folder in &report.folders_missing {
        printer.note(&message(
            "hint: ",
            &format!("without {folder}: --grant gives it again, read-only"),
        ));
    }
    Ok(())
}

/// What else there is to say of a verdict: both sides of a difference, or what would come next.
pub(crate) fn sides(verdict: &ReplayVerdict) -> Vec<String> {
    match verdict {
        ReplayVerdict::Same => Vec::new(),
        ReplayVerdict::SameSoFar { next } => vec![format!("next:      {next}")],
        ReplayVerdict::Diverged(difference) => vec![
            format!("on record: {}", difference.recorded),
            format!("now:       {}", difference.now),
        ],
    }
}
