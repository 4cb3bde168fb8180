//! A conversation with a model: streamed answers, tools between them, and all that was said kept in memory
//! alone, so that a run which goes on after it was cut off has to come by it again.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use skillrun_sdk::bindings::skillrun::skill::recorder as events;
use skillrun_sdk::llm::{self, Message, Request};
use skillrun_sdk::{SkillError, recorder, tools};

/// Answers to one line at most; protects the run from a model that never has enough.
const ANSWERS_MAX: usize = 8;

/// Says one line after the other and tells what the model said in the end to each, how much was said, and
/// what the guest had from its clock and its randomness before all that: on record as well, so that the two
/// can be compared.
pub(crate) fn converse(lines: &[String]) -> Result<Value, SkillError> {
    let began = SystemTime::now().duration_since(UNIX_EPOCH);
    let began = json!({
        "micros": began.map(|since| since.as_micros().to_string()).unwrap_or_default(),
        "chance": RandomState::new().build_hasher().finish().to_string(),
    });
    // What the host says to a second event is of no interest here.
    let _seq = events::emit(&events::Event::Custom(events::Custom {
        name: "began".to_owned(),
        payload: began.to_string(),
    }));
    let offers = tools::available();
    let mut request = Request::new("default").system("Be brief.");
    for offer in offers {
        request = request.tool(offer);
    }
    let mut answers = Vec::new();
    for line in lines {
        request = request.user(line);
        answers.push(recorder::step("turn", || turn(&mut request))?);
    }
    Ok(json!({
        "began": began,
        "answers": answers,
        "messages": request.messages.len(),
    }))
}

fn turn(request: &mut Request) -> Result<String, SkillError> {
    for _ in 0..ANSWERS_MAX {
        let mut text = String::new();
        let response = llm::start(request)?.for_each_text(|piece| text.push_str(piece))?;
        let uses: Vec<_> = response.tool_uses().cloned().collect();
        request.messages.push(response.into_message());
        if uses.is_empty() {
            return Ok(text);
        }
        for asked in &uses {
            let answer = tools::invoke(&asked.name, &asked.arguments)?;
            request.messages.push(Message::tool(asked, &answer));
        }
    }
    Err(SkillError::new("the model never has enough"))
}
