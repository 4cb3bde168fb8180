//! The host, as a component sees it: from the SDK's types to the bindings and back.

mod convert;
mod wire;

use convert::{completion_chunk, llm_request, llm_response, results, tool_answer};
pub(crate) use wire::{Pending, start_request};

use crate::HostError;
use crate::agent_bindings::skillrun::skill::session;
use crate::approval::{Decision, Question};
use crate::bindings::skillrun::skill;
use crate::llm::{Chunk, Request, Response};
use crate::log::Level;
use crate::recorder::{Event, RecordError};
use crate::session::{PermissionRequest, Update};
use crate::tools::{Answer, Tool};

pub(crate) use skill::run::{
    attempt, id as run_id, parent_id, remaining_ms, skill_body, skill_name,
};

pub(crate) fn log(level: Level, message: &str, fields: &[(&str, &str)]) {
    let fields: Vec<(String, String)> = fields
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect();
    skill::log::write(level.into(), message, &fields);
}

pub(crate) fn emit(event: &Event) -> Result<u32, RecordError> {
    skill::recorder::emit(&event.into()).map_err(RecordError::from)
}

#[derive(Debug)]
pub(crate) struct Node(skill::recorder::Node);

impl Node {
    pub(crate) fn new(name: &str) -> Self {
        Self(skill::recorder::Node::new(name))
    }

    pub(crate) fn id(&self) -> String {
        self.0.id()
    }

    pub(crate) fn end(&self, success: bool) {
        self.0.end(success);
    }
}

pub(crate) fn available_tools() -> Vec<Tool> {
    skill::tools::available()
        .into_iter()
        .map(Tool::from)
        .collect()
}

pub(crate) fn invoke_tool(name: &str, arguments: &str) -> Result<Answer, HostError> {
    tool_answer(skill::tools::invoke(name, arguments)?)
}

pub(crate) fn invoke_tools(
    calls: Vec<(String, String)>,
    parallel_max: u32,
) -> Vec<Result<Answer, HostError>> {
    let calls: Vec<skill::tools::Call> = calls
        .into_iter()
        .map(|(name, arguments)| skill::tools::Call { name, arguments })
        .collect();
    results(skill::tools::invoke_all(&calls, parallel_max), tool_answer)
}

pub(crate) fn generate(request: &Request) -> Result<Response, HostError> {
    llm_response(skill::llm::generate(&llm_request(request))?)
}

pub(crate) fn start(request: &Request) -> Result<Completion, HostError> {
    Ok(Completion(skill::llm::start(&llm_request(request))?))
}

#[derive(Debug)]
pub(crate) struct Completion(skill::llm::Completion);

impl Completion {
    pub(crate) fn next(&mut self) -> Result<Option<Chunk>, HostError> {
        self.0.next()?.map(completion_chunk).transpose()
    }
}

pub(crate) fn ask(question: &Question) -> Result<Decision, HostError> {
    let decision = skill::approval::request(&skill::approval::Question {
        prompt: question.prompt.clone(),
        payload: question.payload.clone(),
        timeout_ms: question.timeout_ms,
    })?;
    Ok(Decision {
        approved: decision.approved,
        reason: decision.reason,
        automatic: decision.automatic,
    })
}

pub(crate) fn invoke_skill(name: &str, input: &str) -> Result<String, HostError> {
    Ok(skill::handoff::invoke(name, input)?)
}

pub(crate) fn invoke_skills(
    calls: Vec<(String, String)>,
    parallel_max: u32,
) -> Vec<Result<String, HostError>> {
    let calls: Vec<skill::handoff::Call> = calls
        .into_iter()
        .map(|(skill, input)| skill::handoff::Call { skill, input })
        .collect();
    results(skill::handoff::invoke_all(&calls, parallel_max), Ok)
}

pub(crate) fn emit_update(update: &Update) -> Result<(), HostError> {
    Ok(session::emit(&update.into())?)
}

pub(crate) fn request_permission(request: &PermissionRequest) -> Result<String, HostError> {
    let options = request
        .options
        .iter()
        .map(|option| session::PermissionOption {
            id: option.id.clone(),
            label: option.label.clone(),
        });
    let options: Vec<session::PermissionOption> = options.collect();
    Ok(session::request_permission(
        &request.title,
        &options,
        &request.details,
    )?)
}
