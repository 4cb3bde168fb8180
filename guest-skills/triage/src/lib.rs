//! Judges how urgent a support ticket is: a tool finds similar ones, a model judges by the text of
//! SKILL.md, a person has the last word on what is urgent, and a tool writes it down.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use skillrun_sdk::llm::{self, Request};
use skillrun_sdk::log::{self, Level};
use skillrun_sdk::{SkillError, approval, recorder, run, skill, tools};

/// Characters of a ticket's id and text; what the schema says too.
const ID_CHARS_MAX: usize = 64;
const TEXT_CHARS_MAX: usize = 8000;
/// An answer has two short members; this bounds what a model that rambles costs.
const OUTPUT_TOKENS_MAX: u32 = 500;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Input {
    #[schemars(length(min = 1, max = ID_CHARS_MAX))]
    id: String,
    #[schemars(length(min = 1, max = TEXT_CHARS_MAX))]
    text: String,
}

#[derive(Debug, PartialEq, Serialize, JsonSchema)]
struct Output {
    id: String,
    priority: Priority,
    summary: String,
    /// What a person said; null where nobody was asked.
    approved: Option<bool>,
    /// Whether the ticket has that priority now.
    applied: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Priority {
    Low,
    Normal,
    High,
}

impl Priority {
    fn as_str(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::Normal => "normal",
            Self::High => "high",
        }
    }
}

// What the model answers. A doc comment here would be part of the schema that the model is given.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Assessment {
    priority: Priority,
    #[schemars(length(max = 500))]
    summary: String,
}

#[skill]
fn triage(input: Input) -> Result<Output, SkillError> {
    check("id", &input.id, ID_CHARS_MAX)?;
    check("text", &input.text, TEXT_CHARS_MAX)?;
    let similar = recorder::step("find-similar", || find_similar(&input.text))?;
    let assessment = recorder::step("assess", || assess(&input, &similar))?;
    let priority = assessment.priority.as_str();
    let fields = [("id", input.id.as_str()), ("priority", priority)];
    log::write(Level::Info, "assessed", &fields);

    let mut output = Output {
        id: input.id,
        priority: assessment.priority,
        summary: assessment.summary,
        approved: None,
        applied: false,
    };
    if output.priority == Priority::High {
        let approved = recorder::step("approve", || approve(&output))?;
        output.approved = Some(approved);
        if !approved {
            return Ok(output);
        }
    }
    recorder::step("apply", || apply(&output))?;
    output.applied = true;
    Ok(output)
}

fn check(name: &str, text: &str, chars_max: usize) -> Result<(), SkillError> {
    if (1..=chars_max).contains(&text.chars().count()) {
        return Ok(());
    }
    let message = format!("{name} has 1 to {chars_max} characters");
    Err(SkillError::new(message).with_code("invalid_input"))
}

/// The texts of similar tickets; empty where there are none, or where the search failed, since a ticket
/// can be judged without them.
fn find_similar(text: &str) -> Result<String, SkillError> {
    let answer = tools::invoke("tickets__search", &json!({ "query": text }))?;
    if answer.is_error {
        let message = "cannot search for similar tickets";
        log::write(Level::Warn, message, &[("error", &answer.text())]);
        return Ok(String::new());
    }
    Ok(answer.text())
}

fn assess(ticket: &Input, similar: &str) -> Result<Assessment, SkillError> {
    let similar = match similar {
        "" => "none",
        similar => similar,
    };
    let (id, text) = (&ticket.id, &ticket.text);
    let request = Request::new("default")
        .system(run::skill_body())
        .user(format!(
            "Ticket {id}:\n{text}\n\nSimilar tickets:\n{similar}"
        ))
        .temperature(0.0)
        .output_tokens_max(OUTPUT_TOKENS_MAX);
    Ok(llm::generate_as(&request)?)
}

fn approve(assessed: &Output) -> Result<bool, SkillError> {
    let prompt = format!("Set ticket {} to high priority?", assessed.id);
    let payload = json!({
        "id": assessed.id,
        "priority": assessed.priority,
        "summary": assessed.summary,
    });
    Ok(approval::request(&prompt, &payload)?.approved)
}

fn apply(assessed: &Output) -> Result<(), SkillError> {
    let arguments = json!({ "id": assessed.id, "priority": assessed.priority });
    let answer = tools::invoke("tickets__set_priority", &arguments)?;
    if answer.is_error {
        return Err(SkillError::new(answer.text()).with_code("not_applied"));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
