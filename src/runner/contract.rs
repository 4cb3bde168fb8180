//! What a skill's input and its result have to fit: checked before the guest runs, and before anyone
//! gets the result.

use serde_json::Value;

use super::executor::ExecutorError;
use super::json_object::JsonObject;
use crate::ledger::Json;
use crate::registry::Skill;
use crate::schema::{Contract, Schema};
use crate::telemetry::chain;

/// The contract of a skill: what its manifest says, and what it says of itself where that says nothing.
pub(super) async fn of(skill: &Skill, said: &[String; 2]) -> Result<Contract, ExecutorError> {
    let manifest = &skill.manifest;
    let [input, output] = said;
    Ok(Contract {
        input: compile(skill, "input", manifest.input_schema.as_ref(), input).await?,
        output: compile(skill, "output", manifest.output_schema.as_ref(), output).await?,
    })
}

async fn compile(
    skill: &Skill,
    which: &str,
    manifest: Option<&Value>,
    said: &str,
) -> Result<Option<Schema>, ExecutorError> {
    let text = match manifest {
        Some(schema) => schema.to_string(),
        None if said.trim().is_empty() => return Ok(None),
        None => said.to_owned(),
    };
    let schema = Schema::compile_aside(text)
        .await
        .map_err(|error| ExecutorError::Load {
            name: skill.name.to_string(),
            reason: format!("its {which} schema cannot be used: {}", chain(&error)),
            hint: Some(format!("skillrun skills inspect {} shows it", skill.name)),
        })?;
    Ok(Some(schema))
}

/// Checks what a caller hands over.
pub(super) fn check_input(
    contract: &Contract,
    name: &str,
    input: &JsonObject,
) -> Result<(), ExecutorError> {
    let Some(schema) = &contract.input else {
        return Ok(());
    };
    let invalid = |problem| ExecutorError::InvalidInput {
        name: name.to_owned(),
        problem,
    };
    let value = input.deserialize::<Value>();
    let value = value.map_err(|error| invalid(format!("$: {}", chain(&error))))?;
    let checked = schema.check(&value);
    checked.map_err(|mismatch| invalid(mismatch.to_string()))
}

/// Checks what a skill answers.
pub(super) fn check_output(
    contract: &Contract,
    name: &str,
    output: &str,
) -> Result<(), ExecutorError> {
    let Some(schema) = &contract.output else {
        return Ok(());
    };
    let invalid = |problem| ExecutorError::InvalidOutput {
        name: name.to_owned(),
        problem,
    };
    let value = Json::parse(output).and_then(|json| json.to_value());
    let value = value.map_err(|error| invalid(format!("$: {}", chain(&error))))?;
    let checked = schema.check(&value);
    checked.map_err(|mismatch| invalid(mismatch.to_string()))
}
