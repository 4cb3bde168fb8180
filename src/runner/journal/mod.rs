//! Turns what a guest does into events of its run's ledger.

mod approval;
mod model;
mod model_json;
mod model_stream;
mod provided;
mod skill;
mod tool;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use futures_util::future::BoxFuture;

use super::context::RunContext;
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

/// One run's record, as its guest reaches it. Cheap to clone; clones share everything.
#[derive(Clone)]
pub(super) struct Journal {
    cx: RunContext,
    recorder: Recorder,
    facts: Arc<RunFacts>,
    tools: Toolbox,
    models: Models,
    steps: Arc<Steps>,
    calls: Arc<Calls>,
}

/// The steps of a run.
#[derive(Default)]
struct Steps {
    /// Steps entered so far; the number is part of a step's id.
    entered: AtomicU64,
    /// Steps that were entered and not left, the innermost last.
    open: Mutex<Vec<String>>,
}

/// How many calls of each kind the guest made; the number is part of a call's id.
#[derive(Default)]
struct Calls(Mutex<BTreeMap<&'static str, u64>>);

impl Calls {
    fn next(&self, kind: &'static str) -> String {
        let mut made = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let n = made.entry(kind).or_default();
        *n = n.saturating_add(1);
        format!("{kind}#{n}")
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
    ) -> Self {
        Self {
            cx: cx.clone(),
            recorder: cx.recorder().clone(),
            facts: Arc::new(RunFacts {
                run_id: cx.run_id().to_string(),
                parent_run_id: cx.parent_run_id().map(ToString::to_string),
                skill_name: skill_name.to_owned(),
                skill_body,
            }),
            tools,
            models,
            steps: Arc::default(),
            calls: Arc::default(),
        }
    }

    fn policy(&self) -> &Policy {
        &self.cx.profile().policy
    }

    fn stopwatch(&self) -> Stopwatch {
        self.cx.runner().clock().stopwatch()
    }

    fn innermost_step(&self) -> String {
        self.open_steps().last().cloned().unwrap_or_default()
    }

    fn record(&self, origin: Origin, event: impl Into<Event>) -> Result<u64, RecordRefused> {
        self.recorded(self.recorder.record(origin, &event.into()))
    }

    fn recorded(&self, outcome: Result<Appended, RecordError>) -> Result<u64, RecordRefused> {
        match outcome {
            Ok(appended) => Ok(appended.seq),
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

    /// A body as the ledger has it, and whether that is base64. Secrets are taken out first: in base64
    /// nobody finds them.
    fn body(&self, body: &[u8]) -> (Option<Text>, bool) {
        let body: Cow<'_, [u8]> = match self.recorder.redact_bytes(body) {
            Some(redacted) => redacted.into(),
            None => body.into(),
        };
        match std::str::from_utf8(&body) {
            Ok("") => (None, false),
            Ok(text) => (Some(text.into()), false),
            Err(_not_text) => (Some(STANDARD.encode(&body).into()), true),
        }
    }

    /// Bytes without the values that must not stand in a ledger, which [`Journal::record`] then leaves as
    /// they are; `None` when there is no such value.
    fn redact(&self, bytes: &[u8]) -> Result<Option<Vec<u8>>, RecordRefused> {
        let redacted = self.recorder.redact_bytes(bytes);
        if let Some(redacted) = &redacted {
            self.check_redacted(redacted)?;
        }
        Ok(redacted)
    }

    /// What stands in place of a value may make another one with what is beside it, and so may base64.
    fn check_redacted(&self, bytes: &[u8]) -> Result<(), RecordRefused> {
        match self.recorder.redact_bytes(bytes) {
            None => Ok(()),
            Some(_) => Err(RecordRefused::Invalid {
                reason: "a secret stands where it cannot be taken out".to_owned(),
            }),
        }
    }

    fn redact_text(&self, text: String) -> Result<String, RecordRefused> {
        let redacted = self.redact(text.as_bytes())?.map(String::from_utf8);
        let redacted = redacted
            .transpose()
            .map_err(|error| RecordRefused::Invalid {
                reason: error.to_string(),
            })?;
        Ok(redacted.unwrap_or(text))
    }

    fn redact_response(&self, response: HttpResponse) -> Result<HttpResponse, RecordRefused> {
        let fields = response.headers.into_iter();
        let fields =
            fields.map(|(name, value)| Ok((self.redact_text(name)?, self.redact_text(value)?)));
        let headers = fields.collect::<Result<_, _>>()?;
        let body = self
            .redact(&response.body)?
            .map_or(response.body, Bytes::from);
        if std::str::from_utf8(&body).is_err() {
            self.check_redacted(STANDARD.encode(&body).as_bytes())?;
        }
        Ok(HttpResponse {
            status: response.status,
            headers,
            body,
        })
    }
}

impl RunHost for Journal {
    fn facts(&self) -> &RunFacts {
        &self.facts
    }

    fn attempt(&self) -> u32 {
        1
    }

    fn now(&self) -> RunTime {
        let clock = self.cx.runner().clock();
        RunTime {
            time: clock.now(),
            elapsed: std::time::Duration::ZERO,
            left: self.cx.budget().wall_time_left().0,
        }
    }

    fn until(&self, elapsed: std::time::Duration) -> std::time::Duration {
        elapsed
    }

    fn recall_poll(&self) -> Result<Option<Vec<u32>>, RecordRefused> {
        Ok(None)
    }

    fn polled(&self, _ready: &[u32], _waited_micros: u64) -> Result<(), RecordRefused> {
        Ok(())
    }

    fn provided(&self) -> &dyn Provided {
        self
    }

    fn emit(&self, event: GuestEvent<'_>) -> Result<u64, RecordRefused> {
        self.record(Origin::Guest, guest_event(event)?)
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
        self.record(Origin::Guest, log).map(|_seq| ())
    }

    fn logs_dropped(&self, lines: u64, limit: LimitReached) {
        let log = ledger::Log {
            level: ledger::LogLevel::Warn,
            message: format!("{lines} log lines dropped: {limit}").into(),
            dropped: Some(lines),
            ..ledger::Log::default()
        };
        let _kept_by_the_recorder = self.record(Origin::Host, log);
    }

    fn enter(&self, name: &str) -> Result<String, RecordRefused> {
        let n = self.steps.entered.fetch_add(1, Ordering::Relaxed) + 1;
        let node_id = format!("step:{name}#{n}");
        let enter = ledger::NodeEnter {
            node_id: node_id.clone(),
            node_name: name.to_owned(),
            span_id: None,
        };
        self.record(Origin::Guest, enter)?;
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
        let _kept_by_the_recorder = self.record(Origin::Guest, exit);
    }

    fn denied(&self, denial: Denial<'_>) {
        let denied = ledger::Denied {
            capability: denial.capability.to_owned(),
            rule: Some(denial.rule.to_owned()),
            wanted: denial.wanted.into(),
            call_id: denial.call_id.map(str::to_owned),
            ..ledger::Denied::default()
        };
        let _kept_by_the_recorder = self.record(Origin::Host, denied);
    }

    fn next_http_call(&self) -> HttpCallId {
        HttpCallId {
            call_id: self.calls.next("http"),
            node_id: self.innermost_step(),
        }
    }

    fn recall_http<'a>(
        &'a self,
        _id: &'a HttpCallId,
        _request: HttpRequest<'a>,
    ) -> BoxFuture<'a, Result<Option<RecalledHttp>, RecordRefused>> {
        Box::pin(std::future::ready(Ok(None)))
    }

    fn http_call<'a>(
        &'a self,
        id: &'a HttpCallId,
        request: HttpRequest<'a>,
    ) -> BoxFuture<'a, Result<(), RecordRefused>> {
        let (body, base64) = self.body(request.body);
        let effect = request.effect;
        let call = Event::from(ledger::HttpCall {
            call_id: id.call_id.clone(),
            node_id: id.node_id.clone(),
            method: request.method.to_owned(),
            url: request.url.into(),
            headers: Json::from_serialize(request.headers).ok(),
            body,
            base64,
            effect,
        });
        match effect {
            Effect::Write => {
                let durable = self.recorder.record_durable(Origin::Host, &call);
                Box::pin(async move { self.recorded(durable.await).map(|_seq| ()) })
            }
            Effect::Read | Effect::Idempotent => {
                let recorded = self.record(Origin::Host, call).map(|_seq| ());
                Box::pin(std::future::ready(recorded))
            }
        }
    }

    fn redact_http(&self, end: HttpEnd) -> Result<HttpEnd, RecordRefused> {
        Ok(match end {
            Ok(response) => Ok(self.redact_response(response)?),
            Err(reason) => Err(self.redact_text(reason)?),
        })
    }

    fn http_result(
        &self,
        id: &HttpCallId,
        end: Result<&HttpResponse, &str>,
        duration_micros: u64,
    ) -> Result<(), RecordRefused> {
        let mut result = ledger::HttpResult {
            call_id: id.call_id.clone(),
            node_id: id.node_id.clone(),
            duration_micros: Some(duration_micros),
            ..ledger::HttpResult::default()
        };
        match end {
            Ok(response) => {
                result.status = Some(response.status);
                result.headers = Json::from_serialize(&response.headers).ok();
                (result.body, result.base64) = self.body(&response.body);
            }
            Err(reason) => result.error = Some(reason.into()),
        }
        self.record(Origin::Host, result).map(|_seq| ())
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
