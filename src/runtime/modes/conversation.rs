//! Tools by which an agent keeps people informed: its plan, its questions, its decisions.

use serde::Deserialize;
use serde_json::{Map, json};

use super::tool::{Answered, Facts, ModeTool, answer, object, text};
use crate::call::{Effect, PermissionOption, PlanEntry, PlanStatus, Question, SessionUpdate};
use crate::runner::HostToolCall;

/// Steps of a plan, and characters of one. Protect whoever reads it.
const PLAN_ENTRIES_MAX: usize = 100;
const PLAN_ENTRY_CHARS_MAX: usize = 500;
/// Characters of a question. Protects the person who has to read it.
const QUESTION_CHARS_MAX: usize = 4096;
/// Choices of a question, and characters of the id and the text of one, for the same reason.
const OPTIONS_MAX: usize = 16;
const OPTION_ID_CHARS_MAX: usize = 64;
const OPTION_LABEL_CHARS_MAX: usize = 200;
/// Characters of what is decided, and of why. Protect whoever reads the record.
const DECISION_TITLE_CHARS_MAX: usize = 200;
const DECISION_CHARS_MAX: usize = 10_000;
/// The name of the event that a decision is.
const DECISION_EVENT: &str = "decision";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Plan {
    entries: Vec<Step>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Step {
    description: String,
    status: PlanStatus,
    #[serde(default)]
    priority: u8,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Asked {
    question: String,
    #[serde(default)]
    options: Vec<PermissionOption>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Decision {
    title: String,
    decision: String,
    rationale: String,
}

pub(super) fn update_plan() -> ModeTool {
    let facts = Facts {
        name: "skillrun__update_plan",
        description: "Shows whoever watches the plan as it stands now, all of it.",
        input: object(
            &["entries"],
            json!({
                "entries": {
                    "type": "array",
                    "description": "The steps, in their order.",
                    "maxItems": PLAN_ENTRIES_MAX,
                    "items": object(
                        &["description", "status"],
                        json!({
                            "description": text("What is to be done.", PLAN_ENTRY_CHARS_MAX),
                            "status": {
                                "type": "string",
                                "enum": ["pending", "in_progress", "completed", "failed"],
                            },
                            "priority": {
                                "type": "integer",
                                "description": "0 matters most.",
                                "minimum": 0,
                                "maximum": 255,
                            },
                        }),
                    ),
                },
            }),
        ),
        effect: Effect::Idempotent,
        keeps_record: true,
    };
    ModeTool::new(facts, plan)
}

async fn plan(plan: Plan, call: HostToolCall) -> Answered {
    let entry = |step: Step| PlanEntry {
        description: step.description,
        status: step.status,
        priority: step.priority,
    };
    let entries: Vec<PlanEntry> = plan.entries.into_iter().map(entry).collect();
    let steps = entries.len();
    call.tell(SessionUpdate::Plan { entries })?;
    answer(&json!({ "steps": steps }))
}

pub(super) fn ask_user() -> ModeTool {
    let facts = Facts {
        name: "skillrun__ask_user",
        description: "Asks a person and waits for the answer: what was said, under text, and of options the id of the \
            one that was chosen. Where answered is false, nobody answered or the person would not.",
        input: object(
            &["question"],
            json!({
                "question": text("The question, with all that it takes to answer it.", QUESTION_CHARS_MAX),
                "options": {
                    "type": "array",
                    "description": "What can be chosen, if anything.",
                    "maxItems": OPTIONS_MAX,
                    "items": object(
                        &["id", "label"],
                        json!({
                            "id": text("Tells it from the others.", OPTION_ID_CHARS_MAX),
                            "label": text("What the person reads.", OPTION_LABEL_CHARS_MAX),
                        }),
                    ),
                },
            }),
        ),
        effect: Effect::Write,
        keeps_record: true,
    };
    ModeTool::new(facts, ask)
}

async fn ask(asked: Asked, call: HostToolCall) -> Answered {
    let has_options = !asked.options.is_empty();
    let question = Question {
        prompt: asked.question,
        payload: "{}".to_owned(),
        timeout_ms: None,
        needs_answer: false,
    };
    let said = call.ask(question, asked.options).await?;
    // A policy of yes chooses, where there is a choice; it has nothing to say where there is none.
    let is_answered = said.approved && (has_options || !said.automatic);
    answer(&json!({
        "answered": is_answered,
        "option": said.option,
        "text": said.text,
        "automatic": said.automatic,
    }))
}

pub(super) fn record_decision() -> ModeTool {
    let facts = Facts {
        name: "skillrun__record_decision",
        description: "Puts a decision on record, with the reasons for it.",
        input: object(
            &["title", "decision", "rationale"],
            json!({
                "title": text("What it is about.", DECISION_TITLE_CHARS_MAX),
                "decision": text("What was decided.", DECISION_CHARS_MAX),
                "rationale": text("Why.", DECISION_CHARS_MAX),
            }),
        ),
        effect: Effect::Write,
        keeps_record: true,
    };
    ModeTool::new(facts, record)
}

async fn record(decision: Decision, call: HostToolCall) -> Answered {
    let mut data = Map::new();
    data.insert("title".to_owned(), decision.title.into());
    data.insert("decision".to_owned(), decision.decision.into());
    data.insert("rationale".to_owned(), decision.rationale.into());
    call.note(DECISION_EVENT, data)?;
    answer(&json!({ "recorded": true }))
}
