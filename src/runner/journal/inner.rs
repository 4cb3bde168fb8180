//! What a tool of the host has others do while it does its work: calls that are part of its own call, each on
//! record by itself.
//!
//! The guest makes none of them and is told of none, so nothing of them is looked for when its run is done again,
//! unless the call that they are part of has no answer on record: then that is made again, and finds them.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::flight::InFlight;
use super::provided::CallId;
use super::{Calls, Journal};
use crate::call::{PermissionOption, Question, SessionUpdate, ToolAnswer};
use crate::capability::{Capability, SkillName};
use crate::clock::Timestamp;
use crate::executor::CallError;
use crate::id::ExecutionId;
use crate::ledger::{
    self, ApprovalSource, ClientFacts, Denied, Json, Origin, SessionTold, StoreError,
};
use crate::runner::replay::Halt;
use crate::telemetry::chain;
use crate::tools::Tool;
use crate::trace_context;

tokio::task_local! {
    static CURRENT: HostToolCall;
}

/// The call of a tool of the host, as the tool sees it: what it can have done on behalf of the run, and with the
/// run's own rights. Cheap to clone.
///
/// A tool that uses [`HostToolCall::ask`] or [`HostToolCall::run_skill`] has to say so by
/// [`crate::tools::HostTool::keeps_record`], so that its call is waited for when the turn is cancelled.
#[derive(Clone)]
pub struct HostToolCall {
    journal: Journal,
    outer: Arc<Outer>,
    in_flight: Arc<InFlight>,
}

/// A call that others are part of.
pub(super) struct Outer {
    id: CallId,
    /// The tool that is called.
    tool: String,
    state: Mutex<OuterState>,
}

#[derive(Default)]
struct OuterState {
    /// When people were waited for.
    waits: Vec<(Timestamp, Timestamp)>,
    /// Why the call ends whatever the tool says.
    ended: Option<CallError>,
}

impl Outer {
    pub(super) fn node_id(&self) -> &str {
        &self.id.node_id
    }

    pub(super) fn tool(&self) -> &str {
        &self.tool
    }

    fn state(&self) -> MutexGuard<'_, OuterState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a person answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UserAnswer {
    /// Whether the answer is none of those that refuse one.
    pub approved: bool,
    /// What was chosen, where there was a choice.
    pub option: Option<String>,
    /// What was said.
    pub text: String,
    /// What was answered where that takes more: JSON text.
    pub answer: Option<String>,
    /// Whether nobody was there to answer: the time was over, or a policy decided.
    pub automatic: bool,
}

impl Calls {
    /// Counts the calls that are part of the one with this id.
    fn inside(call_id: &str) -> Self {
        let number = call_id.rsplit_once('#').map_or("", |(_, number)| number);
        let prefix = match number.rsplit_once('.') {
            Some((turn, own)) => format!("{turn}.t{own}."),
            None => format!("t{number}."),
        };
        let calls = Self::default();
        calls.counted().prefix = prefix;
        calls
    }
}

impl Journal {
    /// Whether it is that of a call which others are part of.
    pub(super) fn is_inner(&self) -> bool {
        self.outer.is_some()
    }

    /// The guest knows of an event of that time.
    pub(super) fn knows(&self, time: Timestamp) {
        if !self.is_inner() {
            self.time.fix(time);
        }
    }

    /// The tool of the host that a question is asked by.
    pub(super) fn asked_by(&self) -> Option<String> {
        self.outer.as_ref().map(|outer| outer.tool().to_owned())
    }

    /// A person was waited for.
    pub(super) fn waited(&self, from: Timestamp, to: Timestamp) {
        match &self.outer {
            None => {
                self.time.pause(from, to);
                self.time.fix(to);
            }
            // The guest learns of it with the answer of the call.
            Some(outer) => outer.state().waits.push((from, to)),
        }
    }

    /// Takes the time out in which people were waited for as part of a call that is on record.
    pub(super) async fn recall_waits(&self, id: &CallId) {
        let Some(replay) = self.cx.replay() else {
            return;
        };
        let recorded = replay.recorded();
        let calls = Calls::inside(&id.call_id);
        while let Some(call) = recorded.call(&calls.next("approval")) {
            let (Some(from), Some(to)) = (call.call, call.result) else {
                continue;
            };
            let read = recorded.read(from).and_then(|from| {
                let to = recorded.read(to)?;
                Ok((from.time, to.time))
            });
            match read {
                Ok((from, to)) => self.time.pause(from, to),
                Err(error) => return self.stop(Halt::from(error)).await,
            }
        }
    }

