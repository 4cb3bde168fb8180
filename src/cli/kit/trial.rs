//! Running cases: each in the real sandbox, with a ledger, and with mocks in the place of all others.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::case::{ApprovalReply, Case};
use super::mocks::{self, Complaints, MockedSkills};
use super::verdict::{self, Seen};
use crate::capability::Capability;
use crate::cli::assemble;
use crate::clock::Clock;
use crate::config::{ApprovalPolicy, Config, Durability, Grants};
use crate::id::RunId;
use crate::ledger::{ApprovalDecision, ApprovalSource, Json, Store, StoreOptions};
use crate::outcome::OutcomeCode;
use crate::registry::{Registry, Skill};
use crate::runner::{
    Caller, JsonObject, RunError, RunOutcome, Runner, RunnerOptions, SkillExecutor,
    SkillExecutorOptions, StartOptions, Terms,
};
use crate::telemetry::chain;

/// How often it is looked whether the run asks something.
const LOOK_INTERVAL: Duration = Duration::from_millis(5);
/// Bytes of a run's ledger that are looked at. Protects this process's memory.
const LEDGER_BYTES_MAX: usize = 256 * 1024 * 1024;

/// A skill that is ready to be tried.
pub(super) struct Bench {
    name: String,
    requested: Vec<Capability>,
    executor: SkillExecutor,
    store: Store,
    config: Config,
    clock: Clock,
}

/// How a case went.
pub(crate) struct Trial {
    /// How the run ended; none when there was no run.
    pub(crate) code: Option<OutcomeCode>,
    pub(crate) duration_micros: u64,
    /// Everything in which it differs from what is expected.
    pub(crate) problems: Vec<String>,
    /// The ledger of the run.
    pub(crate) ledger: Option<PathBuf>,
}

impl Bench {
    /// Makes one whose ledgers lie in `folder`. What the operator grants does not count here: a case says
    /// what it needs.
    pub(super) fn new(skill: Skill, config: &Config, folder: &Path) -> anyhow::Result<Self> {
        let clock = Clock::system();
        let store = Store::open(StoreOptions {
            runs_dir: folder.join("runs"),
            durability: Durability::Relaxed,
            clock: clock.clone(),
        })?;
        let http = assemble::http(config, &store)?;
        let name = skill.name.to_string();
        let requested = skill.manifest.capabilities.clone();
        let registry = Registry::of([skill]);
        let executor = SkillExecutor::new(SkillExecutorOptions {
            grants: Grants::default(),
            instances_max: 1,
            http,
            ..SkillExecutorOptions::from_config(config, registry, clock.clone())
        })?;
        Ok(Self {
            name,
            requested,
            executor,
            store,
            config: config.clone(),
            clock,
        })
    }

    /// Runs one case.
    ///
    /// # Errors
    /// The ledger cannot be read. A case that cannot be run at all is a problem of it and no error.
    pub(super) async fn run(&self, case: Case) -> anyhow::Result<Trial> {
        let since = self.clock.stopwatch();
        let complaints = Complaints::default();
        let tools = match mocks::toolbox(case.tools, &complaints) {
            Ok(tools) => tools,
            Err(error) => return Ok(Trial::not_run(format!("tools: {}", chain(&error)))),
        };
        let models = mocks::models(case.models, &self.requested, &complaints);
        let runner = Runner::new(RunnerOptions {
            store: self.store.clone(),
            executor: Arc::new(MockedSkills {
                tested: self.executor.with_providers(tools, models),
                skills: case.skills,
                complaints: complaints.clone(),
            }),
            admission: assemble::admission(&self.config),
            clock: self.clock.clone(),
        });
        let input = match case.input {
            Some(input) => input,
            None => JsonObject::parse("{}")?,
        };
        let run_id = RunId::generate();
        let options = StartOptions {
            run_id: Some(run_id.clone()),
            terms: Terms {
                grants: self.grants(case.grants),
                approvals: Some(ApprovalPolicy::Ask),
                ..Terms::default()
            },
            ..StartOptions::new(&self.name, input)
        };
        let cancellation = CancellationToken::new();
        let caller = Caller::new().with_cancellation(cancellation.clone());
        let people = People {
            store: &self.store,
            run_id: &run_id,
            answers: case.approvals.len(),
            replies: case.approvals.into_iter(),
            asked: 0,
            complaints: &complaints,
            cancellation,
        };
        let outcome = people.answer_during(runner.run(caller, options)).await?;
        let duration_micros = since.elapsed_micros();
        if let Err(error) = &outcome
            && error.run_id().is_none()
        {
            return Ok(Trial::not_run(chain(error)));
        }
        let seen = self.seen(&run_id, outcome)?;
        let mut problems = complaints.take();
        problems.extend(not_mocked(&seen.events));
        problems.extend(verdict::problems(&case.expect, &seen));
        Ok(Trial {
            code: Some(seen.code),
            duration_micros,
            problems,
            ledger: Some(self.store.path_of(&run_id)),
        })
    }

