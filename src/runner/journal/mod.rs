//! Turns what a guest does into events of its run's ledger.

mod approval;
mod flight;
mod http;
mod inner;
mod model;
mod model_json;
mod model_recalled;
mod model_stream;
mod provided;
mod recall;
mod session;
mod skill;
mod time;
mod tool;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::BoxFuture;

use self::flight::Flight;
use self::http::Requests;
use self::inner::Outer;
pub use self::inner::{HostToolCall, UserAnswer};
use self::time::Time;
use super::context::RunContext;
use crate::call::{SessionUpdate, Usage};
use crate::capability::Policy;
use crate::clock::Stopwatch;
use crate::executor::{
    Denial, GuestEvent, HttpCallId, HttpEnd, HttpRequest, HttpResponse, LogLevel, LogOrigin,
    Provided, RecalledHttp, RecordRefused, RunFacts, RunHost, RunTime,
};
use crate::ledger::{
    self, Appended, Effect, Event, Json, LogStream, Origin, RecordError, Recorder, Text,
};
use crate::limits::LimitReached;
use crate::models::Models;
use crate::telemetry::chain;
use crate::tools::Toolbox;
use crate::trace_context::TraceContext;

/// One run's record, as its guest reaches it. Cheap to clone; clones share everything.
#[derive(Clone)]
pub(super) struct Journal {
    cx: RunContext,
    recorder: Recorder,
    facts: Arc<RunFacts>,
    tools: Toolbox,
    models: Models,
    /// Whether calls carry their place in the trace.
    propagates: bool,
    steps: Arc<Steps>,
    calls: Arc<Calls>,
    time: Arc<Time>,
    flight: Arc<Flight>,
    /// Requests that are on record and have no end there.
    requests: Arc<Requests>,
    turn: Arc<Mutex<Turn>>,
    /// The call of a tool of the host that this is the journal of. What is done for it the guest knows nothing
    /// of.
    outer: Option<Arc<Outer>>,
}

/// The turn of an execution that goes on.
#[derive(Default)]
struct Turn {
    /// What models took in it.
    usage: Usage,
    /// Runs since it began, or was taken up.
    since: Option<Stopwatch>,
}

/// The steps of a run.
#[derive(Default)]
struct Steps {
    /// Steps that were entered and not left, the innermost last.
    open: Mutex<Vec<String>>,
}

/// How many calls of each kind the guest made; the number is part of a call's id. In an execution they are counted
/// by turn and the id has its number too, so that those of a turn that was undone are not missed later.
#[derive(Default)]
struct Calls(Mutex<Counted>);

#[derive(Default)]
struct Counted {
    /// What stands before the number: nothing in a run, the turn in an execution.
    prefix: String,
    made: BTreeMap<&'static str, u64>,
}

impl Calls {
    fn counted(&self) -> MutexGuard<'_, Counted> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn next(&self, kind: &'static str) -> String {
        let mut counted = self.counted();
        let n = counted.made.entry(kind).or_default();
        *n = n.saturating_add(1);
        let n = *n;
        format!("{kind}#{}{n}", counted.prefix)
    }

    /// The id of a step.
    fn next_step(&self, name: &str) -> String {
        let mut counted = self.counted();
        let n = counted.made.entry("step").or_default();
        *n = n.saturating_add(1);
        let n = *n;
        format!("step:{name}#{}{n}", counted.prefix)
    }

    fn begin_turn(&self, generation: u64) {
        *self.counted() = Counted {
            prefix: format!("{generation}."),
            ..Counted::default()
        };
    }
}

impl Journal {
    /// The journal of a run of `skill_name`, whose calls reach these tools and models.
    pub(super) fn new(
        cx: &RunContext,
        skill_name: &str,
        skill_body: Arc<str>,
        tools: Toolbox,
        models: Models,
        propagates: bool,
    ) -> Self {
        let origin = cx.origin();
        let calls = Calls::default();
        if cx.is_execution() {
            // What the agent does when it starts is before its first turn.
            calls.begin_turn(0);
        }
        Self {
            cx: cx.clone(),
            recorder: cx.recorder().clone(),
            facts: Arc::new(RunFacts {
                run_id: origin.run_id.to_string(),
                parent_run_id: cx.parent_run_id().map(ToString::to_string),
                skill_name: skill_name.to_owned(),
                skill_body,
            }),
            tools,
            models,
            propagates,
            steps: Arc::default(),
            calls: Arc::new(calls),
            turn: Arc::default(),
            flight: Arc::default(),
            requests: Arc::default(),
            outer: None,
            time: Arc::new(Time::new(
                cx.runner().clock().clone(),
                origin.started_at,
                cx.began_at(),
            )),
        }
    }

