//! Clients that bring what is of another client, or of nobody.

use std::fs;

use serde_json::{Value, json};
use skillrun_test_artifacts::PROBE;

use super::cases::{asked, call, cancelled, in_session, initialize, questions, request};
use super::peer::daemon;
use super::requests::{NEW, OLD};
use super::wire::Wire;
use crate::api::daemon::Daemon;
use crate::harness::{Home, eventually};

/// The token that the daemon is configured with.
const TOKEN: &str = "0123456789abcdef";

/// A home with a token of the operator's, whose skill asks for a yes.
fn guarded() -> Home {
    let home = Home::new(&[PROBE]);
    home.write_manifest("probe", "[capabilities]\nrequest = [\"approval\"]\n");
    fs::write(home.path().join("token"), TOKEN).unwrap();
    home.configure("[capabilities]\ngrant = [\"approval\"]\n[serve]\ntoken_file = \"token\"\n");
    home
}

/// The two clients that there can be: whoever has the operator's token, and whoever has that of this machine.
fn two_clients(home: &Home, daemon: &Daemon) -> [String; 2] {
    let _as_it_listens = daemon;
    let record = fs::read_to_string(home.path().join("daemon.json")).unwrap();
    let record: Value = serde_json::from_str(&record).unwrap();
    [
        TOKEN.to_owned(),
        record["token"].as_str().unwrap().to_owned(),
    ]
}

fn ask() -> Value {
    let ask = json!({ "call": "ask", "prompt": "go on?", "payload": "{}" });
    json!({ "verb": "insist", "on": ask })
}

fn with(mut message: Value, key: &str, value: &Value) -> Value {
    message["params"][key] = value.clone();
    message
}

fn yes(keys: &[String]) -> Value {
    json!({ (&keys[0]): { "action": "accept", "content": { "approve": true } } })
}

/// A state is good for its client, its request and its time, and for nothing else.
#[test]
fn a_state_that_is_forged_of_another_or_too_old_decides_nothing() {
    let home = guarded();
    let daemon = daemon(&home);
    let [one, other] = two_clients(&home, &daemon);
    let mut wire = Wire::http(*daemon, NEW).with_token(&one);
    let mut stranger = Wire::http(*daemon, NEW).with_token(&other);
    let (keys, state) = questions(&asked(&mut wire, &call(1, "probe", &ask())));
    let run_id = home.run_ids().pop().unwrap();
    let text = state.as_str().unwrap();
    let mut flipped = text.as_bytes().to_vec();
    let middle = flipped.len() / 2;
    flipped[middle] = if flipped[middle] == b'A' { b'B' } else { b'A' };
    let flipped = String::from_utf8(flipped).unwrap();
    let bring = |message: Value, state: &str| {
        with(
            with(message, "requestState", &json!(state)),
            "inputResponses",
            &yes(&keys),
        )
    };
    let mut other_arguments = ask();
    other_arguments["on"]["payload"] = json!("{\"more\":1}");
    for (mine, message) in [
        (true, bring(call(2, "probe", &ask()), "")),
        (true, bring(call(2, "probe", &ask()), "AAAA")),
        (true, bring(call(2, "probe", &ask()), &flipped)),
        (
            true,
            bring(call(2, "probe", &ask()), &text[..text.len() - 1]),
        ),
        (true, bring(call(2, "probe", &ask()), &"A".repeat(100_000))),
        (true, bring(call(2, "probe", &other_arguments), text)),
        (false, bring(call(2, "probe", &ask()), text)),
    ] {
        let wire = if mine { &mut wire } else { &mut stranger };
        let answer = asked(wire, &message);
        assert_eq!(answer["error"]["code"], -32602, "{message} {answer}");
    }
    assert_eq!(home.events_of(&run_id, "approval_response").len(), 0);
    // A yes without a state begins another run, which asks for itself.
    let unasked = with(call(3, "probe", &ask()), "inputResponses", &yes(&keys));
    questions(&asked(&mut wire, &unasked));
    assert_eq!(home.run_ids().len(), 2);
    for run_id in home.run_ids() {
        assert_eq!(home.events_of(&run_id, "approval_response").len(), 0);
    }
}

