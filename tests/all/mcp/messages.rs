//! The requests of the conformance suite, which speaks HTTP alone, over standard input and output too: each is answered
//! as it should be, and the same over both.

use serde_json::{Value, json};

use super::fixtures;
use super::requests::{NEW, OLD, Row, meta, of_both, of_new, of_old};
use super::wire::{Heard, Wire, evened};
use crate::api::daemon::Daemon;
use crate::harness::{Home, eventually};

/// What the client answers when it is asked.
fn reply(request: &Value) -> Value {
    match request["method"].as_str() {
        Some("sampling/createMessage") => json!({
            "role": "assistant",
            "content": { "type": "text", "text": "I am a test" },
            "model": "test-model",
            "stopReason": "endTurn",
        }),
        Some("elicitation/create") => {
            let fields = request["params"]["requestedSchema"]["properties"].as_object();
            let content = json!({ "name": "Ada", "username": "testuser", "email": "test@example.com", "ok": true });
            assert!(fields.is_some(), "{request}");
            json!({ "action": "accept", "content": content })
        }
        other => panic!("asked {other:?}"),
    }
}

/// What a row was answered, and what was heard before that.
type Played = (Value, Vec<Value>);

#[track_caller]
fn assert_same(rows: &[Row], on_stdio: &[Played], over_http: &[Played]) {
    assert_eq!((on_stdio.len(), over_http.len()), (rows.len(), rows.len()));
    for ((row, on_stdio), over_http) in rows.iter().zip(on_stdio).zip(over_http) {
        assert_eq!(on_stdio, over_http, "{} {}", row.method, row.params);
    }
}

/// Sends the rows, looks at each answer, and gives them all, evened.
#[track_caller]
fn played(wire: &mut Wire, rows: &[Row], is_new: bool) -> Vec<Played> {
    let mut answers = Vec::new();
    for (id, row) in rows.iter().enumerate() {
        let heard = said(wire, row, id, is_new);
        for (place, expected) in &row.expected {
            let found = heard.answer.pointer(place);
            assert_eq!(
                found,
                Some(expected),
                "{place} of {} {}: {heard:?}",
                row.method,
                row.params
            );
        }
        assert_eq!(heard.told.len(), row.told, "{heard:?}");
        let asked: Vec<&str> = heard
            .asked
            .iter()
            .filter_map(|it| it["method"].as_str())
            .collect();
        assert_eq!(asked, row.asked, "{heard:?}");
        let asked = heard.asked.iter().map(|it| evened(&it["params"]));
        let seen = heard.told.iter().map(evened).chain(asked).collect();
        answers.push((evened(&heard.answer), seen));
    }
    answers
}

/// Sends one row, a second time with what was asked for if it is answered so.
#[track_caller]
fn said(wire: &mut Wire, row: &Row, id: usize, is_new: bool) -> Heard {
    let mut params = row.params.clone();
    if is_new {
        let mut own = meta();
        if let (Some(own), Some(more)) = (own.as_object_mut(), params["_meta"].as_object()) {
            own.extend(more.clone());
        }
        params["_meta"] = own;
    }
    let request = |params: &Value, id: String| json!({ "jsonrpc": "2.0", "id": id, "method": row.method, "params": params });
    let heard = wire.ask(&request(&params, id.to_string()), row.told, &reply);
    let Some(responses) = &row.responses else {
        return heard;
    };
    let result = &heard.answer["result"];
    assert_eq!(result["resultType"], "input_required", "{heard:?}");
    let keys = |value: &Value| {
        value
            .as_object()
            .map(|members| members.keys().cloned().collect::<Vec<_>>())
    };
    assert_eq!(keys(&result["inputRequests"]), keys(responses), "{heard:?}");
    params["inputResponses"] = responses.clone();
    params["requestState"] = result["requestState"].clone();
    wire.ask(&request(&params, format!("{id}-again")), row.told, &reply)
}

