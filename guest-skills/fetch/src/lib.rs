//! Reads what is at an address: the smallest skill that makes a request.

use serde::{Deserialize, Serialize};
use skillrun_sdk::http::Request;
use skillrun_sdk::{Descriptor, Skill, SkillError};

struct Fetch;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Input {
    url: String,
}

#[derive(Serialize)]
struct Output {
    status: u16,
    text: String,
}

const INPUT_SCHEMA: &str = r#"{"type":"object","properties":{"url":{"type":"string","format":"uri"}},"required":["url"],"additionalProperties":false}"#;
const OUTPUT_SCHEMA: &str = r#"{"type":"object","properties":{"status":{"type":"integer"},"text":{"type":"string"}},"required":["status","text"]}"#;

impl Skill for Fetch {
    type Input = Input;
    type Output = Output;

    fn describe() -> Descriptor {
        Descriptor::new("fetch", "0.1.0", "Reads what is at an address")
            .with_schemas(INPUT_SCHEMA, OUTPUT_SCHEMA)
    }

    fn run(input: Input) -> Result<Output, SkillError> {
        let response = Request::get(&input.url).send()?;
        Ok(Output {
            status: response.status,
            text: response.text(),
        })
    }
}

skillrun_sdk::export!(Fetch);
