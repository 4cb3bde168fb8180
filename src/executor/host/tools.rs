use futures_util::StreamExt as _;

use crate::call::{self, Effect};
use crate::executor::bindings::skillrun::skill::tools::{Answer, Call, Host, HostError, Tool};
use crate::executor::state::HostState;

impl Host for HostState {
    async fn available(&mut self) -> wasmtime::Result<Vec<Tool>> {
        self.take_host_calls(1)?;
        let tools = self.record.host().provided().tools().await;
        // A guest that cannot be told of any tool has none.
        let tools = self.answered(tools)?.unwrap_or_default();
        Ok(tools.into_iter().map(offered).collect())
    }

    async fn invoke(
        &mut self,
        name: String,
        arguments: String,
    ) -> wasmtime::Result<Result<Answer, HostError>> {
        self.take_host_calls(1)?;
        let answer = self
            .record
            .host()
            .provided()
            .call_tool(&name, &arguments)
            .await;
        self.answered(answer.map(Answer::from))
    }

    async fn invoke_all(
        &mut self,
        calls: Vec<Call>,
        parallel_max: u32,
    ) -> wasmtime::Result<Vec<Result<Answer, HostError>>> {
        self.take_host_calls(calls.len())?;
        let host = self.record.host().provided();
        let mut begun = Vec::new();
        for call in &calls {
            begun.push(host.call_tool(&call.name, &call.arguments));
        }
        let answers: Vec<_> = futures_util::stream::iter(begun)
            .buffered(self.parallel_calls(parallel_max))
            .collect()
            .await;
        let answers = answers.into_iter();
        answers
            .map(|answer| self.answered(answer.map(Answer::from)))
            .collect()
    }
}

fn offered(tool: call::ToolDefinition) -> Tool {
    Tool {
        name: tool.name,
        description: tool.description,
        input_schema: tool.input_schema,
        read_only: tool.effect == Effect::Read,
        idempotent: matches!(tool.effect, Effect::Read | Effect::Idempotent),
    }
}

impl From<call::ToolAnswer> for Answer {
    fn from(answer: call::ToolAnswer) -> Self {
        Self {
            content: answer.content,
            is_error: answer.is_error,
        }
    }
}
