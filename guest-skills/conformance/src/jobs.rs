//! Tools that take a while, and so can be tasks.

use std::thread::sleep;
use std::time::Duration;

use serde_json::{Value, json};
use skillrun_sdk::SkillError;

use crate::blocks::says;
use crate::client::{ask, ask_all, elicitation, filled, text_field, yes_field};
use crate::{Answer, text};

/// The longest a job can be asked to take.
const SECONDS_MAX: f64 = 3_600.0;

pub(crate) fn answer(name: &str, input: &Value) -> Answer {
    Some(match name {
        "greet" => Ok(says(&format!("Hello, {}!", text(input, "name")))),
        "slow-compute" => {
            let seconds = input
                .get("seconds")
                .and_then(Value::as_f64)
                .unwrap_or_default();
            sleep(Duration::from_secs_f64(seconds.clamp(0.0, SECONDS_MAX)));
            Ok(says(&format!("{} took {seconds} s", text(input, "label"))))
        }
        "failing-job" => {
            sleep(Duration::from_secs(1));
            Err(SkillError::new("this job always fails"))
        }
        // Its folder says that there is another member.
        "protocol-error-job" => Ok(json!({})),
        "confirm-delete" => confirm_delete(text(input, "filename")),
        "multi-input" => multi_input(),
        "test-tool-with-task" => {
            ask(text_field("user_name", "What is your name?", "name")).map(|answer| {
                // Longer than whoever called it should have to wait.
                sleep(Duration::from_secs(3));
                says(&format!("Hello, {}!", filled(&answer, "name")))
            })
        }
        _ => return None,
    })
}

fn confirm_delete(filename: &str) -> Result<Value, SkillError> {
    let message = format!("Delete {filename}?");
    let answer = ask(yes_field("confirm", &message, "confirm"))?;
    let confirmed = answer.pointer("/content/confirm").and_then(Value::as_bool);
    Ok(says(&match confirmed {
        Some(true) => format!("{filename} would be gone."),
        _ => format!("{filename} stays."),
    }))
}

fn multi_input() -> Result<Value, SkillError> {
    let properties = json!({ "name": { "type": "string" }, "confirm": { "type": "boolean" } });
    let form = |key, message| elicitation(key, message, &properties, &[]);
    let answers = ask_all(&[
        form("first", "Who is the first?"),
        form("second", "Who is the second?"),
    ])?;
    let names: Vec<&str> = answers
        .iter()
        .map(|answer| filled(answer, "name"))
        .collect();
    Ok(says(&names.join(" and ")))
}
