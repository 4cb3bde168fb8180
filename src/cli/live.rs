//! A run as it happens, on standard error of a terminal: what was recorded above, and below it the run,
//! its open steps and its open calls, each with a spinner and its elapsed time.

use std::collections::HashMap;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::display::shown;
use super::printer::{Printer, paragraph};
use super::timeline::Timeline;
use crate::id::RunId;
use crate::ledger::{CallPhase, Entry, Event, Follower, Position, Record, Store};

/// How often the ledger is looked at and the spinners move on.
const FRAME: Duration = Duration::from_millis(80);
/// Lines with a spinner that are shown at once; more would not fit a screen.
const OPEN_SHOWN_MAX: usize = 16;

/// The terminal of a run, for all that write to it while spinners move there.
#[derive(Debug, Clone)]
pub(crate) struct Screen {
    printer: Printer,
    spinners: MultiProgress,
    /// The number of the last event of the run that was shown.
    shown_seq: Arc<AtomicU64>,
}

impl Screen {
    fn new(printer: Printer) -> Self {
        Self {
            printer,
            spinners: MultiProgress::new(),
            shown_seq: Arc::default(),
        }
    }

    /// Writes text for a person above the spinners, also while these are hidden.
    pub(crate) fn note(&self, text: &str) {
        self.spinners.suspend(|| self.printer.note(text));
    }

    /// Whether the event of the run with this number was shown, and all before it.
    pub(crate) fn has_shown(&self, seq: u64) -> bool {
        self.shown_seq.load(Ordering::Acquire) >= seq
    }

    /// Takes the spinners away, so that nothing moves where a person types.
    pub(crate) fn hide_spinners(&self) {
        // A screen that cannot be cleared moves on.
        let _uncleared = self.spinners.clear();
        self.spinners.set_draw_target(ProgressDrawTarget::hidden());
    }

    pub(crate) fn show_spinners(&self) {
        self.spinners.set_draw_target(ProgressDrawTarget::stderr());
    }
}

pub(crate) struct Live {
    store: Store,
    run_id: RunId,
    follower: Option<Follower>,
    timeline: Timeline,
    screen: Screen,
    /// By the id of the run, step, call or approval.
    open: HashMap<String, ProgressBar>,
}

impl Live {
    pub(crate) fn new(store: Store, run_id: RunId, printer: Printer) -> Self {
        Self {
            store,
            run_id,
            follower: None,
            timeline: Timeline::default(),
            screen: Screen::new(printer),
            open: HashMap::new(),
        }
    }

    /// What moves on the terminal.
    pub(crate) fn screen(&self) -> Screen {
        self.screen.clone()
    }

    /// Shows the run while `work` goes on, and the rest of it once `work` has ended.
    pub(crate) async fn watch<T>(mut self, work: impl Future<Output = T>) -> T {
        let mut work = std::pin::pin!(work);
        let mut frames = tokio::time::interval(FRAME);
        let ended = loop {
            tokio::select! {
                ended = &mut work => break ended,
                _ = frames.tick() => self.catch_up(),
            }
        };
        self.catch_up();
        for bar in self.open.into_values() {
            bar.finish_and_clear();
        }
        ended
    }

    /// Shows what was recorded since the last look. What cannot be read yet is read at the next one.
    fn catch_up(&mut self) {
        if self.follower.is_none() {
            self.follower = self.store.follow(&self.run_id, Position::default()).ok();
        }
        while let Some(follower) = &mut self.follower {
            match follower.next_entry() {
                Ok(Some(Entry::Record(record))) => self.show(&record),
                Ok(Some(Entry::Damaged(_))) => {}
                Ok(None) | Err(_) => break,
            }
        }
    }

    fn show(&mut self, record: &Record) {
        self.screen.note(&paragraph(&self.timeline.line(record)));
        match record.event() {
            Event::RunStarted(started) => self.begin(self.run_id.to_string(), &started.skill),
            Event::NodeEnter(enter) => self.begin(enter.node_id.clone(), &enter.node_id),
            Event::NodeExit(exit) => self.end(&exit.node_id),
            Event::ToolCall(call) => self.begin(call.call_id, &call.name),
            Event::ToolResult(result) => self.end(&result.call_id),
            Event::ApprovalRequest(request) => {
                self.begin(request.approval_id, request.prompt.as_str());
            }
            Event::ApprovalResponse(response) => self.end(&response.approval_id),
            Event::LlmCall(call) => match (call.call_id, call.phase) {
                (Some(id), Some(CallPhase::Call)) => self.begin(id, &call.model),
                (Some(id), Some(CallPhase::Result)) => self.end(&id),
                _ => {}
            },
            Event::HttpCall(call) => self.begin(call.call_id, call.url.as_str()),
            Event::HttpResult(result) => self.end(&result.call_id),
            _ => {}
        }
        self.screen.shown_seq.store(record.seq, Ordering::Release);
    }

    fn begin(&mut self, id: String, what: &str) {
        if self.open.len() >= OPEN_SHOWN_MAX {
            return;
        }
        let style = ProgressStyle::with_template("{spinner} {msg} {elapsed}")
            .unwrap_or_else(|_| ProgressStyle::default_spinner());
        let bar = ProgressBar::new_spinner().with_style(style);
        let bar = self.screen.spinners.add(bar);
        bar.set_message(shown(what));
        bar.enable_steady_tick(FRAME);
        self.open.insert(id, bar);
    }

    fn end(&mut self, id: &str) {
        if let Some(bar) = self.open.remove(id) {
            bar.finish_and_clear();
        }
    }
}
