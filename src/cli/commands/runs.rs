//! `skillrun runs`.

use std::path::Path;
use std::time::Duration;

use serde::Serialize;

use crate::cli::args::{ListArgs, RunsCommand, StatusFilter};
use crate::cli::assemble;
use crate::cli::commands::{approve, cancel, explain, replay, resume, trace, upkeep};
use crate::cli::display::{message, shown};
use crate::cli::exit::{Exit, Refused};
use crate::cli::printer::Printer;
use crate::cli::timeline::Timeline;
use crate::cli::tree;
use crate::clock::{Clock, Timestamp};
use crate::config::Config;
use crate::id::RunId;
use crate::ledger::{
    Entry, Event, Follower, Head, Position, Recorded, RunQuery, RunState, Store, Summary,
    VerifyReport, record_file, verify_file,
};
use crate::outcome::OutcomeCode;

/// How often a ledger that grows is looked at.
const TAIL_INTERVAL: Duration = Duration::from_millis(100);
/// Looks in vain after which it is asked whether anyone still writes.
const TAIL_IDLE_LOOKS: u32 = 10;

pub(crate) async fn runs(
    command: RunsCommand,
    config: &Config,
    printer: Printer,
) -> anyhow::Result<Exit> {
    let clock = Clock::system();
    if let RunsCommand::Verify { ledger } = &command
        && ledger.parse::<RunId>().is_err()
    {
        return verify_path(ledger, printer);
    }
    let store = assemble::store(config, &clock)?;
    match command {
        RunsCommand::List(args) => list(args, &store, &clock, printer),
        RunsCommand::Inspect { run_id } => inspect(&run_id, &store, printer),
        RunsCommand::Trace { run_id, content } => trace::trace(&run_id, content, &store, printer),
        RunsCommand::Tail { run_id } => tail(&run_id, &store, printer).await,
        RunsCommand::Explain { run_id } => explain::explain(&run_id, &store, printer),
        RunsCommand::Cancel { run_id } => cancel::cancel(&run_id, config, &store, printer).await,
        RunsCommand::Approve(args) => approve::approve(args, &store, printer),
        RunsCommand::Approvals { run_id } => approve::approvals(run_id, &store, printer),
        RunsCommand::Verify { ledger } => {
            let report = store.verify(&ledger.parse()?, None)?;
            verdict(&report, printer)
        }
        RunsCommand::Export { run_id, output } => {
            upkeep::export(&run_id, output.as_deref(), &store, printer)
        }
        RunsCommand::Resume(args) => resume::resume(args, config, store, printer).await,
        RunsCommand::Replay(args) => replay::replay(args, config, store, printer).await,
        RunsCommand::Recover { resume: false } => upkeep::recover(&store, printer).await,
        RunsCommand::Recover { resume: true } => resume::all(config, store, printer).await,
        RunsCommand::Prune(args) => upkeep::prune(&args, &store, printer),
    }
}

/// A run as `--json` prints it.
#[derive(Serialize)]
struct Row<'a> {
    run_id: &'a RunId,
    status: &'a str,
    code: Option<OutcomeCode>,
    skill: Option<&'a str>,
    flavor: Option<&'a str>,
    parent_run_id: Option<&'a RunId>,
    started_at: Option<Timestamp>,
    ended_at: Option<Timestamp>,
    error: Option<&'a str>,
    cost_usd: Option<f64>,
    head: Head,
    chained: bool,
    writer_pid: Option<u32>,
    corruption: Option<String>,
}

impl<'a> From<&'a Summary> for Row<'a> {
    fn from(run: &'a Summary) -> Self {
        Self {
            run_id: &run.run_id,
            status: run.state.as_str(),
            code: run.code,
            skill: run.skill.as_deref(),
            flavor: run.flavor.as_deref(),
            parent_run_id: run.parent_run_id.as_ref(),
            started_at: run.started_at,
            ended_at: run.ended_at,
            error: run.error.as_deref(),
            cost_usd: run.cost_usd,
            head: run.head,
            chained: run.is_chained,
            writer_pid: run.writer_pid,
            corruption: run.corruption.as_ref().map(ToString::to_string),
        }
    }
}

