//! `skillrun runs trace`.

use std::collections::{BTreeMap, HashSet, VecDeque};

use crate::cli::display::{message, shown};
use crate::cli::exit::Exit;
use crate::cli::printer::Printer;
use crate::cli::timeline::duration;
use crate::id::RunId;
use crate::ledger::{Entry, Position, Store, StoreError};
use crate::trace::{Collector, Part, Span, SpanStatus, document};
use crate::trace_context::SpanId;

/// Runs that are read: the one that was asked for and those inside. Protects whoever looks at a run that handed
/// work on without end.
const RUNS_MAX: usize = 1_000;
/// Spans within spans that a line moves to the right for.
const DEPTH_SHOWN_MAX: usize = 32;

pub(crate) fn trace(
    run_id: &RunId,
    has_content: bool,
    store: &Store,
    printer: Printer,
) -> anyhow::Result<Exit> {
    let mut parts = parts(store, run_id, has_content, printer)?;
    let mut seen = HashSet::from([run_id.clone()]);
    let inside = |parts: &[Part]| -> Vec<RunId> {
        let runs = parts.iter().flat_map(|part| &part.runs_inside);
        runs.cloned().collect()
    };
    let mut waiting: VecDeque<RunId> = inside(&parts).into();
    while let Some(child) = waiting.pop_front() {
        if !seen.insert(child.clone()) {
            continue;
        }
        if seen.len() > RUNS_MAX {
            printer.note(&format!("warning: there are more than {RUNS_MAX} runs"));
            break;
        }
        match self::parts(store, &child, has_content, printer) {
            Ok(further) => {
                waiting.extend(inside(&further));
                parts.extend(further);
            }
            // It was removed, or lies in another home.
            Err(StoreError::NotFound { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    if printer.json() {
        printer.value(&document(&parts))?;
    } else if parts.is_empty() {
        printer.note("error: this ledger names no trace");
        return Ok(Exit::Failed);
    } else {
        print(&parts, printer)?;
    }
    Ok(Exit::Ok)
}

/// The parts of one run.
fn parts(
    store: &Store,
    run_id: &RunId,
    has_content: bool,
    printer: Printer,
) -> Result<Vec<Part>, StoreError> {
    let mut collector = Collector::new(run_id.clone(), has_content);
    let mut follower = store.follow(run_id, Position::default())?;
    while let Some(entry) = follower.next_entry()? {
        match entry {
            Entry::Record(record) => collector.push(&record),
            Entry::Damaged(damage) => {
                printer.note(&message("warning: damaged: ", &damage.to_string()));
            }
        }
    }
    Ok(collector.finish())
}

/// Spans as a tree, each under the one that it is a part of.
fn print(parts: &[Part], printer: Printer) -> anyhow::Result<()> {
    let spans: Vec<&Span> = parts.iter().flat_map(|part| &part.spans).collect();
    let known: HashSet<SpanId> = spans.iter().map(|span| span.span_id).collect();
    let mut below: BTreeMap<Option<SpanId>, Vec<&Span>> = BTreeMap::new();
    for span in spans {
        // The parent of the first one is in the system of whoever called.
        let parent = span.parent_span_id.filter(|parent| known.contains(parent));
        below.entry(parent).or_default().push(span);
    }
    let start = below.values().flatten().map(|span| span.start_micros).min();
    let mut trace = None;
    let mut waiting: Vec<(usize, &Span)> = Vec::new();
    let push = |waiting: &mut Vec<_>, spans: Vec<_>, depth: usize| {
        waiting.extend(spans.into_iter().rev().map(|span| (depth, span)));
    };
    push(&mut waiting, below.remove(&None).unwrap_or_default(), 0);
    while let Some((depth, span)) = waiting.pop() {
        if trace != Some(span.trace_id) {
            trace = Some(span.trace_id);
            printer.line(&format!("trace {}", span.trace_id))?;
        }
        printer.line(&line(span, depth, start.unwrap_or_default()))?;
        // Each is printed once, also where a ledger that was made up has a span within itself.
        let inside = below.remove(&Some(span.span_id)).unwrap_or_default();
        push(&mut waiting, inside, depth.saturating_add(1));
    }
    Ok(())
}

fn line(span: &Span, depth: usize, start_micros: i64) -> String {
    let since = span.start_micros.abs_diff(start_micros);
    let ended = match &span.status {
        SpanStatus::Unset => String::new(),
        SpanStatus::Error(message) => format!("  error: {}", shown(message)),
    };
    let is_cut_off = span
        .attributes
        .iter()
        .any(|(key, _)| *key == "skillrun.cut_off");
    let took = duration(span.duration_micros());
    format!(
        "{:>10} {:>10}  {}{}{}{ended}",
        format!("+{}.{:03}s", since / 1_000_000, since / 1_000 % 1_000),
        took,
        "  ".repeat(depth.min(DEPTH_SHOWN_MAX)),
        shown(&span.name),
        if is_cut_off { "  (cut off)" } else { "" },
    )
}
