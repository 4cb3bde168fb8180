//! What a guest asks of others, answered by whoever is there, with both sides on record.

use futures_util::future::BoxFuture;

use super::Journal;
use crate::call::{Decision, ModelRequest, ModelResponse, Question, ToolAnswer, ToolDefinition};
use crate::capability::{Capability, tool_matches};
use crate::executor::{Answer, CallError, ModelAnswer, Provided};

impl Journal {
    /// The refusal of a call that the policy does not allow.
    pub(super) fn denied(&self, capability: String, wanted: &str) -> CallError {
        CallError::Denied {
            rule: self.policy.rule(&capability),
            capability,
            wanted: wanted.to_owned(),
        }
    }

    fn allows(&self, is_allowed: impl Fn(&Capability) -> bool) -> bool {
        self.policy.effective.iter().any(is_allowed)
    }
}

fn ready<T: Send + 'static>(error: CallError) -> Answer<'static, T> {
    Box::pin(std::future::ready(Err(error)))
}

impl Provided for Journal {
    fn tools(&self) -> BoxFuture<'_, Vec<ToolDefinition>> {
        Box::pin(std::future::ready(Vec::new()))
    }

    fn call_tool<'a>(&'a self, name: &'a str, _arguments: &'a str) -> Answer<'a, ToolAnswer> {
        let is_allowed = |capability: &Capability| matches!(capability, Capability::Tool { pattern } if tool_matches(pattern, name));
        if self.allows(is_allowed) {
            return ready(CallError::NotFound(name.to_owned()));
        }
        ready(self.denied(format!("tool:{name}"), name))
    }

    fn ask_model(&self, request: ModelRequest) -> Answer<'_, ModelResponse> {
        ready(self.denied(format!("llm:{}", request.model), &request.model))
    }

    fn start_model(&self, request: ModelRequest) -> Answer<'_, Box<dyn ModelAnswer>> {
        ready(self.denied(format!("llm:{}", request.model), &request.model))
    }

    fn ask_approval(&self, question: Question) -> Answer<'_, Decision> {
        ready(self.denied("approval".to_owned(), &question.prompt))
    }

    fn call_skill<'a>(&'a self, skill: &'a str, _input: &'a str) -> Answer<'a, String> {
        ready(self.denied(format!("skill:{skill}"), skill))
    }
}
