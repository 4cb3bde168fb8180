//! Hands work to other skills: one step after the other, or all at once.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use skillrun_sdk::handoff::{self, Call};
use skillrun_sdk::{HostError, SkillError, recorder, skill};

/// Skills that one run may call; what the schema says too.
const STEPS_MAX: usize = 20;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Input {
    #[schemars(length(min = 1, max = STEPS_MAX))]
    steps: Vec<Step>,
    /// All at once.
    #[serde(default)]
    parallel: bool,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Step {
    skill: String,
    input: Map<String, Value>,
}

#[derive(Debug, PartialEq, Serialize, JsonSchema)]
struct Output {
    results: Vec<Value>,
}

#[skill]
fn hand_off(input: Input) -> Result<Output, SkillError> {
    if !(1..=STEPS_MAX).contains(&input.steps.len()) {
        let message = format!("steps has 1 to {STEPS_MAX} objects");
        return Err(SkillError::new(message).with_code("invalid_input"));
    }
    let results = if input.parallel {
        all_at_once(&input.steps)
    } else {
        one_by_one(&input.steps)
    };
    Ok(Output { results: results? })
}

fn one_by_one(steps: &[Step]) -> Result<Vec<Value>, SkillError> {
    let results = steps.iter().enumerate().map(|(index, step)| {
        recorder::step(&step.skill, || {
            let result = handoff::invoke(&step.skill, &step.input);
            result.map_err(|error| failed(index, step, error))
        })
    });
    results.collect()
}

fn all_at_once(steps: &[Step]) -> Result<Vec<Value>, SkillError> {
    let calls: Vec<Call> = steps
        .iter()
        .map(|step| Call::new(&step.skill, &step.input))
        .collect();
    let results = handoff::invoke_all(&calls, 0).into_iter().zip(steps);
    let results = results
        .enumerate()
        .map(|(index, (result, step))| result.map_err(|error| failed(index, step, error)));
    results.collect()
}

/// Which step it was. One that the host refused stays a refusal.
fn failed(index: usize, step: &Step, error: HostError) -> SkillError {
    if matches!(error, HostError::Denied(_)) {
        return error.into();
    }
    SkillError::new(format!("step {} ({}): {error}", index + 1, step.skill))
        .with_code("step_failed")
        .with_details(json!({ "step": index + 1, "skill": step.skill }))
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use skillrun_sdk::HostError;
    use skillrun_sdk::mock::Mock;

    use super::Handoff;

    fn mock() -> Mock {
        Mock::new()
            .skill("greet", |input| Ok(json!({ "greeting": input["name"] })))
            .skill("notes", |_input| {
                Err(HostError::Failed("milk: not found".to_owned()))
            })
            .skill("secret", |_input| {
                Err(HostError::Denied("skill:secret".to_owned()))
            })
    }

    #[test]
    fn results_are_in_the_order_of_the_steps() {
        for parallel in [false, true] {
            let input = json!({
                "steps": [
                    { "skill": "greet", "input": { "name": "Ada" } },
                    { "skill": "greet", "input": { "name": "Bob" } },
                ],
                "parallel": parallel,
            });
            let record = mock().run_skill::<Handoff>(&input);
            let expected = json!({ "results": [{ "greeting": "Ada" }, { "greeting": "Bob" }] });
            assert_eq!(record.result, Ok(expected));
            let steps = [("greet", true), ("greet", true)];
            assert_eq!(record.steps(), if parallel { &[][..] } else { &steps[..] });
        }
    }

    #[test]
    fn a_step_that_fails_ends_it_and_is_named() {
        let input = json!({ "steps": [
            { "skill": "greet", "input": { "name": "Ada" } },
            { "skill": "notes", "input": {} },
            { "skill": "greet", "input": {} },
        ] });
        let record = mock().run_skill::<Handoff>(&input);
        let error = record.result.as_ref().unwrap_err();
        assert_eq!(
            (error.code.as_str(), error.message.as_str()),
            ("step_failed", "step 2 (notes): milk: not found")
        );
        assert_eq!(record.handoffs().len(), 2);
        assert_eq!(record.steps(), [("greet", true), ("notes", false)]);
    }

    #[test]
    fn a_step_that_is_refused_stays_a_refusal() {
        let input = json!({ "steps": [{ "skill": "secret", "input": {} }], "parallel": true });
        let record = mock().run_skill::<Handoff>(&input);
        assert_eq!(record.error_code(), Some("denied"));
    }

    #[test]
    fn there_are_1_to_20_steps() {
        for steps in [0, 21] {
            let step = json!({ "skill": "greet", "input": {} });
            let input = json!({ "steps": vec![step; steps] });
            let record = mock().run_skill::<Handoff>(&input);
            assert_eq!(record.error_code(), Some("invalid_input"));
        }
    }
}
