//! A host that answers every call by the name that is asked for, and keeps what it was asked.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::BoxFuture;
use skillrun::call::{
    Decision, Effect, ModelChunk, ModelRequest, ModelResponse, Part, Question, StopReason,
    ToolAnswer, ToolDefinition, ToolUse, Usage,
};
use skillrun::executor::{
    Answer, CallError, Denial, GuestEvent, HttpCallId, HttpEnd, HttpRequest, HttpResponse,
    LogLevel, LogOrigin, ModelAnswer, Provided, RecalledHttp, RecordRefused, RunFacts, RunHost,
    RunTime, Unrecorded,
};
use skillrun::limits::LimitReached;

#[derive(Default)]
pub(super) struct AnsweringHost {
    facts: RunFacts,
    asked: Arc<Mutex<Vec<String>>>,
}

impl AnsweringHost {
    /// What it was asked so far.
    pub(super) fn asked(&self) -> Vec<String> {
        let asked = self.asked.lock();
        asked.unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn note(&self, what: String) {
        note(&self.asked, what);
    }

    fn note_request(&self, request: ModelRequest) {
        // What is left goes down with each answer, and is not the skill's to say.
        let request = ModelRequest {
            tokens_left: 0,
            ..request
        };
        self.note(format!("{request:?}"));
    }
}

fn note(asked: &Mutex<Vec<String>>, what: String) {
    let mut asked = asked.lock().unwrap_or_else(PoisonError::into_inner);
    asked.push(what);
}

fn ready<T: Send + 'static>(answer: Result<T, CallError>) -> Answer<'static, T> {
    Box::pin(std::future::ready(answer))
}

/// One JSON array of blocks, of which two are text.
const BLOCKS: &str = r#"[{"type":"text","text":"one ü"},{"type":"image","text":"no"},null,{"type":"text","text":"two"}]"#;

fn response(request: &ModelRequest) -> ModelResponse {
    let text = match request.model.as_str() {
        "json" => r#"{"a":[1]}"#,
        _ => "It is done.",
    };
    ModelResponse {
        content: vec![Part::Text(text.to_owned()), Part::ToolUse(tool_use())],
        stop_reason: StopReason::ToolUse,
        usage: Usage {
            output_tokens: 7,
            cost_usd: 0.25,
            ..Usage::default()
        },
        model: "m-1".to_owned(),
    }
}

fn tool_use() -> ToolUse {
    ToolUse {
        id: "u1".to_owned(),
        name: "t".to_owned(),
        arguments: r#"{"a":{"b":2}}"#.to_owned(),
    }
}

/// An answer in pieces, which says when it is given up before its end.
struct Pieces {
    left: Vec<ModelChunk>,
    asked: Arc<Mutex<Vec<String>>>,
}

impl ModelAnswer for Pieces {
    fn next(&mut self) -> Answer<'_, Option<ModelChunk>> {
        ready(Ok(self.left.pop()))
    }

    fn give_up(self: Box<Self>) -> Result<(), CallError> {
        Ok(())
    }
}

impl Drop for Pieces {
    fn drop(&mut self) {
        note(
            &self.asked,
            format!("dropped with {} left", self.left.len()),
        );
    }
}

impl Provided for AnsweringHost {
    fn tools(&self) -> Answer<'_, Vec<ToolDefinition>> {
        let tool = ToolDefinition {
            name: "a__b".to_owned(),
            description: "a tool".to_owned(),
            input_schema: r#"{"type":"object"}"#.to_owned(),
            effect: Effect::Idempotent,
        };
        Box::pin(std::future::ready(Ok(vec![tool])))
    }

    fn call_tool<'a>(&'a self, name: &'a str, arguments: &'a str) -> Answer<'a, ToolAnswer> {
        self.note(format!("{name} {arguments}"));
        let what = || "what".to_owned();
        ready(match name {
            "a__not-found" => Err(CallError::NotFound(what())),
            "a__invalid" => Err(CallError::Invalid(what())),
            "a__ambiguous" => Err(CallError::Ambiguous(vec![what(), "that".to_owned()])),
            "a__failed" => Err(CallError::Failed(what())),
            "a__timed-out" => Err(CallError::TimedOut { limit_ms: 5 }),
            "a__exhausted" => Err(CallError::Exhausted(what())),
            "a__cancelled" => Err(CallError::Cancelled),
            name => Ok(ToolAnswer {
                content: BLOCKS.to_owned(),
                is_error: name == "a__error",
            }),
        })
    }

    fn ask_model(&self, request: ModelRequest) -> Answer<'_, ModelResponse> {
        let response = response(&request);
        self.note_request(request);
        ready(Ok(response))
    }

    fn start_model(&self, request: ModelRequest) -> Answer<'_, Box<dyn ModelAnswer>> {
        let response = response(&request);
        self.note_request(request);
        ready(Ok(Box::new(Pieces {
            left: vec![
                ModelChunk::Done(Box::new(response)),
                ModelChunk::ToolUse(tool_use()),
                ModelChunk::Text("It is".to_owned()),
            ],
            asked: Arc::clone(&self.asked),
        })))
    }

    fn ask_approval(&self, question: Question) -> Answer<'_, Decision> {
        let decision = Decision {
            approved: question.prompt == "May I?",
            reason: "because".to_owned(),
            automatic: question.timeout_ms.is_some(),
        };
        self.note(format!("{question:?}"));
        ready(Ok(decision))
    }

    fn ask_permission(&self, _request: skillrun::call::PermissionRequest) -> Answer<'_, String> {
        Box::pin(std::future::ready(Err(CallError::Cancelled)))
    }

    fn call_skill<'a>(&'a self, skill: &'a str, input: &'a str) -> Answer<'a, String> {
        self.note(format!("{skill} {input}"));
        ready(Ok(format!("[{input}]")))
    }
}

impl RunHost for AnsweringHost {
    fn facts(&self) -> &RunFacts {
        &self.facts
    }

    fn attempt(&self) -> u32 {
        1
    }

    fn now(&self) -> RunTime {
        Unrecorded::default().now()
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

    fn recall_http<'a>(
        &'a self,
        _id: &'a HttpCallId,
        _request: HttpRequest<'a>,
    ) -> BoxFuture<'a, Result<Option<RecalledHttp>, RecordRefused>> {
        Box::pin(std::future::ready(Ok(None)))
    }

    fn provided(&self) -> &dyn Provided {
        self
    }

    fn emit(&self, _event: GuestEvent<'_>) -> Result<u64, RecordRefused> {
        Err(RecordRefused::Unavailable)
    }

    fn tell(&self, _update: &skillrun::call::SessionUpdate) -> Result<(), RecordRefused> {
        Err(RecordRefused::Unavailable)
    }

    fn log(
        &self,
        _level: LogLevel,
        _origin: LogOrigin,
        _message: &str,
        _fields: &[(String, String)],
    ) -> Result<(), RecordRefused> {
        Err(RecordRefused::Unavailable)
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
