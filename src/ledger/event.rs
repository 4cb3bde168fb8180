//! The vocabulary of events, closed for writers and open for readers.

use serde::{Deserialize, Serialize};

use super::json::{BlobRef, Json, Text};
use super::payload::{
    ApprovalRequest, ApprovalResponse, Custom, Denied, ErrorReport, HttpCall, HttpResult, LlmCall,
    LlmChunk, Log, NodeEnter, NodeExit, Prompt, RunCompleted, RunResumed, RunStarted,
    SessionStatus, SessionTold, StructuredOutput, Timer, ToolCall, ToolResult, TurnCompleted,
};

/// Who says that an event happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// The host saw it.
    Host,
    /// The guest claims it.
    Guest,
}

impl Origin {
    /// The origin as it stands in a ledger.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Host => "host",
            Self::Guest => "guest",
        }
    }
}

/// A payload field that may be too large for a line.
pub(super) enum Large<'a> {
    /// JSON of a caller, a guest, a tool or a model.
    Json(&'a Json),
    /// Text of any of those.
    Text(&'a Text),
}

impl Large<'_> {
    /// The blob that stands for the field, if one does.
    pub(super) fn blob(&self) -> Option<BlobRef> {
        match self {
            Self::Json(json) => json.blob(),
            Self::Text(Text::Inline(_)) => None,
            Self::Text(Text::Blob(reference)) => Some(reference.clone()),
        }
    }
}

