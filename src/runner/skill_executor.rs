//! The executor that runs installed skills: registry and engine together.

use std::sync::Arc;

use async_trait::async_trait;

use super::context::RunContext;
use super::executor::{Executor, ExecutorError, RunProfile};
use super::journal::Journal;
use super::json_object::JsonObject;
use super::tool_result::{ContentBlock, ToolCallResult};
use crate::capability::Policy;
use crate::clock::Clock;
use crate::executor::{
    Call, Descriptor, Engine, EngineError, EngineOptions, Failure, LoadError, Program,
};
use crate::ledger::Json;
use crate::limits::{LimitError, LimitOverrides, Limits, Source};
use crate::outcome::OutcomeCode;
use crate::registry::{Registry, Skill};
use crate::telemetry::chain;

/// Runs the skills of a registry. Cheap to clone.
#[derive(Clone)]
pub struct SkillExecutor {
    registry: Registry,
    engine: Engine,
    limits: Limits,
}

impl SkillExecutor {
    /// An executor for the skills of `registry`, each held to `limits` unless its manifest asks for
    /// less. It can hold `instances_max` instances at once; admit no more runs than that.
    ///
    /// # Errors
    /// The machine cannot reserve so large a pool.
    pub fn new(
        registry: Registry,
        limits: Limits,
        instances_max: usize,
        clock: Clock,
    ) -> Result<Self, EngineError> {
        let engine = Engine::new(EngineOptions {
            instances_max,
            limits: limits.clone(),
            clock,
        })?;
        Ok(Self {
            registry,
            engine,
            limits,
        })
    }

    /// Loads a skill and asks it what it is.
    ///
    /// # Errors
    /// There is no such skill, it cannot be loaded, or it fails to answer.
    pub async fn describe(&self, name: &str) -> Result<Descriptor, ExecutorError> {
        let skill = self.skill(parts(name).0)?;
        let program = self.load(&skill).await?;
        Ok(program.describe(Arc::new(self.limits.clone())).await?)
    }

    fn skill(&self, name: &str) -> Result<Arc<Skill>, ExecutorError> {
        if let Some(skill) = self.registry.get(name) {
            return Ok(skill);
        }
        let mut refused = self.registry.refused().iter();
        Err(match refused.find(|error| error.path.ends_with(name)) {
            Some(error) => ExecutorError::Load {
                name: name.to_owned(),
                reason: chain(error),
                hint: Some(format!(
                    "skillrun skills validate {name} shows all that is wrong"
                )),
            },
            None => ExecutorError::NotFound {
                name: name.to_owned(),
                nearest: self.registry.nearest(name).map(ToString::to_string),
            },
        })
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
}

#[async_trait]
impl Executor for SkillExecutor {
    async fn call_tool(
        &self,
        cx: &RunContext,
        name: &str,
        arguments: JsonObject,
    ) -> Result<ToolCallResult, ExecutorError> {
        let (skill_name, operation) = parts(name);
        let skill = self.skill(skill_name)?;
        let program = self.load(&skill).await?;
        let called = program
            .call(Call {
                host: Arc::new(Journal::new(cx, skill_name, Arc::clone(&skill.body))),
                limits: Arc::clone(&cx.profile().limits),
                seed: cx.seed(),
                operation: operation.map(str::to_owned),
                input: arguments.as_str().to_owned(),
            })
            .await;
        match called {
            Ok(output) => Ok(match Json::parse(&output) {
                Ok(json) => ToolCallResult::json(json),
                Err(_not_json) => ToolCallResult::text(output),
            }),
            Err(failure) if failure.code == OutcomeCode::SkillError => Ok(error_result(failure)),
            Err(failure) => Err(failure.into()),
        }
    }

    fn profile(&self, name: &str, call_limits: &LimitOverrides) -> Result<RunProfile, LimitError> {
        let skill = self.registry.get(parts(name).0);
        let mut limits = self.limits.clone();
        if let Some(skill) = &skill {
            limits = limits.with(Source::Manifest, &skill.manifest.limits)?;
        }
        let limits = Arc::new(limits.with(Source::Call, call_limits)?);
        let Some(skill) = skill else {
            return Ok(RunProfile {
                limits,
                ..RunProfile::default()
            });
        };
        Ok(RunProfile {
            flavor: skill.flavor.clone(),
            component_digest: skill.component.as_ref().map(|c| c.sha256.clone()),
            policy: Policy::deny_all(skill.manifest.capabilities.clone()),
            limits,
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