    /// What the skill asks for of all that is mocked, and what the case grants beside it.
    fn grants(&self, mut grants: Vec<Capability>) -> Vec<Capability> {
        let is_mocked = |capability: &&Capability| {
            matches!(
                capability,
                Capability::Tool { .. }
                    | Capability::Llm { .. }
                    | Capability::Skill { .. }
                    | Capability::Approval
            )
        };
        grants.extend(self.requested.iter().filter(is_mocked).cloned());
        grants
    }

    fn seen(&self, run_id: &RunId, outcome: Result<RunOutcome, RunError>) -> anyhow::Result<Seen> {
        let mut ledger = Bounded(Vec::new());
        self.store
            .export(run_id, &mut ledger)
            .with_context(|| format!("cannot read the ledger of {run_id}"))?;
        let lines = ledger.0.split(|byte| *byte == b'\n');
        let lines = lines.filter(|line| !line.is_empty());
        let events = lines
            .map(serde_json::from_slice)
            .collect::<Result<_, _>>()?;
        let (code, output, error) = match outcome {
            Ok(outcome) => {
                let is_error = outcome.result.is_error;
                let error = is_error.then(|| outcome.result.joined_text());
                let output = outcome.result.output();
                (outcome.code, output.to_value().ok(), error)
            }
            Err(error) => (error.code(), None, Some(chain(&error))),
        };
        Ok(Seen {
            code,
            output,
            error,
            events,
        })
    }
}

impl Trial {
    pub(super) fn not_run(problem: String) -> Self {
        Self {
            code: None,
            duration_micros: 0,
            problems: vec![problem],
            ledger: None,
        }
    }
}

/// Bytes up to a bound.
struct Bounded(Vec<u8>);

impl std::io::Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        if self.0.len().saturating_add(bytes.len()) > LEDGER_BYTES_MAX {
            let problem = format!("the ledger has more than {LEDGER_BYTES_MAX} bytes");
            return Err(std::io::Error::other(problem));
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Tools that were called, may be called, and are not there: the case has to bring them along.
fn not_mocked(events: &[Value]) -> Vec<String> {
    let text = |event: &Value, pointer: &str| {
        let value = event.pointer(pointer).and_then(Value::as_str);
        value.unwrap_or_default().to_owned()
    };
    let is = |event: &Value, kind: &str| {
        event.get("type") == Some(&kind.into()) && event.get("source") == Some(&"host".into())
    };
    let calls: HashMap<String, &Value> = events
        .iter()
        .filter(|event| is(event, "tool_call") && text(event, "/payload/kind") == "tool")
        .map(|event| (text(event, "/payload/call_id"), event))
        .collect();
    let missing = events
        .iter()
        .filter(|event| is(event, "tool_result"))
        .filter(|event| text(event, "/payload/error/kind") == "not_found")
        .filter_map(|event| calls.get(&text(event, "/payload/call_id")));
    let mut complaints: Vec<String> = missing
        .map(|call| {
            let name = text(call, "/payload/name");
            let arguments = call.pointer("/payload/arguments");
            let arguments = arguments.map_or_else(String::new, Value::to_string);
            let arguments: String = arguments.chars().take(200).collect();
            format!(
                "tool {name} was called with {arguments} and is not mocked: add \
                 \"tools\": {{ \"{name}\": {{ \"text\": \"…\" }} }}"
            )
        })
        .collect();
    complaints.dedup();
    complaints
}

/// Answers the questions of one run.
struct People<'a, I> {
    store: &'a Store,
    run_id: &'a RunId,
    /// How many there were at first.
    answers: usize,
    replies: I,
    /// How many questions were looked at.
    asked: usize,
    complaints: &'a Complaints,
    cancellation: CancellationToken,
}

impl<I: Iterator<Item = ApprovalReply>> People<'_, I> {
    async fn answer_during<T>(mut self, work: impl Future<Output = T>) -> anyhow::Result<T> {
        let mut work = pin!(work);
        let mut looks = tokio::time::interval(LOOK_INTERVAL);
        loop {
            tokio::select! {
                ended = &mut work => return Ok(ended),
                _ = looks.tick() => self.look()?,
            }
        }
    }

    /// Answers what was asked since the last look. A question without an answer ends the run, which would
    /// wait for one as long as a person may take.
    fn look(&mut self) -> anyhow::Result<()> {
        if !self.store.path_of(self.run_id).exists() {
            return Ok(());
        }
        let gates = self.store.gates(self.run_id)?;
        for gate in gates.into_iter().skip(self.asked) {
            self.asked = self.asked.saturating_add(1);
            let Some(reply) = self.replies.next() else {
                let (prompt, answers) = (Json::string(&gate.prompt.to_string()), self.answers);
                self.complaints.add(format!(
                    "a person was asked {prompt}, and there are no more answers ({answers}): add \
                     true or false to approvals"
                ));
                self.cancellation.cancel();
                return Ok(());
            };
            let decision = ApprovalDecision {
                approved: reply.approved,
                reason: reply.reason,
                source: ApprovalSource::Cli,
                option: None,
                answer: None,
            };
            self.store
                .decide(self.run_id, Some(&gate.approval_id), &decision)?;
        }
        Ok(())
    }
}
