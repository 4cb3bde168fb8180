//! A run as a tree: steps, and in them what was called, with how long it took and how it ended on the line
//! on which it began; and below a call of another skill, that skill's own run.

use std::collections::{HashMap, HashSet};

use super::display::{message, shown};
use super::printer::Printer;
use super::timeline::{Layout, amount, described, duration};
use crate::id::RunId;
use crate::ledger::{CallPhase, Entry, Event, Origin, Pair, Position, Record, Store, StoreError};

/// Ends that are remembered while a run is read; calls beyond them have theirs on a line of its own.
/// Protects the memory of whoever looks at a run.
const ENDS_MAX: usize = 100_000;
/// Runs inside runs that are shown; deeper ones are named only.
const LEVELS_MAX: usize = 8;

/// What models took, in a run and those inside it.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Took {
    calls: u64,
    tokens: u64,
    cost_usd: f64,
}

impl Took {
    /// In words; nothing, where no model was asked.
    pub(crate) fn line(&self) -> Option<String> {
        (self.calls > 0).then(|| {
            let calls = if self.calls == 1 { "call" } else { "calls" };
            format!(
                "models   {} {calls}, {} tokens, {} USD",
                self.calls,
                self.tokens,
                amount(self.cost_usd)
            )
        })
    }
}

/// What was printed so far.
#[derive(Default)]
struct Printed {
    took: Took,
    /// Each run is shown once: a ledger may name one again and again, or itself.
    runs: HashSet<RunId>,
}

/// How something ended that began on another line.
struct End {
    seq: u64,
    /// The line on which it began: the last of several, where a call was made again by a run that goes on.
    opened: Option<u64>,
    said: String,
}

/// Who says that it began or ended, and what it is: what a guest claims says nothing of what the host saw.
type Key = (Origin, Pair, String);

/// Prints a run and those inside it, and gives what their models took.
pub(crate) fn print(store: &Store, run_id: &RunId, printer: Printer) -> anyhow::Result<Took> {
    let mut printed = Printed::default();
    print_run(store, run_id, 0, &mut printed, printer)?;
    Ok(printed.took)
}

fn print_run(
    store: &Store,
    run_id: &RunId,
    level: usize,
    printed: &mut Printed,
    printer: Printer,
) -> anyhow::Result<()> {
    printed.runs.insert(run_id.clone());
    let ends = ends(store, run_id, &mut printed.took)?;
    let mut layout = Layout::default();
    // Steps that are open, with the seat that each has.
    let mut open: Vec<String> = Vec::new();
    let mut follower = store.follow(run_id, Position::default())?;
    while let Some(entry) = follower.next_entry()? {
        let record = match entry {
            Entry::Record(record) => record,
            Entry::Damaged(damage) => {
                printer.note(&message("warning: damaged: ", &damage.to_string()));
                continue;
            }
        };
        let event = record.event();
        if let Event::NodeExit(exit) = &event
            && let Some(seat) = open.iter().rposition(|id| *id == exit.node_id)
        {
            open.truncate(seat);
        }
        let ended = opens(&record, &event)
            .and_then(|key| ends.get(&key))
            .filter(|end| end.opened == Some(record.seq));
        let is_folded = closes(&record, &event)
            .and_then(|key| ends.get(&key))
            .is_some_and(|end| end.seq == record.seq && end.opened.is_some());
        if !is_folded {
            let depth = level * 2 + depth(&event, &open);
            let said = ended.map_or_else(String::new, |end| format!("  {}", end.said));
            let text = format!("{}{said}", described(&event));
            printer.line(&layout.line(&record, depth, &text))?;
        }
        match event {
            Event::NodeEnter(enter) => open.push(enter.node_id),
            Event::ToolCall(call) if record.origin == Origin::Host => {
                if let Some(child) = call.child_run_id {
                    print_child(store, &child, level, printed, printer)?;
                }
            }
            _ => {}
        }
    }
    Ok(())
}

fn print_child(
    store: &Store,
    child: &RunId,
    level: usize,
    printed: &mut Printed,
    printer: Printer,
) -> anyhow::Result<()> {
    if level + 1 >= LEVELS_MAX || printed.runs.contains(child) {
        return printer.line(&format!("  {child}: skillrun runs inspect shows it"));
    }
    match print_run(store, child, level + 1, printed, printer) {
        // It was removed, or lies in another home: what is known of it stands in this ledger.
        Err(error) if is_absent(&error) => Ok(()),
        printed => printed,
    }
}

