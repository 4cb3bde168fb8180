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
use crate::registry::{Registry, Skill, SkillSet};
use crate::telemetry::chain;

/// Runs installed skills. Cheap to clone.
#[derive(Clone)]
pub struct SkillExecutor {
    skills: SkillSet,
    engine: Engine,
    limits: Limits,
}

impl SkillExecutor {
    /// An executor for `skills`, one [`Registry`] or whatever a watcher publishes, each held to
    /// `limits` unless its manifest asks for less. It can hold `instances_max` instances at once; admit no more runs than that.
    ///
    /// # Errors
    /// The machine cannot reserve so large a pool.
    pub fn new(
        skills: impl Into<SkillSet>,
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
            skills: skills.into(),
            engine,
            limits,
        })
    }

    /// Loads a skill and asks it what it is.
    ///
    /// # Errors
    /// There is no such skill, it cannot be loaded, or it fails to answer.
    pub async fn describe(&self, name: &str) -> Result<Descriptor, ExecutorError> {
        let registry = self.skills.current();
        let skill = registry.get(name);
        let skill = skill.ok_or_else(|| reason_without(&registry, name))?;
        let program = self.load(&skill).await?;
        Ok(program.describe(Arc::new(self.limits.clone())).await?)
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
    async fn call_tool(
        &self,
        cx: &RunContext,
        name: &str,
        arguments: JsonObject,
    ) -> Result<ToolCallResult, ExecutorError> {
        // The profile speaks of one skill, or of none, and so does the record.
        let skill = cx.profile().skill.clone();
        let skill = skill.ok_or_else(|| reason_without(&self.skills.current(), name))?;
        if skill.component.is_some() {
            self.pin(&skill).await?;
        }
        let program = self.load(&skill).await?;
        let called = program
            .call(Call {
                host: Arc::new(Journal::new(cx, name, Arc::clone(&skill.body))),
                limits: Arc::clone(&cx.profile().limits),
                seed: cx.seed(),
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
        let skill = self.skills.current().get(name);
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
            skill: Some(skill),
        })
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