fn list(args: ListArgs, store: &Store, clock: &Clock, printer: Printer) -> anyhow::Result<Exit> {
    let since = args.since.map(|since| {
        let micros = i64::try_from(since.as_micros()).unwrap_or(i64::MAX);
        Timestamp::from_unix_micros(clock.now().unix_micros().saturating_sub(micros))
    });
    let listing = store.list(&RunQuery {
        state: args.status.map(StatusFilter::state),
        may_go_on: false,
        skill: args.skill,
        parent_run_id: args.parent,
        session: None,
        since,
        after: args.cursor,
        limit: args.limit,
    })?;
    let next = listing.next.as_ref().map(ToString::to_string);
    if printer.json() {
        let rows: Vec<Row<'_>> = listing.runs.iter().map(Row::from).collect();
        printer.value(&serde_json::json!({
            "runs": rows,
            "has_more": next.is_some(),
            "next_cursor": next,
            "foreign": listing.foreign,
        }))?;
        return Ok(Exit::Ok);
    }
    let cells: Vec<Vec<String>> = listing.runs.iter().map(cells).collect();
    printer.table(&["RUN", "STARTED", "STATUS", "CODE", "SKILL"], &cells)?;
    for name in &listing.foreign {
        printer.note(&format!("not a ledger: {}", shown(name)));
    }
    if let Some(next) = next {
        printer.note(&format!(
            "there are more than {} runs: --limit N shows more of them, --cursor {next} the next",
            args.limit
        ));
    }
    Ok(Exit::Ok)
}

/// A run's status for a person: one without an end that nobody writes was cut off.
fn status(run: &Summary) -> String {
    match (run.state, run.writer_pid) {
        (RunState::Running, None) => "cut off".to_owned(),
        (state, _) => state.as_str().to_owned(),
    }
}

fn cells(run: &Summary) -> Vec<String> {
    vec![
        run.run_id.to_string(),
        run.started_at.map(to_the_second).unwrap_or_default(),
        status(run),
        run.code.map_or("-", OutcomeCode::as_str).to_owned(),
        run.skill.as_deref().map(shown).unwrap_or_default(),
    ]
}

/// What a person needs to know, and a narrow terminal has room for.
fn to_the_second(time: Timestamp) -> String {
    let text = time.to_string();
    text.split_once('.')
        .map_or(text.clone(), |(whole, _)| format!("{whole}Z"))
}

fn inspect(run_id: &RunId, store: &Store, printer: Printer) -> anyhow::Result<Exit> {
    let summary = store.summary(run_id)?;
    let mut follower = store.follow(run_id, Position::default())?;
    if printer.json() {
        return inspect_json(&summary, &mut follower, printer);
    }
    let row = Row::from(&summary);
    printer.line(&format!("run      {run_id}"))?;
    printer.line(&format!(
        "skill    {}",
        shown(row.skill.unwrap_or("unknown"))
    ))?;
    let code = row
        .code
        .map(|code| format!(" ({code})"))
        .unwrap_or_default();
    printer.line(&format!("status   {}{code}", status(&summary)))?;
    if let Some(from) = resumed_from(store, run_id)? {
        printer.line(&format!("from     {from}"))?;
    }
    if let Some(error) = row.error {
        printer.line(&format!("error    {}", shown(error)))?;
    }
    if let Some(corruption) = &row.corruption {
        let warning = format!("this ledger is damaged: {corruption}");
        printer.note(&message("warning: ", &warning));
    }
    let took = tree::print(store, run_id, printer)?;
    if let Some(line) = took.line() {
        printer.line(&line)?;
    }
    Ok(Exit::Ok)
}

/// The run whose beginning this one repeats.
fn resumed_from(store: &Store, run_id: &RunId) -> anyhow::Result<Option<RunId>> {
    let mut follower = store.follow(run_id, Position::default())?;
    let Some(Entry::Record(record)) = follower.next_entry()? else {
        return Ok(None);
    };
    Ok(match record.event() {
        Event::RunStarted(started) => started.resumed_from,
        _ => None,
    })
}

