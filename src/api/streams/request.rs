//! What a client asks for: which events, and from where on.

use axum::http::HeaderMap;
use serde::{Deserialize, Serialize};
use utoipa::IntoParams;

use super::block::Types;
use crate::api::problem::{Problem, ProblemCode};
use crate::ledger::Event;
use crate::runtime::EventKind;

/// What the stream says about itself, and has no number.
const LAGGED: &str = "lagged";
/// The header field in which a client that comes again says where it was.
const LAST_EVENT_ID: &str = "last-event-id";

/// What may be asked of the stream of one run.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct RunStreamQuery {
    /// The number of the last event that is not wanted. `Last-Event-ID` is heard instead when both are there.
    pub(super) after: Option<String>,
    /// Types of events that are wanted, with commas between them. All of them when it is absent.
    #[param(example = "tool_call,log")]
    pub(super) types: Option<String>,
    /// A ticket, for clients that cannot send `Authorization`.
    #[serde(rename = "ticket")]
    pub(super) _ticket: Option<String>,
}

/// What may be asked of the stream of one execution.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct ExecutionStreamQuery {
    /// The number of the last event that is not wanted; `newest` is the last one that there is. `Last-Event-ID` is
    /// heard instead when both are there.
    pub(super) after: Option<String>,
    /// Types of events that are wanted, with commas between them; `stopped` always is. All of them when it is absent.
    #[param(example = "message_chunk,complete")]
    pub(super) types: Option<String>,
    /// A ticket, for clients that cannot send `Authorization`.
    #[serde(rename = "ticket")]
    pub(super) _ticket: Option<String>,
}

/// What may be asked of the stream of all runs.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct AllStreamQuery {
    /// The id of the last event that is not wanted. `Last-Event-ID` is heard instead when both are there.
    pub(super) after: Option<String>,
    /// Types of events that are wanted, with commas between them. All of them when it is absent.
    #[param(example = "run_started,run_completed")]
    pub(super) types: Option<String>,
    /// The skill whose runs are wanted. All of them when it is absent.
    pub(super) skill: Option<String>,
    /// The run that is wanted. All of them when it is absent.
    pub(super) run: Option<String>,
    /// A ticket, for clients that cannot send `Authorization`.
    #[serde(rename = "ticket")]
    pub(super) _ticket: Option<String>,
}

/// Why a stream begins anew.
#[derive(Debug, Serialize)]
pub(super) struct Reset {
    pub(super) reason: &'static str,
}

/// The types that are wanted.
pub(super) fn types(text: Option<&str>) -> Result<Types, Problem> {
    let Some(text) = text else {
        return Ok(Types::ALL);
    };
    let mut types = Types::NONE;
    for kind in text.split(',') {
        let one = Types::of(kind);
        if one == Types::NONE {
            let known = Event::KINDS.join(", ");
            let detail = format!("unknown type of event {kind:?}: expected some of {known}");
            return Err(Problem::new(ProblemCode::InvalidInput, detail));
        }
        types = types.with(one);
    }
    Ok(types)
}

/// The events of an execution that are wanted, by their types.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ExecutionTypes(Option<Vec<String>>);

impl ExecutionTypes {
    /// # Errors
    /// There is no such type, or it is the stream's own.
    pub(super) fn of(text: Option<&str>) -> Result<Self, Problem> {
        let Some(text) = text else {
            return Ok(Self(None));
        };
        let known = EventKind::NAMES.iter().filter(|name| **name != LAGGED);
        let known: Vec<&str> = known.copied().collect();
        let mut types = Vec::new();
        for kind in text.split(',') {
            if !known.contains(&kind) {
                let known = known.join(", ");
                let detail = format!("unknown type of event {kind:?}: expected some of {known}");
                return Err(Problem::new(ProblemCode::InvalidInput, detail));
            }
            if !types.iter().any(|one| one == kind) {
                types.push(kind.to_owned());
            }
        }
        Ok(Self(Some(types)))
    }

    /// Whether an event is one of them. The last one is always: after it there is none.
    pub(super) fn takes(&self, kind: &EventKind) -> bool {
        let is_last = matches!(kind, EventKind::Stopped { .. });
        let is_one = |types: &Vec<String>| types.iter().any(|one| one == kind.name());
        is_last || self.0.as_ref().is_none_or(is_one)
    }
}

/// The id of the last event that the client has, if it has one.
pub(super) fn last_id(headers: &HeaderMap, after: Option<String>) -> Option<String> {
    let header = headers.get(LAST_EVENT_ID);
    let header = header.map(|id| String::from_utf8_lossy(id.as_bytes()).into_owned());
    header.or(after).filter(|id| !id.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_type_can_be_asked_for_and_nothing_else() {
        for kind in Event::KINDS {
            let types = types(Some(kind)).unwrap();
            assert!(types.has_any(Types::of(kind)) && Types::ALL.has_any(types));
        }
        let some = types(Some("log,error")).unwrap();
        assert!(some.has_any(Types::of("error")) && !some.has_any(Types::of("tool_call")));
        for text in ["", "log,", "hologram", " log"] {
            assert!(types(Some(text)).is_err(), "{text:?}");
        }
    }

    #[test]
    fn every_type_of_an_execution_can_be_asked_for_and_the_last_event_always_is() {
        let stopped = EventKind::Stopped {
            status: crate::runtime::ExecutionStatus::Stopped,
            code: crate::outcome::OutcomeCode::Cancelled,
            reason: None,
            exit_code: None,
            message: None,
        };
        for name in EventKind::NAMES {
            let types = ExecutionTypes::of(Some(name));
            assert_eq!(types.is_err(), name == LAGGED, "{name}");
            assert!(types.is_err() || types.unwrap().takes(&stopped));
        }
        assert_eq!(EventKind::NAMES[1], EventKind::BootReady.name());
        let types = ExecutionTypes::of(Some("ready,complete,ready")).unwrap();
        assert!(types.takes(&EventKind::Ready) && !types.takes(&EventKind::BootReady));
        assert!(
            ExecutionTypes::of(None)
                .unwrap()
                .takes(&EventKind::BootReady)
        );
        for text in ["", "ready,", " ready", "run_started"] {
            assert!(ExecutionTypes::of(Some(text)).is_err(), "{text:?}");
        }
    }

    #[test]
    fn the_header_field_is_heard_first() {
        let mut headers = HeaderMap::new();
        let after = || Some("3".to_owned());
        assert_eq!(last_id(&headers, after()).as_deref(), Some("3"));
        headers.insert(LAST_EVENT_ID, "7".parse().unwrap());
        assert_eq!(last_id(&headers, after()).as_deref(), Some("7"));
        headers.insert(LAST_EVENT_ID, "".parse().unwrap());
        assert_eq!(last_id(&headers, after()), None);
    }
}