    /// Checks that nothing on record was left out by the guest, which has ended so.
    pub(super) fn check_over(&self, ended: &str) {
        if let Some(replay) = self.cx.replay()
            && let Err(halt) = replay.check_over(ended)
        {
            self.cx.halt(halt);
        }
    }

    /// The place of a call in the trace, if it is to be handed on. It is put on the wire when all that is
    /// compared with a record was made.
    fn handed_on(&self, call_id: &str) -> Option<TraceContext> {
        let trace = self.cx.trace_of(Some(call_id));
        trace.filter(|_| self.propagates)
    }

    /// The tools that there are now: of an execution, those of its mode too.
    fn toolbox(&self) -> Toolbox {
        match self.cx.session() {
            None => self.tools.clone(),
            Some(session) => self.tools.with_those_of(&session.tools()),
        }
    }

    fn policy(&self) -> &Policy {
        &self.cx.profile().policy
    }

    fn stopwatch(&self) -> Stopwatch {
        self.cx.runner().clock().stopwatch()
    }

    fn innermost_step(&self) -> String {
        if let Some(outer) = &self.outer {
            return outer.node_id().to_owned();
        }
        self.open_steps().last().cloned().unwrap_or_default()
    }

    /// Records an event that the guest knows of when this returns.
    fn record(&self, origin: Origin, event: impl Into<Event>) -> Result<u64, RecordRefused> {
        let appended = self.recorded(self.recorder.record(origin, &event.into()))?;
        self.knows(appended.time);
        Ok(appended.seq)
    }

    /// Records an event that the guest knows nothing of.
    fn note(&self, event: impl Into<Event>) -> Result<(), RecordRefused> {
        let recorded = self.recorder.record(Origin::Host, &event.into());
        self.recorded(recorded).map(|_appended| ())
    }

    fn recorded(&self, outcome: Result<Appended, RecordError>) -> Result<Appended, RecordRefused> {
        match outcome {
            Ok(appended) => Ok(appended),
            Err(RecordError::Poisoned(failure)) => {
                // The recorder keeps the failure: the run's terminal event meets it again.
                tracing::warn!(run_id = %self.recorder.run_id(), %failure, "cannot record an event");
                Err(RecordRefused::Unavailable)
            }
            Err(refused) => Err(RecordRefused::Invalid {
                reason: chain(&refused),
            }),
        }
    }

    fn open_steps(&self) -> MutexGuard<'_, Vec<String>> {
        self.steps
            .open
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl RunHost for Journal {
    fn facts(&self) -> &RunFacts {
        &self.facts
    }

    fn attempt(&self) -> u32 {
        let (_, (number, _)) = self.part();
        u32::try_from(number).unwrap_or(u32::MAX)
    }

    fn now(&self) -> RunTime {
        self.run_time()
    }

    fn until(&self, elapsed: Duration) -> Duration {
        self.time.until(elapsed)
    }

    fn recall_poll(&self) -> Result<Option<Vec<u32>>, RecordRefused> {
        self.recalled_poll()
    }

    fn polled(&self, ready: &[u32], waited_micros: u64) -> Result<(), RecordRefused> {
        self.record_poll(ready, waited_micros)
    }

    fn provided(&self) -> &dyn Provided {
        self
    }

    fn emit(&self, event: GuestEvent<'_>) -> Result<u64, RecordRefused> {
        self.step(Origin::Guest, guest_event(event)?)
    }

    fn tell(&self, update: &SessionUpdate) -> Result<(), RecordRefused> {
        self.told(update)
    }

    fn log(
        &self,
        level: LogLevel,
        origin: LogOrigin,
        message: &str,
        fields: &[(String, String)],
    ) -> Result<(), RecordRefused> {
        let log = ledger::Log {
            level: match level {
                LogLevel::Trace => ledger::LogLevel::Trace,
                LogLevel::Debug => ledger::LogLevel::Debug,
                LogLevel::Info => ledger::LogLevel::Info,
                LogLevel::Warn => ledger::LogLevel::Warn,
                LogLevel::Error => ledger::LogLevel::Error,
            },
            message: message.into(),
            fields: fields_json(fields),
            stream: match origin {
                LogOrigin::Interface => None,
                LogOrigin::Stdout => Some(LogStream::Stdout),
                LogOrigin::Stderr => Some(LogStream::Stderr),
            },
            dropped: None,
        };
        self.step(Origin::Guest, log).map(|_seq| ())
    }

    fn logs_dropped(&self, lines: u64, limit: LimitReached) {
        let log = ledger::Log {
            level: ledger::LogLevel::Warn,
            message: format!("{lines} log lines dropped: {limit}").into(),
            dropped: Some(lines),
            ..ledger::Log::default()
        };
        let _kept_by_the_recorder = self.step(Origin::Host, log);
    }

    fn enter(&self, name: &str) -> Result<String, RecordRefused> {
        let node_id = self.calls.next_step(name);
        let enter = ledger::NodeEnter {
            node_id: node_id.clone(),
            node_name: name.to_owned(),
            span_id: None,
        };
        self.step(Origin::Guest, enter)?;
        self.open_steps().push(node_id.clone());
        Ok(node_id)
    }

    fn exit(&self, node_id: &str, duration_micros: u64, success: bool) {
        let mut open = self.open_steps();
        if let Some(index) = open.iter().rposition(|open| open == node_id) {
            open.remove(index);
        }
        drop(open);
        let exit = ledger::NodeExit {
            node_id: node_id.to_owned(),
            duration_micros,
            success,
        };
        let _kept_by_the_recorder = self.step(Origin::Guest, exit);
    }

    fn denied(&self, denial: Denial<'_>) {
        let denied = ledger::Denied {
            capability: denial.capability.to_owned(),
            rule: Some(denial.rule.to_owned()),
            wanted: denial.wanted.into(),
            call_id: denial.call_id.map(str::to_owned),
            ..ledger::Denied::default()
        };
        let _kept_by_the_recorder = match denial.call_id {
            None => self.step(Origin::Host, denied).map(|_seq| ()),
            // The guest learns of it when it asks for the response.
            Some(_) => self.note(denied),
        };
    }

    fn next_http_call(&self) -> HttpCallId {
        self.next_request()
    }

    fn trace_of(&self, id: &HttpCallId) -> Option<TraceContext> {
        self.handed_on(&id.call_id)
    }

    fn recall_http<'a>(
        &'a self,
        id: &'a HttpCallId,
        request: HttpRequest<'a>,
    ) -> BoxFuture<'a, Result<Option<RecalledHttp>, RecordRefused>> {
        Box::pin(self.recalled_request(id, request))
    }

    fn http_call<'a>(
        &'a self,
        id: &'a HttpCallId,
        request: HttpRequest<'a>,
    ) -> BoxFuture<'a, Result<(), RecordRefused>> {
        Box::pin(self.record_request(id, request))
    }

    fn redact_http(&self, end: HttpEnd) -> Result<HttpEnd, RecordRefused> {
        self.redact_end(end)
    }

    fn http_result(
        &self,
        id: &HttpCallId,
        end: Result<&HttpResponse, &str>,
        duration_micros: u64,
    ) -> Result<(), RecordRefused> {
        self.record_response(id, end, duration_micros)
    }
}

