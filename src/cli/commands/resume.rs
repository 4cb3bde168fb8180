//! `skillrun runs resume`.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::run::{Signals, answer, limits, until_signalled};
use crate::cli::args::{Approve, ResumeArgs};
use crate::cli::display::message;
use crate::cli::exit::Exit;
use crate::cli::live::Live;
use crate::cli::printer::Printer;
use crate::cli::questions::Questions;
use crate::cli::{assemble, skill_source};
use crate::clock::Clock;
use crate::config::{ApprovalPolicy, Config};
use crate::id::RunId;
use crate::ledger::Store;
use crate::outcome::OutcomeCode;
use crate::registry::Registry;
use crate::runner::{Recovered, ResumeOptions, Runner, RunnerOptions, Terms};
use crate::telemetry::chain;

/// Goes on with every run whose process is gone.
pub(crate) async fn all(config: &Config, store: Store, printer: Printer) -> anyhow::Result<Exit> {
    let clock = Clock::system();
    let registry = Registry::load(&config.skills_dir())?;
    let outside = assemble::outside(config, &store, &clock)?;
    let tools = outside.tools.clone();
    let executor = assemble::executor(registry, config, &clock, outside)?;
    let runner = Runner::new(RunnerOptions {
        store,
        executor: Arc::new(executor),
        admission: assemble::admission(config),
        clock,
    });
    let cancellation = CancellationToken::new();
    let interrupted = async {
        // Nobody asked for one of them, so none is cancelled: they can go on later.
        cancellation.cancelled().await;
        runner.interrupt();
        std::future::pending().await
    };
    let work = async {
        tokio::select! {
            ended = ends(&runner, config, printer) => ended,
            never = interrupted => never,
        }
    };
    let ended = until_signalled(work, Signals::new()?, &cancellation, &runner).await;
    tools.shutdown().await;
    ended
}

async fn ends(runner: &Runner, config: &Config, printer: Printer) -> anyhow::Result<Exit> {
    let (closed, recovered) = runner.recover(config.recovery).await?;
    let mut exit = Exit::Ok;
    let mut rows = Vec::new();
    let failed = closed.iter().filter_map(|run| {
        let error = run.closed.as_ref().err()?;
        Some((run.run_id.clone(), chain(error)))
    });
    for (run_id, error) in failed {
        exit = Exit::Failed;
        tell(printer, &mut rows, &run_id, "running", None, Some(error))?;
    }
    for Recovered { run_id, outcome } in recovered {
        let (status, code, error) = match outcome {
            Err(error) => ("left", None, Some(chain(&error))),
            Ok(started) => match started.handle.wait().await {
                Ok(outcome) => ("ended", Some(outcome.code), None),
                Err(error) => ("ended", Some(error.code()), Some(chain(&error))),
            },
        };
        tell(printer, &mut rows, &run_id, status, code, error)?;
    }
    if printer.json() {
        printer.value(&serde_json::json!({ "runs": rows }))?;
    }
    Ok(exit)
}

fn tell(
    printer: Printer,
    rows: &mut Vec<serde_json::Value>,
    run_id: &RunId,
    status: &str,
    code: Option<OutcomeCode>,
    error: Option<String>,
) -> anyhow::Result<()> {
    if !printer.json() {
        let what = code.map_or(status, |code| code.as_str());
        let why = error.as_deref().map(|error| format!(": {error}"));
        let line = format!("{run_id}: {what}{}", why.unwrap_or_default());
        printer.line(&message("", &line))?;
    }
    rows.push(serde_json::json!({
        "run_id": run_id,
        "status": status,
        "code": code,
        "error": error,
    }));
    Ok(())
}

pub(crate) async fn resume(
    args: ResumeArgs,
    config: &Config,
    store: Store,
    printer: Printer,
) -> anyhow::Result<Exit> {
    let clock = Clock::system();
    let recorded = store.summary(&args.run_id)?.skill.unwrap_or_default();
    let source = match &args.skill {
        None => skill_source::installed(&recorded, &args.grant, config)?,
        Some(argument) => skill_source::find(argument, &args.grant, config)?,
    };
    // The operation of a component that follows no world stands behind the skill's name.
    let skill = match (&args.skill, recorded.split_once('.')) {
        (Some(_), Some((_, operation))) if !source.name.contains('.') => {
            format!("{}.{operation}", source.name)
        }
        _ => source.name,
    };
    let policy = args.approve.map(Approve::policy);
    let outside = assemble::outside(config, &store, &clock)?;
    let tools = outside.tools.clone();
    let executor = assemble::executor(source.registry, config, &clock, outside)?;
    let runner = Runner::new(RunnerOptions {
        store: store.clone(),
        executor: Arc::new(executor),
        admission: assemble::admission(config),
        clock,
    });
    let options = ResumeOptions {
        from_node: args.from_node,
        retry_ambiguous: args.retry_ambiguous,
        skill: Some(skill),
        terms: Terms {
            limits: limits(args.timeout),
            grants: args.grant,
            approvals: policy,
        },
        ..ResumeOptions::default()
    };
    let policy = policy.unwrap_or(config.approvals.policy);
    let signals = Signals::new()?;
    let started = runner.start_resume(assemble::caller(printer), &args.run_id, options);
    let started = started.await?;
    let run_id = started.run_id.clone();
    if run_id != args.run_id && !args.quiet {
        printer.note(&format!("{run_id}: begins as {} did", args.run_id));
    }
    let live = !args.quiet && printer.is_watched();
    let live = live.then(|| Live::new(store.clone(), run_id.clone(), printer));
    let cancellation = CancellationToken::new();
    let work = started.handle.wait_or_cancel(cancellation.clone());
    let work = until_signalled(work, signals, &cancellation, &runner);
    let screen = live.as_ref().map(Live::screen);
    let work = async {
        if policy == ApprovalPolicy::Ask {
            let questions = Questions::new(store, run_id, printer, screen);
            questions.answer_during(work).await
        } else {
            // A question that stands open on record is answered as soon as it comes up again.
            work.await
        }
    };
    let outcome = match live {
        Some(live) => live.watch(work).await,
        None => work.await,
    };
    tools.shutdown().await;
    answer(outcome?, args.quiet, printer)
}
