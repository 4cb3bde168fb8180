//! What skills ask of others, through the library: tools of the host, a model and people of the test's own
//! making, and real guests that ask.

mod approvals;
mod models;
mod skills;
mod suspended;
mod tools;

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use serde_json::{Value, json};
use skillrun::call::{Effect, ToolAnswer, ToolDefinition};
use skillrun::capability::Capability;
use skillrun::clock::Clock;
use skillrun::config::{Admission, ApprovalPolicy, Approvals, Durability, Grants, OnTimeout};
use skillrun::ledger::{Store, StoreOptions};
use skillrun::limits::LimitOverrides;
use skillrun::models::Models;
use skillrun::outcome::OutcomeCode;
use skillrun::registry::{Registry, Skill};
use skillrun::runner::{
    Caller, JsonObject, RunError, RunOutcome, Runner, RunnerOptions, SkillExecutor,
    SkillExecutorOptions, StartOptions, Terms,
};
use skillrun::tools::{HostTool, ToolError, Toolbox};
use skillrun_test_artifacts::{GREET, Guest, HANDOFF, PROBE};
use tempfile::TempDir;

use crate::executor::PATIENT;
use crate::harness::events_in;

/// A runner with a store of its own.
struct Bench {
    folder: TempDir,
    runner: Runner,
    grants: Vec<String>,
    limits: LimitOverrides,
}

/// What a [`Bench`] is made of.
struct Parts {
    tools: Toolbox,
    models: Models,
    clock: Clock,
    on_timeout: OnTimeout,
    suspend_after_ms: u64,
    nested_max: usize,
    /// What every skill asks for and gets; with nothing here, the caller alone grants.
    granted_to_all: &'static [&'static str],
}

impl Default for Parts {
    fn default() -> Self {
        Self {
            tools: Toolbox::new(),
            models: Models::new(),
            clock: Clock::system(),
            on_timeout: OnTimeout::Reject,
            suspend_after_ms: Approvals::default().suspend_after_ms,
            nested_max: 16,
            granted_to_all: &[],
        }
    }
}

impl Bench {
    fn new(grants: &[&str], parts: Parts) -> Self {
        let folder = TempDir::new().unwrap();
        let granted = parts.granted_to_all.iter();
        let granted: Vec<Capability> = granted.map(|grant| grant.parse().unwrap()).collect();
        let skill = |guest: &Guest| {
            let mut skill = Skill::from_wasm(guest.wasm.as_ref()).unwrap();
            skill.is_bare = granted.is_empty();
            skill.manifest.capabilities.clone_from(&granted);
            skill
        };
        let registry = Registry::of([&PROBE, &GREET, &HANDOFF].map(skill));
        let store = Store::open(StoreOptions {
            runs_dir: folder.path().join("runs"),
            durability: Durability::Relaxed,
            clock: parts.clock.clone(),
        });
        let admission = Admission {
            at_once_max: 8,
            nested_max: parts.nested_max,
            queue_max: 8,
        };
        let executor = SkillExecutor::new(SkillExecutorOptions {
            loading: PATIENT,
            instances_max: admission.instances_max(),
            tools: parts.tools,
            models: parts.models,
            approvals: Approvals {
                suspend_after_ms: parts.suspend_after_ms,
                policy: ApprovalPolicy::Ask,
                on_timeout: parts.on_timeout,
            },
            grants: Grants {
                every_skill: granted.clone(),
                ..Grants::default()
            },
            ..SkillExecutorOptions::new(registry, parts.clock.clone())
        });
        Self {
            runner: Runner::new(RunnerOptions {
                store: store.unwrap(),
                executor: Arc::new(executor.unwrap()),
                admission,
                clock: parts.clock,
            }),
            folder,
            grants: grants.iter().map(|&grant| grant.to_owned()).collect(),
            limits: LimitOverrides::new(),
        }
    }

    fn limited(mut self, key: &str, value: i64) -> Self {
        self.limits.insert(key.to_owned(), value);
        self
    }

    fn options(&self, skill: &str, input: &Value) -> StartOptions {
        let input = JsonObject::parse(input.to_string()).unwrap();
        let grants = self.grants.iter().map(|grant| grant.parse().unwrap());
        StartOptions {
            terms: Terms {
                limits: self.limits.clone(),
                grants: grants.collect(),
                approvals: None,
            },
            ..StartOptions::new(skill, input)
        }
    }

    async fn run(&self, skill: &str, input: &Value) -> Result<RunOutcome, RunError> {
        let options = self.options(skill, input);
        self.runner.run(Caller::new(), options).await
    }

    /// What came of calls that the probe makes one after another, and the events of the run.
    async fn calls(&self, calls: Value) -> (Vec<Value>, Vec<Value>) {
        let verb = json!({ "verb": "calls", "calls": calls });
        let outcome = self.run("probe", &verb).await.unwrap();
        assert_eq!(outcome.code, OutcomeCode::Ok, "{outcome:?}");
        let output = serde_json::from_str(outcome.result.output().as_str()).unwrap();
        (output, self.events(outcome.run_id.as_str()))
    }

    fn events(&self, run_id: &str) -> Vec<Value> {
        let ledger = self.folder.path().join(format!("runs/{run_id}.jsonl"));
        events_in(&ledger)
    }
}

/// The payloads of the events of one type.
fn of_type<'a>(events: &'a [Value], kind: &str) -> Vec<&'a Value> {
    let of_type = events.iter().filter(|event| event["type"] == kind);
    of_type.map(|event| &event["payload"]).collect()
}

/// The types of events, in their order.
fn types(events: &[Value]) -> Vec<&str> {
    let types = events.iter().map(|event| event["type"].as_str().unwrap());
    types.collect()
}

/// What a [`Scripted`] tool does with its arguments.
type Work = Box<dyn Fn(&Value) -> Result<Value, ToolError> + Send + Sync>;

/// A tool that does what the test says and keeps what it was called with.
struct Scripted {
    definition: ToolDefinition,
    work: Work,
    called: Arc<Mutex<Vec<Value>>>,
}

#[async_trait]
impl HostTool for Scripted {
    fn definition(&self) -> ToolDefinition {
        self.definition.clone()
    }

    async fn call(&self, arguments: &str) -> Result<ToolAnswer, ToolError> {
        let arguments: Value = serde_json::from_str(arguments).unwrap();
        self.called.lock().unwrap().push(arguments.clone());
        (self.work)(&arguments).map(|value| ToolAnswer {
            content: json!([{ "type": "text", "text": value.to_string() }]).to_string(),
            is_error: value == json!("failed"),
        })
    }
}

/// A tool of that name and schema, and what it is called with.
pub(crate) fn tool(
    name: &str,
    effect: Effect,
    schema: &Value,
    work: impl Fn(&Value) -> Result<Value, ToolError> + Send + Sync + 'static,
) -> (Arc<dyn HostTool>, Arc<Mutex<Vec<Value>>>) {
    let called: Arc<Mutex<Vec<Value>>> = Arc::default();
    let scripted = Scripted {
        definition: ToolDefinition {
            name: name.to_owned(),
            description: String::new(),
            input_schema: schema.to_string(),
            effect,
        },
        work: Box::new(work),
        called: Arc::clone(&called),
    };
    (Arc::new(scripted), called)
}
