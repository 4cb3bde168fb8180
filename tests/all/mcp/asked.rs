//! A client of the SDK that can be asked: questions and tasks, in both eras and over both transports.

#![expect(
    deprecated,
    reason = "clients of 2025-11-25 and older are still asked for samples and roots"
)]

use std::collections::BTreeMap;
use std::time::Duration;

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CancelTaskParams, ClientCapabilities, ClientConfig,
    CreateMessageRequestParams, CreateMessageResult, CreateTaskResult, ElicitRequestParams,
    ElicitResult, ElicitationAction, ErrorData, GetTaskParams, Implementation, ListRootsResult,
    Root, SamplingMessage, TaskPayload, TaskStatus, UpdateTaskParams,
};
use rmcp::service::{RequestContext, RunningService};
use rmcp::{ClientHandler, RoleClient};
use serde_json::{Value, json};
use tokio::time::timeout;

use super::fixtures;
use super::peer::{ERAS, Era, daemon, object, over_http, over_stdio, refused};
use crate::harness::Home;

/// How long a task may take before a test gives up.
const TASK_MAX: Duration = Duration::from_secs(60);

/// Whoever sits at the client, and the model that it has.
#[derive(Clone)]
struct Person {
    can: ClientCapabilities,
}

impl ClientHandler for Person {
    fn get_info(&self) -> ClientConfig {
        let own = Implementation::new("skillrun-tests", "0");
        ClientConfig::new(self.can.clone(), own)
    }

    async fn create_elicitation(
        &self,
        request: ElicitRequestParams,
        _cx: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        let form = serde_json::to_value(request).unwrap();
        let fields = form["requestedSchema"]["properties"].as_object().unwrap();
        let filled = fields.iter().map(|(name, field)| {
            let value = match field["type"] == "boolean" {
                true => json!(true),
                false => json!(format!("a {name}")),
            };
            (name.clone(), value)
        });
        let content = Value::Object(filled.collect());
        Ok(ElicitResult::new(ElicitationAction::Accept).with_content(content))
    }

    async fn create_message(
        &self,
        _params: CreateMessageRequestParams,
        _cx: RequestContext<RoleClient>,
    ) -> Result<CreateMessageResult, ErrorData> {
        let message = SamplingMessage::assistant_text("Paris");
        Ok(CreateMessageResult::new(message, "test-model".to_owned()))
    }

    async fn list_roots(
        &self,
        _cx: RequestContext<RoleClient>,
    ) -> Result<ListRootsResult, ErrorData> {
        Ok(ListRootsResult::new(vec![Root::new("file:///work")]))
    }
}

type Client = RunningService<RoleClient, Person>;

fn call(tool: &'static str, arguments: Value) -> CallToolRequestParams {
    CallToolRequestParams::new(tool).with_arguments(object(arguments))
}

async fn text(client: &Client, tool: &'static str, arguments: Value) -> String {
    let result = client.call_tool(call(tool, arguments)).await.unwrap();
    let result = serde_json::to_value(result).unwrap();
    assert_ne!(result["isError"], true, "{result}");
    result["content"][0]["text"].as_str().unwrap().to_owned()
}

/// The SDK answers for its person, whichever way it is asked.
async fn questions_are_answered(client: &Client, era: Era) {
    let told = text(client, "test_elicitation", json!({ "message": "Who?" })).await;
    assert!(told.contains(r#""username":"a username""#), "{told}");
    let told = text(client, "test_sampling", json!({ "prompt": "Capital?" })).await;
    assert_eq!(told, "LLM response: Paris");
    let told = text(client, "test_input_required_result_list_roots", json!({})).await;
    assert!(told.contains("file:///work"), "{told}");
    let told = text(client, "test_input_required_result_multi_round", json!({})).await;
    assert_eq!(told, "a name likes a color.");

    if era == Era::Stateless {
        let asked = call("test_input_required_result_elicitation", json!({}));
        let asked = client.call_tool_once(asked).await.unwrap();
        let CallToolResponse::InputRequired(asked) = asked else {
            panic!("{asked:?}");
        };
        assert!(asked.request_state.is_some(), "{asked:?}");
        let asked = asked.input_requests.unwrap();
        assert_eq!(asked.keys().collect::<Vec<_>>(), ["user_name"]);
    }
}

async fn begun(client: &Client, tool: &'static str, arguments: Value) -> String {
    let answer = client.call_tool_once(call(tool, arguments)).await.unwrap();
    let CallToolResponse::Task(CreateTaskResult { task, .. }) = answer else {
        panic!("{answer:?}");
    };
    task.task_id
}

/// Asks after a task until it has that status.
async fn until(client: &Client, id: &str, status: TaskStatus) -> TaskPayload {
    let asking = async {
        loop {
            let got = client.get_task(GetTaskParams::new(id)).await.unwrap();
            if got.task.status() == status {
                return got.task.payload;
            }
            tokio::task::yield_now().await;
        }
    };
    timeout(TASK_MAX, asking).await.unwrap()
}

async fn tasks_go_their_way(client: &Client) {
    let slow = json!({ "seconds": 0.1, "label": "a" });
    let id = begun(client, "slow_compute", slow).await;
    let TaskPayload::Completed { result } = until(client, &id, TaskStatus::Completed).await else {
        panic!("it has no result");
    };
    assert_eq!(result["content"][0]["text"], "a took 0.1 s");

    let id = begun(client, "confirm_delete", json!({ "filename": "a.txt" })).await;
    let asked = until(client, &id, TaskStatus::InputRequired).await;
    let TaskPayload::InputRequired { input_requests } = asked else {
        panic!("{asked:?}");
    };
    assert_eq!(input_requests.keys().collect::<Vec<_>>(), ["confirm"]);
    let yes = json!({ "action": "accept", "content": { "confirm": true } });
    let answers = BTreeMap::from([("confirm".to_owned(), yes)]);
    let answer = UpdateTaskParams::new(&*id, answers);
    client.update_task(answer).await.unwrap();
    let TaskPayload::Completed { result } = until(client, &id, TaskStatus::Completed).await else {
        panic!("it has no result");
    };
    assert_eq!(result["content"][0]["text"], "a.txt would be gone.");

    let endless = json!({ "seconds": 3600, "label": "b" });
    let id = begun(client, "slow_compute", endless).await;
    let cancel = CancelTaskParams::new(&*id);
    client.cancel_task(cancel).await.unwrap();
    until(client, &id, TaskStatus::Cancelled).await;
    let none = client.get_task(GetTaskParams::new("none")).await;
    assert_eq!(refused(none).code.0, -32602);
}

/// Has a client of each era over each transport do the same.
async fn each(home: &Home, person: Person, tasks: bool) {
    let daemon = daemon(home);
    for era in ERAS {
        let (on_stdio, _process) = over_stdio(home, era, person.clone()).await;
        let over_http = over_http(&daemon, era, person.clone()).await;
        for client in [&on_stdio, &over_http] {
            match tasks {
                true => tasks_go_their_way(client).await,
                false => questions_are_answered(client, era).await,
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn questions_of_skills_reach_the_client() {
    let can = ClientCapabilities::builder()
        .enable_roots()
        .enable_sampling()
        .enable_elicitation();
    let can = can.build();
    each(&fixtures::home(), Person { can }, false).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tasks_are_asked_after_answered_and_cancelled() {
    let can = ClientCapabilities::builder()
        .enable_elicitation()
        .enable_tasks();
    let can = can.build();
    each(&fixtures::home(), Person { can }, true).await;
}
