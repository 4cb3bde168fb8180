//! Events that are ready to be sent, some at a time.

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use serde::Serialize;

use super::frame;
use crate::id::RunId;
use crate::ledger::{Corruption, Entry, Event, Position, Record};
use crate::runner::shown_line;

/// Bytes after which a block takes no further event. Protects the memory of whoever holds one.
pub(super) const BLOCK_BYTES: usize = 64 * 1024;
/// Bytes of a line that is held in memory; of a longer one only its place is, and it is read when it is sent.
/// Protects the memory of the host from clients that do not read.
const LINE_HELD_BYTES_MAX: usize = 64 * 1024;
/// What a block takes beside its bytes and its items, about.
const BLOCK_OVERHEAD_BYTES: usize = 256;

/// A run, as a filter knows it.
#[derive(Debug)]
pub(super) struct RunName {
    pub(super) run_id: RunId,
    pub(super) skill: Option<String>,
}

/// One event of a block.
#[derive(Debug)]
pub(super) struct Item {
    /// Where its bytes end in those of the block.
    end: usize,
    /// The types it passes for: one bit, or all of them.
    pub(super) types: Types,
    /// Its id, if it has one.
    pub(super) id: Option<u64>,
    /// The place after it in its ledger.
    after: Position,
    /// Absent where all are of one run, or when it is for everybody.
    pub(super) run: Option<Arc<RunName>>,
}

/// A set of types of events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Types(u32);

impl Types {
    pub(super) const NONE: Self = Self(0);
    pub(super) const ALL: Self = Self(u32::MAX);

    /// The set of one known type; empty for any other.
    pub(super) fn of(kind: &str) -> Self {
        let at = Event::KINDS.iter().position(|known| *known == kind);
        let bit = at.and_then(|at| 1_u32.checked_shl(u32::try_from(at).ok()?));
        Self(bit.unwrap_or(0))
    }

    pub(super) fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub(super) fn has_any(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }
}

/// A line that is read when it is sent.
#[derive(Debug, Clone)]
pub(super) struct LongLine {
    pub(super) run_id: RunId,
    pub(super) at: Position,
    /// Its bytes, without the break.
    pub(super) bytes: u64,
}

/// Consecutive events.
#[derive(Debug)]
pub(super) struct Block {
    /// The number of the first one, from 0: the lines before it in its ledger, or the events before it of all runs.
    pub(super) first: u64,
    /// The place before the first one.
    before: Position,
    pub(super) items: Vec<Item>,
    /// All of them as they are sent. When the last one is a long line, only its beginning is here.
    pub(super) bytes: Bytes,
    pub(super) long_line: Option<LongLine>,
}

impl Block {
    /// The number after that of the last event.
    pub(super) fn next(&self) -> u64 {
        self.first
            .saturating_add(u64::try_from(self.items.len()).unwrap_or(u64::MAX))
    }

    /// What it takes of the memory, about.
    pub(super) fn cost_bytes(&self) -> usize {
        self.bytes.len() + self.items.len() * size_of::<Item>() + BLOCK_OVERHEAD_BYTES
    }

    /// The bytes of the items from `from` on up to, not with, `to`.
    pub(super) fn slice(&self, from: usize, to: usize) -> Bytes {
        self.bytes.slice(self.start(from)..self.start(to))
    }

    fn start(&self, item: usize) -> usize {
        let before = item
            .checked_sub(1)
            .and_then(|before| self.items.get(before));
        before.map_or(0, |before| before.end)
    }

    /// The place after the last item.
    pub(super) fn after(&self) -> Position {
        self.items.last().map_or(self.before, |item| item.after)
    }
}

/// Makes a block.
pub(super) struct Builder {
    block: Block,
    bytes: Vec<u8>,
}

/// What a line is that is no event.
#[derive(Serialize)]
struct Damaged {
    line: u64,
    byte: u64,
    reason: String,
}

impl Damaged {
    fn of(corruption: &Corruption) -> Self {
        Self {
            line: corruption.line,
            byte: corruption.byte,
            reason: corruption.damage.to_string(),
        }
    }
}

impl Builder {
    pub(super) fn new(first: u64, before: Position) -> Self {
        Self {
            block: Block {
                first,
                before,
                items: Vec::new(),
                bytes: Bytes::new(),
                long_line: None,
            },
            bytes: Vec::new(),
        }
    }

    pub(super) fn is_full(&self) -> bool {
        self.bytes.len() >= BLOCK_BYTES || self.block.long_line.is_some()
    }

    /// The number of the next event.
    pub(super) fn next(&self) -> u64 {
        self.block.next()
    }

    /// Adds a line of one run's ledger, which begins and ends at these places.
    pub(super) fn add_line(&mut self, entry: &Entry, at: Position, after: Position) {
        match entry {
            Entry::Record(record) => {
                frame::push_head(&mut self.bytes, &record.seq.to_string(), &record.kind);
                self.add_record(record, at, after, record.seq, None);
            }
            Entry::Damaged(corruption) => {
                frame::push_control(&mut self.bytes, "damaged", &Damaged::of(corruption));
                self.add(Types::ALL, None, after, None);
            }
        }
    }

    /// Adds an event of any run, with an id of its own.
    pub(super) fn add_any(
        &mut self,
        record: &Record,
        at: Position,
        epoch: &str,
        run: Arc<RunName>,
    ) {
        let id = self.next().saturating_add(1);
        frame::push_head(&mut self.bytes, &format!("{epoch}-{id}"), &record.kind);
        self.add_record(record, at, Position::default(), id, Some(run));
    }

    /// Says something to everybody.
    pub(super) fn add_control(&mut self, name: &'static str, data: &impl Serialize) {
        frame::push_control(&mut self.bytes, name, data);
        self.add(Types::ALL, None, Position::default(), None);
    }

    fn add_record(
        &mut self,
        record: &Record,
        at: Position,
        after: Position,
        id: u64,
        run: Option<Arc<RunName>>,
    ) {
        let line = shown_line(record);
        // One that was changed is no longer in the file as it is sent. It is the first of its run and has some
        // hundred KiB at most, since larger values are stored elsewhere.
        if line.len() > LINE_HELD_BYTES_MAX && matches!(line, Cow::Borrowed(_)) {
            self.block.long_line = Some(LongLine {
                run_id: record.run_id.clone(),
                at,
                bytes: u64::try_from(record.line.len()).unwrap_or(u64::MAX),
            });
        } else {
            frame::push_data(&mut self.bytes, line.as_bytes());
            self.bytes.extend_from_slice(frame::END);
        }
        self.add(Types::of(&record.kind), Some(id), after, run);
    }

    fn add(&mut self, types: Types, id: Option<u64>, after: Position, run: Option<Arc<RunName>>) {
        self.block.items.push(Item {
            end: self.bytes.len(),
            types,
            id,
            after,
            run,
        });
    }

    /// The block; none when nothing was added.
    pub(super) fn build(mut self) -> Option<Block> {
        if self.block.items.is_empty() {
            return None;
        }
        self.bytes.shrink_to_fit();
        self.block.bytes = self.bytes.into();
        Some(self.block)
    }
}
