//! The host, as a test sees it: every call goes to the mock of this thread.

use std::cell::Cell;
use std::collections::VecDeque;

use serde_json::{Value, json};

use crate::approval::{Decision, Question};
use crate::llm::{Chunk, Part, Request, Response};
use crate::log::Level;
use crate::mock::{Seen, current, with};
use crate::recorder::{Event, RecordError};
use crate::session::{PermissionRequest, Update};
use crate::tools::{Answer, Tool};
use crate::{HostError, http};

pub(crate) fn run_id() -> String {
    with(|active| active.mock.run_id.clone())
}

pub(crate) fn parent_id() -> Option<String> {
    with(|active| active.mock.parent_id.clone())
}

pub(crate) fn skill_name() -> String {
    with(|active| active.mock.skill_name.clone())
}

pub(crate) fn skill_body() -> String {
    with(|active| active.mock.skill_body.clone())
}

pub(crate) fn remaining_ms() -> u32 {
    with(|active| active.mock.remaining_ms)
}

pub(crate) fn attempt() -> u32 {
    with(|active| active.mock.attempt)
}

pub(crate) fn log(level: Level, message: &str, fields: &[(&str, &str)]) {
    let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    with(|active| {
        active.see(Seen::Log {
            level,
            message: message.to_owned(),
            fields: fields.iter().map(owned).collect(),
        });
    });
}

pub(crate) fn emit(event: &Event) -> Result<u32, RecordError> {
    with(|active| {
        active.see(Seen::Event(event.clone()));
        Ok(active.next_event())
    })
}

#[derive(Debug)]
pub(crate) struct Node {
    id: String,
    name: String,
    is_ended: Cell<bool>,
}

impl Node {
    pub(crate) fn new(name: &str) -> Self {
        with(|active| {
            let id = format!("step:{name}#{}", active.next_step());
            let name = name.to_owned();
            active.see(Seen::StepEnter {
                id: id.clone(),
                name: name.clone(),
            });
            Self {
                id,
                name,
                is_ended: Cell::new(false),
            }
        })
    }

    pub(crate) fn id(&self) -> String {
        self.id.clone()
    }

    pub(crate) fn end(&self, success: bool) {
        // A step that is dropped after its test has nobody to tell.
        if let Some(active) = current().filter(|_| !self.is_ended.replace(true)) {
            active.see(Seen::StepExit {
                id: self.id.clone(),
                name: self.name.clone(),
                success,
            });
        }
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.end(false);
    }
}

pub(crate) fn available_tools() -> Vec<Tool> {
    let any = |name: &String| Tool {
        name: name.clone(),
        description: String::new(),
        input_schema: json!({ "type": "object" }),
        read_only: false,
        idempotent: false,
    };
    with(|active| match &active.mock.available {
        Some(tools) => tools.clone(),
        None => active.mock.tools.keys().map(any).collect(),
    })
}

pub(crate) fn invoke_tool(name: &str, arguments: &str) -> Result<Answer, HostError> {
    with(|active| {
        let arguments = object(arguments)?;
        active.see(Seen::ToolCall {
            name: name.to_owned(),
            arguments: arguments.clone(),
        });
        match active.mock.tools.get(name) {
            Some(respond) => respond(&arguments),
            None => {
                panic!("the tool {name} is not mocked: add .tool({name:?}, |arguments| Ok(..))")
            }
        }
    })
}

pub(crate) fn invoke_tools(
    calls: Vec<(String, String)>,
    _parallel_max: u32,
) -> Vec<Result<Answer, HostError>> {
    let calls = calls.into_iter();
    calls
        .map(|(name, arguments)| invoke_tool(&name, &arguments))
        .collect()
}

pub(crate) fn generate(request: &Request) -> Result<Response, HostError> {
    with(|active| {
        active.see(Seen::ModelCall(request.clone()));
        if request.messages.is_empty() {
            return Err(HostError::Invalid(
                "a request has at least one message".to_owned(),
            ));
        }
        match &active.mock.model {
            Some(respond) => respond(request),
            None => panic!(
                "the model {} is not mocked: add .model(|request| Ok(..))",
                request.model
            ),
        }
    })
}

