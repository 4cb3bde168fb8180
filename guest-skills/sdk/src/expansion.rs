//! What the expansions of `#[skill]` and `#[agent]` refer to. No part of the interface for authors.

use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::agent::{Agent, Context, Lifecycle, StopReason};
use crate::agent_bindings::exports::skillrun::skill::session_handler as exported;
use crate::{Descriptor, SkillError, schema};

/// How a turn ends.
pub type Turn = Result<StopReason, SkillError>;

/// What the function of a skill gives: `Result<Output, SkillError>`, also by another name.
#[diagnostic::on_unimplemented(
    message = "a skill gives `Result<Output, SkillError>`, not `{Self}`",
    label = "not a result with an error that becomes a `SkillError`"
)]
pub trait Outcome {
    /// The type of the result.
    type Output;

    /// With the error that the host is told.
    ///
    /// # Errors
    /// The skill's own.
    fn into_result(self) -> Result<Self::Output, SkillError>;
}

impl<T, E: Into<SkillError>> Outcome for Result<T, E> {
    type Output = T;

    fn into_result(self) -> Result<T, SkillError> {
        self.map_err(Into::into)
    }
}

/// A descriptor with the schemas of the types.
pub fn descriptor<Input, Output>(name: &str, version: &str, description: &str) -> Descriptor
where
    Input: DeserializeOwned + JsonSchema,
    Output: Serialize + JsonSchema,
{
    let mut input = schema::of_input::<Input>();
    // Whatever its cases are, a skill is given an object, and whoever offers it as a tool has to say so.
    if let Value::Object(members) = &mut input
        && !members.is_empty()
    {
        members.entry("type").or_insert_with(|| "object".into());
    }
    Descriptor::new(name, version, description).with_schemas(
        &schema::text(&input),
        &schema::text(&schema::of_output::<Output>()),
    )
}

/// Starts an agent as the host says.
///
/// # Errors
/// The agent's own, or the metadata is no JSON.
pub fn start<A: Agent>(
    agent: &Lifecycle<A>,
    context: exported::Context,
) -> Result<(), exported::SkillError> {
    let metadata = serde_json::from_str(&context.metadata).map_err(|error| {
        SkillError::new(format!("the metadata cannot be read: {error}")).with_code("invalid_input")
    })?;
    agent.start(Context {
        session_id: context.session_id,
        workspace: context.workspace,
        mode: context.mode,
        metadata,
    })?;
    Ok(())
}

/// Prompts an agent as the host says.
///
/// # Errors
/// The agent's own.
pub fn prompt<A: Agent>(
    agent: &Lifecycle<A>,
    text: &str,
) -> Result<exported::StopReason, exported::SkillError> {
    Ok(match agent.prompt(text)? {
        StopReason::EndTurn => exported::StopReason::EndTurn,
        StopReason::TokenLimit => exported::StopReason::TokenLimit,
        StopReason::Refusal => exported::StopReason::Refusal,
        StopReason::Cancelled => exported::StopReason::Cancelled,
    })
}
