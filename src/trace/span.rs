//! A span, before anyone writes it down.

use crate::id::RunId;
use crate::trace_context::{SpanId, TraceId};

/// What a run did between one process taking it up and that one leaving it.
#[derive(Debug, Clone, PartialEq)]
pub struct Part {
    /// The run.
    pub run_id: RunId,
    /// How often the run had been cut off before, from 0.
    pub number: u64,
    /// Whether the caller may have recorded its part of the trace.
    pub is_sampled: bool,
    /// Whether its parent is a span of the caller's, and not of a run.
    pub is_parent_remote: bool,
    /// The number of the last event that it is made from.
    pub last_seq: u64,
    /// The spans, in the order in which they began; the first is the part as a whole.
    pub spans: Vec<Span>,
    /// Runs inside this one that calls of it began, in that order.
    pub runs_inside: Vec<RunId>,
}

/// Something that took time.
#[derive(Debug, Clone, PartialEq)]
pub struct Span {
    /// The trace that it is in.
    pub trace_id: TraceId,
    /// Its own id.
    pub span_id: SpanId,
    /// The span that it is a part of; none at the beginning of a trace.
    pub parent_span_id: Option<SpanId>,
    /// Which side of a call it is.
    pub kind: SpanKind,
    /// What it is, in few words.
    pub name: String,
    /// Microseconds since 1970 at its beginning.
    pub start_micros: i64,
    /// Microseconds since 1970 at its end; never before its beginning.
    pub end_micros: i64,
    /// How it ended.
    pub status: SpanStatus,
    /// What is known of it, by the names of the OpenTelemetry conventions, or with `skillrun.` before them.
    pub attributes: Vec<(&'static str, Value)>,
}

impl Span {
    /// Microseconds from beginning to end.
    pub fn duration_micros(&self) -> u64 {
        self.end_micros.abs_diff(self.start_micros)
    }
}

/// Which side of a call a span is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpanKind {
    /// None: it happened here.
    Internal,
    /// The side that calls.
    Client,
}

/// How a span ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SpanStatus {
    /// Without an error, or not at all.
    Unset,
    /// With an error, of which this may be told.
    Error(String),
}

/// The value of an attribute.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// A text.
    Text(String),
    /// A number of something.
    Int(i64),
    /// An amount.
    Float(f64),
    /// Yes or no.
    Bool(bool),
}