/// As [`Large`], to be replaced.
pub(super) enum LargeMut<'a> {
    Json(&'a mut Json),
    Text(&'a mut Text),
}

/// A field's type, as far as it may be large.
trait Field {
    fn visit(&self, visitor: &mut dyn FnMut(Large<'_>));
    fn visit_mut(&mut self, visitor: &mut dyn FnMut(LargeMut<'_>));
}

impl Field for Json {
    fn visit(&self, visitor: &mut dyn FnMut(Large<'_>)) {
        visitor(Large::Json(self));
    }

    fn visit_mut(&mut self, visitor: &mut dyn FnMut(LargeMut<'_>)) {
        visitor(LargeMut::Json(self));
    }
}

impl Field for Text {
    fn visit(&self, visitor: &mut dyn FnMut(Large<'_>)) {
        visitor(Large::Text(self));
    }

    fn visit_mut(&mut self, visitor: &mut dyn FnMut(LargeMut<'_>)) {
        visitor(LargeMut::Text(self));
    }
}

impl<T: Field> Field for Option<T> {
    fn visit(&self, visitor: &mut dyn FnMut(Large<'_>)) {
        if let Some(field) = self {
            field.visit(visitor);
        }
    }

    fn visit_mut(&mut self, visitor: &mut dyn FnMut(LargeMut<'_>)) {
        if let Some(field) = self {
            field.visit_mut(visitor);
        }
    }
}

/// Declares the types of events: variant and payload, name in the ledger, whether a guest may add
/// one, and which fields of the payload may be large.
macro_rules! events {
    ($($(#[$doc:meta])+ $variant:ident($payload:ident) = $kind:literal, guest: $guest:literal,
        large: [$($field:ident),*];)+) => {
        /// Something that happened in a run.
        #[derive(Debug, Clone, PartialEq)]
        pub enum Event {
            $($(#[$doc])+ $variant($payload),)+
            /// An event of a type that this version does not know, or whose payload it cannot read;
            /// only readers meet it.
            Unknown {
                /// The type.
                kind: String,
                /// The payload as it stands in the line.
                payload: Json,
            },
        }

        impl Event {
            /// Every type that this version writes.
            pub const KINDS: &'static [&'static str] = &[$($kind,)+];

            /// The type as it stands in a ledger.
            pub fn kind(&self) -> &str {
                match self {
                    $(Self::$variant(_) => $kind,)+
                    Self::Unknown { kind, .. } => kind,
                }
            }

            /// Whether a guest may add an event of this type on its own authority. Of a type that
            /// this version does not know, the version that wrote it knew.
            pub fn guest_may_add(&self) -> bool {
                match self.kind() {
                    $($kind => $guest,)+
                    _ => true,
                }
            }

            /// The event that a line of type `kind` with this payload tells of. What cannot be read
            /// as the type says becomes [`Event::Unknown`].
            pub fn decode(kind: &str, payload: &Json) -> Self {
                let decoded = match kind {
                    $($kind => serde_json::from_str(payload.as_str()).map(Self::$variant).ok(),)+
                    _ => None,
                };
                decoded.unwrap_or_else(|| Self::Unknown {
                    kind: kind.to_owned(),
                    payload: payload.clone(),
                })
            }

            pub(super) fn serialize_payload<S: serde::Serializer>(
                &self,
                serializer: S,
            ) -> Result<S::Ok, S::Error> {
                match self {
                    $(Self::$variant(payload) => payload.serialize(serializer),)+
                    Self::Unknown { payload, .. } => payload.serialize(serializer),
                }
            }

            /// Shows `visitor` every field that may be large, present ones only.
            pub(super) fn visit_large(&self, visitor: &mut dyn FnMut(Large<'_>)) {
                match self {
                    $(Self::$variant(_payload) => { $(_payload.$field.visit(visitor);)* })+
                    Self::Unknown { .. } => {}
                }
            }

            /// As [`Event::visit_large`], for fields that are to be replaced.
            pub(super) fn visit_large_mut(&mut self, visitor: &mut dyn FnMut(LargeMut<'_>)) {
                match self {
                    $(Self::$variant(_payload) => { $(_payload.$field.visit_mut(visitor);)* })+
                    Self::Unknown { .. } => {}
                }
            }
        }

        $(impl From<$payload> for Event {
            fn from(payload: $payload) -> Self {
                Self::$variant(payload)
            }
        })+
    };
}

events! {
    /// The first event of a run.
    RunStarted(RunStarted) = "run_started", guest: false, large: [input, policy, limits, environment];
    /// A run that was cut off goes on.
    RunResumed(RunResumed) = "run_resumed", guest: false, large: [];
    /// The last event of a run, or of the part of it before a `run_resumed`.
    RunCompleted(RunCompleted) = "run_completed", guest: false, large: [output, error, stop_reason];
    /// A step begins.
    NodeEnter(NodeEnter) = "node_enter", guest: true, large: [];
    /// A step ended.
    NodeExit(NodeExit) = "node_exit", guest: true, large: [];
    /// A tool, or another skill, is about to be called.
    ToolCall(ToolCall) = "tool_call", guest: true, large: [arguments];
    /// What it answered.
    ToolResult(ToolResult) = "tool_result", guest: true, large: [output];
    /// A model is about to be called, or answered.
    LlmCall(LlmCall) = "llm_call", guest: true, large: [request, output];
    /// A piece of a model's answer.
    LlmChunk(LlmChunk) = "llm_chunk", guest: true, large: [delta, tool_use];
    /// A value that was checked against a schema.
    StructuredOutput(StructuredOutput) = "structured_output", guest: true, large: [output];
    /// A person is asked.
    ApprovalRequest(ApprovalRequest) = "approval_request", guest: false, large: [prompt, payload];
    /// What was decided.
    ApprovalResponse(ApprovalResponse) = "approval_response", guest: false, large: [reason, answer];
    /// An HTTP request is about to be sent.
    HttpCall(HttpCall) = "http_call", guest: false, large: [url, headers, body];
    /// What the server answered.
    HttpResult(HttpResult) = "http_result", guest: false, large: [headers, body, error];
    /// The guest was told that time has passed.
    Timer(Timer) = "timer", guest: false, large: [];
    /// A line of a log or of a standard stream.
    Log(Log) = "log", guest: true, large: [message, fields];
    /// Something failed.
    Error(ErrorReport) = "error", guest: true, large: [message];
    /// The effective policy refused something.
    Denied(Denied) = "denied", guest: false, large: [wanted];
    /// A turn of an execution begins.
    Prompt(Prompt) = "prompt", guest: false, large: [text];
    /// A turn of an execution ended.
    TurnCompleted(TurnCompleted) = "turn_completed", guest: false, large: [error];
    /// An agent tells something to whoever watches.
    SessionUpdate(SessionTold) = "session_update", guest: true, large: [text, entries];
    /// An execution came to another state, or to other tools.
    SessionStatus(SessionStatus) = "session_status", guest: false, large: [];
    /// Something that has no type of its own.
    Custom(Custom) = "custom", guest: true, large: [data];
}

#[cfg(test)]
mod tests {
    use super::{Event, Json};

    #[test]
    fn a_payload_that_does_not_fit_its_type_is_kept_as_it_stands() {
        for (kind, payload) in [
            ("hologram", r#"{"a":1,"a":2}"#),
            ("run_completed", r#"{"status":"hibernating"}"#),
            ("node_enter", r#"{}"#),
        ] {
            let payload = Json::parse(payload).unwrap();
            let event = Event::decode(kind, &payload);
            assert_eq!(event.kind(), kind);
            assert_eq!(event.guest_may_add(), kind != "run_completed");
            assert!(matches!(event, Event::Unknown { payload: kept, .. } if kept == payload));
        }
    }

    #[test]
    fn null_as_a_result_is_not_the_absence_of_one() {
        for (payload, expected) in [
            (r#"{"status":"ok","output":null}"#, Some(Json::default())),
            (r#"{"status":"ok"}"#, None),
        ] {
            let event = Event::decode("run_completed", &Json::parse(payload).unwrap());
            assert!(matches!(event, Event::RunCompleted(end) if end.output == expected));
        }
    }
}
