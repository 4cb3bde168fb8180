//! Everything that a guest may put on the record, bounded.
//!
//! The `log` and `recorder` interfaces and the two standard streams all write through one
//! [`GuestRecord`], so that their bounds hold for them together.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::run_host::{Denial, GuestEvent, LogLevel, LogOrigin, RecordRefused, RunHost};
use crate::clock::{Clock, Stopwatch};
use crate::limits::{LimitKey, LimitReached, Limits};

/// Bytes of one log line; longer ones are cut. Protects whoever reads the log.
pub(crate) const LOG_LINE_BYTES_MAX: usize = 8 * 1024;
/// Bytes of one event of the guest. Protects the ledger's readers, which hold one line at a time.
pub(crate) const EVENT_BYTES_MAX: usize = 1024 * 1024;
/// Bytes of a step's name.
const NODE_NAME_BYTES_MAX: usize = 128;
/// Bytes of the name of something that was refused; the guest chose it.
const DENIED_NAME_BYTES_MAX: usize = 256;
/// Bytes of a panic's message that are kept for the outcome.
const PANIC_BYTES_MAX: usize = 1024;

/// Why an event was not written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum EmitError {
    /// Larger than [`EVENT_BYTES_MAX`].
    TooLarge,
    /// The run may write no more events.
    Exhausted,
    /// The record refused it, or cannot be written.
    Refused(RecordRefused),
}

/// One run's way to its record.
pub(crate) struct GuestRecord {
    host: Arc<dyn RunHost>,
    limits: Arc<Limits>,
    clock: Clock,
    events: AtomicU64,
    log_bytes: AtomicU64,
    lines_dropped: AtomicU64,
    /// Set once a host call was refused by policy; it turns an error of the guest that says so into
    /// the outcome `denied`.
    denied: AtomicBool,
    /// What the guest's language runtime said about a panic, if it did.
    panic: Mutex<Option<String>>,
}

impl GuestRecord {
    pub(crate) fn new(host: Arc<dyn RunHost>, limits: Arc<Limits>, clock: Clock) -> Self {
        Self {
            host,
            limits,
            clock,
            events: AtomicU64::new(0),
            log_bytes: AtomicU64::new(0),
            lines_dropped: AtomicU64::new(0),
            denied: AtomicBool::new(false),
            panic: Mutex::new(None),
        }
    }

    pub(crate) fn host(&self) -> &dyn RunHost {
        &*self.host
    }

    pub(crate) fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Takes room for `count` events, all or none.
    fn take_events(&self, count: u64) -> bool {
        take(
            &self.events,
            count,
            self.limits.value(LimitKey::GuestEvents),
        )
    }

    pub(crate) fn emit(&self, event: GuestEvent<'_>) -> Result<u64, EmitError> {
        if size(event) > EVENT_BYTES_MAX {
            return Err(EmitError::TooLarge);
        }
        if !self.take_events(1) {
            return Err(EmitError::Exhausted);
        }
        self.host.emit(event).map_err(EmitError::Refused)
    }

