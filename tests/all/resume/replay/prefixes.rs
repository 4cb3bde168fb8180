//! Records that were cut off anywhere: whatever there is of one is done again, and nothing else.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use serde_json::{Value, json};
use skillrun::call::{
    Effect, ModelChunk, ModelRequest, ModelResponse, Part, StopReason, ToolAnswer, ToolDefinition,
    Usage,
};
use skillrun::clock::Clock;
use skillrun::config::{Admission, ApprovalPolicy, Durability};
use skillrun::id::RunId;
use skillrun::ledger::{Store, StoreOptions, record_file};
use skillrun::limits::LimitOverrides;
use skillrun::models::{ModelError, ModelName, ModelProvider, ModelStream, Models};
use skillrun::registry::{Registry, Skill};
use skillrun::runner::{
    Caller, JsonObject, ReplayOptions, ReplayReport, ReplayVerdict, RunError, RunOutcome, Runner,
    RunnerOptions, SkillExecutor, SkillExecutorOptions, StartOptions, Terms,
};
use skillrun::tools::{HostTool, ToolError, Toolbox};
use skillrun_test_artifacts::{GREET, HANDOFF, PROBE};
use tempfile::TempDir;

use crate::executor::PATIENT;
use crate::http::server::{Server, ok};

/// How often anybody was reached.
type Reached = Arc<AtomicUsize>;

struct Counting {
    definition: ToolDefinition,
    reached: Reached,
}

#[async_trait]
impl HostTool for Counting {
    fn definition(&self) -> ToolDefinition {
        self.definition.clone()
    }

    async fn call(&self, arguments: &str) -> Result<ToolAnswer, ToolError> {
        let n = self.reached.fetch_add(1, Ordering::SeqCst);
        if arguments.contains("fail") {
            return Err(ToolError::Failed("as asked".to_owned()));
        }
        Ok(ToolAnswer {
            content: json!([{ "type": "text", "text": format!("{n}") }]).to_string(),
            is_error: false,
        })
    }
}

struct Talkative(Reached);

impl Talkative {
    fn response(&self) -> ModelResponse {
        let n = self.0.fetch_add(1, Ordering::SeqCst);
        ModelResponse {
            content: vec![Part::Text(format!("answer {n}"))],
            stop_reason: StopReason::EndTurn,
            usage: Usage {
                input_tokens: 7,
                output_tokens: 3,
                ..Usage::default()
            },
            model: "small".to_owned(),
        }
    }
}

#[async_trait]
impl ModelProvider for Talkative {
    async fn generate(&self, _request: &ModelRequest) -> Result<ModelResponse, ModelError> {
        Ok(self.response())
    }

    async fn start(&self, _request: &ModelRequest) -> Result<Box<dyn ModelStream>, ModelError> {
        let response = self.response();
        let piece = |text: String| Ok(ModelChunk::Text(text));
        // The next piece last; each is long enough to be handed over by itself.
        let coming = vec![
            Ok(ModelChunk::Done(Box::new(response))),
            piece("b".repeat(600)),
            piece("a".repeat(600)),
        ];
        Ok(Box::new(Pieces(coming)))
    }
}

struct Pieces(Vec<Result<ModelChunk, ModelError>>);

#[async_trait]
impl ModelStream for Pieces {
    async fn next(&mut self) -> Result<ModelChunk, ModelError> {
        self.0.pop().unwrap()
    }

    fn usage(&self) -> Usage {
        Usage::default()
    }
}

struct Bench {
    folder: TempDir,
    /// Carries runs out, with everybody there.
    live: Runner,
    /// Has nobody.
    alone: Runner,
    reached: Reached,
}

impl Bench {
    fn new() -> Self {
        let folder = TempDir::new().unwrap();
        let reached = Reached::default();
        let tool = |name: &str, effect| -> Arc<dyn HostTool> {
            Arc::new(Counting {
                definition: ToolDefinition {
                    name: name.to_owned(),
                    description: String::new(),
                    input_schema: r#"{"type":"object"}"#.to_owned(),
                    effect,
                },
                reached: Arc::clone(&reached),
            })
        };
        let tools = Toolbox::new()
            .with_host_tool(tool("a__read", Effect::Read))
            .and_then(|tools| tools.with_host_tool(tool("a__write", Effect::Write)));
        let small = ModelName {
            provider: "local".to_owned(),
            model: "small".to_owned(),
        };
        let models = Models::new()
            .with_provider("local", Arc::new(Talkative(Arc::clone(&reached))))
            .with_alias("default", small.clone())
            .with_alias(
                "other",
                ModelName {
                    model: "large".to_owned(),
                    ..small
                },
            );
        let skill = |wasm: &str| Skill::from_wasm(wasm.as_ref()).unwrap();
        let registry = || Registry::of([PROBE, GREET, HANDOFF].map(|guest| skill(guest.wasm)));
        let executor = SkillExecutor::new(SkillExecutorOptions {
            loading: PATIENT,
            cache_dir: Some(folder.path().join("cache")),
            ..SkillExecutorOptions::new(registry(), Clock::system())
        })
        .unwrap();
        let runner = |name: &str, executor| {
            let store = Store::open(StoreOptions {
                runs_dir: folder.path().join(name),
                durability: Durability::Relaxed,
                clock: Clock::system(),
            });
            Runner::new(RunnerOptions {
                store: store.unwrap(),
                executor: Arc::new(executor),
                admission: Admission::default(),
                clock: Clock::system(),
            })
        };
        Self {
            live: runner("runs", executor.with_providers(tools.unwrap(), models)),
            alone: runner("none", executor),
            folder,
            reached,
        }
    }

