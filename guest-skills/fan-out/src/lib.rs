//! Calls one tool many times at once and tells what became of each call, in the order of the calls.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use skillrun_sdk::tools::{self, Answer, Call, Content};
use skillrun_sdk::{HostError, SkillError, recorder, skill};

/// Calls that one run may make; what the schema says too.
const CALLS_MAX: usize = 100;
/// Calls that may be under way at once, as far as the host allows.
const PARALLEL_MAX: u32 = 16;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Input {
    tool: String,
    #[schemars(length(min = 1, max = CALLS_MAX))]
    calls: Vec<Map<String, Value>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = PARALLEL_MAX))]
    parallel_max: Option<u32>,
}

#[derive(Serialize, JsonSchema)]
struct Output {
    results: Vec<CallResult>,
}

#[derive(Serialize, JsonSchema)]
#[serde(untagged)]
enum CallResult {
    Answer {
        #[schemars(with = "Vec<Map<String, Value>>")]
        content: Vec<Content>,
        is_error: bool,
    },
    Failure {
        error: Failure,
    },
}

#[derive(Serialize, JsonSchema)]
struct Failure {
    kind: &'static str,
    message: String,
}

impl From<Result<Answer, HostError>> for CallResult {
    fn from(result: Result<Answer, HostError>) -> Self {
        match result {
            Ok(answer) => Self::Answer {
                content: answer.content,
                is_error: answer.is_error,
            },
            Err(error) => Self::Failure {
                error: Failure {
                    kind: error.kind(),
                    message: error.to_string(),
                },
            },
        }
    }
}

#[skill]
fn fan_out(input: Input) -> Result<Output, SkillError> {
    if !(1..=CALLS_MAX).contains(&input.calls.len()) {
        return Err(invalid_input(&format!(
            "calls has 1 to {CALLS_MAX} objects"
        )));
    }
    // 0 leaves it to the host.
    let parallel_max = match input.parallel_max {
        Some(given) if !(1..=PARALLEL_MAX).contains(&given) => {
            return Err(invalid_input(&format!(
                "parallel_max is 1 to {PARALLEL_MAX}"
            )));
        }
        given => given.unwrap_or_default(),
    };
    recorder::step("fan-out", || {
        let calls: Vec<Call> = input
            .calls
            .iter()
            .map(|arguments| Call::new(&input.tool, arguments))
            .collect();
        let results = tools::invoke_all(&calls, parallel_max).into_iter();
        Ok(Output {
            results: results.map(CallResult::from).collect(),
        })
    })
}

fn invalid_input(message: &str) -> SkillError {
    SkillError::new(message).with_code("invalid_input")
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use skillrun_sdk::mock::Mock;
    use skillrun_sdk::tools::Answer;
    use skillrun_sdk::{HostError, Skill};

    use super::FanOut;

    #[test]
    fn each_call_has_its_result_in_its_place() {
        let mock = Mock::new().tool("math__root", |arguments| match arguments["n"].as_i64() {
            Some(4) => Ok(Answer::from("2")),
            Some(_) => Ok(Answer::error("no root")),
            None => Err(HostError::Invalid("at $.n: expected an integer".to_owned())),
        });
        let input = json!({ "tool": "math__root", "calls": [{ "n": 2 }, { "n": 4 }, {}] });
        let record = mock.run_skill::<FanOut>(&input);
        assert_eq!(
            record.result.as_ref().unwrap()["results"],
            json!([
                { "content": [{ "type": "text", "text": "no root" }], "is_error": true },
                { "content": [{ "type": "text", "text": "2" }], "is_error": false },
                { "error": { "kind": "invalid", "message": "invalid arguments: at $.n: expected an integer" } },
            ])
        );
        assert_eq!(record.tool_calls().len(), 3);
        assert_eq!(record.steps(), [("fan-out", true)]);
    }

    #[test]
    fn too_few_too_many_and_too_wide_are_refused() {
        let calls = |n: usize| vec![json!({}); n];
        for input in [
            json!({ "tool": "a__b", "calls": [] }),
            json!({ "tool": "a__b", "calls": calls(101) }),
            json!({ "tool": "a__b", "calls": calls(1), "parallel_max": 0 }),
            json!({ "tool": "a__b", "calls": calls(1), "parallel_max": 17 }),
            json!({ "tool": "a__b", "calls": [1] }),
        ] {
            let record = Mock::new().run_skill::<FanOut>(&input);
            assert_eq!(record.error_code(), Some("invalid_input"), "{input}");
        }
        let widest = json!({ "tool": "a__b", "calls": calls(100), "parallel_max": 16 });
        let mock = Mock::new().tool("a__b", |_arguments| Ok("done"));
        assert!(mock.run_skill::<FanOut>(&widest).result.is_ok());
    }

    #[test]
    fn the_schema_says_the_same() {
        let schema: Value = serde_json::from_str(&FanOut::describe().input_schema).unwrap();
        let properties = &schema["properties"];
        assert_eq!(
            (
                &properties["calls"]["minItems"],
                &properties["calls"]["maxItems"]
            ),
            (&json!(1), &json!(100))
        );
        assert_eq!(properties["parallel_max"]["maximum"], 16);
        assert_eq!(schema["required"], json!(["tool", "calls"]));
    }
}