/// Log fields as a JSON object; a name that comes twice stands there twice.
fn fields_json(fields: &[(String, String)]) -> Option<Json> {
    if fields.is_empty() {
        return None;
    }
    struct Fields<'a>(&'a [(String, String)]);
    impl serde::Serialize for Fields<'_> {
        fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            serializer.collect_map(self.0.iter().map(|(name, value)| (name, value)))
        }
    }
    Json::from_serialize(&Fields(fields)).ok()
}

fn guest_event(event: GuestEvent<'_>) -> Result<Event, RecordRefused> {
    let json = |text: &str| {
        Json::parse(text).map_err(|error| RecordRefused::Invalid {
            reason: error.to_string(),
        })
    };
    Ok(match event {
        GuestEvent::ToolCall {
            call_id,
            name,
            arguments,
        } => ledger::ToolCall {
            call_id: call_id.to_owned(),
            name: name.to_owned(),
            arguments: json(arguments)?,
            ..ledger::ToolCall::default()
        }
        .into(),
        GuestEvent::ToolResult {
            call_id,
            output,
            is_error,
        } => ledger::ToolResult {
            call_id: call_id.to_owned(),
            output: Some(Json::string(output)),
            is_error,
            ..ledger::ToolResult::default()
        }
        .into(),
        GuestEvent::LlmCall {
            model,
            provider,
            prompt_tokens,
            output_tokens,
            cost_usd,
        } => ledger::LlmCall {
            model: model.to_owned(),
            provider: provider.to_owned(),
            prompt_tokens: Some(prompt_tokens),
            output_tokens: Some(output_tokens),
            cost_usd: Some(cost_usd),
            ..ledger::LlmCall::default()
        }
        .into(),
        GuestEvent::StructuredOutput {
            schema_digest,
            output,
        } => ledger::StructuredOutput {
            schema_digest: Some(schema_digest.to_owned()),
            output: json(output)?,
            ..ledger::StructuredOutput::default()
        }
        .into(),
        GuestEvent::Error { message } => ledger::ErrorReport {
            message: message.into(),
            ..ledger::ErrorReport::default()
        }
        .into(),
        GuestEvent::Custom { name, payload } => ledger::Custom {
            name: name.to_owned(),
            data: Some(json(payload)?),
        }
        .into(),
    })
}