    /// Runs the probe, with this granted, and gives its ledger.
    async fn record(&self, input: &Value, grants: &[&str]) -> String {
        let run_id = RunId::generate();
        let outcome = self
            .run(&run_id, input, grants, LimitOverrides::new())
            .await;
        let outcome = outcome.unwrap();
        assert!(!outcome.result.is_error, "{outcome:?}");
        self.ledger(&run_id)
    }

    fn ledger(&self, run_id: &RunId) -> String {
        fs::read_to_string(self.live.store().path_of(run_id)).unwrap()
    }

    async fn run(
        &self,
        run_id: &RunId,
        input: &Value,
        grants: &[&str],
        limits: LimitOverrides,
    ) -> Result<RunOutcome, RunError> {
        let grants = grants.iter().map(|grant| grant.parse().unwrap());
        let options = StartOptions {
            run_id: Some(run_id.clone()),
            terms: Terms {
                limits,
                grants: grants.collect(),
                approvals: Some(ApprovalPolicy::Yes),
            },
            ..StartOptions::new("probe", JsonObject::parse(input.to_string()).unwrap())
        };
        self.live.run(Caller::new(), options).await
    }

    /// Does again what is in a file with these bytes, with nobody there and, the second time, with everybody.
    async fn replay(&self, bytes: &[u8]) -> ReplayReport {
        let file = self.folder.path().join("record");
        fs::write(&file, bytes).unwrap();
        let before = self.reached.load(Ordering::SeqCst);
        let report = replayed(&self.alone, &file).await;
        let again = replayed(&self.live, &file).await.verdict;
        // Which of several requests is found to have no answer first may differ.
        assert_eq!(
            again.as_str(),
            report.verdict.as_str(),
            "{again:?} {report:?}"
        );
        assert_eq!(
            self.reached.load(Ordering::SeqCst),
            before,
            "somebody was reached"
        );
        report
    }
}

async fn replayed(runner: &Runner, file: &Path) -> ReplayReport {
    let replayed = runner.replay(record_file(file).unwrap(), ReplayOptions::default());
    replayed.await.unwrap()
}