/// Begins a session.
#[track_caller]
fn initialize(wire: &mut Wire) -> Value {
    let params = json!({
        "protocolVersion": OLD,
        "capabilities": { "sampling": {}, "elicitation": {} },
        "clientInfo": { "name": "messages", "version": "1.0.0" },
    });
    let request =
        json!({ "jsonrpc": "2.0", "id": "first", "method": "initialize", "params": params });
    let heard = wire.ask(&request, 0, &reply);
    assert_eq!(heard.answer["result"]["protocolVersion"], OLD, "{heard:?}");
    wire.tell(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
    heard.answer
}

fn daemon(home: &Home) -> Daemon {
    Daemon::of(
        home,
        &mut home.command(&["serve", "--mcp", "--listen", "127.0.0.1:0"]),
    )
}

#[test]
fn a_client_with_a_session_is_answered_the_same_on_stdio_and_over_http() {
    let rows: Vec<Row> = of_both().into_iter().chain(of_old()).collect();
    let home = fixtures::home();
    let mut stdio = Wire::stdio(&home);
    let initialized = initialize(&mut stdio);
    let on_stdio = played(&mut stdio, &rows, false);
    drop(stdio);
    let daemon = daemon(&home);
    let mut http = Wire::http(*daemon, OLD);
    assert_eq!(initialize(&mut http), initialized);
    assert_same(&rows, &on_stdio, &played(&mut http, &rows, false));
}

#[test]
fn a_client_without_a_session_is_answered_the_same_on_stdio_and_over_http() {
    let rows: Vec<Row> = of_both().into_iter().chain(of_new()).collect();
    let home = fixtures::home();
    let mut stdio = Wire::stdio(&home);
    let on_stdio = played(&mut stdio, &rows, true);
    drop(stdio);
    let daemon = daemon(&home);
    let mut http = Wire::http(*daemon, NEW);
    assert_same(&rows, &on_stdio, &played(&mut http, &rows, true));
}

/// One request of a client that knows tasks, on standard input.
#[track_caller]
fn asked(wire: &mut Wire, method: &str, mut params: Value) -> Value {
    let mut own = meta();
    let capabilities = &mut own["io.modelcontextprotocol/clientCapabilities"];
    capabilities["extensions"] = json!({ "io.modelcontextprotocol/tasks": {} });
    params["_meta"] = own;
    let request = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
    let heard = wire.ask(&request, 0, &reply);
    let Some(result) = heard.answer.get("result") else {
        panic!("{request} {heard:?}");
    };
    result.clone()
}

/// Calls a tool that becomes a task, and gives what it takes to ask after it.
#[track_caller]
fn begun(wire: &mut Wire, tool: &str, arguments: &Value) -> Value {
    let call = json!({ "name": tool, "arguments": arguments });
    let created = asked(wire, "tools/call", call);
    assert_eq!(created["resultType"], "task", "{created}");
    json!({ "taskId": created["taskId"] })
}

/// Asks after a task until it has that status.
#[track_caller]
fn until(wire: &mut Wire, task: &Value, status: &str) -> Value {
    eventually(&format!("a task that is {status}"), || {
        let got = asked(wire, "tasks/get", task.clone());
        (got["status"] == status).then_some(got)
    })
}

#[test]
fn tasks_are_asked_after_on_stdio() {
    let home = fixtures::home();
    let mut wire = Wire::stdio(&home);
    let slow = json!({ "seconds": 0.1, "label": "a" });
    let slow = begun(&mut wire, "slow_compute", &slow);
    let done = until(&mut wire, &slow, "completed");
    assert_eq!(done["result"]["content"][0]["text"], "a took 0.1 s");

    let failing = begun(&mut wire, "failing_job", &json!({}));
    let done = until(&mut wire, &failing, "completed");
    assert_eq!(done["result"]["isError"], true);
    let broken = begun(&mut wire, "protocol_error_job", &json!({}));
    let done = until(&mut wire, &broken, "failed");
    assert_eq!(done["error"]["data"]["code"], "invalid_output");

    let delete = begun(&mut wire, "confirm_delete", &json!({ "filename": "a.txt" }));
    let asks = until(&mut wire, &delete, "input_required");
    assert_eq!(
        asks["inputRequests"]["confirm"]["method"], "elicitation/create",
        "{asks}"
    );
    let mut answer = delete.clone();
    answer["inputResponses"] =
        json!({ "confirm": { "action": "accept", "content": { "confirm": true } } });
    asked(&mut wire, "tasks/update", answer);
    let done = until(&mut wire, &delete, "completed");
    assert_eq!(done["result"]["content"][0]["text"], "a.txt would be gone.");

    let endless = json!({ "seconds": 3600, "label": "b" });
    let endless = begun(&mut wire, "slow_compute", &endless);
    asked(&mut wire, "tasks/cancel", endless.clone());
    until(&mut wire, &endless, "cancelled");
}

#[test]
fn what_a_request_lacks_is_told_on_stdio() {
    let home = fixtures::home();
    let mut wire = Wire::stdio(&home);
    let capabilities = "io.modelcontextprotocol/clientCapabilities";
    let version = "io.modelcontextprotocol/protocolVersion";
    for (id, (meta, code)) in [
        (json!({}), -32602),
        (json!({ (version): NEW }), -32602),
        (json!({ (capabilities): {} }), -32602),
        (json!({ (version): "v999.0.0", (capabilities): {} }), -32022),
    ]
    .into_iter()
    .enumerate()
    {
        let params = json!({ "_meta": meta });
        let request =
            json!({ "jsonrpc": "2.0", "id": id, "method": "server/discover", "params": params });
        let heard = wire.ask(&request, 0, &reply);
        assert_eq!(heard.answer["error"]["code"], code, "{request} {heard:?}");
    }
}
