//! What the runner asks of whoever carries a run out.

use std::sync::Arc;

use async_trait::async_trait;

use super::context::RunContext;
use super::json_object::JsonObject;
use super::tool_result::ToolCallResult;
use crate::capability::{Capability, Policy};
use crate::config::{ApprovalPolicy, Approvals};
use crate::executor::{Descriptor, EngineStatistics, Failure};
use crate::limits::{LimitError, LimitOverrides, LimitReached, Limits};
use crate::outcome::OutcomeCode;
use crate::registry::Skill;

/// Carries out runs. The runner depends on nothing else, so any embedder, and any test, can be one.
#[async_trait]
pub trait Executor: Send + Sync {
    /// Calls the skill `name` and waits for its answer.
    ///
    /// Dropping the future must stop the work. The run's wall-time limit is the executor's to keep;
    /// the runner keeps the deadline of the call as a whole.
    ///
    /// # Errors
    /// There is no such skill, or it ended without an answer. An answer that says of itself that it is
    /// an error is not an error here.
    async fn call_tool(
        &self,
        cx: &RunContext,
        name: &str,
        arguments: JsonObject,
    ) -> Result<ToolCallResult, ExecutorError>;

    /// Whether there is a skill of that name that can be run, as far as that is known without running it.
    /// A surface that can tell its caller asks before it starts a run; one that is started all the same is
    /// recorded with the error.
    ///
    /// # Errors
    /// There is none, or what there is cannot be run.
    fn check(&self, name: &str) -> Result<(), ExecutorError> {
        let _ = name;
        Ok(())
    }

    /// Asks a skill what it is. It may run code of the skill to be told.
    ///
    /// # Errors
    /// There is no such skill, it cannot be loaded, or it fails to answer.
    async fn describe(&self, name: &str) -> Result<Descriptor, ExecutorError> {
        Ok(Descriptor {
            name: name.to_owned(),
            ..Descriptor::default()
        })
    }

    /// What a run is held to that is done again and whose ledger says so: none of what the memory of the
    /// machine is divided by may be more.
    fn limits(&self) -> Limits {
        Limits::default()
    }

    /// What its engine has now; nothing, when it has none.
    fn statistics(&self) -> EngineStatistics {
        EngineStatistics::default()
    }

    /// What is known of the skill before it is called; it is recorded in `run_started`. A skill that
    /// does not exist has a profile too, for its run is recorded like any other.
    ///
    /// # Errors
    /// The call's own limits are refused.
    fn profile(&self, name: &str, terms: &Terms) -> Result<RunProfile, LimitError> {
        let _ = name;
        let limits = Limits::default().with(crate::limits::Source::Call, &terms.limits)?;
        Ok(RunProfile {
            limits: Arc::new(limits),
            approvals: Approvals::default().with(terms.approvals),
            ..RunProfile::default()
        })
    }
}

/// What the caller of one run sets for it, on the operator's behalf.
#[derive(Debug, Clone, Default)]
pub struct Terms {
    /// Limits, by key.
    pub limits: LimitOverrides,
    /// Capabilities that are granted to this run beside those of the configuration. Whoever may set
    /// them is an operator: they come from a command line or an embedder and never over a network.
    pub grants: Vec<Capability>,
    /// How the questions of this run, and of those inside it, are answered, where that is not to be as
    /// the configuration says.
    pub approvals: Option<ApprovalPolicy>,
}

/// What a run is held to.
#[derive(Debug, Clone, Default)]
pub struct RunProfile {
    /// The skill's handler language.
    pub flavor: Option<String>,
    /// SHA-256 of the component, in hexadecimal.
    pub component_digest: Option<String>,
    /// What the skill asked for and what it has.
    pub policy: Arc<Policy>,
    /// The bounds, each with its source.
    pub limits: Arc<Limits>,
    /// How its questions are answered.
    pub approvals: Approvals,
    /// The variables that the skill finds in its environment. They are recorded, so that a run that goes
    /// on later finds the same.
    pub environment: Arc<[(String, String)]>,
    /// The skill as it was then, for an executor that has one. It is what the call has to run, whatever
    /// became of the name since: the record of the run speaks of this one.
    pub skill: Option<Arc<Skill>>,
}