    /// Writes one log line, or counts it when there is no room for it.
    pub(crate) fn log(
        &self,
        level: LogLevel,
        origin: LogOrigin,
        message: &str,
        fields: &[(String, String)],
    ) {
        let message = cut(message, LOG_LINE_BYTES_MAX);
        let fields_bytes: usize = fields
            .iter()
            .map(|(name, value)| name.len() + value.len())
            .sum();
        let bytes = u64::try_from(message.len().saturating_add(fields_bytes)).unwrap_or(u64::MAX);
        let written = fields_bytes <= LOG_LINE_BYTES_MAX
            && take(
                &self.log_bytes,
                bytes,
                self.limits.value(LimitKey::LogBytes),
            )
            && self.take_events(1)
            && self.host.log(level, origin, message, fields).is_ok();
        if !written {
            self.lines_dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Writes down that log lines were dropped, if any were.
    pub(crate) fn finish(&self) {
        let lines = self.lines_dropped.swap(0, Ordering::Relaxed);
        if lines > 0 {
            let events_max = self.limits.value(LimitKey::GuestEvents);
            let key = if self.events.load(Ordering::Relaxed) >= events_max {
                LimitKey::GuestEvents
            } else {
                LimitKey::LogBytes
            };
            self.host.logs_dropped(lines, self.reached(key));
        }
    }

    /// Enters a step; one that cannot be recorded has no id and leaves no trace.
    pub(crate) fn enter(self: &Arc<Self>, name: &str) -> Node {
        let name = cut(name, NODE_NAME_BYTES_MAX);
        let id = self
            .take_events(2)
            .then(|| self.host.enter(name).ok())
            .flatten();
        Node {
            record: Arc::clone(self),
            open: id.is_some(),
            id: id.unwrap_or_default(),
            entered: self.clock.stopwatch(),
        }
    }

    pub(crate) fn denied(&self, denial: Denial<'_>) {
        self.denied.store(true, Ordering::Relaxed);
        self.host.denied(Denial {
            capability: cut(denial.capability, DENIED_NAME_BYTES_MAX),
            rule: denial.rule,
            wanted: cut(denial.wanted, DENIED_NAME_BYTES_MAX),
        });
    }

    pub(crate) fn was_denied(&self) -> bool {
        self.denied.load(Ordering::Relaxed)
    }

    /// Keeps what a language runtime says about a panic.
    pub(crate) fn note_panic(&self, message: &str) {
        let mut panic = self.panic_message();
        match &mut *panic {
            Some(known) if known.len() < PANIC_BYTES_MAX => {
                known.push(' ');
                known.push_str(cut(message, PANIC_BYTES_MAX));
            }
            Some(_) => {}
            None => *panic = Some(cut(message, PANIC_BYTES_MAX).to_owned()),
        }
    }

    pub(crate) fn panic_message(&self) -> MutexGuard<'_, Option<String>> {
        self.panic.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn reached(&self, key: LimitKey) -> LimitReached {
        LimitReached {
            key,
            limit: self.limits.get(key),
        }
    }
}

/// Adds `amount` to `used` unless that would exceed `max`.
fn take(used: &AtomicU64, amount: u64, max: u64) -> bool {
    used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |used| {
        used.checked_add(amount).filter(|&sum| sum <= max)
    })
    .is_ok()
}

/// The longest prefix of at most `bytes_max` bytes that ends between two characters.
fn cut(text: &str, bytes_max: usize) -> &str {
    text.get(..text.floor_char_boundary(bytes_max))
        .unwrap_or(text)
}

fn size(event: GuestEvent<'_>) -> usize {
    match event {
        GuestEvent::ToolCall {
            call_id,
            name,
            arguments,
        } => call_id.len() + name.len() + arguments.len(),
        GuestEvent::ToolResult {
            call_id, output, ..
        } => call_id.len() + output.len(),
        GuestEvent::LlmCall {
            model, provider, ..
        } => model.len() + provider.len(),
        GuestEvent::StructuredOutput {
            schema_digest,
            output,
        } => schema_digest.len() + output.len(),
        GuestEvent::Error { message } => message.len(),
        GuestEvent::Custom { name, payload } => name.len() + payload.len(),
    }
}

/// A step that was entered. Dropped while open, it is recorded as failed, also when the guest trapped
/// and its resources went with the store.
#[expect(
    unreachable_pub,
    reason = "the generated bindings export it again, inside this crate"
)]
pub struct Node {
    record: Arc<GuestRecord>,
    id: String,
    entered: Stopwatch,
    open: bool,
}

impl Node {
    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    pub(crate) fn end(&mut self, success: bool) {
        if std::mem::take(&mut self.open) {
            self.record
                .host
                .exit(&self.id, self.entered.elapsed_micros(), success);
        }
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.end(false);
    }
}

#[cfg(test)]
mod tests {
    use super::cut;

    #[test]
    fn a_cut_never_splits_a_character() {
        let text = "🦀".repeat(3);
        for bytes_max in 0..=text.len() + 1 {
            let cut = cut(&text, bytes_max);
            assert!(cut.len() <= bytes_max && bytes_max.min(text.len()) - cut.len() < 4);
            assert!(text.starts_with(cut));
        }
    }
}