/// The summary and the events as one document, written as it is read.
fn inspect_json(
    summary: &Summary,
    follower: &mut Follower,
    printer: Printer,
) -> anyhow::Result<Exit> {
    let summary = serde_json::to_string(&Row::from(summary))?;
    printer.line(&format!("{{\"run\":{summary},\"events\":["))?;
    let mut separator = "";
    while let Some(entry) = follower.next_entry()? {
        let event = match &entry {
            Entry::Record(record) => record.line.to_string(),
            Entry::Damaged(damage) => {
                serde_json::json!({ "damaged": damage.to_string() }).to_string()
            }
        };
        printer.line(&format!("{separator}{event}"))?;
        separator = ",";
    }
    printer.line("]}")?;
    Ok(Exit::Ok)
}

fn print_entry(entry: &Entry, timeline: &mut Timeline, printer: Printer) -> anyhow::Result<()> {
    match entry {
        Entry::Record(record) if printer.json() => printer.line(&record.line),
        Entry::Record(record) => printer.line(&timeline.line(record)),
        Entry::Damaged(damage) => {
            printer.note(&message("warning: damaged: ", &damage.to_string()));
            Ok(())
        }
    }
}

async fn tail(run_id: &RunId, store: &Store, printer: Printer) -> anyhow::Result<Exit> {
    let mut follower = store.follow(run_id, Position::default())?;
    let mut timeline = Timeline::default();
    let mut looks = tokio::time::interval(TAIL_INTERVAL);
    let mut idle = 0;
    let mut ended = false;
    loop {
        while let Some(entry) = follower.next_entry()? {
            idle = 0;
            print_entry(&entry, &mut timeline, printer)?;
            if let Entry::Record(record) = &entry {
                ended = matches!(record.event(), Event::RunCompleted(_));
            }
        }
        if ended {
            return Ok(Exit::Ok);
        }
        idle += 1;
        if idle % TAIL_IDLE_LOOKS == 0 {
            let now = store.summary(run_id)?;
            if now.state == RunState::Corrupt {
                printer.note("error: this ledger is damaged and shows no end");
                return Ok(Exit::Failed);
            }
            if now.state == RunState::Running && now.writer_pid.is_none() {
                printer.note("error: no process writes this run any more: it was cut off");
                printer.note(&format!(
                    "hint: skillrun runs resume {run_id} goes on with it"
                ));
                return Ok(Exit::Interrupted);
            }
        }
        looks.tick().await;
    }
}

fn verify_path(ledger: &str, printer: Printer) -> anyhow::Result<Exit> {
    verdict(&verify_file(file(ledger)?, None)?, printer)
}

/// A file that has to be there, where a run could have been named as well.
fn file(argument: &str) -> Result<&Path, Refused> {
    let path = Path::new(argument);
    if path.exists() {
        return Ok(path);
    }
    let refused = Refused::not_found(format!("no such run or file: {argument:?}"));
    Err(refused.with_hint("a run id is run_ and 32 hexadecimal digits"))
}

/// What is on record of a run of the store, or in a file.
pub(crate) fn record(argument: &str, store: &Store) -> anyhow::Result<Recorded> {
    match argument.parse::<RunId>() {
        Ok(run_id) => Ok(store.recorded(&run_id)?),
        Err(_a_file) => Ok(record_file(file(argument)?)?),
    }
}

fn verdict(report: &VerifyReport, printer: Printer) -> anyhow::Result<Exit> {
    let verdict = report.verdict();
    let problem = report.problem();
    let is_whole = problem.is_none();
    if printer.json() {
        printer.value(&serde_json::json!({
            "run_id": report.run_id,
            "verdict": verdict.as_str(),
            "problem": problem,
            "line": report.corruption.as_ref().map(|c| c.line),
            "head": report.head,
            "chained": report.is_chained,
        }))?;
    } else {
        let events = report.head.seq;
        printer.line(&format!("{}: {verdict}, {events} events", report.run_id))?;
        if let Some(problem) = problem {
            printer.note(&message("error: ", &problem));
        }
    }
    Ok(if is_whole { Exit::Ok } else { Exit::Failed })
}
