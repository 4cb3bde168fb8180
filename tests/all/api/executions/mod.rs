//! Executions over HTTP, with the agent of the tests.

mod ends;
mod events;
mod life;
mod refusals;
mod workspace;

use serde_json::{Value, json};
use skillrun_test_artifacts::{GREET, PROBE_AGENT};

use super::daemon::{Answer, Client, Daemon};
use crate::harness::{Home, eventually};

/// Where executions are launched and listed.
const EXECUTIONS: &str = "/api/agent/executions";

/// A home with the agent and a skill that is none; `more` is the rest of its configuration.
fn home(more: &str) -> Home {
    let home = Home::new(&[PROBE_AGENT, GREET]);
    home.configure(&format!(
        "[ledger]\ndurability = \"relaxed\"\n[capabilities]\ngrant = [\"approval\"]\n{more}\n"
    ));
    home
}

/// The smallest launch.
fn plain() -> Value {
    json!({ "agent_profile_id": "probe-agent" })
}

/// One that serves a session.
fn of_session(session_id: &str) -> Value {
    json!({
        "agent_profile_id": "probe-agent",
        "metadata": { "launch_request": { "session_id": session_id } },
    })
}

/// Launches an agent, and gives its id.
#[track_caller]
fn launch(client: &Client, body: &Value) -> String {
    let answer = client.post(EXECUTIONS, body);
    assert_eq!(answer.status, 201, "{answer:?}");
    let document = answer.json();
    let id = document["id"].as_str().unwrap().to_owned();
    let location = format!("{EXECUTIONS}/{id}");
    assert_eq!(answer.header("location"), Some(location.as_str()));
    let url = format!("http://{}{location}", client.address);
    assert_eq!(document["agentctl_url"], url);
    id
}

/// Launches an agent, and waits until it takes prompts.
#[track_caller]
fn ready(client: &Client, body: &Value) -> String {
    let id = launch(client, body);
    until(client, &id, "ready");
    id
}

fn shown(client: &Client, id: &str) -> Value {
    let answer = client.get(&format!("{EXECUTIONS}/{id}"));
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.json()
}

/// Waits until an execution does that.
#[track_caller]
fn until(client: &Client, id: &str, status: &str) -> Value {
    eventually(&format!("{status} of {id}"), || {
        Some(shown(client, id)).filter(|shown| shown["status"] == status)
    })
}

/// Asks something of an execution.
fn ask(client: &Client, id: &str, what: &str, body: &Value) -> Answer {
    client.post(&format!("{EXECUTIONS}/{id}/{what}"), body)
}

/// Sends a prompt and waits for the end of its turn.
#[track_caller]
fn turn(client: &Client, id: &str, prompt: &str) -> Value {
    let answer = ask(client, id, "prompt?wait=true", &json!({ "prompt": prompt }));
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.json()
}

/// Sends a prompt, and waits until its turn has begun.
#[track_caller]
fn begin(client: &Client, id: &str, prompt: &str) {
    let answer = ask(client, id, "prompt", &json!({ "prompt": prompt }));
    assert_eq!(answer.status, 202, "{answer:?}");
    assert_eq!(answer.json(), json!({ "id": id, "status": "accepted" }));
    until(client, id, "running");
}

/// The run that is the ledger of an execution.
fn ledger(id: &str) -> String {
    let digits = id.strip_prefix("exec_").unwrap();
    let (digits, _part) = digits.split_once('_').unwrap();
    format!("run_{digits}")
}

/// What the agent has said, piece by piece.
fn said(home: &Home, id: &str) -> Vec<String> {
    let updates = home.events_of(&ledger(id), "session_update");
    let texts = updates
        .iter()
        .map(|update| update["payload"]["text"].as_str());
    texts.flatten().map(str::to_owned).collect()
}
