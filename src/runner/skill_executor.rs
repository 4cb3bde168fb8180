//! The executor that runs installed skills: registry and engine together.

use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;

use super::context::RunContext;
use super::contract;
use super::executor::{Executor, ExecutorError, RunProfile, Terms};
use super::journal::Journal;
use super::json_object::JsonObject;
use super::protected;
use super::replay::{Beyond, Replay};
use super::session::{Life, Lived, Session};
use super::tool_result::{ContentBlock, ToolCallResult};
use crate::call::Usage;
use crate::capability::{Capability, Grant, GrantSource, Policy};
use crate::clock::Clock;
use crate::config::{Admission, Approvals, Config, Grants, Loading};
use crate::executor::{
    Call, Descriptor, Engine, EngineError, EngineOptions, EngineStatistics, Failure, HttpOptions,
    LoadError, Program,
};
use crate::ledger::Json;
use crate::limits::{LimitError, Limits, Source};
use crate::models::Models;
use crate::outcome::OutcomeCode;
use crate::registry::{Registry, Skill, SkillSet};
use crate::schema::Contract;
use crate::telemetry::chain;
use crate::tools::Toolbox;

/// Runs installed skills. Cheap to clone.
#[derive(Clone)]
pub struct SkillExecutor {
    skills: SkillSet,
    engine: Engine,
    limits: Limits,
    grants: Grants,
    protected: Arc<[PathBuf]>,
    tools: Toolbox,
    models: Models,
    approvals: Approvals,
    propagates_trace: bool,
}

/// What a [`SkillExecutor`] is made of.
#[derive(Clone)]
pub struct SkillExecutorOptions {
    /// The skills that it runs: one registry, or whatever a watcher publishes.
    pub skills: SkillSet,
    /// What each run is held to, unless the skill's manifest asks for less.
    pub limits: Limits,
    /// What skills are granted, and what is set for single ones.
    pub grants: Grants,
    /// Files and folders that no skill is given, nor a folder that they are in or that is in them.
    pub protected: Vec<PathBuf>,
    /// Instances at once; admit no more runs and executions than that.
    pub instances_max: usize,
    /// Bounds on what is compiled.
    pub loading: Loading,
    /// Where compiled components are kept for the next process; nowhere when it is not given. It is
    /// made for its owner alone when there is none.
    pub cache_dir: Option<PathBuf>,
    /// How outgoing requests are carried out.
    pub http: HttpOptions,
    /// The tools that skills may call, if that is granted.
    pub tools: Toolbox,
    /// The models that they may ask, likewise.
    pub models: Models,
    /// How questions are answered.
    pub approvals: Approvals,
    /// Whether requests, questions to models and calls of tools carry their place in the trace.
    pub propagates_trace: bool,
    /// Where time comes from.
    pub clock: Clock,
}

impl SkillExecutorOptions {
    /// The default limits and bounds, nothing granted and nothing kept on disk.
    pub fn new(skills: impl Into<SkillSet>, clock: Clock) -> Self {
        Self {
            skills: skills.into(),
            limits: Limits::default(),
            grants: Grants::default(),
            protected: Vec::new(),
            instances_max: Admission::default().instances_max(),
            loading: Loading::default(),
            cache_dir: None,
            http: HttpOptions::default(),
            tools: Toolbox::new(),
            models: Models::new(),
            approvals: Approvals::default(),
            propagates_trace: true,
            clock,
        }
    }

    /// What the operator configured, but for what is in other files: secrets and certificates, which
    /// [`Config::read_secrets`] and [`Config::read_ca_file`] read, and what needs those: `http`, and `tools`
    /// and `models`, which [`Toolbox::from_config`] and [`Models::from_config`] make.
    pub fn from_config(config: &Config, skills: impl Into<SkillSet>, clock: Clock) -> Self {
        Self {
            skills: skills.into(),
            limits: config.limits.clone(),
            grants: config.grants.clone(),
            protected: protected::of(config),
            instances_max: config.instances_max(),
            loading: config.loading,
            cache_dir: Some(config.cache_dir()),
            http: HttpOptions::from(&config.http),
            tools: Toolbox::new(),
            models: Models::new(),
            approvals: config.approvals,
            propagates_trace: config.telemetry.propagate,
            clock,
        }
    }
}

