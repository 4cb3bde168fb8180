//! Whether what a guest does now is what it did then.

use super::Recalled;
use crate::ledger::blob;
use crate::ledger::event::{Event, Origin};
use crate::telemetry::chain;

/// Bytes of an event that are shown of each side.
const SHOWN_BYTES_MAX: usize = 400;

/// Two events that should be the same: what is on record, and what came now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// The number of the recorded event; 0 when the record has nothing more.
    pub seq: u64,
    /// What is on record there.
    pub recorded: String,
    /// What came now.
    pub now: String,
}

impl Recalled {
    /// Compares it with an event that comes now, redacted as it would be recorded. What of an event is
    /// different each time, such as how long something took, does not count.
    ///
    /// # Errors
    /// They are not the same.
    pub fn check(&self, origin: Origin, now: &Event) -> Result<(), Difference> {
        let (recorded, now) = (self.reduced(), reduced(now, true));
        if self.origin == origin && recorded == now {
            return Ok(());
        }
        Err(Difference {
            seq: self.seq,
            recorded: shown(self.origin, &recorded),
            now: shown(origin, &now),
        })
    }

    fn reduced(&self) -> Event {
        // What looks like a reference here is one.
        reduced(&self.event, false)
    }

    /// The event in a line.
    pub fn shown(&self) -> String {
        shown(self.origin, &self.reduced())
    }
}

/// The event with a reference for each large value, and without what is different each time.
fn reduced(event: &Event, is_whole: bool) -> Event {
    let mut event = blob::referenced(event, is_whole);
    match &mut event {
        Event::NodeEnter(enter) => enter.span_id = None,
        Event::NodeExit(exit) => exit.duration_micros = 0,
        Event::Timer(timer) => timer.duration_micros = 0,
        Event::Denied(denied) => {
            // The capability decides; what is said about it may have other words by now.
            denied.rule = None;
            denied.hint = None;
        }
        Event::ToolCall(call) => {
            // What a call is found to be belongs to its answer: which tool a short name stands for, what
            // a repetition would do, which run it is.
            call.name = call.asked.take().unwrap_or(std::mem::take(&mut call.name));
            call.effect = crate::call::Effect::default();
            call.child_run_id = None;
        }
        Event::LlmCall(call) => {
            if let Some(asked) = call.asked.take() {
                call.model = asked;
                call.provider = String::new();
            } else if !call.provider.is_empty() {
                call.model = format!("{}/{}", call.provider, call.model);
                call.provider = String::new();
            }
            call.effect = None;
        }
        Event::ApprovalRequest(request) => {
            // The binding names the run, which is another one when a record was copied; the times are the
            // operator's to set.
            request.binding = None;
            request.timeout_seconds = 0;
            request.warn_at_seconds = None;
        }
        _ => {}
    }
    event
}

pub(super) fn shown(origin: Origin, event: &Event) -> String {
    let mut payload = Vec::new();
    let serialized = event.serialize_payload(&mut serde_json::Serializer::new(&mut payload));
    let payload = match serialized {
        Ok(()) => String::from_utf8_lossy(&payload).into_owned(),
        Err(error) => chain(&error),
    };
    let cut = payload.floor_char_boundary(SHOWN_BYTES_MAX);
    let (shown, rest) = payload.split_at(cut);
    let dots = if rest.is_empty() { "" } else { "…" };
    let by = match origin {
        Origin::Host => "",
        Origin::Guest => " of the guest",
    };
    format!("{}{by} {shown}{dots}", event.kind())
}

/// An event that comes now, in a line.
pub(crate) fn shown_now(origin: Origin, event: &Event) -> String {
    shown(origin, &reduced(event, true))
}
