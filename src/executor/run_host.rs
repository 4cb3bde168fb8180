//! What a guest's calls reach: the seam behind which the runner keeps its ledger.

use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;

use super::provided::{Answer, CallError, ModelAnswer, Provided};
use crate::call::{
    Decision, Effect, ModelRequest, ModelResponse, PermissionRequest, Question, SessionUpdate,
    ToolAnswer, ToolDefinition,
};
use crate::clock::Timestamp;
use crate::limits::LimitReached;
use crate::trace_context::TraceContext;

/// Who a run is. Nothing of it changes while the run goes on.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RunFacts {
    /// The run's id as text.
    pub run_id: String,
    /// The run that handed work to this one.
    pub parent_run_id: Option<String>,
    /// The name under which the skill was called.
    pub skill_name: String,
    /// The text of SKILL.md below its front matter.
    pub skill_body: std::sync::Arc<str>,
}

/// The time as a guest is told it. It stands still while the guest computes, for a second at most, and
/// goes on with what is on record, so that a replay of the record tells the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RunTime {
    /// The time of day.
    pub time: Timestamp,
    /// Since the run began; it never goes back.
    pub elapsed: Duration,
    /// Until the run's wall time is used up.
    pub left: Duration,
}

/// How much a log line matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogLevel {
    /// Finest detail.
    Trace,
    /// Detail for whoever writes the skill.
    Debug,
    /// What happens.
    Info,
    /// Something to look at.
    Warn,
    /// Something went wrong.
    Error,
}

/// Which way a log line came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogOrigin {
    /// The `log` interface.
    Interface,
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// An event that a guest adds to its own ledger. JSON texts in it have been checked to be JSON.
#[derive(Debug, Clone, Copy, PartialEq)]
#[expect(
    missing_docs,
    reason = "the fields are those of wit/recorder.wit, which documents them"
)]
pub enum GuestEvent<'a> {
    /// A call that the skill made on its own.
    ToolCall {
        call_id: &'a str,
        name: &'a str,
        arguments: &'a str,
    },
    /// The answer to it.
    ToolResult {
        call_id: &'a str,
        output: &'a str,
        is_error: bool,
    },
    /// A use of a language model of its own.
    LlmCall {
        model: &'a str,
        provider: &'a str,
        prompt_tokens: u64,
        output_tokens: u64,
        cost_usd: f64,
    },
    /// A result that fits a schema.
    StructuredOutput {
        schema_digest: &'a str,
        output: &'a str,
    },
    /// Something went wrong and the skill goes on.
    Error { message: &'a str },
    /// Anything else.
    Custom { name: &'a str, payload: &'a str },
}

/// A host call that the effective policy refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Denial<'a> {
    /// The capability that would have allowed it, in the grammar of capabilities.
    pub capability: &'a str,
    /// The rule that refused it.
    pub rule: &'a str,
    /// What the guest asked for.
    pub wanted: &'a str,
    /// The request that was refused, where that came to light only while it was being carried out.
    pub call_id: Option<&'a str>,
}

/// The place of a request among what the run does, given when the guest makes it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HttpCallId {
    /// Pairs the request with its end. The guest's requests have their ids in the order in which it
    /// made them, whichever is sent first.
    pub call_id: String,
    /// The step in which it was made; empty outside of any.
    pub node_id: String,
}

/// A request as it is sent, but for secrets, whose names stand in place of their values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HttpRequest<'a> {
    /// The method.
    pub method: &'a str,
    /// The normalised address.
    pub url: &'a str,
    /// The header fields.
    pub headers: &'a [(String, String)],
    /// The whole body.
    pub body: &'a [u8],
    /// What a repetition would do.
    pub effect: Effect,
}

/// A response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpResponse {
    /// The status code.
    pub status: u16,
    /// The header fields. Bytes of a value that are no text are replacement characters.
    pub headers: Vec<(String, String)>,
    /// The whole body.
    pub body: Bytes,
}

/// How a request ended: with a response, or with the reason why there is none.
pub type HttpEnd = Result<HttpResponse, String>;

/// How a request ended, from the record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RecalledHttp {
    /// A response came, as it was handed to [`RunHost::http_result`].
    Response(HttpResponse),
    /// None came, and this is why, as it was handed there.
    Failed(String),
    /// It was refused when the addresses of its host were known.
    Denied {
        /// The rule that refused it, as it was handed to [`RunHost::denied`].
        rule: String,
    },
}

