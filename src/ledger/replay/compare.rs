//! Whether what a guest does now is what it did then.

use super::Recalled;
use crate::call::{TurnStop, Usage};
use crate::ledger::blob;
use crate::ledger::event::{Event, Origin};
use crate::ledger::payload::RunCompleted;
use crate::telemetry::chain;

/// Bytes of an event that are shown of each side.
const SHOWN_BYTES_MAX: usize = 400;
/// Bytes of them that are the same on both sides and come before what is not.
const SHOWN_BEFORE_BYTES_MAX: usize = 100;

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
        Err(self.difference((self.origin, &recorded), (origin, &now)))
    }

    /// Compares the end of a run with the one that it comes to now: how it ended, and with what result. Words
    /// about an error do not count, except as a result.
    ///
    /// # Errors
    /// They are not the same.
    pub fn check_end(&self, now: &RunCompleted) -> Result<(), Difference> {
        let recorded = self.reduced();
        let now = reduced(&now.clone().into(), true);
        // At the end of an export it cannot be seen whether what looks like a reference is one.
        let also = reduced(&self.event, true);
        let is_same = |recorded: &Event| match (recorded, &now) {
            (Event::RunCompleted(recorded), Event::RunCompleted(now)) => {
                (recorded.status, recorded.code) == (now.status, now.code)
                    && (recorded.truncated || recorded.output == now.output)
            }
            _ => false,
        };
        if is_same(&recorded) || is_same(&also) {
            return Ok(());
        }
        Err(self.difference((self.origin, &recorded), (Origin::Host, &now)))
    }

    fn difference(&self, recorded: (Origin, &Event), now: (Origin, &Event)) -> Difference {
        let (old, new) = (payload(recorded.1), payload(now.1));
        let same = old.bytes().zip(new.bytes()).take_while(|(a, b)| a == b);
        let from = match (recorded.1.kind() == now.1.kind(), same.count()) {
            (true, same) if same > SHOWN_BYTES_MAX / 2 => same - SHOWN_BEFORE_BYTES_MAX,
            _ => 0,
        };
        Difference {
            seq: self.seq,
            recorded: line(recorded, &old, from),
            now: line(now, &new, from),
        }
    }

    fn reduced(&self) -> Event {
        // In a ledger, what looks like a reference is one.
        reduced(&self.event, self.is_whole)
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
            // Ledgers of older versions do not have it, and the tool that asks decides it.
            request.needs_answer = false;
        }
        Event::TurnCompleted(turn) => {
            // An agent whose turn is cancelled is told so, and does not know how it ended.
            turn.stop_reason = TurnStop::EndTurn;
            turn.usage = Usage::default();
            turn.duration_micros = 0;
        }
        Event::RunCompleted(completed) => {
            completed.queued_micros = None;
            completed.duration_micros = None;
            completed.cost_usd = None;
            completed.hint = None;
            completed.limit = None;
        }
        _ => {}
    }
    event
}

fn shown(origin: Origin, event: &Event) -> String {
    line((origin, event), &payload(event), 0)
}

fn payload(event: &Event) -> String {
    let mut payload = Vec::new();
    let serialized = event.serialize_payload(&mut serde_json::Serializer::new(&mut payload));
    match serialized {
        Ok(()) => String::from_utf8_lossy(&payload).into_owned(),
        Err(error) => chain(&error),
    }
}

/// An event with a part of its payload.
fn line((origin, event): (Origin, &Event), payload: &str, from: usize) -> String {
    let from = payload.floor_char_boundary(from);
    let until = payload.floor_char_boundary(from.saturating_add(SHOWN_BYTES_MAX));
    let shown = payload.get(from..until).unwrap_or_default();
    let before = if from == 0 { "" } else { "…" };
    let after = if until == payload.len() { "" } else { "…" };
    let by = match origin {
        Origin::Host => "",
        Origin::Guest => " of the guest",
    };
    format!("{}{by} {before}{shown}{after}", event.kind())
}

/// An event that comes now, in a line.
pub(crate) fn shown_now(origin: Origin, event: &Event) -> String {
    shown(origin, &reduced(event, true))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Timestamp;
    use crate::ledger::payload::{Custom, RunStatus, ToolCall};
    use crate::ledger::{Digest, Json};
    use crate::outcome::OutcomeCode;

    fn recalled(event: impl Into<Event>) -> Recalled {
        Recalled {
            seq: 7,
            time: Timestamp::from_unix_micros(0),
            origin: Origin::Host,
            event: event.into(),
            is_whole: false,
        }
    }

    #[test]
    fn the_part_of_a_long_event_is_shown_in_which_it_differs() {
        let event = |end: &str| {
            let data = Json::string(&format!("{}{end}", "ü".repeat(1000)));
            Event::from(Custom {
                name: "x".to_owned(),
                data: Some(data),
            })
        };
        let same = recalled(event("a"));
        assert_eq!(same.check(Origin::Host, &event("a")), Ok(()));
        let difference = same.check(Origin::Host, &event("b")).unwrap_err();
        assert_eq!(difference.seq, 7);
        assert!(difference.recorded.ends_with("üa\"}"), "{difference:?}");
        assert!(difference.now.ends_with("üb\"}"), "{difference:?}");
        assert!(difference.now.starts_with("custom …"), "{difference:?}");
        let other = same.check(Origin::Host, &ToolCall::default().into());
        assert!(other.unwrap_err().recorded.starts_with("custom {"));
    }

    #[test]
    fn the_end_is_the_same_if_code_and_result_are() {
        let end = |code, output: Option<&str>| RunCompleted {
            output: output.map(|text| Json::parse(text).unwrap()),
            duration_micros: Some(u64::from(output.is_some())),
            error: Some("words".into()),
            ..RunCompleted::new(RunStatus::Ok, code)
        };
        let recorded = recalled(end(OutcomeCode::Ok, Some("[1]")));
        assert_eq!(
            recorded.check_end(&end(OutcomeCode::Ok, Some("[1]"))),
            Ok(())
        );
        for other in [
            end(OutcomeCode::Ok, Some("[2]")),
            end(OutcomeCode::Ok, None),
            end(OutcomeCode::Trap, Some("[1]")),
        ] {
            assert!(recorded.check_end(&other).is_err(), "{other:?}");
        }
        let truncated = recalled(RunCompleted {
            truncated: true,
            ..end(OutcomeCode::Ok, None)
        });
        assert_eq!(
            truncated.check_end(&end(OutcomeCode::Ok, Some("[3]"))),
            Ok(())
        );
    }

    /// A result that looks like a reference stands in an export as it is, and in a ledger as a reference to
    /// itself.
    #[test]
    fn a_result_that_looks_like_a_reference_is_found_in_both_forms() {
        let digest = Digest::of(b"x");
        let forged = format!(r#"{{"blob":"{digest}","bytes":1,"preview":"","truncated":true}}"#);
        let end = RunCompleted {
            output: Some(Json::parse(&forged).unwrap()),
            ..RunCompleted::new(RunStatus::Ok, OutcomeCode::Ok)
        };
        let in_a_ledger = blob::referenced(&end.clone().into(), true);
        assert_ne!(in_a_ledger, end.clone().into());
        for recorded in [in_a_ledger, end.clone().into()] {
            assert_eq!(recalled(recorded).check_end(&end), Ok(()));
        }
    }
}