    /// Lets a tool do its work, with its call in scope.
    pub(super) async fn carry_out(
        &self,
        id: &CallId,
        tool: &Tool,
        arguments: &str,
        in_flight: &Arc<InFlight>,
    ) -> Result<ToolAnswer, CallError> {
        let outer = Arc::new(Outer {
            id: id.clone(),
            tool: tool.definition().name.clone(),
            state: Mutex::default(),
        });
        let call = HostToolCall {
            journal: Self {
                calls: Arc::new(Calls::inside(&id.call_id)),
                outer: Some(Arc::clone(&outer)),
                ..self.clone()
            },
            outer: Arc::clone(&outer),
            in_flight: Arc::clone(in_flight),
        };
        let called = CURRENT.scope(call, self.cx.scope(tool.call(arguments)));
        let called = trace_context::scope(self.handed_on(&id.call_id), called);
        let answer = match tool.keeps_record() {
            // What it waits for ends with the turn, and puts that on record.
            true => called.await,
            false => self.unless_cancelled(called).await?,
        };
        let mut state = outer.state();
        for (from, to) in state.waits.drain(..) {
            self.time.pause(from, to);
        }
        match state.ended.take() {
            Some(error) => Err(error),
            None => Ok(answer?),
        }
    }
}

impl HostToolCall {
    /// The call in scope, inside [`crate::tools::HostTool::call`] and whatever that awaits in place.
    pub fn current() -> Option<Self> {
        CURRENT.try_with(Self::clone).ok()
    }

    /// Its id in the run.
    pub fn call_id(&self) -> &str {
        &self.outer.id.call_id
    }

    /// The client on whose behalf the run is done, where that is known.
    pub fn client(&self) -> Option<&ClientFacts> {
        self.journal.cx.client()
    }

    /// The execution that the run is, if it is one.
    pub fn execution_id(&self) -> Option<&ExecutionId> {
        let session = self.journal.cx.session()?;
        Some(&session.facts().execution_id)
    }

    /// Checks that the run may hand work to that skill. A refusal is recorded.
    ///
    /// # Errors
    /// It may not.
    pub fn check_skill(&self, skill: &str) -> Result<(), CallError> {
        let id = self.journal.next_call("skill");
        self.allowed(&id, skill)
    }

    fn allowed(&self, id: &CallId, skill: &str) -> Result<(), CallError> {
        // An operation of a component that follows no world is named behind a dot.
        let name = skill.split_once('.').map_or(skill, |(name, _)| name);
        let journal = &self.journal;
        let refused = match name.parse::<SkillName>() {
            Ok(name) => journal.check_allowed(&Capability::Skill { name }, skill),
            // Nobody can have granted it.
            Err(_) => {
                let capability = format!("skill:{name}");
                Err(CallError::Denied {
                    rule: journal.policy().rule(&capability),
                    capability,
                    wanted: skill.to_owned(),
                })
            }
        };
        let is_recorded = id.recorded.as_ref().is_some_and(|on| on.denied.is_some());
        if let Err(CallError::Denied {
            capability,
            rule,
            wanted,
        }) = &refused
            && !is_recorded
        {
            let denied = Denied {
                capability: capability.clone(),
                rule: Some((*rule).to_owned()),
                wanted: wanted.as_str().into(),
                call_id: Some(id.call_id.clone()),
                ..Denied::default()
            };
            let noted = journal.note(denied).map_err(CallError::Unrecorded);
            self.noticed(noted)?;
        }
        refused
    }

    /// Hands work to a skill, as the run's guest can: in a run inside this one, if the run may do that. It gives
    /// the result as JSON text.
    ///
    /// # Errors
    /// As for the guest.
    pub async fn run_skill(&self, skill: &str, input: &str) -> Result<String, CallError> {
        let id = self.journal.next_call("skill");
        self.allowed(&id, skill)?;
        let result = self.journal.skill(id, skill, input, &self.in_flight).await;
        self.noticed(result)
    }

