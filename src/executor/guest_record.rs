//! Everything that a guest may put on the record, bounded.
//!
//! The `log` and `recorder` interfaces and the two standard streams all write through one
//! [`GuestRecord`], so that their bounds hold for them together.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use super::run_host::{Denial, GuestEvent, LogLevel, LogOrigin, RecordRefused, RunHost};
use crate::call::SessionUpdate;
use crate::clock::{Clock, Stopwatch};
use crate::limits::{Budget, LimitKey, LimitReached, Limits};

/// Bytes of one log line; longer ones are cut. Protects whoever reads the log.
pub(crate) const LOG_LINE_BYTES_MAX: usize = 8 * 1024;
/// Bytes of one event of the guest. Protects the ledger's readers, which hold one line at a time.
pub(crate) const EVENT_BYTES_MAX: usize = 1024 * 1024;
/// Bytes of a name or an id that the guest chose. Protects listings, which show them whole.
pub(crate) const NAME_BYTES_MAX: usize = 128;
/// What a line of the ledger takes beside the guest's text, so that a flood of empty ones ends too.
const EVENT_OVERHEAD_BYTES: u64 = 256;
/// The place of one thing that was waited for and is ready.
const POLL_PLACE_BYTES: u64 = 8;
const LOG_OVERHEAD_BYTES: u64 = 64;
const PLAN_ENTRY_OVERHEAD_BYTES: u64 = 64;
const LOG_FIELD_OVERHEAD_BYTES: u64 = 8;
/// Refused calls of a run that are recorded one by one; further ones are counted. Protects the ledger,
/// since being refused costs a guest nothing.
const DENIALS_MAX: u64 = 1000;
/// Bytes of the name of something that was refused; the guest chose it.
const DENIED_NAME_BYTES_MAX: usize = 256;
/// Bytes of a panic's message that are kept for the outcome.
const PANIC_BYTES_MAX: usize = 1024;

/// Why an event was not written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum EmitError {
    /// Larger than [`EVENT_BYTES_MAX`].
    TooLarge,
    /// A name or an id in it is longer than [`NAME_BYTES_MAX`].
    NameTooLong,
    /// The run may write no more events.
    Exhausted,
    /// The record refused it, or cannot be written.
    Refused(RecordRefused),
}

/// One run's way to its record.
pub(crate) struct GuestRecord {
    host: Arc<dyn RunHost>,
    budget: Arc<Budget>,
    clock: Clock,
    lines_dropped: AtomicU64,
    /// The limit for which the first line was dropped.
    dropped_for: OnceLock<LimitReached>,
    /// Host calls that were refused by policy before they had an id.
    denials: AtomicU64,
    /// The capability for which the first denial was not recorded.
    denial_counted: OnceLock<String>,
    was_rejected: AtomicBool,
    /// What was refused last. One refusal is enough to turn an error of the guest that says so into the
    /// outcome `denied`.
    last_denial: Mutex<Option<String>>,
    /// What the guest's language runtime said about a panic, if it did.
    panic: Mutex<Option<String>>,
}

impl GuestRecord {
    pub(crate) fn new(host: Arc<dyn RunHost>, budget: Arc<Budget>, clock: Clock) -> Self {
        Self {
            host,
            budget,
            clock,
            lines_dropped: AtomicU64::new(0),
            dropped_for: OnceLock::new(),
            denials: AtomicU64::new(0),
            denial_counted: OnceLock::new(),
            was_rejected: AtomicBool::new(false),
            last_denial: Mutex::new(None),
            panic: Mutex::new(None),
        }
    }

    pub(crate) fn host(&self) -> &dyn RunHost {
        &*self.host
    }

    pub(crate) fn budget(&self) -> &Arc<Budget> {
        &self.budget
    }

    pub(crate) fn limits(&self) -> &Limits {
        self.budget.limits()
    }

    /// Starts to measure a time.
    pub(crate) fn stopwatch(&self) -> Stopwatch {
        self.clock.stopwatch()
    }

