//! A ledger as it is read when its run is done again: where each call and each step of the guest stands.
//!
//! The file is read once, from its beginning to its end; what is kept of a line is where it is. Events are
//! read again when the run comes to them, so that a long record takes little memory.

mod compare;
mod file;

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;

pub use compare::Difference;
pub(crate) use compare::shown_now;
use file::Beside;
pub(super) use file::read_record;
pub use file::record_file;

use super::blob;
use super::error::{Damage, StoreError};
use super::event::{Event, Origin};
use super::line::Record;
use super::payload::{
    CallPhase, LlmCall, ResumeReason, RunCompleted, RunResumed, RunStarted, SessionPhase, Timer,
};
use super::reader::Lines;
use super::recorder::Shelf;
use crate::clock::Timestamp;
use crate::id::RunId;

/// Where an event stands in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// Its number.
    pub seq: u64,
    byte: u64,
    bytes: usize,
}

impl Place {
    fn of(record: &Record, byte: u64) -> Self {
        Self {
            seq: record.seq,
            byte,
            bytes: record.line.len(),
        }
    }
}

/// One call of the guest, as far as it is on record. Of one that was made again after a resumption, it is
/// the last one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RecordedCall {
    /// What was asked; absent when it was refused before that.
    pub call: Option<Place>,
    /// The answer, if there is one.
    pub result: Option<Place>,
    /// The pieces in which it came, for a model.
    pub pieces: Vec<Place>,
    /// The refusal, where there is no call.
    pub denied: Option<Place>,
    /// The answer of a model is there as a value, too.
    pub is_structured: bool,
    first_seq: u64,
}

impl RecordedCall {
    /// The number of its first event: where the guest made it, also if it was made again after a resumption.
    pub fn seq(&self) -> u64 {
        self.first_seq
    }
}

/// A part of a run: from its beginning, or from where it went on, to where it was cut off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part {
    /// The number of its first event.
    pub seq: u64,
    /// The time of that event.
    pub began_at: Timestamp,
    /// The wall time that it has; absent in ledgers of older versions.
    pub wall_time_ms: Option<u64>,
    /// Why it was begun; absent for the first one.
    pub reason: Option<ResumeReason>,
}

/// An event of a record, with what the line says of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Recalled {
    /// Its number.
    pub seq: u64,
    /// When it was recorded.
    pub time: Timestamp,
    /// Who says that it happened.
    pub origin: Origin,
    /// What happened.
    pub event: Event,
    /// Whether large values are in their places; if they are not, references stand for them.
    pub is_whole: bool,
}

/// The record of a run, to be replayed. Methods read the disk on the calling thread.
pub struct Recorded {
    run_id: RunId,
    file: File,
    beside: Beside,
    index: RecordIndex,
    /// Large values are in their places.
    is_export: bool,
}

impl std::fmt::Debug for Recorded {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Recorded({})", self.run_id)
    }
}

/// What is kept of the lines of a ledger.
#[derive(Debug, Default)]
pub(super) struct RecordIndex {
    /// Bytes before the next line.
    byte: u64,
    started: Option<Place>,
    parts: Vec<Part>,
    calls: HashMap<Box<str>, RecordedCall>,
    steps: Vec<Place>,
    /// The last thing that the guest itself did.
    act_seq: u64,
    completed: Option<Place>,
    head_seq: u64,
    /// Events before the first end, reports of torn ends apart.
    unended_events: u64,
    has_ended: bool,
    /// The call of a model that has its answer, whose value would be the next of its kind.
    answered: Option<Box<str>>,
    /// Where the turn began that goes on, if one does.
    turn: Option<Place>,
    /// The number of the newest prompt; 0 before the first.
    generation: u64,
    /// The prompts of turns that were not undone.
    prompts: Vec<(u64, Place)>,
    /// Where the agent was told to end, if it was.
    finishing: Option<Place>,
}

