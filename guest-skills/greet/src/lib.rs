//! Greets by name: the smallest skill that still shows a step, an event and a log line.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use skillrun_sdk::{SkillError, log, recorder, run, skill};

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Input {
    #[schemars(length(min = 1))]
    name: String,
}

#[derive(Debug, PartialEq, Serialize, JsonSchema)]
struct Output {
    greeting: String,
    run_id: String,
}

#[skill]
fn greet(input: Input) -> Result<Output, SkillError> {
    let greeting = recorder::step("compose", || {
        if input.name.is_empty() {
            return Err(SkillError::new("name is empty").with_code("invalid_input"));
        }
        Ok(format!("Hello, {}!", input.name))
    })?;
    log::info("composed a greeting");
    // The greeting is the same whether or not it is on the record.
    if let Err(error) = recorder::custom("greeted", &input.name) {
        log::warn(&format!("cannot record: {error}"));
    }
    Ok(Output {
        greeting,
        run_id: run::id(),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use skillrun_sdk::{Skill, mock::Mock};

    use super::{Greet, Input, Output, greet};

    #[test]
    fn it_greets() {
        let name = "Ada".to_owned();
        let record = Mock::new().run_id("run_1").run(|| greet(Input { name }));
        let expected = Output {
            greeting: "Hello, Ada!".to_owned(),
            run_id: "run_1".to_owned(),
        };
        assert_eq!(record.result, Ok(expected));
        assert_eq!(record.steps(), [("compose", true)]);
        assert_eq!(record.log_messages(), ["composed a greeting"]);
        assert_eq!(record.customs()[0].payload, "Ada");
    }

    #[test]
    fn an_empty_name_is_refused() {
        let record = Mock::new().run_skill::<Greet>(&json!({ "name": "" }));
        assert_eq!(record.error_code(), Some("invalid_input"));
        assert_eq!(record.steps(), [("compose", false)]);
    }

    #[test]
    fn the_schemas_are_those_of_the_types() {
        let described = Greet::describe();
        assert_eq!(
            (described.name.as_str(), described.description.as_str()),
            ("greet", "Greets by name")
        );
        let parsed = |text: &str| serde_json::from_str::<Value>(text).unwrap();
        assert_eq!(
            parsed(&described.input_schema),
            json!({
                "type": "object",
                "properties": { "name": { "type": "string", "minLength": 1 } },
                "required": ["name"],
                "additionalProperties": false,
            })
        );
        assert_eq!(
            parsed(&described.output_schema),
            json!({
                "type": "object",
                "properties": { "greeting": { "type": "string" }, "run_id": { "type": "string" } },
                "required": ["greeting", "run_id"],
            })
        );
    }
}
