//! Greets by name: the smallest skill that still shows a step, an event and a log line.

use serde::{Deserialize, Serialize};
use skillrun_sdk::{Descriptor, Skill, SkillError, log, recorder, run};

struct Greet;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Input {
    name: String,
}

#[derive(Serialize)]
struct Output {
    greeting: String,
    run_id: String,
}

const INPUT_SCHEMA: &str = r#"{"type":"object","properties":{"name":{"type":"string","minLength":1}},"required":["name"],"additionalProperties":false}"#;
const OUTPUT_SCHEMA: &str = r#"{"type":"object","properties":{"greeting":{"type":"string"},"run_id":{"type":"string"}},"required":["greeting","run_id"]}"#;

impl Skill for Greet {
    type Input = Input;
    type Output = Output;

    fn describe() -> Descriptor {
        Descriptor::new("greet", "0.1.0", "Greets by name")
            .with_schemas(INPUT_SCHEMA, OUTPUT_SCHEMA)
    }

    fn run(input: Input) -> Result<Output, SkillError> {
        let greeting = recorder::step("compose", || {
            if input.name.is_empty() {
                return Err(SkillError::new("name is empty").with_code("invalid_input"));
            }
            Ok(format!("Hello, {}!", input.name))
        })?;
        log::info("composed a greeting");
        // The greeting is the same whether or not it is on the record.
        if let Err(error) = recorder::custom("greeted", &input.name) {
            log::warn(&format!("cannot record: {error:?}"));
        }
        Ok(Output {
            greeting,
            run_id: run::id(),
        })
    }
}

skillrun_sdk::export!(Greet);