impl RecordIndex {
    /// Notes the next line. All lines have to be shown, in their order.
    pub(super) fn note(&mut self, record: &Record, event: &Event) {
        let place = Place::of(record, self.byte);
        let bytes = u64::try_from(place.bytes).unwrap_or(u64::MAX);
        self.byte = self.byte.saturating_add(bytes).saturating_add(1);
        self.head_seq = record.seq;
        self.completed = None;
        self.has_ended |= matches!(event, Event::RunCompleted(_));
        if !self.has_ended && !event.is_torn_tail(record.origin) {
            self.unended_events += 1;
        }
        if record.origin == Origin::Guest {
            return self.step(place);
        }
        match event {
            Event::RunStarted(started) => {
                self.started = Some(place);
                self.part(place, record.time, started.wall_time_ms, None);
            }
            Event::RunResumed(RunResumed {
                reason,
                wall_time_ms,
                ..
            }) => {
                self.undo_finish();
                self.part(place, record.time, *wall_time_ms, Some(*reason));
            }
            Event::RunCompleted(_) => self.completed = Some(place),
            Event::ToolCall(call) => self.call(&call.call_id, place),
            Event::ToolResult(result) => self.result(&result.call_id, place),
            Event::LlmCall(LlmCall {
                call_id: Some(id),
                phase: Some(phase),
                ..
            }) => match phase {
                CallPhase::Call => self.call(id, place),
                CallPhase::Result => {
                    self.result(id, place);
                    self.answered = Some(id.as_str().into());
                }
            },
            Event::StructuredOutput(_) => {
                if let Some(id) = self.answered.take() {
                    self.known(&id, place).is_structured = true;
                }
            }
            Event::LlmChunk(chunk) => {
                let call = chunk.call_id.as_ref();
                if let Some(call) = call.and_then(|id| self.calls.get_mut(&**id)) {
                    call.pieces.push(place);
                }
            }
            Event::HttpCall(call) => self.call(&call.call_id, place),
            Event::HttpResult(result) => self.result(&result.call_id, place),
            Event::ApprovalRequest(request) => self.call(&request.approval_id, place),
            Event::ApprovalResponse(response) => self.result(&response.approval_id, place),
            Event::Denied(denied) => match &denied.call_id {
                Some(id) => {
                    let known = self.known(id, place);
                    known.denied = Some(place);
                }
                None => self.step(place),
            },
            Event::Timer(_) => self.step(place),
            Event::Log(log) if log.dropped.is_some() => self.step(place),
            _ => self.note_turn(event, place),
        }
    }

    /// Notes where the turns of an execution begin and end.
    fn note_turn(&mut self, event: &Event, place: Place) {
        match event {
            Event::Prompt(prompt) => self.prompt(prompt.generation, place),
            Event::SessionStatus(status) if status.status == SessionPhase::Finishing => {
                self.finishing = Some(place);
            }
            Event::TurnCompleted(turn) if turn.undone => {
                if let Some(turn) = self.turn.take() {
                    self.prompts.pop();
                    self.undo_from(turn);
                }
            }
            Event::TurnCompleted(_) => {
                self.turn = None;
                self.step(place);
            }
            _ => {}
        }
    }

    fn part(
        &mut self,
        place: Place,
        began_at: Timestamp,
        wall_time_ms: Option<u64>,
        reason: Option<ResumeReason>,
    ) {
        self.parts.push(Part {
            seq: place.seq,
            began_at,
            wall_time_ms,
            reason,
        });
    }

    fn step(&mut self, place: Place) {
        self.act_seq = place.seq;
        self.steps.push(place);
    }

    fn known(&mut self, id: &str, place: Place) -> &mut RecordedCall {
        let known = self.calls.entry(id.into());
        known.or_insert_with(|| RecordedCall {
            first_seq: place.seq,
            ..RecordedCall::default()
        })
    }

    fn call(&mut self, id: &str, place: Place) {
        self.act_seq = place.seq;
        let known = self.known(id, place);
        *known = RecordedCall {
            call: Some(place),
            first_seq: known.first_seq,
            ..RecordedCall::default()
        };
    }

    /// An answer that comes after its turn was undone is none.
    fn result(&mut self, id: &str, place: Place) {
        if let Some(call) = self.calls.get_mut(id) {
            call.result = Some(place);
        }
    }

    /// A prompt is what the guest is told when it asks for the next one.
    fn prompt(&mut self, generation: u64, place: Place) {
        let id = prompt_id(generation);
        self.call(&id, place);
        self.result(&id, place);
        self.turn = Some(place);
        self.generation = generation;
        self.prompts.push((generation, place));
    }

    /// The end of an execution that goes on was none.
    fn undo_finish(&mut self) {
        if let Some(finishing) = self.finishing.take() {
            self.undo_from(finishing);
        }
    }

    /// Takes out what is known from there on: for the guest it never was.
    fn undo_from(&mut self, place: Place) {
        self.calls.retain(|_, call| call.first_seq < place.seq);
        self.steps.retain(|step| step.seq < place.seq);
        self.act_seq = self.act_seq.min(place.seq);
        self.answered = None;
    }
}

