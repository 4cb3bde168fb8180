//! Tools for agents of one's own: launched, prompted, stopped, listed.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::json;

use super::children::{ChildSpec, Children, MODES};
use super::tool::{Answered, Facts, ModeTool, Nothing, Refusal, RefusalCode, answer, object, text};
use crate::call::Effect;
use crate::id::ExecutionId;
use crate::runner::HostToolCall;
use crate::runtime::{Metadata, Mode};

/// Characters of a prompt. Protects ledgers, each of which holds it whole.
const PROMPT_CHARS_MAX: usize = 256 * 1024;
/// Characters of the text of an execution's id.
const ID_CHARS_MAX: usize = 64;
/// Characters of a reason.
const REASON_CHARS_MAX: usize = 1000;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Launch {
    agent: String,
    #[serde(default)]
    prompt: String,
    #[serde(default)]
    mode: String,
    #[serde(default)]
    metadata: Metadata,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Prompt {
    execution_id: String,
    prompt: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Stop {
    execution_id: String,
    reason: String,
}

/// The execution that a call is made in.
pub(super) fn execution(call: &HostToolCall) -> Result<ExecutionId, Refusal> {
    let none = || Refusal::new(RefusalCode::Failed, "this run is no execution");
    call.execution_id().cloned().ok_or_else(none)
}

pub(super) fn launch_agent(children: &Arc<dyn Children>) -> ModeTool {
    let modes = MODES.map(Mode::as_str);
    let facts = Facts {
        name: "skillrun__launch_agent",
        description: "Launches another agent, which ends with this one at the latest, and gives its execution_id. \
            To have its answers, launch it without a prompt and send them by prompt_agent. Takes the capability \
            skill:<agent>.",
        input: object(
            &["agent"],
            json!({
                "agent": text("The name of an installed agent.", 64),
                "prompt": text("Its first prompt, which nobody waits for.", PROMPT_CHARS_MAX),
                "mode": {
                    "type": "string",
                    "description": "The mode of its tools; task, if nothing is said.",
                    "enum": modes,
                },
                "metadata": {
                    "type": "object",
                    "description": "Whatever it is to be told of when it starts.",
                    "maxProperties": 32,
                    "propertyNames": { "minLength": 1, "maxLength": 64 },
                },
            }),
        ),
        effect: Effect::Write,
        keeps_record: false,
    };
    let children = Arc::clone(children);
    ModeTool::new(facts, move |arguments, call| {
        let children = Arc::clone(&children);
        async move { launch(&*children, arguments, call).await }
    })
}

async fn launch(children: &dyn Children, asked: Launch, call: HostToolCall) -> Answered {
    let parent = execution(&call)?;
    call.check_skill(&asked.agent)?;
    let spec = ChildSpec {
        agent: asked.agent,
        prompt: asked.prompt,
        mode: asked.mode,
        metadata: asked.metadata,
    };
    spec.check()?;
    let launched = children.launch(&parent, spec).await?;
    answer(&json!({ "execution_id": launched.execution_id }))
}

pub(super) fn prompt_agent(children: &Arc<dyn Children>) -> ModeTool {
    let facts = Facts {
        name: "skillrun__prompt_agent",
        description: "Sends a prompt to an agent that this one launched, waits for the end of its turn, and gives the \
            text of its answer.",
        input: object(
            &["execution_id", "prompt"],
            json!({
                "execution_id": text("The agent, as launch_agent gave it.", ID_CHARS_MAX),
                "prompt": text("The prompt.", PROMPT_CHARS_MAX),
            }),
        ),
        effect: Effect::Write,
        keeps_record: false,
    };
    let children = Arc::clone(children);
    ModeTool::new(facts, move |asked: Prompt, call| {
        let children = Arc::clone(&children);
        async move {
            let parent = execution(&call)?;
            let turn = children.prompt(&parent, &asked.execution_id, &asked.prompt);
            answer(&turn.await?)
        }
    })
}

pub(super) fn stop_agent(children: &Arc<dyn Children>) -> ModeTool {
    let facts = Facts {
        name: "skillrun__stop_agent",
        description: "Stops an agent that this one launched, with all that it launched itself, and waits for its end.",
        input: object(
            &["execution_id", "reason"],
            json!({
                "execution_id": text("The agent, as launch_agent gave it.", ID_CHARS_MAX),
                "reason": text("Why. It is recorded.", REASON_CHARS_MAX),
            }),
        ),
        effect: Effect::Idempotent,
        keeps_record: false,
    };
    let children = Arc::clone(children);
    ModeTool::new(facts, move |asked: Stop, call| {
        let children = Arc::clone(&children);
        async move {
            let parent = execution(&call)?;
            let stopped = children.stop(&parent, &asked.execution_id, &asked.reason);
            answer(&stopped.await?)
        }
    })
}

pub(super) fn list_agents(children: &Arc<dyn Children>) -> ModeTool {
    let facts = Facts {
        name: "skillrun__list_agents",
        description: "Lists the agents that this one launched, newest first, also those that ended lately.",
        input: object(&[], json!({})),
        effect: Effect::Read,
        keeps_record: false,
    };
    let children = Arc::clone(children);
    ModeTool::new(facts, move |_: Nothing, call| {
        let children = Arc::clone(&children);
        async move {
            let parent = execution(&call)?;
            answer(&json!({ "agents": children.list(&parent).await? }))
        }
    })
}