impl SkillExecutor {
    /// An executor for one [`Registry`], or for whatever a watcher publishes.
    ///
    /// # Errors
    /// The machine cannot reserve so large a pool.
    pub fn new(options: SkillExecutorOptions) -> Result<Self, EngineError> {
        let engine = Engine::new(EngineOptions {
            instances_max: options.instances_max,
            limits: options.limits.clone(),
            loading: options.loading,
            cache_dir: options.cache_dir,
            http: options.http,
            clock: options.clock,
        })?;
        Ok(Self {
            skills: options.skills,
            engine,
            limits: options.limits,
            grants: options.grants,
            protected: options.protected.into(),
            tools: options.tools,
            models: options.models,
            approvals: options.approvals,
            propagates_trace: options.propagates_trace,
        })
    }

    /// The same skills on the same engine, which may call these tools and ask these models instead.
    #[must_use]
    pub fn with_providers(&self, tools: Toolbox, models: Models) -> Self {
        Self {
            tools,
            models,
            ..self.clone()
        }
    }

    fn journal(&self, cx: &RunContext, name: &str, skill: &Skill) -> Journal {
        // The record answers; where it cannot, there is nobody to be asked.
        let (tools, models) = match cx.is_record_only() {
            true => (Toolbox::new(), Models::new()),
            false => (self.tools.clone(), self.models.clone()),
        };
        let body = Arc::clone(&skill.body);
        Journal::new(cx, name, body, tools, models, self.propagates_trace)
    }

    /// What the skill's input and result have to fit. It is asked itself unless its manifest says it.
    async fn contract(
        &self,
        cx: &RunContext,
        skill: &Skill,
        program: &Program,
    ) -> Result<Contract, ExecutorError> {
        let manifest = &skill.manifest;
        let said = if manifest.input_schema.is_some() && manifest.output_schema.is_some() {
            Descriptor::default()
        } else {
            program.describe(Arc::clone(&cx.profile().limits)).await?
        };
        contract::of(skill, &[said.input_schema, said.output_schema]).await
    }

    async fn load(&self, skill: &Skill) -> Result<Arc<Program>, ExecutorError> {
        let component = skill
            .component
            .as_ref()
            .ok_or_else(|| ExecutorError::PromptOnly {
                name: skill.name.to_string(),
            })?;
        let wanted = component.clone();
        self.engine
            .load(&component.sha256, move || {
                wanted.read().map_err(|finding| LoadError::Unreadable {
                    reason: chain(&finding),
                })
            })
            .await
            .map_err(|error| ExecutorError::Load {
                name: skill.name.to_string(),
                hint: error.hint(),
                reason: chain(&error),
            })
    }

    /// Pins an installed skill that is used for the first time. Unless that is on disk, it is not run:
    /// a change of it would go unnoticed.
    async fn pin(&self, skill: &Arc<Skill>) -> Result<(), ExecutorError> {
        if skill.is_pinned() != Some(false) {
            return Ok(());
        }
        let used = Arc::clone(skill);
        let pinned = tokio::task::spawn_blocking(move || used.pin_on_first_use()).await;
        let refuse = |reason, hint| ExecutorError::Load {
            name: skill.name.to_string(),
            reason,
            hint,
        };
        match pinned {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => {
                let name = &skill.name;
                Err(refuse(
                    chain(&error),
                    Some(format!("skillrun skills pin {name} shows what is accepted")),
                ))
            }
            Err(error) => Err(refuse(error.to_string(), None)),
        }
    }
}

/// Checks of a guest that has ended so that it left out nothing that is on record.
fn check_over<T>(journal: &Journal, ended: &Result<T, Failure>) {
    match ended {
        Ok(_) => journal.check_over("the guest has ended with a result"),
        // How long something takes is on no record, and what the host could not make ready is not the guest's doing.
        Err(failure)
            if [OutcomeCode::TimeLimit, OutcomeCode::LoadError].contains(&failure.code) => {}
        Err(failure) => journal.check_over(&format!("the guest has ended: {failure}")),
    }
}

impl SkillExecutor {
    /// A call of the run's guest, with neither function nor input.
    fn call(&self, cx: &RunContext, journal: &Journal) -> Call {
        Call {
            host: Arc::new(journal.clone()),
            policy: Arc::clone(&cx.profile().policy),
            protected: Arc::clone(&self.protected),
            budget: Arc::clone(cx.budget()),
            seed: cx.seed(),
            environment: Arc::clone(&cx.profile().environment),
            operation: None,
            input: String::new(),
            record_only: cx.is_record_only(),
            workspace_dir: cx
                .session()
                .and_then(|session| session.facts().workspace_path.clone()),
        }
    }