    pub(crate) fn emit(&self, event: GuestEvent<'_>) -> Result<u64, EmitError> {
        let (names, content) = texts(event);
        if names.iter().any(|name| name.len() > NAME_BYTES_MAX) {
            return Err(EmitError::NameTooLong);
        }
        if content.len() > EVENT_BYTES_MAX {
            return Err(EmitError::TooLarge);
        }
        let bytes = len(content).saturating_add(EVENT_OVERHEAD_BYTES);
        self.budget
            .take(LimitKey::GuestEventBytes, bytes)
            .and_then(|()| self.budget.take(LimitKey::GuestEvents, 1))
            .map_err(|_reached| EmitError::Exhausted)?;
        self.host.emit(event).map_err(EmitError::Refused)
    }

    /// Tells whoever watches the execution something.
    pub(crate) fn tell(&self, update: &SessionUpdate) -> Result<(), EmitError> {
        let bytes = update_bytes(update);
        if bytes > len_of(EVENT_BYTES_MAX) {
            return Err(EmitError::TooLarge);
        }
        self.budget
            .take(
                LimitKey::GuestEventBytes,
                bytes.saturating_add(EVENT_OVERHEAD_BYTES),
            )
            .and_then(|()| self.budget.take(LimitKey::GuestEvents, 1))
            .map_err(|_reached| EmitError::Exhausted)?;
        self.host.tell(update).map_err(EmitError::Refused)
    }

    /// Writes one log line, or counts it when there is no room for it. Fields beyond the bound of a line
    /// are left out.
    pub(crate) fn log(
        &self,
        level: LogLevel,
        origin: LogOrigin,
        message: &str,
        fields: &[(String, String)],
    ) -> Result<(), RecordRefused> {
        let message = cut(message, LOG_LINE_BYTES_MAX);
        let mut bytes = len(message).saturating_add(LOG_OVERHEAD_BYTES);
        let bytes_max = u64::try_from(LOG_LINE_BYTES_MAX).unwrap_or(u64::MAX);
        let fitting = fields.iter().take_while(|(name, value)| {
            let field = len(name).saturating_add(len(value));
            bytes = bytes
                .saturating_add(field)
                .saturating_add(LOG_FIELD_OVERHEAD_BYTES);
            bytes <= bytes_max.saturating_mul(2)
        });
        let fields = fields.get(..fitting.count()).unwrap_or_default();
        let bytes = bytes.min(bytes_max.saturating_mul(2));
        let room = self.budget.take(LimitKey::LogBytes, bytes);
        if let Err(reached) = room.and_then(|()| self.budget.take(LimitKey::GuestEvents, 1)) {
            self.lines_dropped.fetch_add(1, Ordering::Relaxed);
            self.dropped_for.get_or_init(|| reached);
            return Ok(());
        }
        self.host.log(level, origin, message, fields)
    }

    /// Writes down that log lines were dropped and denials were only counted, if any were.
    pub(crate) fn finish(&self) {
        let lines = self.lines_dropped.swap(0, Ordering::Relaxed);
        if let Some(&reached) = self.dropped_for.get() {
            self.host.logs_dropped(lines, reached);
        }
        if let Some(capability) = self.denial_counted.get() {
            let calls = self.denials.swap(0, Ordering::Relaxed);
            self.host.denied(Denial {
                capability,
                rule: "refused like those before, and only counted",
                wanted: &format!("{} more calls", calls.saturating_sub(DENIALS_MAX)),
                call_id: None,
            });
        }
    }

    /// Enters a step; one for which there is no room has no id and leaves no trace.
    pub(crate) fn enter(self: &Arc<Self>, name: &str) -> Result<Node, RecordRefused> {
        let name = cut(name, NAME_BYTES_MAX);
        let id = match self.budget.take(LimitKey::GuestEvents, 2) {
            Ok(()) => Some(self.host.enter(name)?),
            Err(_reached) => None,
        };
        Ok(Node {
            record: Arc::clone(self),
            open: id.is_some(),
            id: id.unwrap_or_default(),
            entered: self.clock.stopwatch(),
        })
    }

