//! The tool that runs a skill inside the execution's run.

use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;

use super::tool::{Answered, Facts, ModeTool, Refusal, RefusalCode, object, text};
use crate::call::Effect;
use crate::runner::HostToolCall;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Run {
    skill: String,
    /// As it was spelled.
    input: Box<RawValue>,
}

pub(super) fn run_skill() -> ModeTool {
    let facts = Facts {
        name: "skillrun__run_skill",
        description: "Runs a skill and gives its result under output. The run is inside this execution's and draws on \
            its limits. Takes the capability skill:<name>.",
        input: object(
            &["skill", "input"],
            json!({
                "skill": text("The name of an installed skill; a component's operation follows after a dot.", 256),
                "input": { "type": "object", "description": "What it is given." },
            }),
        ),
        effect: Effect::Write,
        keeps_record: true,
    };
    ModeTool::new(facts, run)
}

async fn run(asked: Run, call: HostToolCall) -> Answered {
    let result = call.run_skill(&asked.skill, asked.input.get()).await?;
    let answer = format!("{{\"output\":{result}}}");
    RawValue::from_string(answer)
        .map_err(|_no_json| Refusal::new(RefusalCode::Failed, "the result of the skill is no JSON"))
}
