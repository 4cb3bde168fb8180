//! Tools that ask nobody anything.

use std::thread::sleep;
use std::time::Duration;

use serde_json::{Value, json};
use skillrun_sdk::{SkillError, log, recorder};

use crate::blocks::{audio, image, resource, result, says, text};
use crate::{Answer, text as given};

/// Between two steps of a tool that is watched.
const STEP: Duration = Duration::from_millis(50);

pub(crate) fn answer(name: &str, input: &Value) -> Answer {
    Some(Ok(match name {
        "about" => json!("These skills are fixtures of the conformance suite of MCP."),
        "echo-header" => json!(given(input, "region")),
        "test-simple-text" => says("This is a simple text response for testing."),
        "test-image-content" => result(&[image()]),
        "test-audio-content" => result(&[audio()]),
        "test-embedded-resource" => embedded(),
        "test-multiple-content-types" => mixed(),
        "test-tool-with-logging" => logging(),
        "test-logging-tool" => {
            log::info("The tool logs");
            says("It logged.")
        }
        "test-error-handling" => {
            let error = "This tool intentionally returns an error for testing";
            return Some(Err(SkillError::new(error)));
        }
        "test-tool-with-progress" => return Some(progress()),
        "test-reconnection" => {
            sleep(2 * STEP);
            says("The answer came.")
        }
        "json-schema-2020-12-tool" => says(&input.to_string()),
        "test-trigger-tool-change" | "test-trigger-prompt-change" => says("It was called."),
        _ => return None,
    }))
}

fn embedded() -> Value {
    let text = "This is an embedded resource content.";
    result(&[resource("test://embedded-resource", "text/plain", text)])
}

fn mixed() -> Value {
    let data = r#"{"test":"data","value":123}"#;
    result(&[
        text("Multiple content types test:"),
        image(),
        resource("test://mixed-content-resource", "application/json", data),
    ])
}

fn logging() -> Value {
    log::info("Tool execution started");
    sleep(STEP);
    log::info("Tool processing data");
    sleep(STEP);
    log::info("Tool execution completed");
    says("It logged three lines.")
}

fn progress() -> Result<Value, SkillError> {
    for done in [0, 50, 100] {
        let message = format!("{done} of 100");
        let told = json!({ "progress": done, "total": 100, "message": message });
        recorder::custom("progress", &told).map_err(|error| SkillError::new(error.to_string()))?;
        sleep(STEP);
    }
    Ok(says("It is done."))
}