/// Calls of every kind, of which some are refused or fail.
fn calls() -> Value {
    let tool = |name: &str, arguments: &str| json!({ "call": "tool", "name": name, "arguments": arguments });
    let greet = |name: &str| json!(["greet", json!({ "name": name }).to_string()]);
    json!({ "verb": "calls", "calls": [
        { "call": "available" },
        tool("a__read", "{}"),
        tool("write", r#"{"b": 1.50}"#),
        tool("a__read", r#"{"fail":1}"#),
        tool("a__gone", "{}"),
        tool("b__denied", "{}"),
        tool("a__read", "no JSON"),
        { "call": "tools", "parallel_max": 2, "calls": [
            ["a__read", "{}"], ["a__write", "{}"], ["b__denied", "{}"], ["read", "{}"],
        ] },
        { "call": "model", "model": "default" },
        { "call": "model", "model": "other" },
        { "call": "model", "model": "nobody" },
        { "call": "model", "model": "local/small", "output_schema": r#"{"type":"object"}"# },
        { "call": "stream", "model": "default", "pieces_max": 9 },
        { "call": "stream", "model": "default", "pieces_max": 1 },
        { "call": "ask", "prompt": "Really?", "payload": "{}" },
        { "call": "skill", "skill": "greet", "input": r#"{"name":"Ada"}"# },
        { "call": "skill", "skill": "nobody", "input": "{}" },
        { "call": "skills", "parallel_max": 2, "calls": [greet("Bob"), greet("Eve"), greet("Zoe")] },
        tool("a__write", "{}"),
    ] })
}

const GRANTS: &[&str] = &["tool:a__*", "llm:local/small", "approval", "skill:greet"];

/// Everything up to each line end, and then the whole.
async fn check_prefixes(bench: &Bench, ledger: &str) {
    let ends = ledger.match_indices('\n').map(|(at, _)| at + 1);
    let ends: Vec<usize> = ends.collect();
    for &end in &ends[..ends.len() - 1] {
        let report = bench.replay(&ledger.as_bytes()[..end]).await;
        assert!(
            matches!(report.verdict, ReplayVerdict::SameSoFar { .. }),
            "{report:?}\n{}",
            &ledger[..end]
        );
    }
    let report = bench.replay(ledger.as_bytes()).await;
    assert_eq!(report.verdict, ReplayVerdict::Same, "{report:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_record_of_calls_is_followed_to_wherever_it_was_cut_off() {
    let bench = Bench::new();
    let ledger = bench.record(&calls(), GRANTS).await;
    for kind in [
        "llm_chunk",
        "denied",
        "approval_response",
        "\"kind\":\"tools\"",
        "child_run_id",
        "cancelled",
    ] {
        assert!(ledger.contains(kind), "{kind}");
    }
    check_prefixes(&bench, &ledger).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_record_of_steps_and_lines_is_followed_to_wherever_it_was_cut_off() {
    let bench = Bench::new();
    for input in [
        json!({ "verb": "ambient" }),
        json!({ "verb": "print", "stdout": "a\nb\n", "stderr": "c\n" }),
        json!({ "verb": "emit", "name": "x", "payload": "[1]" }),
    ] {
        let ledger = bench.record(&input, &[]).await;
        check_prefixes(&bench, &ledger).await;
    }
}

/// A run that met a limit meets it again, in the same place.
#[tokio::test(flavor = "multi_thread")]
async fn limits_are_met_where_they_were() {
    let bench = Bench::new();
    let ask = json!({ "call": "model", "model": "default" });
    let model = json!({ "verb": "calls", "calls": [ask, ask, ask] });
    let tool = json!({ "verb": "tool_flood", "calls": 9 });
    for (key, limit, input) in [
        ("llm_tokens", 10, &model),
        ("llm_tokens", 15, &model),
        ("host_calls", 2, &model),
        ("host_calls", 3, &tool),
        ("guest_event_bytes", 2000, &model),
    ] {
        let run_id = RunId::generate();
        let limits = LimitOverrides::from([(key.to_owned(), limit)]);
        let ended = bench.run(&run_id, input, GRANTS, limits).await;
        let ledger = bench.ledger(&run_id);
        assert!(
            ledger.contains(&format!("{key} limit of {limit}")),
            "{ended:?}"
        );
        check_prefixes(&bench, &ledger).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_record_of_waits_and_looks_is_followed_to_wherever_it_was_cut_off() {
    let bench = Bench::new();
    let input = json!({ "verb": "time", "do": [
        { "step": "timer", "ms": 60 },
        { "step": "timer", "ms": 1 },
        { "step": "look" },
        { "step": "poll" },
        { "step": "ready", "place": 0 },
        { "step": "block", "place": 0 },
        { "step": "busy_wait", "ms": 1100 },
        { "step": "look" },
    ] });
    let ledger = bench.record(&input, &[]).await;
    for kind in ["\"poll\":2", "\"look\":"] {
        assert!(ledger.contains(kind), "{kind}: {ledger}");
    }
    check_prefixes(&bench, &ledger).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_record_of_requests_is_followed_to_wherever_it_was_cut_off() {
    let bench = Bench::new();
    let server = Server::start(|seen, wire| match seen.path() {
        "/close" => Ok(()),
        "/bytes" => wire.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n\xff\x00"),
        _ => wire.write_all(&ok("hello")),
    });
    let grant = server.net("/#GET,POST");
    let all = ["/a", "/close", "/bytes"].map(|path| server.url(path));
    let mut recorded = 0;
    for input in [
        json!({ "verb": "http", "url": server.url("/a"), "method": "POST", "body": "x" }),
        json!({ "verb": "http_each", "urls": all }),
        json!({ "verb": "http_at_once", "urls": all }),
        json!({ "verb": "http_leave", "url": server.url("/a"), "drop": true }),
        json!({ "verb": "http_leave", "url": server.url("/a"), "drop": false }),
    ] {
        let ledger = bench.record(&input, &[&grant]).await;
        recorded += ledger.matches("\"http_call\"").count();
        check_prefixes(&bench, &ledger).await;
        // One that the skill has left may come to the server later than the end of its run.
        let sent = server.seen().len();
        assert!(sent <= recorded, "{sent} of {recorded} were sent");
    }
}

/// A file that ends in the middle of a line is one that ends before it.
#[test]
fn a_record_may_end_anywhere() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let bench = Bench::new();
    let ledger = runtime.block_on(bench.record(&calls(), GRANTS));
    let first = ledger.find('\n').unwrap() + 1;
    let mut runner = TestRunner::new(Config {
        cases: 24,
        failure_persistence: None,
        ..Config::default()
    });
    let checked = runner.run(&(first..ledger.len()), |end| {
        let report = runtime.block_on(bench.replay(&ledger.as_bytes()[..end]));
        prop_assert!(
            matches!(report.verdict, ReplayVerdict::SameSoFar { .. }),
            "{:?}",
            report
        );
        Ok(())
    });
    checked.unwrap();
}
