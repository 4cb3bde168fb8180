//! A home, and runners of this process that work on it as processes of their own would.

use std::fmt::Display;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Value, json};
use skillrun::call::{Effect, ToolAnswer, ToolDefinition};
use skillrun::clock::Clock;
use skillrun::config::{ApprovalPolicy, Config};
use skillrun::id::RunId;
use skillrun::ledger::{ApprovalDecision, ApprovalSource, Store, StoreOptions};
use skillrun::models::Models;
use skillrun::registry::Registry;
use skillrun::runner::{
    Caller, JsonObject, ResumeOptions, RunOutcome, Runner, RunnerOptions, SkillExecutor,
    SkillExecutorOptions, StartOptions, Started,
};
use skillrun::tools::{HostTool, ToolError, Toolbox};
use skillrun_test_artifacts::PROBE;
use tokio::sync::Semaphore;

use crate::harness::Home;

/// How long a condition may take to come true, on a machine that does much else.
const EVENTUALLY_MAX: Duration = Duration::from_secs(60);
const LOOK_INTERVAL: Duration = Duration::from_millis(10);

/// What the probe asks for.
pub(crate) const MANIFEST: &str = r#"[component]
world = "0.1"
[capabilities]
request = [
    "approval", "env:RESUME_TEST", "net:http://127.0.0.1:1/#GET", "llm:local/*",
    "skill:probe", "tool:*", "fs:ro:*=/data",
]
"#;

/// As long as any test may take.
pub(crate) const LATER: &str = r#"
[runs]
at_once_max = 4
nested_max = 12
[approvals]
suspend_after_ms = 600_000
"#;

/// A home with the probe in it, to which everything is granted that it asks for.
pub(crate) struct Library {
    pub(crate) home: Home,
}

/// What a runner is made of, beside the home.
pub(crate) struct Parts {
    pub(crate) tools: Toolbox,
    pub(crate) models: Models,
    pub(crate) clock: Clock,
}

impl Default for Parts {
    fn default() -> Self {
        Self {
            tools: Toolbox::new(),
            models: Models::new(),
            clock: Clock::system(),
        }
    }
}

impl Library {
    /// With `more` of config.toml.
    pub(crate) fn new(more: &str) -> Self {
        let home = Home::new(&[PROBE]);
        home.write_manifest("probe", MANIFEST);
        let library = Self { home };
        library.configure(more);
        library
    }

    /// For runners that are made from now on.
    pub(crate) fn configure(&self, more: &str) {
        self.home.configure(&format!(
            r#"
[ledger]
durability = "relaxed"
[capabilities]
grant = ["approval", "env:RESUME_TEST", "llm:local/*", "skill:probe", "tool:*"]
{more}
"#
        ));
    }

    pub(crate) fn config(&self) -> Config {
        Config::load(self.home.path()).unwrap()
    }

    /// A runner that nobody else in this process shares anything with.
    pub(crate) fn runner(&self, parts: Parts) -> Runner {
        runner_in(self.home.path(), parts)
    }

    /// As another process has it.
    pub(crate) fn store(&self, clock: &Clock) -> Store {
        store_of(&self.config(), clock)
    }

    /// The payloads of the run's events of one type; none before it has begun.
    pub(crate) fn payloads(&self, run_id: impl Display, kind: &str) -> Vec<Value> {
        let run_id = run_id.to_string();
        if !self.home.ledger(&run_id).exists() {
            return Vec::new();
        }
        let events = self.home.events_of(&run_id, kind);
        events
            .into_iter()
            .map(|mut event| event["payload"].take())
            .collect()
    }

    /// How each part of the run ended.
    pub(crate) fn ends(&self, run_id: impl Display) -> Vec<String> {
        let ends = self.payloads(run_id, "run_completed");
        let status = |end: &Value| end["status"].as_str().unwrap().to_owned();
        ends.iter().map(status).collect()
    }

    /// Waits until as many parts of the run as that have ended, and tells how each did.
    pub(crate) async fn after_ends(&self, run_id: impl Display, count: usize) -> Vec<String> {
        let ends = || Some(self.ends(&run_id)).filter(|ends| ends.len() >= count);
        eventually("the end of a run", ends).await
    }

    /// The run inside this one that the call of that id began.
    pub(crate) fn inside(&self, run_id: impl Display, call_id: &str) -> Option<String> {
        let calls = self.payloads(run_id, "tool_call");
        let call = calls.into_iter().find(|call| call["call_id"] == call_id)?;
        call["child_run_id"].as_str().map(str::to_owned)
    }

    #[track_caller]
    pub(crate) fn verifies(&self, run_id: impl Display) {
        let verified = self.home.skillrun(&["runs", "verify", &run_id.to_string()]);
        assert_eq!(verified.exit, Some(0), "{verified:?}");
    }
}

