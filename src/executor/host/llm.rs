use wasmtime::component::Resource;

use crate::call::{self, Effect};
use crate::executor::bindings::skillrun::skill::llm::{
    Chunk, Host, HostCompletion, HostError, Message, Part, Request, Response, Role, StopReason,
    ToolAnswer, ToolOffer, ToolUse, Usage,
};
use crate::executor::provided::{CallError, ModelAnswer};
use crate::executor::state::HostState;

/// An answer that is still coming; none, once its last piece was given to the guest.
#[expect(
    unreachable_pub,
    reason = "the generated bindings export it again, inside this crate"
)]
pub struct Completion(Option<Box<dyn ModelAnswer>>);

impl Completion {
    /// The answer, when its last piece was not given to the guest.
    pub(crate) fn take(&mut self) -> Option<Box<dyn ModelAnswer>> {
        self.0.take()
    }
}

impl Host for HostState {
    async fn generate(
        &mut self,
        request: Request,
    ) -> wasmtime::Result<Result<Response, HostError>> {
        self.take_host_calls(1)?;
        let request = match self.model_request(request)? {
            Ok(request) => request,
            Err(invalid) => return Ok(Err(invalid)),
        };
        let response = self.record.host().provided().ask_model(request).await;
        self.answered(response.map(Response::from))
    }

    async fn start(
        &mut self,
        request: Request,
    ) -> wasmtime::Result<Result<Resource<Completion>, HostError>> {
        self.take_host_calls(1)?;
        let request = match self.model_request(request)? {
            Ok(request) => request,
            Err(invalid) => return Ok(Err(invalid)),
        };
        let started = self.record.host().provided().start_model(request).await;
        match self.answered(started)? {
            Ok(answer) => Ok(Ok(self.table.push(Completion(Some(answer)))?)),
            Err(error) => Ok(Err(error)),
        }
    }
}

impl HostCompletion for HostState {
    async fn next(
        &mut self,
        completion: Resource<Completion>,
    ) -> wasmtime::Result<Result<Option<Chunk>, HostError>> {
        let Some(answer) = &mut self.table.get_mut(&completion)?.0 else {
            return Ok(Ok(None));
        };
        let next = answer.next().await;
        let is_last = !matches!(
            next,
            Ok(Some(
                call::ModelChunk::Text(_) | call::ModelChunk::ToolUse(_)
            ))
        );
        if is_last {
            self.table.get_mut(&completion)?.0 = None;
        }
        self.answered(next.map(|chunk| chunk.map(Chunk::from)))
    }

    async fn drop(&mut self, completion: Resource<Completion>) -> wasmtime::Result<()> {
        match self.table.delete(completion)?.0.map(ModelAnswer::give_up) {
            None | Some(Ok(())) => Ok(()),
            // What a guest could be told of has no place where a handle is dropped.
            Some(Err(error)) => self.answered(Err::<(), _>(error)).map(|_told| ()),
        }
    }
}

impl HostState {
    /// The question as the host asks it: for no more tokens than the run has left.
    fn model_request(
        &self,
        request: Request,
    ) -> wasmtime::Result<Result<call::ModelRequest, HostError>> {
        let left = self.record.budget().model_tokens_left()?;
        let mut request = call::ModelRequest::from(request);
        request.tokens_left = left;
        match problem_with(&request) {
            Some(problem) => self.answered(Err(CallError::Invalid(problem))),
            None => Ok(Ok(request)),
        }
    }
}

/// What is wrong with a question, whoever it is for.
fn problem_with(request: &call::ModelRequest) -> Option<String> {
    if request.messages.is_empty() {
        return Some("messages is empty: expected at least one".to_owned());
    }
    if request.output_tokens_max == Some(0) {
        return Some("output-tokens-max is 0: expected at least 1".to_owned());
    }
    match request.temperature {
        Some(temperature) if !(0.0..=2.0).contains(&temperature) => {
            Some(format!("temperature is {temperature}: expected 0 to 2"))
        }
        _ => None,
    }
}

impl From<Request> for call::ModelRequest {
    fn from(request: Request) -> Self {
        let offered = |tool: ToolOffer| call::ToolDefinition {
            name: tool.name,
            description: tool.description,
            input_schema: tool.input_schema,
            effect: Effect::default(),
        };
        Self {
            model: request.model,
            system: request.system,
            messages: request.messages.into_iter().map(Into::into).collect(),
            tools: request.tools.into_iter().map(offered).collect(),
            output_tokens_max: request.output_tokens_max.map(u64::from),
            tokens_left: 0,
            temperature: request.temperature,
            stop: request.stop,
            output_schema: request.output_schema,
        }
    }
}

impl From<Message> for call::Message {
    fn from(message: Message) -> Self {
        Self {
            role: match message.role {
                Role::User => call::Role::User,
                Role::Assistant => call::Role::Assistant,
                Role::Tool => call::Role::Tool,
            },
            content: message.content.into_iter().map(Into::into).collect(),
        }
    }
}

impl From<Part> for call::Part {
    fn from(part: Part) -> Self {
        match part {
            Part::Text(text) => Self::Text(text),
            Part::ToolUse(tool) => Self::ToolUse(call::ToolUse {
                id: tool.id,
                name: tool.name,
                arguments: tool.arguments,
            }),
            Part::ToolAnswer(answer) => Self::ToolAnswer(call::ToolUseAnswer {
                id: answer.id,
                content: answer.content,
                is_error: answer.is_error,
            }),
        }
    }
}

impl From<call::Part> for Part {
    fn from(part: call::Part) -> Self {
        match part {
            call::Part::Text(text) => Self::Text(text),
            call::Part::ToolUse(tool) => Self::ToolUse(tool.into()),
            call::Part::ToolAnswer(answer) => Self::ToolAnswer(ToolAnswer {
                id: answer.id,
                content: answer.content,
                is_error: answer.is_error,
            }),
        }
    }
}

impl From<call::ToolUse> for ToolUse {
    fn from(tool: call::ToolUse) -> Self {
        Self {
            id: tool.id,
            name: tool.name,
            arguments: tool.arguments,
        }
    }
}

impl From<call::ModelResponse> for Response {
    fn from(response: call::ModelResponse) -> Self {
        let tokens = |count: u64| u32::try_from(count).unwrap_or(u32::MAX);
        let usage = response.usage;
        Self {
            content: response.content.into_iter().map(Into::into).collect(),
            stop_reason: match response.stop_reason {
                call::StopReason::EndTurn => StopReason::EndTurn,
                call::StopReason::TokenLimit => StopReason::TokenLimit,
                call::StopReason::ToolUse => StopReason::ToolUse,
                call::StopReason::StopSequence => StopReason::StopSequence,
                call::StopReason::Refusal => StopReason::Refusal,
            },
            usage: Usage {
                input_tokens: tokens(usage.input_tokens),
                output_tokens: tokens(usage.output_tokens),
                cache_read_tokens: tokens(usage.cache_read_tokens),
                cache_write_tokens: tokens(usage.cache_write_tokens),
                cost_usd: usage.cost_usd,
            },
            model: response.model,
        }
    }
}

impl From<call::ModelChunk> for Chunk {
    fn from(chunk: call::ModelChunk) -> Self {
        match chunk {
            call::ModelChunk::Text(text) => Self::Text(text),
            call::ModelChunk::ToolUse(tool) => Self::ToolUse(tool.into()),
            call::ModelChunk::Done(response) => Self::Done((*response).into()),
        }
    }
}