/// A call without an answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ExecutorError {
    /// No skill has that name.
    #[error("unknown skill {name:?}")]
    NotFound {
        /// The name.
        name: String,
        /// A skill whose name is much like it.
        nearest: Option<String>,
    },
    /// The skill is prose only.
    #[error("skill {name:?} has no component: it is prompt-only and cannot be run")]
    PromptOnly {
        /// The name.
        name: String,
    },
    /// The skill is installed, and the operator switched it off.
    #[error("skill {name:?} is disabled")]
    Disabled {
        /// The name.
        name: String,
    },
    /// The component is an agent, and was called as if it were a skill.
    #[error("skill {name:?} is an agent: it is launched and prompted, and cannot be run")]
    IsAgent {
        /// The name.
        name: String,
    },
    /// The component is no agent, and was launched as if it were one.
    #[error("skill {name:?} is no agent: it is run, and cannot be launched")]
    NoAgent {
        /// The name.
        name: String,
    },
    /// The component cannot be loaded.
    #[error("cannot load skill {name:?}: {reason}")]
    Load {
        /// The name.
        name: String,
        /// Why not.
        reason: String,
        /// What to do about it.
        hint: Option<String>,
    },
    /// What was handed over does not fit the skill's schema. The skill was not run.
    #[error("input of skill {name:?} does not fit its schema: {problem}")]
    InvalidInput {
        /// The name.
        name: String,
        /// Where, what was expected, what was found.
        problem: String,
    },
    /// What the skill answered does not fit its own schema.
    #[error("result of skill {name:?} does not fit its schema: {problem}")]
    InvalidOutput {
        /// The name.
        name: String,
        /// Where, what was expected, what was found.
        problem: String,
    },
    /// The call ended without an answer.
    #[error(transparent)]
    Failed(#[from] Failure),
}

impl ExecutorError {
    /// The code with which the run ends.
    pub fn code(&self) -> OutcomeCode {
        match self {
            Self::NotFound { .. } => OutcomeCode::NotFound,
            Self::PromptOnly { .. }
            | Self::Disabled { .. }
            | Self::IsAgent { .. }
            | Self::NoAgent { .. }
            | Self::Load { .. } => OutcomeCode::LoadError,
            Self::InvalidInput { .. } => OutcomeCode::InvalidInput,
            Self::InvalidOutput { .. } => OutcomeCode::InvalidOutput,
            Self::Failed(failure) => failure.code,
        }
    }

    /// The limit that was reached, if that is why.
    pub fn limit(&self) -> Option<LimitReached> {
        match self {
            Self::Failed(failure) => failure.limit,
            _ => None,
        }
    }

    /// What to do about it, when there is something to do.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::NotFound { nearest, .. } => Some(match nearest {
                Some(nearest) => format!("there is a skill {nearest:?}"),
                None => "skillrun skills list shows the skills there are".to_owned(),
            }),
            Self::PromptOnly { .. } => None,
            Self::IsAgent { name } => Some(format!("skillrun agent chat {name} talks to it")),
            Self::NoAgent { name } => Some(format!("skillrun run {name} runs it")),
            Self::Disabled { name } => Some(format!("skillrun skills enable {name}")),
            Self::Load { hint, .. } => hint.clone(),
            Self::InvalidInput { name, .. } => {
                Some(format!("skillrun skills inspect {name} shows the schema"))
            }
            Self::InvalidOutput { .. } => {
                Some("the skill breaks its own promise; tell its author".to_owned())
            }
            Self::Failed(failure) => failure.hint.clone(),
        }
    }
}
