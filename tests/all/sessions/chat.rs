//! The agents that talk, in Rust and in TypeScript, with a model, a tool and a person of the test's own making.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use serde_json::json;
use skillrun::call::{
    Message, ModelChunk, ModelRequest, ModelResponse, Part, StopReason, ToolUse, TurnStop, Usage,
};
use skillrun::ledger::{ApprovalDecision, ApprovalSource};
use skillrun::models::{ModelError, ModelProvider, ModelStream, Models};
use skillrun_test_artifacts::CHAT;
use tokio::sync::Semaphore;

use super::agent::Agents;
use crate::harness::Home;
use crate::resume::library::{Parts, eventually, gated};
use crate::wit::examples::CHAT_TS;
use crate::wit::foreign_skill::PATIENT;
use crate::wit::triage::installed;

/// Asks for the tool when it is told to use one, stops in the middle when it is told to wait, and says how much it
/// was told otherwise.
#[derive(Clone, Default)]
struct Model {
    asked: Arc<Mutex<Vec<ModelRequest>>>,
}

struct Pieces {
    /// The next piece last.
    coming: Vec<ModelChunk>,
}

fn response(content: Vec<Part>, stop_reason: StopReason) -> ModelResponse {
    ModelResponse {
        content,
        stop_reason,
        usage: Usage {
            input_tokens: 7,
            output_tokens: 3,
            ..Usage::default()
        },
        model: "m".to_owned(),
    }
}

#[async_trait]
impl ModelProvider for Model {
    async fn generate(&self, _request: &ModelRequest) -> Result<ModelResponse, ModelError> {
        panic!("an answer is wanted as it comes");
    }

    async fn start(&self, request: &ModelRequest) -> Result<Box<dyn ModelStream>, ModelError> {
        self.asked.lock().unwrap().push(request.clone());
        let last = said(request.messages.last().unwrap());
        let coming = if last.ends_with("use it") {
            let wanted = ToolUse {
                id: "u1".to_owned(),
                name: "a__wait".to_owned(),
                arguments: "{}".to_owned(),
            };
            let content = vec![Part::ToolUse(wanted.clone())];
            vec![
                ModelChunk::Done(Box::new(response(content, StopReason::ToolUse))),
                ModelChunk::ToolUse(wanted),
            ]
        } else if last.ends_with("wait") {
            vec![ModelChunk::Text("half ".to_owned())]
        } else {
            let text = format!("told {}", request.messages.len());
            let content = vec![Part::Text(text.clone())];
            vec![
                ModelChunk::Done(Box::new(response(content, StopReason::EndTurn))),
                ModelChunk::Text(text),
            ]
        };
        Ok(Box::new(Pieces { coming }))
    }
}

#[async_trait]
impl ModelStream for Pieces {
    async fn next(&mut self) -> Result<ModelChunk, ModelError> {
        match self.coming.pop() {
            Some(chunk) => Ok(chunk),
            None => std::future::pending().await,
        }
    }

    fn usage(&self) -> Usage {
        Usage::default()
    }
}

/// A message as who says it and what.
fn said(message: &Message) -> String {
    let parts = message.content.iter().map(|part| match part {
        Part::Text(text) => text.clone(),
        Part::ToolUse(wanted) => format!("<{}>", wanted.id),
        Part::ToolAnswer(answer) => format!("{}={}", answer.id, answer.is_error),
    });
    let parts: Vec<String> = parts.collect();
    format!("{:?}: {}", message.role, parts.join(" + "))
}

impl Model {
    /// What it was told the last time.
    fn conversation(&self) -> Vec<String> {
        let asked = self.asked.lock().unwrap();
        asked.last().unwrap().messages.iter().map(said).collect()
    }
}

fn parts(model: &Model) -> Parts {
    let models = Models::new().with_provider("local", Arc::new(model.clone()));
    Parts {
        models,
        ..gated(&Arc::new(Semaphore::new(8)))
    }
}

fn choice(option: &str) -> ApprovalDecision {
    ApprovalDecision {
        approved: true,
        reason: String::new(),
        source: ApprovalSource::Api,
        option: Some(option.to_owned()),
        answer: None,
    }
}

