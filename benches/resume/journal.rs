//! A run whose calls are on record, beside one whose host answers and keeps nothing.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use futures_util::future::BoxFuture;
use serde_json::json;
use skillrun::call::{Decision, ModelRequest, ModelResponse, Question, ToolAnswer, ToolDefinition};
use skillrun::clock::Clock;
use skillrun::config::{ApprovalPolicy, Loading};
use skillrun::executor::{
    Answer, Call, Denial, Engine, EngineOptions, GuestEvent, HttpCallId, HttpOptions, HttpRequest,
    HttpResponse, LogLevel, LogOrigin, ModelAnswer, Provided, RecalledHttp, RecordRefused,
    RunFacts, RunHost, RunTime, Unrecorded,
};
use skillrun::ledger::Digest;
use skillrun::limits::{Budget, LimitOverrides, LimitReached, Limits, Source};
use skillrun::runner::{Caller, JsonObject, StartOptions};
use skillrun_test_artifacts::PROBE;

use crate::place::{Place, terms};
use crate::{median, ms_since, now};

/// Calls of one run.
const CALLS: u64 = 10_000;
const ROUNDS: usize = 7;
const LATER_MS: u64 = 3_600_000;

/// Answers each call of a tool, and puts nothing on record.
#[derive(Default)]
struct Silent(Unrecorded);

impl Provided for Silent {
    fn tools(&self) -> Answer<'_, Vec<ToolDefinition>> {
        self.0.tools()
    }

    fn call_tool<'a>(&'a self, _name: &'a str, _arguments: &'a str) -> Answer<'a, ToolAnswer> {
        let answer = ToolAnswer {
            content: "[]".to_owned(),
            is_error: false,
        };
        Box::pin(std::future::ready(Ok(answer)))
    }

    fn ask_model(&self, request: ModelRequest) -> Answer<'_, ModelResponse> {
        self.0.ask_model(request)
    }

    fn start_model(&self, request: ModelRequest) -> Answer<'_, Box<dyn ModelAnswer>> {
        self.0.start_model(request)
    }

    fn ask_approval(&self, question: Question) -> Answer<'_, Decision> {
        self.0.ask_approval(question)
    }

    fn ask_permission(&self, _request: skillrun::call::PermissionRequest) -> Answer<'_, String> {
        Box::pin(std::future::ready(Err(
            skillrun::executor::CallError::Cancelled,
        )))
    }

    fn call_skill<'a>(&'a self, skill: &'a str, input: &'a str) -> Answer<'a, String> {
        self.0.call_skill(skill, input)
    }
}

impl RunHost for Silent {
    fn facts(&self) -> &RunFacts {
        self.0.facts()
    }

    fn attempt(&self) -> u32 {
        self.0.attempt()
    }

    fn now(&self) -> RunTime {
        self.0.now()
    }

    fn until(&self, elapsed: Duration) -> Duration {
        self.0.until(elapsed)
    }

    fn recall_poll(&self) -> Result<Option<Vec<u32>>, RecordRefused> {
        self.0.recall_poll()
    }

    fn polled(&self, ready: &[u32], waited_micros: u64) -> Result<(), RecordRefused> {
        self.0.polled(ready, waited_micros)
    }

    fn provided(&self) -> &dyn Provided {
        self
    }

    fn emit(&self, event: GuestEvent<'_>) -> Result<u64, RecordRefused> {
        self.0.emit(event)
    }

    fn tell(&self, _update: &skillrun::call::SessionUpdate) -> Result<(), RecordRefused> {
        Err(RecordRefused::Unavailable)
    }

    fn log(
        &self,
        level: LogLevel,
        origin: LogOrigin,
        message: &str,
        fields: &[(String, String)],
    ) -> Result<(), RecordRefused> {
        self.0.log(level, origin, message, fields)
    }

    fn logs_dropped(&self, lines: u64, limit: LimitReached) {
        self.0.logs_dropped(lines, limit);
    }

    fn enter(&self, name: &str) -> Result<String, RecordRefused> {
        self.0.enter(name)
    }

    fn exit(&self, node_id: &str, duration_micros: u64, success: bool) {
        self.0.exit(node_id, duration_micros, success);
    }

    fn denied(&self, denial: Denial<'_>) {
        self.0.denied(denial);
    }

    fn next_http_call(&self) -> HttpCallId {
        self.0.next_http_call()
    }

    fn recall_http<'a>(
        &'a self,
        id: &'a HttpCallId,
        request: HttpRequest<'a>,
    ) -> BoxFuture<'a, Result<Option<RecalledHttp>, RecordRefused>> {
        self.0.recall_http(id, request)
    }

    fn http_call<'a>(
        &'a self,
        id: &'a HttpCallId,
        request: HttpRequest<'a>,
    ) -> BoxFuture<'a, Result<(), RecordRefused>> {
        self.0.http_call(id, request)
    }

    fn redact_http(
        &self,
        end: Result<HttpResponse, String>,
    ) -> Result<Result<HttpResponse, String>, RecordRefused> {
        self.0.redact_http(end)
    }

    fn http_result(
        &self,
        id: &HttpCallId,
        end: Result<&HttpResponse, &str>,
        duration_micros: u64,
    ) -> Result<(), RecordRefused> {
        self.0.http_result(id, end, duration_micros)
    }
}

/// Prints what a run of many calls takes with its ledger and without one.
pub(crate) fn on_and_off() -> Result<()> {
    let verb = json!({ "verb": "tool_flood", "calls": CALLS }).to_string();
    let runtime = skillrun::runner::runtime_builder().build()?;
    let wasm = std::fs::read(PROBE.wasm)?;
    let many = LimitOverrides::from([("host_calls".to_owned(), 1_000_000)]);
    let limits = Limits::default().with(Source::Call, &many)?;
    let engine = Engine::new(EngineOptions {
        instances_max: 1,
        limits: limits.clone(),
        loading: Loading::default(),
        cache_dir: None,
        http: HttpOptions::default(),
        clock: Clock::system(),
    })?;
    let digest = Digest::of(&wasm).to_string();
    let program = runtime.block_on(engine.load(&digest, move || Ok(wasm)))?;
    let limits = Arc::new(limits);
    let off = || -> Result<f64> {
        let call = Call {
            host: Arc::new(Silent::default()),
            policy: Arc::default(),
            protected: Arc::default(),
            budget: Arc::new(Budget::new(Arc::clone(&limits), None)),
            seed: [7; 32],
            environment: Arc::default(),
            operation: None,
            input: verb.clone(),
            record_only: false,
            workspace_dir: None,
        };
        let start = now();
        runtime.block_on(program.call(call))?;
        Ok(ms_since(start))
    };
    let folder = tempfile::tempdir()?;
    let runner = Place::new(folder.path(), LATER_MS)?.runner()?;
    let on = || -> Result<f64> {
        let options = StartOptions {
            terms: terms(ApprovalPolicy::Yes)?,
            ..StartOptions::new("probe", JsonObject::parse(verb.clone())?)
        };
        let start = now();
        runtime.block_on(runner.run(Caller::new(), options))?;
        Ok(ms_since(start))
    };
    // The component is compiled by the first of each.
    off()?;
    on()?;
    let (mut without, mut with, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let (off, on) = (off()?, on()?);
        without.push(off);
        with.push(on);
        ratios.push(on / off);
    }
    println!("{CALLS} calls, journaling off: {:.1} ms", median(without));
    println!("{CALLS} calls, journaling on:  {:.1} ms", median(with));
    println!("ratio: {:.2}", median(ratios));
    Ok(())
}
