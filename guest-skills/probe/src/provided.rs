//! Whole use of what others provide: tools with arguments, models as a whole and in pieces, questions.

use serde::Deserialize;
use serde_json::{Value, json};
use skillrun_sdk::bindings::skillrun::skill::types::HostError;
use skillrun_sdk::bindings::skillrun::skill::{approval, handoff, llm, tools};
use skillrun_sdk::{SkillError, log};

/// One call, with everything about it said.
#[derive(Deserialize)]
#[serde(tag = "call", rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum Call {
    /// Which tools there are.
    Available {},
    /// A tool.
    Tool { name: String, arguments: String },
    /// Tools, at once.
    Tools {
        calls: Vec<(String, String)>,
        parallel_max: u32,
    },
    /// A model, as a whole.
    Model {
        model: String,
        output_schema: Option<String>,
        output_tokens_max: Option<u32>,
    },
    /// A model, in pieces, of which at most so many are read; what is left is let go of, or kept for ever.
    Stream {
        model: String,
        pieces_max: usize,
        #[serde(default)]
        is_kept: bool,
        /// Whether each piece is logged as it comes.
        #[serde(default)]
        is_logged: bool,
    },
    /// A person.
    Ask {
        prompt: String,
        payload: String,
        timeout_ms: Option<u32>,
    },
    /// Another skill.
    Skill { skill: String, input: String },
    /// Other skills, at once.
    Skills {
        calls: Vec<(String, String)>,
        parallel_max: u32,
    },
    /// Something else, of which it logs what came of it.
    Noted { verb: Box<crate::Verb> },
}

/// Makes calls one after another and tells what came of each.
pub(crate) fn make(calls: Vec<Call>) -> Value {
    calls.into_iter().map(one).collect()
}

/// Makes one call; a refusal ends the run.
pub(crate) fn insist(call: Call) -> Result<Value, SkillError> {
    let made = one(call);
    if made["error"]["kind"] == "denied" {
        return Err(SkillError::new(made["error"].to_string()).with_code("denied"));
    }
    if made["ok"]["approved"] == false {
        return Err(SkillError::new("they said no").with_code("rejected"));
    }
    Ok(made)
}

fn one(call: Call) -> Value {
    match call {
        Call::Available {} => available(),
        Call::Tool { name, arguments } => told(tools::invoke(&name, &arguments).map(answer)),
        Call::Tools {
            calls,
            parallel_max,
        } => {
            let calls: Vec<tools::Call> = calls
                .into_iter()
                .map(|(name, arguments)| tools::Call { name, arguments })
                .collect();
            let answers = tools::invoke_all(&calls, parallel_max).into_iter();
            answers.map(|result| told(result.map(answer))).collect()
        }
        Call::Model {
            model,
            output_schema,
            output_tokens_max,
        } => {
            let mut request = request(model);
            request.output_schema = output_schema;
            request.output_tokens_max = output_tokens_max;
            told(llm::generate(&request).map(response))
        }
        Call::Stream {
            model,
            pieces_max,
            is_kept,
            is_logged,
        } => told(stream(model, pieces_max, is_kept, is_logged)),
        Call::Ask {
            prompt,
            payload,
            timeout_ms,
        } => told(
            approval::request(&approval::Question {
                prompt,
                payload,
                timeout_ms,
            })
            .map(|decision| {
                json!({
                    "approved": decision.approved,
                    "reason": decision.reason,
                    "automatic": decision.automatic,
                })
            }),
        ),
        Call::Skill { skill, input } => told(handoff::invoke(&skill, &input).map(Value::String)),
        Call::Skills {
            calls,
            parallel_max,
        } => {
            let calls: Vec<handoff::Call> = calls
                .into_iter()
                .map(|(skill, input)| handoff::Call { skill, input })
                .collect();
            let results = handoff::invoke_all(&calls, parallel_max).into_iter();
            results
                .map(|result| told(result.map(Value::String)))
                .collect()
        }
        Call::Noted { verb } => noted(*verb),
    }
}

fn available() -> Value {
    let tools = tools::available().into_iter().map(|tool| {
        json!({ "name": tool.name, "read_only": tool.read_only, "idempotent": tool.idempotent })
    });
    json!({ "ok": tools.collect::<Vec<Value>>() })
}

fn noted(verb: crate::Verb) -> Value {
    let done = match <crate::Probe as skillrun_sdk::Skill>::run(verb) {
        Ok(value) => json!({ "ok": value }),
        Err(error) => json!({ "error": format!("{error:?}") }),
    };
    log::info(&done.to_string());
    done
}

fn answer(answer: tools::Answer) -> Value {
    json!({ "content": answer.content, "is_error": answer.is_error })
}

fn request(model: String) -> llm::Request {
    llm::Request {
        model,
        system: Some("be brief".to_owned()),
        messages: vec![llm::Message {
            role: llm::Role::User,
            content: vec![llm::Part::Text("hello".to_owned())],
        }],
        tools: Vec::new(),
        output_tokens_max: None,
        temperature: Some(0.5),
        stop: Vec::new(),
        output_schema: None,
    }
}

fn response(response: llm::Response) -> Value {
    json!({
        "text": text(&response.content),
        "model": response.model,
        "input_tokens": response.usage.input_tokens,
        "output_tokens": response.usage.output_tokens,
        "cost_usd": response.usage.cost_usd,
    })
}

fn text(parts: &[llm::Part]) -> String {
    let texts = parts.iter().filter_map(|part| match part {
        llm::Part::Text(text) => Some(text.as_str()),
        llm::Part::ToolUse(_) | llm::Part::ToolAnswer(_) => None,
    });
    texts.collect()
}

fn stream(
    model: String,
    pieces_max: usize,
    is_kept: bool,
    is_logged: bool,
) -> Result<Value, HostError> {
    let completion = llm::start(&request(model))?;
    let mut pieces = Vec::new();
    while pieces.len() < pieces_max {
        match completion.next()? {
            None => break,
            Some(llm::Chunk::Text(text)) => {
                if is_logged {
                    log::info(&text);
                }
                pieces.push(json!(text));
            }
            Some(llm::Chunk::ToolUse(tool)) => pieces.push(json!({ "tool": tool.name })),
            Some(llm::Chunk::Done(whole)) => pieces.push(json!({ "done": text(&whole.content) })),
        }
    }
    if is_kept {
        std::mem::forget(completion);
    }
    Ok(json!(pieces))
}

fn told(result: Result<Value, HostError>) -> Value {
    match result {
        Ok(value) => json!({ "ok": value }),
        Err(error) => json!({ "error": told_error(error) }),
    }
}

fn told_error(error: HostError) -> Value {
    let (kind, detail) = match error {
        HostError::Denied(capability) => ("denied", json!(capability)),
        HostError::NotFound(name) => ("not_found", json!(name)),
        HostError::Invalid(what) => ("invalid", json!(what)),
        HostError::Ambiguous(names) => ("ambiguous", json!(names)),
        HostError::Failed(message) => ("failed", json!(message)),
        HostError::TimedOut(limit_ms) => ("timed_out", json!(limit_ms)),
        HostError::Exhausted(bound) => ("exhausted", json!(bound)),
        HostError::Cancelled => ("cancelled", Value::Null),
    };
    json!({ "kind": kind, "detail": detail })
}
