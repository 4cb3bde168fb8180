//! Verbs that ask for what others provide: tools, models, people, skills.

use serde_json::{Value, json};
use skillrun_sdk::llm::{self, Chunk, Request};
use skillrun_sdk::tools::{self, Answer, Call};
use skillrun_sdk::{HostError, SkillError, approval, handoff, session};

use crate::{divide, number, refusal, tell};

/// The names of the tools there are, one a line.
pub(crate) fn tools() -> Result<(), SkillError> {
    let names = tools::available().into_iter().map(|tool| tool.name);
    Ok(session::emit_text(&names.collect::<Vec<_>>().join("\n"))?)
}

/// `NAME JSON`: the text of the answer.
pub(crate) fn tool(argument: &str) -> Result<(), SkillError> {
    let (name, arguments) = named(argument)?;
    tell(tools::invoke(name, &arguments).map(said))
}

/// `N NAME JSON`: what came of each of so many calls at once, one a line.
pub(crate) fn tools_many(argument: &str) -> Result<(), SkillError> {
    let (count, call) = divide(argument, ' ');
    let (name, arguments) = named(call)?;
    let count = number::<u32>(count, 1)?;
    let calls: Vec<Call> = (0..count).map(|_| Call::new(name, &arguments)).collect();
    let answers = tools::invoke_all(&calls, count).into_iter();
    let lines = answers.map(|answer| match answer {
        Ok(answer) => said(answer),
        Err(error) => refusal(&error),
    });
    Ok(session::emit_text(&lines.collect::<Vec<_>>().join("\n"))?)
}

/// Asks a model and tells its answer as a whole.
pub(crate) fn ask(prompt: &str) -> Result<(), SkillError> {
    tell(llm::generate(&request(prompt)).map(|response| response.text()))
}

/// Asks a model and tells its answer as it comes, then why it broke off, if it did.
pub(crate) fn stream(prompt: &str) -> Result<(), SkillError> {
    let completion = match llm::start(&request(prompt)) {
        Ok(completion) => completion,
        Err(error) => return tell(Err(error)),
    };
    for chunk in completion {
        match chunk {
            Ok(Chunk::Text(text)) => session::emit_text(&text)?,
            Ok(Chunk::ToolUse(_) | Chunk::Done(_)) => {}
            Err(error) => tell(Err(error))?,
        }
    }
    Ok(())
}

/// `NAME JSON`: the result of another skill.
pub(crate) fn skill(argument: &str) -> Result<(), SkillError> {
    let (name, input) = named(argument)?;
    tell(handoff::invoke::<Value>(name, &input).map(|result| result.to_string()))
}

/// Asks a person: `approved` or `rejected`, and after a colon the reason, if there is one.
pub(crate) fn approve(prompt: &str) -> Result<(), SkillError> {
    let decision = approval::request(prompt, &Value::Null).map(|decision| {
        let decided = if decision.approved {
            "approved"
        } else {
            "rejected"
        };
        match decision.reason.as_str() {
            "" => decided.to_owned(),
            reason => format!("{decided}: {reason}"),
        }
    });
    tell(decision)
}

/// Asks whoever watches to allow or to deny: the id of what was chosen.
pub(crate) fn permission(title: &str) -> Result<(), SkillError> {
    let options = [("allow", "Allow"), ("deny", "Deny")];
    let details = json!({ "verb": "permission" });
    tell(session::request_permission(title, &options, &details))
}

fn request(prompt: &str) -> Request {
    Request::new("default").user(prompt)
}

fn said(answer: Answer) -> String {
    if answer.is_error {
        return format!("tool error: {}", answer.text());
    }
    answer.text()
}

/// A name and what it is given; without JSON, an empty object.
fn named(argument: &str) -> Result<(&str, Value), SkillError> {
    let (name, text) = divide(argument, ' ');
    if text.is_empty() {
        return Ok((name, json!({})));
    }
    let value = serde_json::from_str(text).map_err(|error| {
        SkillError::from(HostError::Invalid(format!("{text:?} is no JSON: {error}")))
    })?;
    Ok((name, value))
}