/// The id under which a prompt is found among the calls.
pub(crate) fn prompt_id(generation: u64) -> String {
    format!("prompt#{generation}")
}

/// Whether an id is that of a call which is part of another one: what a tool of the host asks for while it does
/// its work. Its number then has a `t` in it, which stands before that of the tool's own call.
pub(crate) fn is_inner_call(id: &str) -> bool {
    let number = id.rsplit_once('#').map(|(_, number)| number);
    number.is_some_and(|number| number.contains('t'))
}

impl Recorded {
    /// A ledger of a store, which was read.
    pub(super) fn new(shelf: Arc<Shelf>, run_id: RunId, file: File, index: RecordIndex) -> Self {
        Self {
            run_id,
            file,
            beside: Beside::Store(shelf),
            index,
            is_export: false,
        }
    }

    /// The same record, of a run that goes on: for the guest of an execution that was told to finish, that never
    /// was.
    #[must_use]
    pub fn going_on(mut self) -> Self {
        self.index.undo_finish();
        self
    }

    /// The run.
    pub fn run_id(&self) -> &RunId {
        &self.run_id
    }

    /// How the run began, with every value whole, and when.
    ///
    /// # Errors
    /// The event cannot be read.
    pub fn started(&self) -> Result<(RunStarted, Timestamp), StoreError> {
        let place = self.index.started.ok_or_else(|| self.never_started())?;
        let recalled = self.whole(self.read(place)?)?;
        match recalled.event {
            Event::RunStarted(started) => Ok((started, recalled.time)),
            _ => Err(self.never_started()),
        }
    }

    fn never_started(&self) -> StoreError {
        StoreError::NeverStarted {
            run_id: self.run_id.clone(),
        }
    }

    /// How it ended, with every value whole, if that is the last event.
    ///
    /// # Errors
    /// The event cannot be read.
    pub fn completed(&self) -> Result<Option<RunCompleted>, StoreError> {
        let Some(end) = self.end()? else {
            return Ok(None);
        };
        match self.whole(end)?.event {
            Event::RunCompleted(completed) => Ok(Some(completed)),
            _ => Ok(None),
        }
    }

    /// Whether the last event is one with which the run, or a part of it, ended.
    pub fn has_end(&self) -> bool {
        self.index.completed.is_some()
    }