/// Why an event was not recorded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RecordRefused {
    /// The event makes no sense where it stands, such as a result without its call.
    #[error("{reason}")]
    Invalid {
        /// What is wrong.
        reason: String,
    },
    /// The record cannot be written, or does not go on as the guest does. It stays so, and ends the run.
    #[error("the run's record cannot be written")]
    Unavailable,
}

/// What a guest's calls reach. One value serves one run.
///
/// When a run was cut off and goes on, the guest is run from its beginning again, and the record answers
/// for as long as it lasts: an implementation finds there what the guest does, and writes nothing. What
/// the guest was told, it is told again. What was recorded of a request, it is told also when it is recorded:
/// [`RunHost::redact_http`] gives that.
///
/// The executor bounds what the guest may write before it calls these; an implementation only has to
/// keep it. Calls come from the run's own task, one at a time, except for [`RunHost::recall_http`],
/// [`RunHost::http_call`], [`RunHost::redact_http`], [`RunHost::http_result`] and [`RunHost::denied`]: those also
/// come from the tasks that carry requests out, at the same time as any other. Several calls of [`Provided`] may go on at once.
pub trait RunHost: Send + Sync {
    /// Who the run is.
    fn facts(&self) -> &RunFacts;

    /// 1 for a first run, one higher after each resume; as high as it was, while the record is replayed.
    fn attempt(&self) -> u32;

    /// What time it is for the guest. Some calls of it are recorded.
    fn now(&self) -> RunTime;

    /// How long it is, in truth, until [`RunTime::elapsed`] will be this much.
    fn until(&self, elapsed: Duration) -> Duration;

    /// What the next poll of the guest came to, if that is on record: which of the things that were
    /// waited for were ready, by their place. If it is not, it is waited for, and [`RunHost::polled`]
    /// tells.
    ///
    /// # Errors
    /// The record has something else in this place.
    fn recall_poll(&self) -> Result<Option<Vec<u32>>, RecordRefused>;

    /// Records what a poll came to, and how long that took.
    ///
    /// # Errors
    /// The record cannot be written.
    fn polled(&self, ready: &[u32], waited_micros: u64) -> Result<(), RecordRefused>;

    /// Who answers what the guest asks of others.
    fn provided(&self) -> &dyn Provided;

    /// Records an event of the guest and gives its sequence number.
    ///
    /// # Errors
    /// The event is refused, or the record cannot be written.
    fn emit(&self, event: GuestEvent<'_>) -> Result<u64, RecordRefused>;

    /// Records what an agent tells whoever watches it.
    ///
    /// # Errors
    /// The run is no execution, or the record cannot be written.
    fn tell(&self, update: &SessionUpdate) -> Result<(), RecordRefused>;

    /// Records one log line.
    ///
    /// # Errors
    /// The record cannot be written.
    fn log(
        &self,
        level: LogLevel,
        origin: LogOrigin,
        message: &str,
        fields: &[(String, String)],
    ) -> Result<(), RecordRefused>;

    /// Records that log lines were dropped, once, at the end of the run.
    fn logs_dropped(&self, lines: u64, limit: LimitReached);

    /// Records that a step was entered and gives its id.
    ///
    /// # Errors
    /// The record cannot be written.
    fn enter(&self, name: &str) -> Result<String, RecordRefused>;

    /// Records that a step was left.
    fn exit(&self, node_id: &str, duration_micros: u64, success: bool);

    /// Records that a host call was refused.
    fn denied(&self, denial: Denial<'_>);

    /// Gives the next request of the guest its id. Nothing is recorded yet.
    fn next_http_call(&self) -> HttpCallId;

    /// How a request ended, if that is on record; nothing may be done for it before this is known. The
    /// future does not come to an end when nobody can know whether the request had its effect.
    ///
    /// # Errors
    /// The record has another request in this place.
    fn recall_http<'a>(
        &'a self,
        id: &'a HttpCallId,
        request: HttpRequest<'a>,
    ) -> BoxFuture<'a, Result<Option<RecalledHttp>, RecordRefused>>;

    /// The place of a request in the trace of its run, which it carries unless the guest gave it another; none
    /// when it carries none. It is no part of the record.
    fn trace_of(&self, _id: &HttpCallId) -> Option<TraceContext> {
        None
    }

    /// Records that a request is about to be sent. It is in the record when this returns, if it ever will
    /// be; one whose effect is [`Effect::Write`] is durable when the future is ready.
    ///
    /// # Errors
    /// The record cannot be written, or has no room for the request, which then must not be sent.
    fn http_call<'a>(
        &'a self,
        id: &'a HttpCallId,
        request: HttpRequest<'a>,
    ) -> BoxFuture<'a, Result<(), RecordRefused>>;