/// When the time to answer is over, nothing can be said any more.
#[test]
fn a_state_whose_time_is_over_decides_nothing() {
    let home = guarded();
    let config = fs::read_to_string(home.path().join("config.toml")).unwrap();
    home.configure(&format!("{config}[mcp]\ninput_timeout_ms = 1_000\n"));
    let mut wire = Wire::stdio(&home);
    let (keys, state) = questions(&asked(&mut wire, &call(1, "probe", &ask())));
    let waits = with(call(2, "probe", &ask()), "requestState", &state);
    let refused = eventually("a state whose time is over", || {
        let answer = asked(&mut wire, &waits);
        Some(answer).filter(|answer| answer["error"].is_object())
    });
    assert_eq!(refused["error"]["code"], -32602, "{refused}");
    let answer = asked(&mut wire, &with(waits, "inputResponses", &yes(&keys)));
    assert_eq!(answer["error"]["code"], -32602, "{answer}");
    let run_id = home.run_ids().pop().unwrap();
    let decided = home.events_of(&run_id, "approval_response");
    let is_no = |it: &Value| it["payload"]["approved"] == false;
    assert!(decided.iter().all(is_no), "{decided:?}");
}

/// What one client began is nothing to another one: tasks, runs, questions, sessions.
#[test]
fn what_is_of_one_client_is_not_there_for_another() {
    let home = guarded();
    home.write_manifest(
        "probe",
        "[capabilities]\nrequest = [\"approval\"]\n[mcp]\ntask = \"always\"\n",
    );
    let daemon = daemon(&home);
    let [one, other] = two_clients(&home, &daemon);
    let mut wire = Wire::http(*daemon, NEW).with_token(&one);
    let mut stranger = Wire::http(*daemon, NEW).with_token(&other);
    let endless =
        json!({ "verb": "in_node", "name": "n", "then": { "verb": "sleep", "ms": 600_000 } });
    let created = asked(&mut wire, &call(1, "probe", &endless));
    let id = created["result"]["taskId"].as_str().unwrap().to_owned();
    home.wait_for_event(&id, "node_enter");
    let task = json!({ "taskId": id, "inputResponses": {} });
    for method in ["tasks/get", "tasks/update", "tasks/cancel"] {
        for task in [
            &task,
            &json!({ "taskId": "run_00000000000070008000000000000000", "inputResponses": {} }),
        ] {
            let answer = asked(&mut stranger, &request(2, method, task.clone()));
            assert_eq!(answer["error"]["code"], -32602, "{method} {answer}");
            assert_eq!(
                answer["error"]["message"],
                "there is no such task, or its time is over"
            );
        }
    }
    for uri in [
        format!("skillrun://runs/{id}"),
        format!("skillrun://runs/{id}/events"),
    ] {
        let read = request(3, "resources/read", json!({ "uri": uri }));
        assert!(asked(&mut wire, &read)["result"]["contents"].is_array());
        let answer = asked(&mut stranger, &read);
        assert_eq!(answer["error"]["data"]["code"], "not_found", "{answer}");
    }
    let list = request(4, "resources/list", json!({}));
    assert!(asked(&mut wire, &list).to_string().contains(&id));
    assert!(!asked(&mut stranger, &list).to_string().contains(&id));
    let cancel = request(5, "tasks/cancel", json!({ "taskId": id }));
    assert!(asked(&mut wire, &cancel)["result"].is_object());
    cancelled(&home, &id);
}

/// A session is for the client that began it, whoever knows what it is called.
#[test]
fn a_session_is_for_the_client_that_began_it() {
    let home = guarded();
    let daemon = daemon(&home);
    let [one, other] = two_clients(&home, &daemon);
    let mut wire = Wire::http(*daemon, OLD).with_token(&one);
    initialize(&mut wire);
    let session = format!("Mcp-Session-Id: {}", wire.session());
    let version = format!("MCP-Protocol-Version: {OLD}");
    let accept = "Accept: application/json, text/event-stream";
    let list = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list" }).to_string();
    let answer = json!({ "jsonrpc": "2.0", "id": 0, "result": {} }).to_string();
    let tell = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 1 } }).to_string();
    let of = |token: &str, method: &str, body: Option<&str>| {
        let token = format!("Authorization: Bearer {token}");
        let headers = [accept, version.as_str(), session.as_str(), token.as_str()];
        daemon.request(method, "/mcp", &headers, body).status
    };
    for body in [&list, &answer, &tell] {
        assert_eq!(of(&other, "POST", Some(body)), 404, "{body}");
    }
    assert_eq!(of(&other, "GET", None), 404);
    assert_eq!(of(&other, "DELETE", None), 404);
    assert_eq!(of("0123456789abcdeg", "POST", Some(&list)), 401);
    assert_eq!(of(&one, "POST", Some(&list)), 200);
    let echo = json!({ "verb": "noop" });
    let answer = asked(&mut wire, &in_session(call(2, "probe", &echo)));
    assert_eq!(answer["result"]["isError"], false, "{answer}");
    assert!([200, 202, 204].contains(&of(&one, "DELETE", None)));
    assert_eq!(of(&one, "POST", Some(&list)), 404);
}