pub(crate) fn start(request: &Request) -> Result<Completion, HostError> {
    let response = generate(request)?;
    let mut chunks = VecDeque::new();
    for part in &response.content {
        match part {
            Part::Text(text) => {
                let words = text.split_inclusive(' ');
                chunks.extend(words.map(|word| Chunk::Text(word.to_owned())));
            }
            Part::ToolUse(asked) => chunks.push_back(Chunk::ToolUse(asked.clone())),
            Part::ToolAnswer(_) => {}
        }
    }
    chunks.push_back(Chunk::Done(response));
    let mut chunks: VecDeque<_> = chunks.into_iter().map(Ok).collect();
    let broken = with(|active| active.mock.broken_stream.clone());
    if let Some((after_chunks, error)) = broken.filter(|(after, _)| *after < chunks.len()) {
        chunks.truncate(after_chunks);
        chunks.push_back(Err(error));
    }
    Ok(Completion(chunks))
}

#[derive(Debug)]
pub(crate) struct Completion(VecDeque<Result<Chunk, HostError>>);

impl Completion {
    pub(crate) fn next(&mut self) -> Result<Option<Chunk>, HostError> {
        self.0.pop_front().transpose()
    }
}

pub(crate) fn ask(question: &Question) -> Result<Decision, HostError> {
    with(|active| {
        active.see(Seen::Question(question.clone()));
        match &active.mock.decide {
            Some(decide) => Ok(decide(question)),
            None => panic!("an approval is asked for and not mocked: add .approve(true)"),
        }
    })
}

pub(crate) fn invoke_skill(name: &str, input: &str) -> Result<String, HostError> {
    with(|active| {
        let input = object(input)?;
        active.see(Seen::Handoff {
            skill: name.to_owned(),
            input: input.clone(),
        });
        match active.mock.skills.get(name) {
            Some(respond) => respond(&input).map(|result| result.to_string()),
            None => panic!("the skill {name} is not mocked: add .skill({name:?}, |input| Ok(..))"),
        }
    })
}

pub(crate) fn invoke_skills(
    calls: Vec<(String, String)>,
    _parallel_max: u32,
) -> Vec<Result<String, HostError>> {
    let calls = calls.into_iter();
    calls
        .map(|(name, input)| invoke_skill(&name, &input))
        .collect()
}

pub(crate) fn emit_update(update: &Update) -> Result<(), HostError> {
    with(|active| {
        active
            .mock
            .may_emit
            .as_ref()
            .map_or(Ok(()), |may| may(update))?;
        active.see(Seen::Update(update.clone()));
        Ok(())
    })
}

pub(crate) fn request_permission(request: &PermissionRequest) -> Result<String, HostError> {
    with(|active| {
        active.see(Seen::Permission(request.clone()));
        match &active.mock.choose {
            Some(choose) => choose(request),
            None => panic!(
                "a permission is asked for and not mocked: add .permission(|request| Ok(..))"
            ),
        }
    })
}

#[derive(Debug)]
pub(crate) struct Pending(Result<http::Response, http::Error>);

impl Pending {
    pub(crate) fn wait(self) -> Result<http::Response, http::Error> {
        self.0
    }
}

pub(crate) fn start_request(request: &http::Request) -> Result<Pending, http::Error> {
    with(|active| {
        active.see(Seen::Http(request.clone()));
        match &active.mock.http {
            Some(respond) => Ok(Pending(respond(request))),
            None => panic!(
                "a request to {} is not mocked: add .http(|request| Ok(..))",
                request.url
            ),
        }
    })
}

/// What the host takes for arguments and inputs.
fn object(text: &str) -> Result<Value, HostError> {
    match serde_json::from_str(text) {
        Ok(value @ Value::Object(_)) => Ok(value),
        _ => Err(HostError::Invalid(format!(
            "at $: expected an object, found {text}"
        ))),
    }
}
