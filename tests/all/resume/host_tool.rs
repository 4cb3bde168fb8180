//! Tools of the host that ask on behalf of a run.

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::json;
use skillrun::call::{Effect, Question, ToolAnswer, ToolDefinition};
use skillrun::runner::HostToolCall;
use skillrun::tools::{HostTool, ToolError, Toolbox};

use super::library::{Library, Parts, call_tool, calls, said, start, yes};

/// Asks a person, and answers with what was said.
struct Asking;

#[async_trait]
impl HostTool for Asking {
    fn definition(&self) -> ToolDefinition {
        ToolDefinition {
            name: "a__ask".to_owned(),
            description: String::new(),
            input_schema: "{}".to_owned(),
            effect: Effect::Write,
        }
    }

    fn keeps_record(&self) -> bool {
        true
    }

    async fn call(&self, _arguments: &str) -> Result<ToolAnswer, ToolError> {
        let call = HostToolCall::current().unwrap();
        assert_eq!(call.execution_id(), None);
        let question = Question {
            prompt: "Go on?".to_owned(),
            payload: "{}".to_owned(),
            timeout_ms: None,
            needs_answer: false,
        };
        let answer = call.ask(question, Vec::new()).await;
        let answer = answer.map_err(|error| ToolError::Failed(format!("{error:?}")))?;
        Ok(ToolAnswer {
            content: json!([{ "type": "text", "text": answer.text }]).to_string(),
            is_error: false,
        })
    }
}

fn parts() -> Parts {
    let tools = Toolbox::new().with_host_tool(Arc::new(Asking));
    Parts {
        tools: tools.unwrap(),
        ..Parts::default()
    }
}

/// The question is that of the tool; the run gives its instance up meanwhile, and goes on when it is answered.
#[tokio::test]
async fn a_run_is_suspended_while_a_tool_of_the_host_asks() {
    let library = Library::new("[approvals]\nsuspend_after_ms = 1\n");
    let runner = library.runner(parts());
    let started = start(&runner, &calls(&[call_tool("a__ask", &json!({}))])).await;
    let run_id = started.run_id.clone();
    assert_eq!(library.after_ends(&run_id, 1).await, ["suspended"]);
    let gate = runner.decide(&run_id, None, yes()).await.unwrap();
    assert_eq!(gate.approval_id, "approval#t1.1");
    let outcome = started.handle.wait().await.unwrap();
    assert!(
        said(&outcome).to_string().contains("because"),
        "{outcome:?}"
    );
    assert_eq!(library.payloads(&run_id, "approval_request").len(), 1);
    assert_eq!(library.payloads(&run_id, "tool_result").len(), 1);
    library.verifies(&run_id);
    let replayed = library.home.skillrun(&["runs", "replay", run_id.as_str()]);
    assert_eq!(replayed.exit, Some(0), "{replayed:?}");
}
