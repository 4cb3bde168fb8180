//! Traces: what a run did, as spans, made from its ledger.
//!
//! A ledger is all that a trace is made from, and the same ledger always gives the same spans: live or years
//! later, exported or printed. Nothing is measured for it and nothing of a run waits for it.
//!
//! [`Collector`] makes the spans, [`document()`] writes them as OTLP/JSON. With the feature `server` there is an
//! `Exporter`, which sends them to a collector.

mod attribute;
mod collect;
mod document;
#[cfg(feature = "server")]
mod export;
mod span;

pub use collect::{Collector, SPANS_MAX};
pub use document::document;
#[cfg(feature = "server")]
pub use export::{
    Exporter, ExporterError, ExporterHandle, ExporterOptions, TraceCounter, TraceCounts,
};
pub use span::{Part, Span, SpanKind, SpanStatus, Value};

/// The name of the scope, and of the service, that spans are of.
pub const SERVICE_NAME: &str = "skillrun";
