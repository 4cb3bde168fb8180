//! What a case puts in the place of tools, models and other skills. A call that it has no answer for is
//! a complaint, whatever the skill makes of the refusal.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;

use super::case::{ModelReply, Said, SkillMock, ToolMock, ToolReply};
use crate::call::{
    ModelChunk, ModelRequest, ModelResponse, Part, ToolAnswer, ToolDefinition, Usage,
};
use crate::capability::Capability;
use crate::limits::LimitError;
use crate::models::{ModelError, ModelName, ModelProvider, ModelStream, Models};
use crate::runner::{
    Executor, ExecutorError, JsonObject, RunContext, RunProfile, SkillExecutor, Terms,
    ToolCallResult,
};
use crate::tools::{HostTool, ToolError, ToolNameError, Toolbox};

/// Complaints that are kept of one case. Protects the screen from a skill that calls in a loop.
const COMPLAINTS_MAX: usize = 20;
/// What stands in a mocked model's name for what the manifest leaves open.
const ANY_PART: &str = "mock";
/// What a guest is told about a call that the case does not mock.
const NOT_MOCKED: &str = "the case has no answer for this call";

/// What a case has no answer for.
#[derive(Debug, Clone, Default)]
pub(super) struct Complaints(Arc<Mutex<Vec<String>>>);

impl Complaints {
    pub(super) fn add(&self, complaint: String) {
        let mut complaints = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if complaints.len() < COMPLAINTS_MAX && !complaints.contains(&complaint) {
            complaints.push(complaint);
        }
    }

    pub(super) fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The tools of a case.
///
/// # Errors
/// One has a name that no tool has.
pub(super) fn toolbox(
    tools: BTreeMap<String, ToolMock>,
    complaints: &Complaints,
) -> Result<Toolbox, ToolNameError> {
    let mut toolbox = Toolbox::new();
    for (name, mock) in tools {
        let tool = MockedTool {
            name,
            mock,
            calls: Mutex::default(),
            complaints: complaints.clone(),
        };
        toolbox = toolbox.with_host_tool(Arc::new(tool))?;
    }
    Ok(toolbox)
}

struct MockedTool {
    name: String,
    mock: ToolMock,
    calls: Mutex<usize>,
    complaints: Complaints,
}

#[async_trait]
impl HostTool for MockedTool {
    fn definition(&self) -> ToolDefinition {
        ToolDefinition {
            name: self.name.clone(),
            description: String::new(),
            input_schema: self.mock.schema.clone(),
            effect: self.mock.effect,
        }
    }

