//! What a guest asks of others, answered by whoever is there, with both sides on record.

use std::sync::Arc;

use super::Journal;
use crate::call::{
    Decision, ModelRequest, ModelResponse, PermissionRequest, Question, ToolAnswer, ToolDefinition,
};
use crate::capability::Capability;
use crate::executor::{Answer, CallError, ModelAnswer, Provided};
use crate::ledger::{CallFailure, Effect, Event, Origin, RecordedCall};
use crate::limits::LimitKey;

/// What the two lines of a call take beside what the guest gave and was given, so that a flood of empty
/// ones ends too.
const LINES_OVERHEAD_BYTES: usize = 2 * 256;

/// The place of a call among what the run does, given when the guest makes it.
#[derive(Debug, Clone)]
pub(super) struct CallId {
    /// Pairs the call with its answer.
    pub(super) call_id: String,
    /// The step in which it was made; empty outside of any.
    pub(super) node_id: String,
    /// What is on record of it.
    pub(super) recorded: Option<RecordedCall>,
}

impl Provided for Journal {
    fn tools(&self) -> Answer<'_, Vec<ToolDefinition>> {
        let id = self.next_call("tools");
        Box::pin(self.available_tools(id))
    }

    fn call_tool<'a>(&'a self, name: &'a str, arguments: &'a str) -> Answer<'a, ToolAnswer> {
        let id = self.next_call("tool");
        Box::pin(async move {
            let in_flight = Arc::new(self.flight.begin());
            self.tool(id, name, arguments, &in_flight).await
        })
    }

    fn ask_model(&self, request: ModelRequest) -> Answer<'_, ModelResponse> {
        let id = self.next_call("llm");
        Box::pin(async move {
            let _in_flight = self.flight.begin();
            self.model(id, request).await
        })
    }

    fn start_model(&self, request: ModelRequest) -> Answer<'_, Box<dyn ModelAnswer>> {
        let id = self.next_call("llm");
        Box::pin(async move {
            let in_flight = self.flight.begin();
            self.model_stream(id, request, in_flight).await
        })
    }

    fn ask_approval(&self, question: Question) -> Answer<'_, Decision> {
        let id = self.next_call("approval");
        Box::pin(async move {
            let in_flight = self.flight.begin();
            self.approval(id, question, &in_flight).await
        })
    }

    fn ask_permission(&self, request: PermissionRequest) -> Answer<'_, String> {
        let id = self.next_call("approval");
        Box::pin(async move {
            let in_flight = self.flight.begin();
            self.permission(id, request, &in_flight).await
        })
    }

    fn call_skill<'a>(&'a self, skill: &'a str, input: &'a str) -> Answer<'a, String> {
        let id = self.next_call("skill");
        Box::pin(async move {
            let in_flight = self.flight.begin();
            self.skill(id, skill, input, &in_flight).await
        })
    }
}

impl Journal {
    pub(super) fn next_call(&self, kind: &'static str) -> CallId {
        let call_id = self.calls.next(kind);
        let replay = self.cx.replay();
        CallId {
            recorded: replay.and_then(|replay| replay.claim(&call_id)),
            call_id,
            node_id: self.innermost_step(),
        }
    }

    /// Refuses a call that the policy does not allow.
    pub(super) fn check_allowed(
        &self,
        capability: &Capability,
        wanted: &str,
    ) -> Result<(), CallError> {
        if self.policy().holds(capability) {
            return Ok(());
        }
        let capability = capability.to_string();
        Err(CallError::Denied {
            rule: self.policy().rule(&capability),
            capability,
            wanted: wanted.to_owned(),
        })
    }

    /// Counts what a call that is about to be made puts into the lines of the ledger.
    pub(super) fn charge_call(&self, bytes: usize) -> Result<(), CallError> {
        let bytes = bytes.saturating_add(LINES_OVERHEAD_BYTES);
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        let taken = self.cx.budget().take(LimitKey::GuestEventBytes, bytes);
        taken.map_err(|reached| CallError::Exhausted(reached.to_string()))
    }

    /// Counts what an answer puts there. It is recorded whatever there was room for: the call was made.
    pub(super) fn charge_answer(&self, bytes: usize) {
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        let _the_next_call_is_refused = self.cx.budget().spend(LimitKey::GuestEventBytes, bytes);
    }

    /// Puts an event of a call on record before the call has its effect; durably, if a repetition would
    /// do its work a second time.
    pub(super) async fn record_call(
        &self,
        effect: Effect,
        event: impl Into<Event>,
    ) -> Result<(), CallError> {
        let event = event.into();
        let recorded = match effect {
            Effect::Write => self.recorder.record_durable(Origin::Host, &event).await,
            Effect::Read | Effect::Idempotent => self.recorder.record(Origin::Host, &event),
        };
        let recorded = self.recorded(recorded);
        recorded.map(|_appended| ()).map_err(CallError::Unrecorded)
    }
}

/// What is recorded of a call without an answer; none for one that ends the run instead.
pub(super) fn failure(error: &CallError) -> Option<CallFailure> {
    Some(match error.clone() {
        CallError::NotFound(name) => CallFailure::NotFound { name },
        CallError::Invalid(message) => CallFailure::Invalid { message },
        CallError::Ambiguous(names) => CallFailure::Ambiguous { names },
        CallError::Failed(message) => CallFailure::Failed { message },
        CallError::TimedOut { limit_ms } => CallFailure::TimedOut { limit_ms },
        CallError::Exhausted(message) => CallFailure::Exhausted { message },
        CallError::Cancelled => CallFailure::Cancelled,
        CallError::Denied { .. } | CallError::LimitReached(_) | CallError::Unrecorded(_) => {
            return None;
        }
    })
}
