//! `skillrun new`, `skillrun build` and `skillrun test`.

use std::path::{Path, PathBuf};

use anyhow::Context;
use serde::Serialize;

use super::runs::record;
use crate::cli::args::{BuildArgs, NewArgs, TestArgs};
use crate::cli::assemble;
use crate::cli::display::message;
use crate::cli::exit::{Exit, Refused};
use crate::cli::kit::{self, Trial};
use crate::cli::printer::Printer;
use crate::cli::timeline::duration;
use crate::clock::Clock;
use crate::config::Config;
use crate::outcome::OutcomeCode;

#[derive(Serialize)]
struct Made<'a> {
    name: &'a str,
    folder: &'a Path,
}

pub(crate) fn new(args: &NewArgs, printer: Printer) -> anyhow::Result<Exit> {
    let folder = kit::new::make(&args.name, args.lang, &args.dir)?;
    if printer.json() {
        printer.value(&Made {
            name: &args.name,
            folder: &folder,
        })?;
        return Ok(Exit::Ok);
    }
    printer.line(&folder.display().to_string())?;
    printer.note(&format!("next: skillrun test {}", folder.display()));
    Ok(Exit::Ok)
}

#[derive(Serialize)]
struct BuiltDocument<'a> {
    name: &'a str,
    folder: &'a Path,
    component_bytes: u64,
    component_digest: Option<&'a str>,
    build_micros: u64,
}

pub(crate) async fn build(
    args: &BuildArgs,
    config: &Config,
    printer: Printer,
) -> anyhow::Result<Exit> {
    let project = kit::project(&args.dir)?;
    let built = kit::build(&project, config, printer).await?;
    let digest = built.skill.component.as_ref().map(|c| c.sha256.as_str());
    if printer.json() {
        printer.value(&BuiltDocument {
            name: &built.skill.name,
            folder: &built.folder,
            component_bytes: built.component_bytes,
            component_digest: digest,
            build_micros: built.build_micros,
        })?;
        return Ok(Exit::Ok);
    }
    printer.line(&built.folder.display().to_string())?;
    printer.note(&format!(
        "{} bytes in {}, sha256 {}",
        built.component_bytes,
        duration(built.build_micros),
        digest.unwrap_or_default()
    ));
    Ok(Exit::Ok)
}

/// What `--json` prints of a case.
#[derive(Serialize)]
struct CaseLine<'a> {
    case: &'a str,
    file: &'a Path,
    passed: bool,
    code: Option<OutcomeCode>,
    duration_micros: u64,
    problems: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    ledger: Option<&'a Path>,
}

/// What `--json` prints at the end.
#[derive(Default, Serialize)]
struct Total {
    cases: usize,
    failed: usize,
}

impl Total {
    fn count(&mut self, trial: &Trial) {
        self.cases += 1;
        self.failed += usize::from(!trial.problems.is_empty());
    }

    fn tell(&self, printer: Printer) -> anyhow::Result<Exit> {
        if printer.json() {
            printer.value(self)?;
        } else {
            let (cases, failed) = (self.cases, self.failed);
            printer.note(&format!("{} passed, {failed} failed", cases - failed));
        }
        Ok(match self.failed {
            0 => Exit::Ok,
            _ => Exit::Failed,
        })
    }
}

pub(crate) async fn test(
    args: &TestArgs,
    config: &Config,
    printer: Printer,
) -> anyhow::Result<Exit> {
    let project = kit::project(&args.dir)?;
    if !args.from_run.is_empty() {
        return test_from_runs(args, &project, config, printer).await;
    }
    // A case that is none is told before anything is built.
    let mut cases = kit::cases(&project)?;
    if let Some(filter) = &args.filter {
        cases.retain(|case| case.name.contains(filter) || is_file(&case.file, filter));
        if cases.is_empty() {
            let message = format!("no case has {filter:?} in its name or the name of its file");
            return Err(Refused::not_found(message).into());
        }
    }
    let skill = kit::shipped(&project, !args.no_build, config, printer).await?;
    let folder = tempfile::Builder::new()
        .prefix("skillrun-test-")
        .tempdir()
        .context("cannot make a folder for ledgers")?;
    let runs = kit::Runs::new(skill, config, folder.path())?;
    let mut total = Total::default();
    for case in cases {
        let (name, file) = (case.name.clone(), case.file.clone());
        let trial = runs.run(case).await?;
        total.count(&trial);
        tell(&name, &file, &trial, args.keep, printer)?;
    }
    if args.keep {
        let kept = folder.keep();
        printer.note(&format!("ledgers are kept in {}", kept.display()));
    }
    total.tell(printer)
}

/// Does recorded runs again with the skill of a project, as it is now.
async fn test_from_runs(
    args: &TestArgs,
    project: &Path,
    config: &Config,
    printer: Printer,
) -> anyhow::Result<Exit> {
    // What is no record is told before anything is built.
    let store = assemble::store(config, &Clock::system())?;
    let mut records = Vec::new();
    for argument in &args.from_run {
        records.push((argument, record(argument, &store)?));
    }
    let skill = kit::shipped(project, !args.no_build, config, printer).await?;
    let regression = kit::Regression::new(skill, config, store)?;
    let mut total = Total::default();
    for (argument, recorded) in records {
        let run_id = recorded.run_id().clone();
        let trial = regression.run(recorded).await;
        total.count(&trial);
        tell(run_id.as_str(), Path::new(argument), &trial, false, printer)?;
    }
    total.tell(printer)
}

fn is_file(file: &Path, filter: &str) -> bool {
    file.to_string_lossy().contains(filter)
}

fn tell(
    name: &str,
    file: &Path,
    trial: &Trial,
    keep: bool,
    printer: Printer,
) -> anyhow::Result<()> {
    let ledger: Option<&PathBuf> = trial.ledger.as_ref().filter(|_| keep);
    let passed = trial.problems.is_empty();
    if printer.json() {
        return printer.value(&CaseLine {
            case: name,
            file,
            passed,
            code: trial.code,
            duration_micros: trial.duration_micros,
            problems: &trial.problems,
            ledger: ledger.map(PathBuf::as_path),
        });
    }
    let word = if passed { "ok  " } else { "FAIL" };
    let took = duration(trial.duration_micros);
    printer.line(&message(
        &format!("{word} "),
        &format!("{name} ({}, {took})", file.display()),
    ))?;
    for problem in &trial.problems {
        printer.line(&message("     ", problem))?;
    }
    if let Some(ledger) = ledger {
        printer.line(&format!("     ledger: {}", ledger.display()))?;
    }
    Ok(())
}