    async fn call(&self, _arguments: &str) -> Result<ToolAnswer, ToolError> {
        let call = {
            let mut calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
            let call = *calls;
            *calls = call.saturating_add(1);
            call
        };
        let replies = &self.mock.replies;
        let reply = match self.mock.repeats {
            true => replies.first(),
            false => replies.get(call),
        };
        match reply {
            Some(ToolReply::Answers(answer)) => Ok(answer.clone()),
            Some(ToolReply::Fails(message)) => Err(ToolError::Failed(message.clone())),
            None => {
                let (name, answers) = (&self.name, replies.len());
                self.complaints.add(format!(
                    "tool {name} was called more often than it has answers ({answers}): add one to \
                     tools.{name}"
                ));
                Err(ToolError::Failed(NOT_MOCKED.to_owned()))
            }
        }
    }
}

/// The models of a case: whichever is asked, the next answer is given. A name without a provider stands for
/// the first model that the skill asks for.
pub(super) fn models(
    replies: Vec<ModelReply>,
    requested: &[Capability],
    complaints: &Complaints,
) -> Models {
    let concrete = |part: &str| part.replace('*', ANY_PART);
    let first = requested.iter().find_map(|capability| match capability {
        Capability::Llm { provider, model } => Some((concrete(provider), concrete(model))),
        _ => None,
    });
    let (provider, model) = first.unwrap_or_else(|| (ANY_PART.to_owned(), ANY_PART.to_owned()));
    let mocked = MockedModels {
        answers: replies.len(),
        replies: Mutex::new(replies.into()),
        complaints: complaints.clone(),
    };
    Models::new().with_stand_in(ModelName { provider, model }, Arc::new(mocked))
}

struct MockedModels {
    /// How many there were at first.
    answers: usize,
    replies: Mutex<VecDeque<ModelReply>>,
    complaints: Complaints,
}

#[async_trait]
impl ModelProvider for MockedModels {
    async fn generate(&self, request: &ModelRequest) -> Result<ModelResponse, ModelError> {
        let mut replies = self.replies.lock().unwrap_or_else(PoisonError::into_inner);
        match replies.pop_front() {
            Some(ModelReply::Answers {
                said,
                stop_reason,
                usage,
            }) => Ok(ModelResponse {
                content: vec![match said {
                    Said::Text(text) => Part::Text(text),
                    Said::ToolUse(tool) => Part::ToolUse(tool),
                }],
                stop_reason,
                usage,
                model: request.model.clone(),
            }),
            Some(ModelReply::Fails(message)) => Err(ModelError::Failed(message)),
            None => {
                let answers = self.answers;
                self.complaints.add(format!(
                    "models were asked more often than there are answers ({answers}): add one to models"
                ));
                Err(ModelError::Failed(NOT_MOCKED.to_owned()))
            }
        }
    }

    async fn start(&self, request: &ModelRequest) -> Result<Box<dyn ModelStream>, ModelError> {
        let response = self.generate(request).await?;
        let mut chunks = VecDeque::new();
        for part in &response.content {
            match part {
                // Word by word, so that a skill that takes the first piece for the whole is found out.
                Part::Text(text) => {
                    let words = text.split_inclusive(' ');
                    chunks.extend(words.map(|word| ModelChunk::Text(word.to_owned())));
                }
                Part::ToolUse(tool) => chunks.push_back(ModelChunk::ToolUse(tool.clone())),
                Part::ToolAnswer(_) => {}
            }
        }
        let usage = response.usage;
        chunks.push_back(ModelChunk::Done(Box::new(response)));
        Ok(Box::new(MockedStream { chunks, usage }))
    }
}

struct MockedStream {
    chunks: VecDeque<ModelChunk>,
    usage: Usage,
}

#[async_trait]
impl ModelStream for MockedStream {
    async fn next(&mut self) -> Result<ModelChunk, ModelError> {
        let over = || ModelError::Failed("the answer is over".to_owned());
        self.chunks.pop_front().ok_or_else(over)
    }

    fn usage(&self) -> Usage {
        self.usage
    }
}

/// Carries out the skill under test, and answers for those that it hands work to.
pub(super) struct MockedSkills {
    pub(super) tested: SkillExecutor,
    pub(super) skills: BTreeMap<String, SkillMock>,
    pub(super) complaints: Complaints,
}

#[async_trait]
impl Executor for MockedSkills {
    async fn call_tool(
        &self,
        cx: &RunContext,
        name: &str,
        arguments: JsonObject,
    ) -> Result<ToolCallResult, ExecutorError> {
        if cx.depth() == 0 {
            return self.tested.call_tool(cx, name, arguments).await;
        }
        match self.skills.get(name) {
            Some(SkillMock::Answers(output)) => Ok(ToolCallResult::json(output.clone())),
            Some(SkillMock::Fails(message)) => Ok(ToolCallResult {
                is_error: true,
                ..ToolCallResult::text(message.clone())
            }),
            None => {
                self.complaints.add(format!(
                    "skill {name} was called and is not mocked: add skills.{name}"
                ));
                Err(ExecutorError::NotFound {
                    name: name.to_owned(),
                    nearest: None,
                })
            }
        }
    }

    fn profile(&self, name: &str, terms: &Terms) -> Result<RunProfile, LimitError> {
        self.tested.profile(name, terms)
    }
}