/// A runner in the home with that path.
pub(crate) fn runner_in(home: &Path, parts: Parts) -> Runner {
    let config = Config::load(home).unwrap();
    let registry = Registry::load(&config.skills_dir()).unwrap();
    let clock = parts.clock.clone();
    let executor = SkillExecutor::new(SkillExecutorOptions {
        tools: parts.tools,
        models: parts.models,
        ..SkillExecutorOptions::from_config(&config, registry, clock.clone())
    });
    Runner::new(RunnerOptions {
        store: store_of(&config, &clock),
        executor: Arc::new(executor.unwrap()),
        admission: config.runs,
        clock,
    })
}

fn store_of(config: &Config, clock: &Clock) -> Store {
    let store = Store::open(StoreOptions {
        runs_dir: config.runs_dir(),
        durability: config.durability,
        clock: clock.clone(),
    });
    store.unwrap()
}

/// Looks again and again until there is something.
pub(crate) async fn eventually<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let mut looks = tokio::time::interval(LOOK_INTERVAL);
    let found = async {
        loop {
            looks.tick().await;
            if let Some(found) = look() {
                return found;
            }
        }
    };
    let found = tokio::time::timeout(EVENTUALLY_MAX, found).await;
    found.unwrap_or_else(|_elapsed| panic!("in vain: {what}"))
}

pub(crate) fn options(verb: &Value) -> StartOptions {
    StartOptions::new("probe", JsonObject::parse(verb.to_string()).unwrap())
}

pub(crate) async fn start(runner: &Runner, verb: &Value) -> Started {
    runner.start(Caller::new(), options(verb)).await.unwrap()
}

/// The calls, one after the other.
pub(crate) fn calls(calls: &[Value]) -> Value {
    json!({ "verb": "calls", "calls": calls })
}

pub(crate) fn ask(timeout_ms: Option<u64>) -> Value {
    json!({ "call": "ask", "prompt": "Go on?", "payload": "{}", "timeout_ms": timeout_ms })
}

pub(crate) fn call_tool(name: &str, arguments: &Value) -> Value {
    json!({ "call": "tool", "name": name, "arguments": arguments.to_string() })
}

pub(crate) fn hand_over(verb: &Value) -> Value {
    json!({ "call": "skill", "skill": "probe", "input": verb.to_string() })
}

pub(crate) fn yes() -> ApprovalDecision {
    ApprovalDecision {
        approved: true,
        reason: "because".to_owned(),
        source: ApprovalSource::Api,
        option: None,
        answer: None,
    }
}

/// What the probe answered.
pub(crate) fn said(outcome: &RunOutcome) -> Value {
    serde_json::from_str(outcome.result.output().as_str()).unwrap()
}

impl Library {
    /// Starts a run, and interrupts it when it asks its first question.
    pub(crate) async fn interrupted(&self, parts: Parts, wanted: StartOptions) -> RunId {
        let runner = self.runner(parts);
        let started = runner.start(Caller::new(), wanted).await.unwrap();
        let asked = || self.payloads(&started.run_id, "approval_request").pop();
        eventually("a question", asked).await;
        runner.shutdown().await;
        assert_eq!(self.ends(&started.run_id), ["interrupted"]);
        started.run_id
    }

    /// Goes on with a run to its end, with every question answered with yes.
    pub(crate) async fn resumed(&self, parts: Parts, run_id: &RunId) -> RunOutcome {
        let runner = self.runner(parts);
        let resumed = runner.resume(Caller::new(), run_id, approving()).await;
        resumed.unwrap()
    }

    pub(crate) fn ledger(&self, run_id: &RunId) -> String {
        std::fs::read_to_string(self.home.ledger(run_id.as_str())).unwrap()
    }
}

/// Every question is answered with yes.
pub(crate) fn approving() -> ResumeOptions {
    let mut options = ResumeOptions::default();
    options.terms.approvals = Some(ApprovalPolicy::Yes);
    options
}

/// A tool that answers as often as the test lets it.
struct Gated(Arc<Semaphore>);

#[async_trait]
impl HostTool for Gated {
    fn definition(&self) -> ToolDefinition {
        ToolDefinition {
            name: "a__wait".to_owned(),
            description: String::new(),
            input_schema: "{}".to_owned(),
            effect: Effect::Write,
        }
    }

    async fn call(&self, _arguments: &str) -> Result<ToolAnswer, ToolError> {
        self.0.acquire().await.unwrap().forget();
        Ok(ToolAnswer {
            content: "[]".to_owned(),
            is_error: false,
        })
    }
}

/// With a tool `a__wait` that answers as often as the semaphore lets it.
pub(crate) fn gated(gate: &Arc<Semaphore>) -> Parts {
    let gated = Toolbox::new().with_host_tool(Arc::new(Gated(Arc::clone(gate))));
    Parts {
        tools: gated.unwrap(),
        ..Parts::default()
    }
}
