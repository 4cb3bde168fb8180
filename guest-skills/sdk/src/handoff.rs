//! Other skills, as child runs under their own policy. Needs `skill:<name>` capabilities. What a child
//! uses counts against this run's limits as well.

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::host;
use crate::host_error::encode;
use crate::parallel;
use crate::{HostError, SkillError};

/// One call of several.
#[derive(Debug)]
pub struct Call {
    pub(crate) skill: String,
    pub(crate) input: Result<String, HostError>,
}

impl Call {
    /// A call of a skill with its input, which must become a JSON object.
    pub fn new(skill: &str, input: &(impl Serialize + ?Sized)) -> Self {
        Self {
            skill: skill.to_owned(),
            input: encode(input),
        }
    }
}

/// Runs another skill and waits for its result. `Output` may be `serde_json::Value`, which takes any, or
/// `Box<serde_json::value::RawValue>`, which keeps the text as it is.
///
/// # Errors
/// The host did not run the skill, the skill failed, or its result does not fit `Output`.
pub fn invoke<Output: DeserializeOwned>(
    skill: &str,
    input: &(impl Serialize + ?Sized),
) -> Result<Output, HostError> {
    let result = host::invoke_skill(skill, &encode(input)?)?;
    decode(skill, &result)
}

/// Runs several skills, at most `parallel_max` at a time (0: the host's default of 4). Each call has its
/// own result, in the order of the calls.
pub fn invoke_all<Output: DeserializeOwned>(
    calls: &[Call],
    parallel_max: u32,
) -> Vec<Result<Output, HostError>> {
    let results = parallel::in_order(
        calls.iter().map(|call| (&call.skill, &call.input)),
        |encoded| host::invoke_skills(encoded, parallel_max),
    );
    let results = results.into_iter().zip(calls);
    results
        .map(|(result, call)| decode(&call.skill, &result?))
        .collect()
}

/// Runs several skills, `parallel_max` at a time (0: 4), and begins no more once one of them failed.
///
/// # Errors
/// The first failure in the order of the calls; its `details` have the number of the call, counted
/// from 0.
pub fn try_invoke_all<Output: DeserializeOwned>(
    calls: &[Call],
    parallel_max: u32,
) -> Result<Vec<Output>, SkillError> {
    parallel::until_failure(calls, parallel_max, |batch| {
        let results = invoke_all(batch, parallel_max).into_iter();
        results
            .map(|result| result.map_err(SkillError::from))
            .collect()
    })
}

fn decode<Output: DeserializeOwned>(skill: &str, result: &str) -> Result<Output, HostError> {
    serde_json::from_str(result)
        .map_err(|error| HostError::Failed(format!("the result of {skill} does not fit: {error}")))
}
