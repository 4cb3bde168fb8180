//! A folder of ledgers, and runners that work on it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Result;
use async_trait::async_trait;
use serde_json::{Value, json};
use skillrun::call::{Effect, ToolAnswer, ToolDefinition};
use skillrun::clock::Clock;
use skillrun::config::{Admission, ApprovalPolicy, Approvals, Durability};
use skillrun::ledger::{Store, StoreOptions};
use skillrun::registry::{Registry, Skill};
use skillrun::runner::{
    JsonObject, Runner, RunnerOptions, SkillExecutor, SkillExecutorOptions, StartOptions, Terms,
};
use skillrun::tools::{HostTool, ToolError, Toolbox};
use skillrun_test_artifacts::PROBE;

/// Runs that go on at once.
const AT_ONCE_MAX: usize = 64;
/// Runs that wait for a place; more than are ever asked for.
const QUEUE_MAX: usize = 100_000;

/// The tool that the probe calls again and again.
struct Flood;

#[async_trait]
impl HostTool for Flood {
    fn definition(&self) -> ToolDefinition {
        ToolDefinition {
            name: "probe__flood".to_owned(),
            description: String::new(),
            input_schema: "{}".to_owned(),
            effect: Effect::Read,
        }
    }

    async fn call(&self, _arguments: &str) -> Result<ToolAnswer, ToolError> {
        Ok(ToolAnswer {
            content: "[]".to_owned(),
            is_error: false,
        })
    }
}

pub(crate) struct Place {
    executor: SkillExecutor,
    runs_dir: PathBuf,
}

impl Place {
    pub(crate) fn new(folder: &Path, suspend_after_ms: u64) -> Result<Self> {
        let registry = Registry::of([Skill::from_wasm(PROBE.wasm.as_ref())?]);
        let executor = SkillExecutor::new(SkillExecutorOptions {
            instances_max: AT_ONCE_MAX + Admission::default().nested_max,
            tools: Toolbox::new().with_host_tool(Arc::new(Flood))?,
            approvals: Approvals {
                suspend_after_ms,
                ..Approvals::default()
            },
            ..SkillExecutorOptions::new(registry, Clock::system())
        })?;
        Ok(Self {
            executor,
            runs_dir: folder.join("runs"),
        })
    }

    /// The same with ledgers elsewhere.
    pub(crate) fn elsewhere(&self, folder: &Path) -> Self {
        Self {
            executor: self.executor.clone(),
            runs_dir: folder.join("runs"),
        }
    }

    pub(crate) fn runs_dir(&self) -> &Path {
        &self.runs_dir
    }

    /// As another process has it.
    pub(crate) fn store(&self) -> Result<Store> {
        Ok(Store::open(StoreOptions {
            runs_dir: self.runs_dir.clone(),
            durability: Durability::Relaxed,
            clock: Clock::system(),
        })?)
    }

    pub(crate) fn runner(&self) -> Result<Runner> {
        Ok(Runner::new(RunnerOptions {
            store: self.store()?,
            executor: Arc::new(self.executor.clone()),
            admission: Admission {
                at_once_max: AT_ONCE_MAX,
                queue_max: QUEUE_MAX,
                ..Admission::default()
            },
            clock: Clock::system(),
        }))
    }
}

pub(crate) fn terms(approvals: ApprovalPolicy) -> Result<Terms> {
    let limit = ("host_calls".to_owned(), 1_000_000);
    Ok(Terms {
        limits: [limit].into_iter().collect(),
        grants: vec!["approval".parse()?, "tool:*".parse()?],
        approvals: Some(approvals),
    })
}

/// A run that calls the tool so many times and asks a person then.
pub(crate) fn asking(calls: u64) -> Result<StartOptions> {
    let flood = json!({ "verb": "tool_flood", "calls": calls });
    let ask = json!({ "call": "ask", "prompt": "Go on?", "payload": "{}", "timeout_ms": null });
    let calls: Vec<Value> = vec![json!({ "call": "noted", "verb": flood }), ask];
    let input = json!({ "verb": "calls", "calls": calls }).to_string();
    Ok(StartOptions {
        terms: terms(ApprovalPolicy::Ask)?,
        ..StartOptions::new("probe", JsonObject::parse(input)?)
    })
}