fn is_absent(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref(), Some(StoreError::NotFound { .. }))
}

/// How far to the right an event stands: calls under the step that they name, everything else under the
/// innermost that is open.
fn depth(event: &Event, open: &[String]) -> usize {
    let node_id = match event {
        Event::ToolCall(call) => Some(call.node_id.as_str()),
        Event::ToolResult(result) => Some(result.node_id.as_str()),
        Event::LlmCall(call) => call.node_id.as_deref(),
        Event::HttpCall(call) => Some(call.node_id.as_str()),
        Event::HttpResult(result) => Some(result.node_id.as_str()),
        Event::ApprovalRequest(request) => request.node_id.as_deref(),
        _ => None,
    };
    let seat = node_id.and_then(|id| open.iter().rposition(|open| open == id));
    match seat {
        Some(seat) => seat + 1,
        None if node_id == Some("") => 0,
        None => open.len(),
    }
}

/// How everything ended that has an end.
fn ends(store: &Store, run_id: &RunId, took: &mut Took) -> anyhow::Result<HashMap<Key, End>> {
    let mut ends = HashMap::new();
    let mut begun: HashMap<Key, u64> = HashMap::new();
    let mut follower = store.follow(run_id, Position::default())?;
    while let Some(entry) = follower.next_entry()? {
        let Entry::Record(record) = entry else {
            continue;
        };
        let event = record.event();
        if let Event::LlmCall(call) = &event
            && call.phase != Some(CallPhase::Call)
        {
            took.calls = took.calls.saturating_add(1);
            let tokens = call.prompt_tokens.unwrap_or(0);
            let tokens = tokens.saturating_add(call.output_tokens.unwrap_or(0));
            took.tokens = took.tokens.saturating_add(tokens);
            took.cost_usd += call.cost_usd.unwrap_or(0.0);
        }
        if let Some(key) = opens(&record, &event)
            && begun.len() < ENDS_MAX
        {
            begun.insert(key, record.seq);
        }
        if let Some(key) = closes(&record, &event)
            && ends.len() < ENDS_MAX
        {
            let (seq, opened) = (record.seq, begun.remove(&key));
            let said = end_of(&record, &event);
            ends.insert(key, End { seq, opened, said });
        }
    }
    Ok(ends)
}

fn opens(record: &Record, event: &Event) -> Option<Key> {
    let (pair, id) = match event {
        Event::NodeEnter(enter) => (Pair::Node, enter.node_id.clone()),
        Event::ToolCall(call) => (Pair::Tool, call.call_id.clone()),
        Event::LlmCall(call) if call.phase == Some(CallPhase::Call) => {
            (Pair::Llm, call.call_id.clone()?)
        }
        Event::HttpCall(call) => (Pair::Http, call.call_id.clone()),
        Event::ApprovalRequest(request) => (Pair::Approval, request.approval_id.clone()),
        _ => return None,
    };
    Some((record.origin, pair, id))
}

fn closes(record: &Record, event: &Event) -> Option<Key> {
    let (pair, id) = match event {
        Event::NodeExit(exit) => (Pair::Node, exit.node_id.clone()),
        Event::ToolResult(result) => (Pair::Tool, result.call_id.clone()),
        Event::LlmCall(call) if call.phase == Some(CallPhase::Result) => {
            (Pair::Llm, call.call_id.clone()?)
        }
        Event::HttpResult(result) => (Pair::Http, result.call_id.clone()),
        Event::ApprovalResponse(response) => (Pair::Approval, response.approval_id.clone()),
        _ => return None,
    };
    Some((record.origin, pair, id))
}

/// What the line on which something began says of its end.
fn end_of(record: &Record, event: &Event) -> String {
    let micros = match event {
        Event::NodeExit(exit) => {
            let ended = if exit.success { "ok" } else { "failed" };
            return format!("{ended} in {}", duration(exit.duration_micros));
        }
        Event::ToolResult(result) => result.duration_micros,
        Event::LlmCall(call) => call.duration_micros,
        Event::HttpResult(result) => result.duration_micros,
        Event::ApprovalResponse(response) => response.duration_micros,
        _ => None,
    };
    let took = micros.map_or_else(String::new, |micros| format!(" in {}", duration(micros)));
    let guest = match record.origin {
        Origin::Host => "",
        Origin::Guest => " (guest)",
    };
    shown(&format!("→ {}{took}{guest}", described(event)))
}