    /// How a request ended, without the values that must not stand on record. Nothing is recorded yet.
    /// This, and no more, is what [`RunHost::http_result`] is given, and what the guest is told.
    ///
    /// # Errors
    /// It cannot be recorded so that it could be read again.
    fn redact_http(&self, end: HttpEnd) -> Result<HttpEnd, RecordRefused>;

    /// Records how a request ended: with a response, or with the reason why there is none.
    ///
    /// # Errors
    /// The record cannot be written, or has no room for the response, which the guest then must not see.
    fn http_result(
        &self,
        id: &HttpCallId,
        end: Result<&HttpResponse, &str>,
        duration_micros: u64,
    ) -> Result<(), RecordRefused>;
}

/// A host for calls that are on no record, such as `describe`. Nobody is behind it.
#[derive(Debug, Default)]
pub struct Unrecorded(RunFacts);

fn nobody<T: Send + 'static>(capability: String, wanted: &str) -> Answer<'static, T> {
    let denied = CallError::Denied {
        capability,
        rule: "granted to no skill that is only asked what it is",
        wanted: wanted.to_owned(),
    };
    Box::pin(std::future::ready(Err(denied)))
}

impl Provided for Unrecorded {
    fn tools(&self) -> Answer<'_, Vec<ToolDefinition>> {
        Box::pin(std::future::ready(Ok(Vec::new())))
    }

    fn call_tool<'a>(&'a self, name: &'a str, _arguments: &'a str) -> Answer<'a, ToolAnswer> {
        nobody(format!("tool:{name}"), name)
    }

    fn ask_model(&self, request: ModelRequest) -> Answer<'_, ModelResponse> {
        nobody(format!("llm:{}", request.model), &request.model)
    }

    fn start_model(&self, request: ModelRequest) -> Answer<'_, Box<dyn ModelAnswer>> {
        nobody(format!("llm:{}", request.model), &request.model)
    }

    fn ask_approval(&self, question: Question) -> Answer<'_, Decision> {
        nobody("approval".to_owned(), &question.prompt)
    }

    fn ask_permission(&self, request: PermissionRequest) -> Answer<'_, String> {
        nobody("approval".to_owned(), &request.title)
    }

    fn call_skill<'a>(&'a self, skill: &'a str, _input: &'a str) -> Answer<'a, String> {
        nobody(format!("skill:{skill}"), skill)
    }
}

impl RunHost for Unrecorded {
    fn facts(&self) -> &RunFacts {
        &self.0
    }

    fn attempt(&self) -> u32 {
        1
    }

    fn now(&self) -> RunTime {
        RunTime {
            time: Timestamp::from_unix_micros(0),
            elapsed: Duration::ZERO,
            left: Duration::MAX,
        }
    }

    fn until(&self, elapsed: Duration) -> Duration {
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

    fn emit(&self, _event: GuestEvent<'_>) -> Result<u64, RecordRefused> {
        Err(RecordRefused::Unavailable)
    }

    fn tell(&self, _update: &SessionUpdate) -> Result<(), RecordRefused> {
        Err(RecordRefused::Unavailable)
    }

    fn log(
        &self,
        _level: LogLevel,
        _origin: LogOrigin,
        _message: &str,
        _fields: &[(String, String)],
    ) -> Result<(), RecordRefused> {
        Ok(())
    }

    fn logs_dropped(&self, _lines: u64, _limit: LimitReached) {}

    fn enter(&self, _name: &str) -> Result<String, RecordRefused> {
        Err(RecordRefused::Unavailable)
    }

    fn exit(&self, _node_id: &str, _duration_micros: u64, _success: bool) {}

    fn denied(&self, _denial: Denial<'_>) {}

    fn next_http_call(&self) -> HttpCallId {
        HttpCallId::default()
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
        _id: &'a HttpCallId,
        _request: HttpRequest<'a>,
    ) -> BoxFuture<'a, Result<(), RecordRefused>> {
        Box::pin(std::future::ready(Err(RecordRefused::Unavailable)))
    }

    fn redact_http(&self, end: HttpEnd) -> Result<HttpEnd, RecordRefused> {
        Ok(end)
    }

    fn http_result(
        &self,
        _id: &HttpCallId,
        _end: Result<&HttpResponse, &str>,
        _duration_micros: u64,
    ) -> Result<(), RecordRefused> {
        Err(RecordRefused::Unavailable)
    }
}