    /// Asks a person, to choose where there are options and to say something else. The right to ask is that to
    /// call the tool.
    ///
    /// # Errors
    /// The question cannot be asked, or nobody has to answer any more.
    pub async fn ask(
        &self,
        question: Question,
        options: Vec<PermissionOption>,
    ) -> Result<UserAnswer, CallError> {
        let id = self.journal.next_call("approval");
        let response = self
            .journal
            .response(id, question, options, &self.in_flight);
        let response = self.noticed(response.await)?;
        if response.source == ApprovalSource::Cancelled {
            return self.noticed(Err(CallError::Cancelled));
        }
        Ok(UserAnswer {
            approved: response.approved,
            option: response.option,
            text: response.reason.unwrap_or_default().as_str().to_owned(),
            answer: response.answer.map(|answer| answer.as_str().to_owned()),
            automatic: matches!(
                response.source,
                ApprovalSource::Timeout | ApprovalSource::Auto
            ),
        })
    }

    /// Tells whoever watches the execution something, as its agent can.
    ///
    /// # Errors
    /// The run is no execution, or it cannot be recorded.
    pub fn tell(&self, update: SessionUpdate) -> Result<(), CallError> {
        if self.journal.cx.session().is_none() {
            let message = "this run is no execution: nobody watches it".to_owned();
            return Err(CallError::Failed(message));
        }
        self.record(SessionTold::from(update).into())
    }

    /// Puts an event of the host's own on record, once for each call and name. `data` is a JSON object; the id of
    /// the call is added to it as `call_id`.
    ///
    /// # Errors
    /// It cannot be recorded.
    pub fn note(
        &self,
        name: &str,
        mut data: serde_json::Map<String, serde_json::Value>,
    ) -> Result<(), CallError> {
        if self.is_noted(name).map_err(|error| unread(&error))? {
            return Ok(());
        }
        data.insert("call_id".to_owned(), self.call_id().into());
        let data = Json::from_serialize(&data);
        let data = data.map_err(|error| CallError::Invalid(error.to_string()))?;
        let custom = ledger::Custom {
            name: name.to_owned(),
            data: Some(data),
        };
        self.record(custom.into())
    }

    /// Whether the call, before it was cut off, did that.
    fn is_noted(&self, name: &str) -> Result<bool, StoreError> {
        let was_made = self.outer.id.recorded.is_some();
        match self.journal.cx.replay() {
            Some(replay) if was_made => replay.recorded().is_noted(name, self.call_id()),
            _ => Ok(false),
        }
    }

    fn record(&self, event: ledger::Event) -> Result<(), CallError> {
        let event = self.journal.recorder.redacted(event);
        let event = event.map_err(|error| CallError::Invalid(chain(&error)))?;
        let recorded = self.journal.record(Origin::Host, event);
        self.noticed(recorded.map(|_seq| ()).map_err(CallError::Unrecorded))
    }

    /// Some errors end the call, and no tool makes an answer of them.
    fn noticed<T>(&self, result: Result<T, CallError>) -> Result<T, CallError> {
        let ends = |error: &CallError| match error {
            CallError::LimitReached(_) | CallError::Unrecorded(_) => true,
            CallError::Cancelled => self.journal.turn_cancellation().is_cancelled(),
            _ => false,
        };
        if let Err(error) = &result
            && ends(error)
        {
            let mut state = self.outer.state();
            state.ended.get_or_insert_with(|| error.clone());
        }
        result
    }
}

/// Why not names files of the host, which are no business of the guest's.
fn unread(error: &StoreError) -> CallError {
    tracing::warn!(error = chain(error), "cannot tell what a call did");
    CallError::Failed("cannot tell what the call did before it was cut off".to_owned())
}

#[cfg(test)]
mod tests {
    use super::Calls;
    use crate::ledger::is_inner_call;

    #[test]
    fn calls_inside_a_call_have_its_number_and_are_told_from_others() {
        for (outer, inner) in [
            ("tool#3", "approval#t3.1"),
            ("tool#2.14", "approval#2.t14.1"),
            ("tool#0.1", "approval#0.t1.1"),
        ] {
            let calls = Calls::inside(outer);
            assert_eq!(calls.next("approval"), inner);
            assert!(is_inner_call(inner) && !is_inner_call(outer), "{inner}");
        }
        for own in ["tool#1", "step:t#1", "http#2.1", "prompt#1", "tools#1.2"] {
            assert!(!is_inner_call(own), "{own}");
        }
    }
}
