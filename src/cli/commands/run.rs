//! `skillrun run`.

use std::future::Future;
use std::sync::Arc;

use serde::Serialize;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::cli::args::{Approve, RunArgs};
use crate::cli::display::{json, message};
use crate::cli::exit::{Exit, Refused};
use crate::cli::live::Live;
use crate::cli::printer::Printer;
use crate::cli::questions::Questions;
use crate::cli::timeline::duration;
use crate::cli::{assemble, input, skill_source};
use crate::clock::{Clock, Timestamp};
use crate::config::Config;
use crate::id::RunId;
use crate::ledger::{Head, Json};
use crate::limits::{LimitKey, LimitOverrides};
use crate::outcome::OutcomeCode;
use crate::runner::{RunOutcome, Runner, RunnerOptions, StartOptions, Terms};

/// What `--json` prints of a run that has an answer.
#[derive(Serialize)]
struct Document<'a> {
    run_id: &'a RunId,
    started_at: Timestamp,
    code: OutcomeCode,
    output: Json,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<&'a str>,
    duration_micros: u64,
    head: Head,
}

pub(crate) async fn run(args: RunArgs, config: &Config, printer: Printer) -> anyhow::Result<Exit> {
    let input = input::read(&args.input)?;
    let source = skill_source::find(&args.skill, &args.grant, config)?;
    let name = match &args.function {
        Some(_) if source.name.contains('.') => {
            let message = format!(
                "{} names a function already, and --function another",
                args.skill
            );
            return Err(Refused::usage(message).into());
        }
        Some(function) => format!("{}.{function}", source.name),
        None => source.name,
    };
    let run_id = args.run_id.unwrap_or_else(RunId::generate);
    let clock = Clock::system();
    let store = assemble::store(config, &clock)?;
    let outside = assemble::outside(config, &store, &clock)?;
    let tools = outside.tools.clone();
    let executor = assemble::executor(source.registry, config, &clock, outside)?;
    let runner = Runner::new(RunnerOptions {
        store: store.clone(),
        executor: Arc::new(executor),
        admission: assemble::admission(config),
        clock,
    });
    let cancellation = CancellationToken::new();
    let options = StartOptions {
        run_id: Some(run_id.clone()),
        terms: Terms {
            limits: limits(args.timeout),
            grants: args.grant,
            approvals: args.approve.map(Approve::policy),
        },
        ..StartOptions::new(name, input)
    };
    let caller = assemble::caller(printer).with_cancellation(cancellation.clone());
    let live = !args.quiet && printer.is_watched();
    let live = live.then(|| Live::new(store.clone(), run_id.clone(), printer));
    let work = runner.run(caller, options);
    let work = until_signalled(work, Signals::new()?, &cancellation, &runner);
    let screen = live.as_ref().map(Live::screen);
    let work = Questions::new(store, run_id, printer, screen).answer_during(work);
    let outcome = match live {
        Some(live) => live.watch(work).await,
        None => work.await,
    };
    tools.shutdown().await;
    answer(outcome?, args.quiet, printer)
}

/// The signals that end what a command does. From when this is made on none of them ends the process, so
/// that whatever it does then has its end on record.
pub(super) struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hang_up: Signal,
}

impl Signals {
    pub(super) fn new() -> anyhow::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hang_up: signal(SignalKind::hangup())?,
        })
    }

    /// Waits for the next one: true for an interrupt, false for one that ends the process.
    pub(super) async fn next(&mut self) -> bool {
        tokio::select! {
            _ = self.interrupt.recv() => true,
            _ = self.terminate.recv() => false,
            _ = self.hang_up.recv() => false,
        }
    }
}

/// Drives the run to its end: an interrupt cancels it, a termination or a terminal that goes away
/// interrupts it. Either way its end is recorded before the process goes, and so is that of every run inside
/// it which goes on when it cannot: those can be resumed with it.
pub(super) async fn until_signalled<T>(
    work: impl Future<Output = T>,
    mut signals: Signals,
    cancellation: &CancellationToken,
    runner: &Runner,
) -> T {
    let mut work = std::pin::pin!(work);
    let outcome = loop {
        tokio::select! {
            outcome = &mut work => break outcome,
            _ = signals.interrupt.recv() => cancellation.cancel(),
            _ = signals.terminate.recv() => runner.interrupt(),
            _ = signals.hang_up.recv() => runner.interrupt(),
        }
    };
    runner.shutdown().await;
    outcome
}

pub(super) fn limits(timeout: Option<std::time::Duration>) -> LimitOverrides {
    let wall_time_ms =
        timeout.map(|timeout| i64::try_from(timeout.as_millis()).unwrap_or(i64::MAX));
    wall_time_ms
        .map(|ms| (LimitKey::WallTimeMs.as_str().to_owned(), ms))
        .into_iter()
        .collect()
}

pub(super) fn answer(outcome: RunOutcome, quiet: bool, printer: Printer) -> anyhow::Result<Exit> {
    let failed = outcome
        .result
        .is_error
        .then(|| outcome.result.joined_text());
    let output = outcome.result.output();
    let exit = Exit::from(outcome.code);
    if printer.json() {
        printer.value(&Document {
            run_id: &outcome.run_id,
            started_at: outcome.started_at,
            code: outcome.code,
            output,
            error: failed,
            hint: outcome.hint.as_deref(),
            duration_micros: outcome.duration_micros,
            head: outcome.head,
        })?;
        return Ok(exit);
    }
    match failed {
        None => printer.line(&json(output.as_str()))?,
        Some(error) => printer.note(&message("error: ", &error)),
    }
    if let Some(hint) = &outcome.hint {
        printer.note(&message("hint: ", hint));
    }
    if !quiet {
        let took = duration(outcome.duration_micros);
        printer.note(&format!("{}: {} in {took}", outcome.run_id, outcome.code));
    }
    Ok(exit)
}
