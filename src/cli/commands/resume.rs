//! `skillrun runs resume`.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::run::{answer, limits, until_signalled};
use crate::cli::args::{Approve, ResumeArgs};
use crate::cli::exit::Exit;
use crate::cli::live::Live;
use crate::cli::printer::Printer;
use crate::cli::questions::Questions;
use crate::cli::{assemble, skill_source};
use crate::clock::Clock;
use crate::config::Config;
use crate::ledger::Store;
use crate::runner::{Caller, ResumeOptions, Runner, RunnerOptions, Terms};

pub(crate) async fn resume(
    args: ResumeArgs,
    config: &Config,
    store: Store,
    printer: Printer,
) -> anyhow::Result<Exit> {
    let clock = Clock::system();
    let recorded = store.summary(&args.run_id)?.skill.unwrap_or_default();
    let source = match &args.skill {
        None => skill_source::find(&recorded, &args.grant, config)?,
        Some(argument) => skill_source::find(argument, &args.grant, config)?,
    };
    // The operation of a component that follows no world stands behind the skill's name.
    let skill = match (&args.skill, recorded.split_once('.')) {
        (Some(_), Some((_, operation))) if !source.name.contains('.') => {
            format!("{}.{operation}", source.name)
        }
        _ => source.name,
    };
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
            approvals: args.approve.map(Approve::policy),
        },
        ..ResumeOptions::default()
    };
    let started = runner.start_resume(Caller::new(), &args.run_id, options);
    let started = started.await?;
    let run_id = started.run_id.clone();
    if run_id != args.run_id && !args.quiet {
        printer.note(&format!("{run_id}: begins as {} did", args.run_id));
    }
    let live = !args.quiet && printer.is_watched();
    let live = live.then(|| Live::new(store.clone(), run_id.clone(), printer));
    let cancellation = CancellationToken::new();
    let work = started.handle.wait_or_cancel(cancellation.clone());
    let work = until_signalled(work, &cancellation, &runner);
    let screen = live.as_ref().map(Live::screen);
    let work = Questions::new(store, run_id, printer, screen).answer_during(work);
    let outcome = match live {
        Some(live) => live.watch(work).await,
        None => work.await,
    };
    tools.shutdown().await;
    answer(outcome??, args.quiet, printer)
}