    /// Lets an agent live until its execution ends. After a turn that had to be interrupted it lives on in
    /// another instance, which is told what is on record of all turns but that one.
    async fn live(
        &self,
        cx: &RunContext,
        session: &Session,
        skill: &Skill,
        program: &Program,
        metadata: &str,
    ) -> Result<ToolCallResult, ExecutorError> {
        let first = cx.replay().map(|replay| replay.recorded().started());
        let first = first.and_then(|started| started.ok()?.0.session);
        let facts = first.as_deref().unwrap_or_else(|| session.facts());
        let context = Session::context(facts, metadata);
        let (mut cx, mut is_remade) = (cx.clone(), false);
        let mut undone = Usage::default();
        loop {
            let journal = self.journal(&cx, &skill.name, skill);
            let guest = program.open_session(self.call(&cx, &journal)).await;
            let lived = match guest {
                Ok(guest) => {
                    let life = Life {
                        session,
                        journal: &journal,
                        context: context.clone(),
                        is_remade,
                    };
                    Box::pin(life.live(guest)).await
                }
                Err(failure) => Err(failure),
            };
            match lived {
                Ok(Lived::Undone) => {
                    add(&mut undone, &journal.turn_usage());
                    cx = remade(&cx).await?;
                    // It was paid for, though the record that is done again does not have it.
                    let _the_next_question_is_refused = cx.budget().spend_on_models(&undone);
                    is_remade = true;
                }
                Ok(Lived::Interrupted) => return Ok(ToolCallResult::json(Json::default())),
                lived => {
                    check_over(&journal, &lived);
                    return Ok(lived.map(|_| ToolCallResult::json(Json::default()))?);
                }
            }
        }
    }
}

/// Adds what models took to what they took before.
fn add(sum: &mut Usage, usage: &Usage) {
    sum.input_tokens = sum.input_tokens.saturating_add(usage.input_tokens);
    sum.output_tokens = sum.output_tokens.saturating_add(usage.output_tokens);
    sum.cost_usd += usage.cost_usd;
}

/// The same run, to be done again from what is on record by now.
async fn remade(cx: &RunContext) -> Result<RunContext, ExecutorError> {
    let (store, run_id) = (cx.runner().store().clone(), cx.run_id().clone());
    let recorded = tokio::task::spawn_blocking(move || store.recorded(&run_id)).await;
    let unreadable = |reason: String| {
        let message = format!("cannot go on after a turn that was interrupted: {reason}");
        ExecutorError::Failed(Failure::new(OutcomeCode::Internal, message))
    };
    let recorded = match recorded {
        Ok(Ok(recorded)) => recorded,
        Ok(Err(error)) => return Err(unreadable(chain(&error))),
        Err(error) => return Err(unreadable(error.to_string())),
    };
    let retry_ambiguous = cx.replay().is_some_and(Replay::retry_ambiguous);
    let beyond = Beyond::GoOn { retry_ambiguous };
    Ok(cx.remade(Replay::new(recorded, beyond).remade()))
}

/// Why no skill of that name can be run.
fn reason_without(registry: &Registry, name: &str) -> ExecutorError {
    let name = name.to_owned();
    if registry.get_disabled(&name).is_some() {
        return ExecutorError::Disabled { name };
    }
    match registry.refusal(&name) {
        Some(error) => ExecutorError::Load {
            reason: chain(error),
            hint: Some(error.hint()),
            name,
        },
        None => ExecutorError::NotFound {
            nearest: registry.nearest(&name).map(ToString::to_string),
            name,
        },
    }
}

#[async_trait]
impl Executor for SkillExecutor {
    fn statistics(&self) -> EngineStatistics {
        self.engine.statistics()
    }

    async fn describe(&self, name: &str) -> Result<Descriptor, ExecutorError> {
        let registry = self.skills.current();
        let name = parts(name).0;
        let skill = registry.get(name);
        let skill = skill.ok_or_else(|| reason_without(&registry, name))?;
        let program = self.load(&skill).await?;
        let profile = self.profile(name, &Terms::default());
        let limits = profile.map_err(|error| ExecutorError::Load {
            name: name.to_owned(),
            reason: chain(&error),
            hint: None,
        })?;
        Ok(program.describe(limits.limits).await?)
    }

