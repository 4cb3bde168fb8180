//! `skillrun runs approve` and `skillrun runs approvals`.

use crate::cli::args::{ApproveArgs, Choice};
use crate::cli::display::{message, shown};
use crate::cli::exit::Exit;
use crate::cli::printer::Printer;
use crate::cli::questions::described;
use crate::cli::timeline::span;
use crate::clock::Clock;
use crate::id::RunId;
use crate::ledger::{
    ApprovalDecision, ApprovalSource, Gate, PendingQuery, RunState, RunStatus, Store,
};
use crate::telemetry::chain;

/// Questions that are read at once.
const GATES_OF_A_PAGE: usize = 100;

/// Answers a question of a run.
pub(crate) fn approve(args: ApproveArgs, store: &Store, printer: Printer) -> anyhow::Result<Exit> {
    let decision = ApprovalDecision {
        approved: args.decision == Choice::Approve,
        reason: args.reason.unwrap_or_default(),
        source: ApprovalSource::Cli,
        option: args.option,
        answer: None,
    };
    let gate = store.decide(&args.run_id, args.approval.as_deref(), &decision)?;
    if printer.json() {
        printer.value(&gate)?;
    } else {
        // To choose is to approve, also where what was chosen is a no.
        let word = match (&decision.option, decision.approved) {
            (Some(option), true) => format!("answered {} to", shown(option)),
            (None, true) => "approved".to_owned(),
            (_, false) => "rejected".to_owned(),
        };
        let prompt = shown(gate.prompt.as_str());
        printer.line(&format!("{word} {}: {prompt}", gate.approval_id))?;
        if let Some(hint) = taken_up_by(&args.run_id, store)? {
            printer.note(&message("hint: ", &hint));
        }
    }
    Ok(Exit::Ok)
}

/// Who takes the decision up, where it is not plain that the run goes on by itself.
fn taken_up_by(run_id: &RunId, store: &Store) -> anyhow::Result<Option<String>> {
    let run = store.summary(run_id)?;
    // A run inside another goes on with that one.
    let run_id = run.parent_run_id.as_ref().unwrap_or(run_id);
    Ok(match (run.state, run.writer_pid) {
        (RunState::Ended(RunStatus::Suspended), _) => Some(format!(
            "unless a process waits for the run, skillrun runs resume {run_id} goes on with it"
        )),
        (RunState::Running | RunState::Ended(RunStatus::Interrupted), None) => Some(format!(
            "no process carries the run out: skillrun runs resume {run_id} goes on with it"
        )),
        _ => None,
    })
}

/// Shows what runs wait for.
pub(crate) fn approvals(
    run_id: Option<RunId>,
    store: &Store,
    printer: Printer,
) -> anyhow::Result<Exit> {
    let mut open = Vec::new();
    let mut query = PendingQuery {
        run_id,
        limit: GATES_OF_A_PAGE,
        ..PendingQuery::default()
    };
    loop {
        let page = store.pending(&query)?;
        for (_, error) in &page.unreadable {
            printer.note(&message("warning: ", &chain(error)));
        }
        open.extend(page.gates);
        match page.next {
            Some(next) => query.after = Some(next),
            None => break,
        }
    }
    if printer.json() {
        printer.value(&serde_json::json!({ "approvals": open }))?;
        return Ok(Exit::Ok);
    }
    let now = Clock::system().now();
    for gate in &open {
        let asked = now
            .unix_micros()
            .saturating_sub(gate.asked_at.unix_micros());
        let asked = u64::try_from(asked / 1_000_000).unwrap_or(0);
        printer.line(&format!(
            "{}  asked {} ago, for {}",
            gate.run_id,
            span(asked),
            span(gate.timeout_seconds)
        ))?;
        show(gate, printer)?;
    }
    if open.is_empty() {
        printer.note("no run waits for an approval");
    }
    Ok(Exit::Ok)
}

fn show(gate: &Gate, printer: Printer) -> anyhow::Result<()> {
    for line in described(gate) {
        printer.paragraph(&format!("  {line}"))?;
    }
    Ok(())
}