    /// The event with which the run ended, if that is the last one.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn end(&self) -> Result<Option<Recalled>, StoreError> {
        let end = self.index.completed.map(|place| self.read(place));
        end.transpose()
    }

    /// The parts of the run, in their order.
    pub fn parts(&self) -> &[Part] {
        &self.index.parts
    }

    /// Events there are.
    pub fn events(&self) -> u64 {
        self.index.head_seq
    }

    /// Whether the ledger has all that it repeats of another one by its first event, which is `started`. It
    /// has not if it was cut off while it was made.
    pub fn repeats_all(&self, started: &RunStarted) -> bool {
        let repeated = started.repeated_events.unwrap_or(0);
        self.index.unended_events > repeated
    }

    /// The call of that id.
    pub fn call(&self, id: &str) -> Option<&RecordedCall> {
        self.index.calls.get(id)
    }

    /// The number of the newest prompt of an execution, and whether its turn was cut off; 0 before the first.
    pub fn newest_prompt(&self) -> (u64, bool) {
        (self.index.generation, self.index.turn.is_some())
    }

    /// The first prompt after that of this number, turns that were undone apart.
    pub fn prompt_after(&self, generation: u64) -> Option<(u64, Place)> {
        let prompts = &self.index.prompts;
        let next = prompts.partition_point(|(number, _)| *number <= generation);
        prompts.get(next).copied()
    }

    /// Every call, in no order.
    pub fn calls(&self) -> impl Iterator<Item = (&str, &RecordedCall)> {
        self.index.calls.iter().map(|(id, call)| (&**id, call))
    }

    /// Runs inside this one of which it does not know that they have ended, in no order.
    ///
    /// # Errors
    /// An event cannot be read.
    pub fn open_inside(&self) -> Result<Vec<RunId>, StoreError> {
        let open = self.index.calls.values();
        let open = open.filter(|call| call.result.is_none());
        let mut inside = Vec::new();
        for place in open.filter_map(|call| call.call) {
            if let Event::ToolCall(call) = self.read(place)?.event {
                inside.extend(call.child_run_id);
            }
        }
        Ok(inside)
    }

    /// What the guest's own thread did beside its calls, in its order: events of its own, polls, looks at
    /// clocks, refusals.
    pub fn steps(&self) -> &[Place] {
        &self.index.steps
    }

    /// Whether the guest did anything after the event numbered `seq`.
    pub fn acts_after(&self, seq: u64) -> bool {
        self.index.act_seq > seq
    }

    /// The event by which a step was entered or a call made, found by the id of either; none when there is
    /// no such thing.
    ///
    /// # Errors
    /// An event cannot be read.
    pub fn find(&self, node: &str) -> Result<Option<Place>, StoreError> {
        if let Some(call) = self.call(node).and_then(|call| call.call) {
            return Ok(Some(call));
        }
        for &place in self.steps() {
            let event = self.read(place)?.event;
            if matches!(event, Event::NodeEnter(enter) if enter.node_id == node) {
                return Ok(Some(place));
            }
        }
        Ok(None)
    }

    /// Whether the host put an event of its own of that name on record for the call of that id.
    ///
    /// # Errors
    /// An event cannot be read.
    pub(crate) fn is_noted(&self, name: &str, call_id: &str) -> Result<bool, StoreError> {
        #[derive(serde::Deserialize)]
        struct Noted<'a> {
            #[serde(borrow)]
            call_id: std::borrow::Cow<'a, str>,
        }
        let mut is_noted = false;
        self.each_before(u64::MAX, &mut |recalled| {
            let is_named = matches!(&recalled.event, Event::Custom(custom) if custom.name == name);
            if recalled.origin != Origin::Host || !is_named {
                return Ok(());
            }
            if let Event::Custom(custom) = self.whole(recalled)?.event {
                let data = custom.data.unwrap_or_default();
                let noted = serde_json::from_str::<Noted<'_>>(data.as_str());
                is_noted |= noted.is_ok_and(|noted| noted.call_id == call_id);
            }
            Ok(())
        })?;
        Ok(is_noted)
    }

    /// Shows every event before the one numbered `seq`, in their order.
    pub(super) fn each_before(
        &self,
        seq: u64,
        visit: &mut dyn FnMut(Recalled) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let file = self
            .file
            .try_clone()
            .map_err(|source| self.unreadable(source))?;
        let mut lines = Lines::longer(file, file::LINE_BYTES_MAX);
        while let Some(line) = lines
            .next_line()
            .map_err(|source| self.unreadable(source))?
        {
            let record = line.parse();
            let record =
                record.map_err(|damage| self.unreadable(io::Error::other(damage.to_string())))?;
            if record.seq >= seq {
                break;
            }
            visit(self.recalled(&record))?;
        }
        Ok(())
    }

    fn recalled(&self, record: &Record) -> Recalled {
        Recalled {
            seq: record.seq,
            time: record.time,
            origin: record.origin,
            event: record.event(),
            is_whole: self.is_export,
        }
    }

    fn unreadable(&self, source: io::Error) -> StoreError {
        self.beside.unreadable(&self.run_id, source)
    }

    /// Reads an event.
    ///
    /// # Errors
    /// It cannot be read, or is no longer there.
    pub fn read(&self, place: Place) -> Result<Recalled, StoreError> {
        let mut line = vec![0; place.bytes];
        let read = self.file.read_exact_at(&mut line, place.byte);
        let record = read.and_then(|()| {
            Record::parse(&line).map_err(|damage: Damage| io::Error::other(damage.to_string()))
        });
        let record = record.map_err(|source| self.unreadable(source))?;
        Ok(self.recalled(&record))
    }

    /// An event of this record with every large value in its place.
    ///
    /// # Errors
    /// As [`super::Store::whole`].
    pub fn whole(&self, recalled: Recalled) -> Result<Recalled, StoreError> {
        if recalled.is_whole {
            return Ok(recalled);
        }
        let event = blob::restore(self.beside.folder(), &self.run_id, recalled.event)?;
        Ok(Recalled {
            event,
            is_whole: true,
            ..recalled
        })
    }

    /// Reads the timer at `place`; none when there is another event.
    ///
    /// # Errors
    /// As [`Recorded::read`].
    pub fn timer(&self, place: Place) -> Result<Option<(Timer, Timestamp)>, StoreError> {
        let recalled = self.read(place)?;
        Ok(match recalled.event {
            Event::Timer(timer) if recalled.origin == Origin::Host => Some((timer, recalled.time)),
            _ => None,
        })
    }
}