    async fn call_tool(
        &self,
        cx: &RunContext,
        name: &str,
        arguments: JsonObject,
    ) -> Result<ToolCallResult, ExecutorError> {
        let (name, operation) = parts(name);
        // The profile speaks of one skill, or of none, and so does the record.
        let skill = cx.profile().skill.clone();
        let skill = skill.ok_or_else(|| reason_without(&self.skills.current(), name))?;
        // What a run that is only done again leaves behind is nothing.
        if skill.component.is_some() && !cx.is_record_only() {
            self.pin(&skill).await?;
        }
        let program = self.load(&skill).await?;
        let owned = || name.to_owned();
        match (cx.session(), program.is_agent()) {
            (None, true) => return Err(ExecutorError::IsAgent { name: owned() }),
            (Some(_), false) => return Err(ExecutorError::NoAgent { name: owned() }),
            (Some(_), true) | (None, false) => {}
        }
        let contract = skill
            .contract
            .get_or_try_init(|| self.contract(cx, &skill, &program));
        let contract = contract.await?;
        contract::check_input(contract, name, &arguments)?;
        if let Some(session) = cx.session() {
            let metadata = arguments.as_str();
            return self.live(cx, session, &skill, &program, metadata).await;
        }
        let journal = self.journal(cx, name, &skill);
        let call = Call {
            operation: operation.map(str::to_owned),
            input: arguments.as_str().to_owned(),
            ..self.call(cx, &journal)
        };
        let called = program.call(call).await;
        check_over(&journal, &called);
        match called {
            Ok(output) => {
                contract::check_output(contract, name, &output)?;
                Ok(match Json::parse(&output) {
                    Ok(json) => ToolCallResult::json(json),
                    Err(_not_json) => ToolCallResult::text(output),
                })
            }
            Err(failure) if failure.code == OutcomeCode::SkillError => Ok(error_result(failure)),
            Err(failure) => Err(failure.into()),
        }
    }

    fn check(&self, name: &str) -> Result<(), ExecutorError> {
        let (name, _operation) = parts(name);
        let registry = self.skills.current();
        match registry.get(name) {
            None => Err(reason_without(&registry, name)),
            Some(skill) if skill.component.is_none() => Err(ExecutorError::PromptOnly {
                name: name.to_owned(),
            }),
            Some(_) => Ok(()),
        }
    }

    fn limits(&self) -> Limits {
        self.limits.clone()
    }

    fn profile(&self, name: &str, terms: &Terms) -> Result<RunProfile, LimitError> {
        let name = parts(name).0;
        let skill = self.skills.current().get(name);
        let mut limits = self.limits.clone();
        let is_installed = skill.as_ref().is_none_or(|skill| skill.is_installed());
        if let Some(settings) = self.grants.skills.get(name).filter(|_| is_installed) {
            limits = limits.with(Source::Skill, &settings.limits)?;
        }
        if let Some(skill) = &skill {
            limits = limits.with(Source::Manifest, &skill.manifest.limits)?;
        }
        let limits = Arc::new(limits.with(Source::Call, &terms.limits)?);
        let approvals = self.approvals.with(terms.approvals);
        let Some(skill) = skill else {
            return Ok(RunProfile {
                limits,
                approvals,
                ..RunProfile::default()
            });
        };
        let policy = self.policy(&skill, terms);
        Ok(RunProfile {
            flavor: skill.flavor.clone(),
            component_digest: skill.component.as_ref().map(|c| c.sha256.clone()),
            environment: environment(&policy),
            policy: Arc::new(policy),
            limits,
            approvals,
            skill: Some(skill),
        })
    }
}

/// The name of the skill, which has no dot in it, and behind one the operation that is asked for.
fn parts(name: &str) -> (&str, Option<&str>) {
    match name.split_once('.') {
        Some((skill, operation)) => (skill, Some(operation)),
        None => (name, None),
    }
}

impl SkillExecutor {
    /// What the skill asks for and what it gets. A component without a folder has no manifest to ask
    /// in, and whoever runs it names it and the grant in one breath: it asks for what the call grants.
    fn policy(&self, skill: &Skill, terms: &Terms) -> Policy {
        let mut granted = match skill.is_installed() {
            true => self.grants.of(&skill.name),
            // Whoever writes a folder chooses the name in it, and would get what another skill was given.
            false => self.grants.of_every_skill(),
        };
        granted.extend(terms.grants.iter().map(|capability| Grant {
            capability: capability.clone(),
            source: GrantSource::Call,
        }));
        let requested = match skill.is_bare {
            true => terms.grants.clone(),
            false => skill.manifest.capabilities.clone(),
        };
        Policy::new(requested, granted)
    }
}

/// The variables that the policy names. One that is not set, or is no text, is not there for the guest
/// either.
fn environment(policy: &Policy) -> Arc<[(String, String)]> {
    let named = policy.effective.iter().filter_map(|capability| {
        let Capability::Env { name } = capability else {
            return None;
        };
        Some((name.clone(), std::env::var(name).ok()?))
    });
    named.collect()
}

/// An error of the skill's own, as the answer that it is.
fn error_result(failure: Failure) -> ToolCallResult {
    ToolCallResult {
        content: vec![ContentBlock::Text {
            text: failure.message,
        }],
        structured_content: failure
            .details
            .and_then(|details| Json::parse(&details).ok()),
        is_error: true,
    }
}