/// Talks, is refused a tool, is allowed it for good, and is taken up.
async fn talks(agents: &Agents) {
    let model = Model::default();
    let runner = agents.runner(parts(&model));
    let metadata = json!({ "model": "local/m", "context_window": 50 });
    let mut live = agents.launch(&runner, &metadata).await;
    let run_id = live.run_id.clone();
    let turn = live.turn("hello").await;
    assert_eq!(turn.stop_reason, TurnStop::EndTurn);
    assert_eq!(turn.usage.output_tokens, 3);

    for option in ["deny", "allow_always"] {
        live.begin("use it").await;
        let store = runner.store().clone();
        let open = || store.gates(&run_id).unwrap().pop();
        eventually("a question", open).await;
        store.decide(&run_id, None, &choice(option)).unwrap();
        assert_eq!(live.ready().await.stop_reason, TurnStop::EndTurn);
    }
    runner.shutdown().await;
    drop(live);

    let runner = agents.runner(parts(&model));
    let mut live = agents.taken_up(&runner, &run_id, 2).await;
    assert_eq!(live.booted().await, 3);
    // It need not be asked about any more.
    live.turn("use it").await;
    let used = ["User: use it", "Assistant: <u1>"];
    let expected: Vec<&str> = ["User: hello", "Assistant: told 1"]
        .into_iter()
        .chain(used)
        .chain(["Tool: u1=true", "Assistant: told 5"])
        .chain(used)
        .chain(["Tool: u1=false", "Assistant: told 9"])
        .chain(used)
        .chain(["Tool: u1=false"])
        .collect();
    assert_eq!(model.conversation(), expected);
    live.finish("done").await.unwrap_err();

    let calls = agents.payloads(&run_id, "tool_call");
    let calls = calls.iter().filter(|call| call["name"] == "a__wait");
    assert_eq!(calls.count(), 2);
    assert_eq!(agents.payloads(&run_id, "approval_request").len(), 2);
    let told = agents.payloads(&run_id, "session_update");
    let windows = told.iter().filter(|told| told["kind"] == "context_window");
    let windows: Vec<_> = windows.map(|told| (&told["used"], &told["size"])).collect();
    assert!(windows.contains(&(&json!(10), &json!(50))), "{windows:?}");
    let explained = told.iter().filter(|told| told["kind"] == "reasoning");
    assert_eq!(explained.count(), 1, "{told:?}");
    agents.verifies(&run_id);
    agents.replays(&run_id);
}

/// Is cancelled while the model speaks, and knows what was said by then.
async fn is_cancelled(agents: &Agents) {
    let model = Model::default();
    let runner = agents.runner(parts(&model));
    let metadata = json!({ "model": "local/m" });
    let mut live = agents.launch(&runner, &metadata).await;
    let run_id = live.run_id.clone();
    let generation = live.begin("wait").await;
    let half = || {
        let said = agents.said(&run_id);
        said.contains(&"half ".to_owned()).then_some(())
    };
    eventually("the beginning of an answer", half).await;
    live.session.cancel_turn(generation);
    let turn = live.ready().await;
    assert_eq!(
        (turn.stop_reason, turn.undone),
        (TurnStop::Cancelled, false)
    );
    live.turn("and now?").await;
    let expected = ["User: wait", "Assistant: half ", "User: and now?"];
    assert_eq!(model.conversation(), expected);
    live.finish("done").await.unwrap_err();
    agents.verifies(&run_id);
    agents.replays(&run_id);
}

#[tokio::test]
async fn chat_talks_uses_tools_asks_and_is_taken_up() {
    talks(&Agents::of("chat", Home::new(&[CHAT]), "")).await;
}

#[tokio::test]
async fn chat_that_is_cancelled_keeps_what_was_said() {
    is_cancelled(&Agents::of("chat", Home::new(&[CHAT]), "")).await;
}

#[tokio::test]
async fn chat_in_typescript_does_the_same() {
    let agents = Agents::of("chat-ts", installed(&CHAT_TS), PATIENT);
    talks(&agents).await;
    is_cancelled(&agents).await;
}
