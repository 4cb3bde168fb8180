//! Executions as their ledgers have them: those that this process does not carry out, or has let go.

use serde_json::Value;

use super::backend::End;
use super::event::{REASON_INTERRUPTED, RecordedEnd};
use super::state::{Ending, ExecutionStatus};
use super::types::{Execution, Metadata};
use crate::clock::Timestamp;
use crate::id::{ExecutionId, RunId};
use crate::ledger::{
    Entry, Event, Json, Origin, Position, Record, RunState, SessionFacts, SessionPhase, Store,
    StoreError,
};
use crate::outcome::OutcomeCode;

/// What a ledger says of the executions that it is.
#[derive(Default)]
pub(super) struct Read {
    /// What the first of them began with.
    pub(super) first: Option<SessionFacts>,
    /// How many there are.
    pub(super) parts: u32,
    /// Whether its last line says that nothing can follow any more.
    pub(super) is_closed: bool,
    /// The one that was looked for, or the newest.
    execution: Option<Execution>,
    /// The number of the newest prompt so far.
    newest: u64,
    /// When the newest line was recorded that was looked at.
    last_time: Option<Timestamp>,
}

/// The types of lines that say something of an execution as a whole.
const KINDS: [&str; 6] = [
    "run_started",
    "run_resumed",
    "run_completed",
    "prompt",
    "turn_completed",
    "session_status",
];

impl Read {
    /// Reads a ledger up to the end of the part that is wanted; none: the newest.
    ///
    /// # Errors
    /// There is no such ledger, or it cannot be read.
    pub(super) fn ledger(
        store: &Store,
        run_id: &RunId,
        wanted: Option<u32>,
    ) -> Result<Self, StoreError> {
        let mut read = Self::default();
        let mut lines = store.follow(run_id, Position::default())?;
        while let Some(entry) = lines.next_entry()? {
            let Entry::Record(record) = entry else {
                continue;
            };
            if record.origin != Origin::Host || !KINDS.contains(&record.kind.as_str()) {
                continue;
            }
            let begins = ["run_started", "run_resumed"].contains(&record.kind.as_str());
            if begins && wanted == Some(read.parts) {
                // The part that is wanted is over, whether or not it has an end.
                read.interrupt();
                return Ok(read);
            }
            read.last_time = Some(record.time);
            read.take(&record);
        }
        let summary = store.summary(run_id)?;
        if summary.state == RunState::Running && summary.writer_pid.is_none() {
            read.interrupt();
        }
        read.is_closed = matches!(summary.state, RunState::Ended(status) if !status.is_resumable());
        Ok(read)
    }

    /// The execution that was looked for, if there is one.
    pub(super) fn execution(self) -> Option<Execution> {
        self.execution
    }

    fn take(&mut self, record: &Record) {
        match record.event() {
            Event::RunStarted(started) => self.begin(started.session, record.time),
            Event::RunResumed(resumed) => self.begin(resumed.session, record.time),
            Event::Prompt(prompt) => {
                self.newest = prompt.generation;
                self.change(ExecutionStatus::Running);
            }
            Event::SessionStatus(status) => match status.status {
                SessionPhase::BootReady | SessionPhase::Ready => {
                    self.change(ExecutionStatus::Ready);
                }
                SessionPhase::ModeChanged => {
                    if let (Some(execution), Some(mode)) = (&mut self.execution, status.mcp_mode) {
                        execution.mcp_mode = mode;
                    }
                }
                SessionPhase::ToolsChanged | SessionPhase::Finishing => {}
            },
            Event::RunCompleted(end) => self.end(end.into()),
            _ => {}
        }
    }

    fn begin(&mut self, facts: Option<Box<SessionFacts>>, at: Timestamp) {
        self.parts += 1;
        let Some(facts) = facts else {
            self.execution = None;
            return;
        };
        let mut execution = Execution::of(&facts, at);
        execution.metadata = metadata(&facts.metadata);
        execution.prompt_generation = self.newest;
        self.execution = Some(execution);
        self.first.get_or_insert(*facts);
    }

    fn change(&mut self, status: ExecutionStatus) {
        if let Some(execution) = &mut self.execution {
            execution.status = status;
            execution.prompt_generation = self.newest;
        }
    }

    fn end(&mut self, end: RecordedEnd) {
        if let Some(execution) = self.execution.take() {
            let mut ended = execution.ended(end);
            ended.finished_at = self.last_time;
            self.execution = Some(ended);
        }
    }

    /// Nobody carries it out any more, and nobody wrote its end.
    fn interrupt(&mut self) {
        let is_open = |execution: &Execution| !execution.status.is_terminal();
        if self.execution.as_ref().is_some_and(is_open) {
            let end = RecordedEnd {
                status: ExecutionStatus::Stopped,
                code: OutcomeCode::Interrupted,
                reason: Some(REASON_INTERRUPTED.to_owned()),
                exit_code: None,
                message: None,
            };
            self.end(end);
        }
    }
}

/// The metadata that a ledger has.
pub(super) fn metadata(json: &Json) -> Metadata {
    match serde_json::from_str(json.as_str()) {
        Ok(Value::Object(metadata)) => metadata,
        _ => Metadata::new(),
    }
}

/// How an execution ended, as its ledger has it; none when that has no end of it.
///
/// # Errors
/// The ledger cannot be read.
pub(super) fn end(store: &Store, id: &ExecutionId) -> Result<Option<End>, StoreError> {
    let Some(execution) = execution(store, id)? else {
        return Ok(None);
    };
    let ending = match execution.status {
        ExecutionStatus::Completed => Ending::Completed,
        ExecutionStatus::Failed => Ending::Failed,
        ExecutionStatus::Stopped => Ending::Stopped,
        _ => return Ok(None),
    };
    Ok(execution.code.map(|code| End {
        ending,
        code,
        message: execution.error_message.unwrap_or_default(),
        stop_reason: execution.stop_reason.unwrap_or_default(),
        exit_code: execution.exit_code,
        teardown_error: None,
    }))
}

/// An execution as its ledger has it; none when that has no such part.
///
/// # Errors
/// The ledger cannot be read.
pub(super) fn execution(store: &Store, id: &ExecutionId) -> Result<Option<Execution>, StoreError> {
    let read = match Read::ledger(store, id.run_id(), Some(id.part())) {
        Err(StoreError::NotFound { .. }) => return Ok(None),
        read => read?,
    };
    let execution = read.execution();
    Ok(execution.filter(|execution| execution.id == *id))
}