    /// Takes what the record of a wait for so many things needs, whatever comes of it and whether it is
    /// written or read. As with steps, its line is one event, and only what makes it longer is counted.
    pub(crate) fn take_poll(&self, waited_for: usize) -> Result<(), LimitReached> {
        let places = u64::try_from(waited_for).unwrap_or(u64::MAX);
        let bytes = places.saturating_mul(POLL_PLACE_BYTES);
        self.budget.take(LimitKey::GuestEventBytes, bytes)?;
        self.budget.take(LimitKey::GuestEvents, 1)
    }

    /// Puts on record what came of a wait.
    pub(crate) fn polled(&self, ready: &[u32], waited: &Stopwatch) -> Result<(), RecordRefused> {
        self.host.polled(ready, waited.elapsed_micros())
    }

    /// Notes a refusal that is on record.
    pub(crate) fn note_denial(&self, capability: &str, rule: &str) {
        let capability = cut(capability, DENIED_NAME_BYTES_MAX);
        let last = format!("{capability}: {rule}");
        *self
            .last_denial
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = Some(last);
    }

    /// Puts a refusal on record. One of a call with an id always gets there: a replay looks for it, and
    /// its room was taken with that of the call.
    pub(crate) fn denied(&self, denial: Denial<'_>) {
        self.note_denial(denial.capability, denial.rule);
        let capability = cut(denial.capability, DENIED_NAME_BYTES_MAX);
        let is_counted = denial.call_id.is_none();
        if is_counted && self.denials.fetch_add(1, Ordering::Relaxed) >= DENIALS_MAX {
            self.denial_counted.get_or_init(|| capability.to_owned());
            return;
        }
        self.host.denied(Denial {
            capability,
            rule: denial.rule,
            wanted: cut(denial.wanted, DENIED_NAME_BYTES_MAX),
            call_id: denial.call_id,
        });
    }

    /// The last capability that a host call was refused for, with the rule.
    pub(crate) fn last_denial(&self) -> Option<String> {
        let last = self.last_denial.lock();
        last.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Notes that somebody, or a policy, said no.
    pub(crate) fn note_rejection(&self) {
        self.was_rejected.store(true, Ordering::Relaxed);
    }

    /// Whether a question of the run was answered with no.
    pub(crate) fn was_rejected(&self) -> bool {
        self.was_rejected.load(Ordering::Relaxed)
    }

    pub(crate) fn was_denied(&self) -> bool {
        self.last_denial().is_some()
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
        self.budget.reached(key)
    }
}

/// The longest prefix of at most `bytes_max` bytes that ends between two characters.
pub(super) fn cut(text: &str, bytes_max: usize) -> &str {
    text.get(..text.floor_char_boundary(bytes_max))
        .unwrap_or(text)
}

fn len(text: &str) -> u64 {
    len_of(text.len())
}

fn len_of(bytes: usize) -> u64 {
    u64::try_from(bytes).unwrap_or(u64::MAX)
}

/// What an update takes of the ledger beside its line.
fn update_bytes(update: &SessionUpdate) -> u64 {
    match update {
        SessionUpdate::MessageChunk { text } | SessionUpdate::Reasoning { text } => len(text),
        SessionUpdate::Plan { entries } => entries
            .iter()
            .map(|entry| len(&entry.description).saturating_add(PLAN_ENTRY_OVERHEAD_BYTES))
            .fold(0, u64::saturating_add),
        SessionUpdate::ContextWindow { .. } => 0,
    }
}

/// The names and ids in an event, and its content.
fn texts(event: GuestEvent<'_>) -> ([&str; 2], &str) {
    match event {
        GuestEvent::ToolCall {
            call_id,
            name,
            arguments,
        } => ([call_id, name], arguments),
        GuestEvent::ToolResult {
            call_id, output, ..
        } => ([call_id, ""], output),
        GuestEvent::LlmCall {
            model, provider, ..
        } => ([model, provider], ""),
        GuestEvent::StructuredOutput {
            schema_digest,
            output,
        } => ([schema_digest, ""], output),
        GuestEvent::Error { message } => (["", ""], message),
        GuestEvent::Custom { name, payload } => ([name, ""], payload),
    }
}

/// A step that was entered. One that is still open when the guest lets go of it, or when the guest's call
/// ended, is recorded as failed. Dropped in mid-work with all that is the guest's, it leaves no trace: a
/// run that goes on from its record comes to the end of the step yet.
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
