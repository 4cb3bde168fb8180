//! The requests of the conformance suite, which speaks HTTP alone, over standard input and output too: each is answered
//! as it should be, and the same over both.

use serde_json::{Value, json};

use super::fixtures;
use super::wire::{Heard, Wire, evened};
use crate::api::daemon::Daemon;
use crate::harness::{Home, eventually};

const OLD: &str = "2025-11-25";
const NEW: &str = "2026-07-28";

/// One request, and what its answer has at which place.
struct Row {
    method: &'static str,
    params: Value,
    expected: Vec<(&'static str, Value)>,
    /// What the client brings back, when it is asked before it is answered; `expected` is of the second answer then.
    responses: Option<Value>,
    /// How many notifications come before the answer, and which requests.
    told: usize,
    asked: &'static [&'static str],
}

impl Row {
    fn new(method: &'static str, params: Value, expected: &[(&'static str, Value)]) -> Self {
        Self {
            method,
            params,
            expected: expected.to_vec(),
            responses: None,
            told: 0,
            asked: &[],
        }
    }

    /// A request that is refused with that code.
    fn refused(method: &'static str, params: Value, code: i32) -> Self {
        Self::new(method, params, &[("/error/code", json!(code))])
    }

    /// A call of a tool that answers with a text.
    fn call(tool: &str, arguments: Value, text: &str) -> Self {
        let params = json!({ "name": tool, "arguments": arguments });
        Self::new(
            "tools/call",
            params,
            &[("/result/content/0/text", json!(text))],
        )
    }

    fn with(mut self, place: &'static str, expected: Value) -> Self {
        self.expected.push((place, expected));
        self
    }

    fn answering(mut self, responses: Value) -> Self {
        self.responses = Some(responses);
        self
    }

    fn telling(mut self, told: usize) -> Self {
        self.told = told;
        self
    }

    fn asking(mut self, asked: &'static [&'static str]) -> Self {
        self.asked = asked;
        self
    }
}

/// What every client can ask.
fn of_both() -> Vec<Row> {
    let text = "This is a simple text response for testing.";
    let block = |at: &'static str, kind: &str| (at, json!(kind));
    let kinds = |tool: &str, kinds: &[(&'static str, Value)]| {
        Row::new(
            "tools/call",
            json!({ "name": tool, "arguments": {} }),
            kinds,
        )
    };
    let failed = "This tool intentionally returns an error for testing";
    let missing = "invalid_input: input of skill \"greet\" does not fit its schema: \
                   $: \"name\" is a required property\n\
                   hint: skillrun skills inspect greet shows the schema";
    let progress = json!({
        "name": "test_tool_with_progress",
        "arguments": {},
        "_meta": { "progressToken": "progress-test-1" },
    });
    vec![
        Row::new(
            "tools/list",
            json!({}),
            &[("/result/tools/0/name", json!("about"))],
        ),
        Row::new(
            "tools/call",
            json!({ "name": "test_simple_text" }),
            &[("/result/content/0/text", json!(text))],
        ),
        kinds(
            "test_image_content",
            &[block("/result/content/0/type", "image")],
        ),
        kinds(
            "test_audio_content",
            &[block("/result/content/0/mimeType", "audio/wav")],
        ),
        kinds(
            "test_embedded_resource",
            &[block(
                "/result/content/0/resource/uri",
                "test://embedded-resource",
            )],
        ),
        kinds(
            "test_multiple_content_types",
            &[
                block("/result/content/0/type", "text"),
                block("/result/content/1/type", "image"),
                block("/result/content/2/type", "resource"),
            ],
        ),
        Row::call("test_error_handling", json!({}), failed).with("/result/isError", json!(true)),
        Row::call("greet", json!({ "name": "Ada" }), "Hello, Ada!"),
        Row::call("greet", json!({}), missing).with("/result/isError", json!(true)),
        Row::call("echo_header", json!({ "region": "north" }), "north"),
        Row::new(
            "tools/call",
            progress,
            &[("/result/content/0/text", json!("It is done."))],
        )
        .telling(3),
        Row::call("test_logging_tool", json!({}), "It logged."),
        Row::call(
            "slow_compute",
            json!({ "seconds": 0, "label": "a" }),
            "a took 0 s",
        ),
        Row::refused(
            "tools/call",
            json!({ "name": "protocol_error_job" }),
            -32603,
        )
        .with("/error/data/code", json!("invalid_output")),
        Row::refused("tools/call", json!({ "name": "failing_job" }), -32021),
        Row::refused("tools/call", json!({ "name": "none" }), -32602),
        Row::refused("unknown/method", json!({}), -32601),
        Row::new(
            "prompts/list",
            json!({}),
            &[(
                "/result/prompts/0/name",
                json!("test_input_required_result_prompt"),
            )],
        ),
        Row::new(
            "prompts/get",
            json!({ "name": "test_simple_prompt" }),
            &[(
                "/result/messages/0/content/text",
                json!("This is a simple prompt for testing."),
            )],
        ),
        Row::refused("prompts/get", json!({ "name": "none" }), -32602),
        Row::new(
            "resources/read",
            json!({ "uri": "test://template/123/data" }),
            &[("/result/contents/0/mimeType", json!("application/json"))],
        ),
        Row::new(
            "completion/complete",
            json!({
                "ref": { "type": "ref/prompt", "name": "test_prompt_with_arguments" },
                "argument": { "name": "arg1", "value": "test" },
            }),
            &[("/result/completion/values", json!([]))],
        ),
    ]
}

/// What clients of a revision with sessions can ask.
fn of_old() -> Vec<Row> {
    let user = r#"User response: {"action":"accept","content":{"email":"test@example.com","name":"Ada","ok":true,"username":"testuser"}}"#;
    vec![
        Row::new("ping", json!({}), &[("/result", json!({}))]),
        Row::new(
            "logging/setLevel",
            json!({ "level": "debug" }),
            &[("/result", json!({}))],
        ),
        Row::call(
            "test_tool_with_logging",
            json!({}),
            "It logged three lines.",
        )
        .telling(3),
        Row::new(
            "logging/setLevel",
            json!({ "level": "error" }),
            &[("/result", json!({}))],
        ),
        Row::call(
            "test_sampling",
            json!({ "prompt": "Hi" }),
            "LLM response: I am a test",
        )
        .asking(&["sampling/createMessage"]),
        Row::call("test_elicitation", json!({ "message": "Who?" }), user)
            .asking(&["elicitation/create"]),
        Row::call(
            "test_input_required_result_elicitation",
            json!({}),
            "Hello, Ada!",
        )
        .asking(&["elicitation/create"]),
        Row::new(
            "resources/subscribe",
            json!({ "uri": "test://watched-resource" }),
            &[("/result", json!({}))],
        ),
        Row::new(
            "resources/unsubscribe",
            json!({ "uri": "test://watched-resource" }),
            &[("/result", json!({}))],
        ),
    ]
}

/// What clients of the revision without sessions can ask.
fn of_new() -> Vec<Row> {
    let accepted = |content: Value| json!({ "action": "accept", "content": content });
    let text = |text: &str| json!({ "type": "text", "text": text });
    let said = json!({ "role": "assistant", "content": text("Paris"), "model": "m" });
    let roots = json!({ "roots": [{ "uri": "file:///test/root", "name": "Test Root" }] });
    let is_complete = ("/result/resultType", json!("complete"));
    let asked = |tool: &str, key: &str, answer: &Value| {
        let name = format!("test_input_required_result_{tool}");
        let params = json!({ "name": name, "arguments": {} });
        let row = Row::new(
            "tools/call",
            params,
            &[("/result/resultType", json!("complete"))],
        );
        row.answering(json!({ (key): answer }))
    };
    let unsupported = json!({ "_meta": {
        "io.modelcontextprotocol/protocolVersion": NEW,
        "io.modelcontextprotocol/clientCapabilities": {},
    }});
    vec![
        Row::new("server/discover", json!({}), &[is_complete.clone()]),
        Row::new(
            "tools/list",
            json!({}),
            &[is_complete, ("/result/cacheScope", json!("private"))],
        ),
        asked(
            "elicitation",
            "user_name",
            &accepted(json!({ "name": "Ada" })),
        )
        .with("/result/content/0/text", json!("Hello, Ada!")),
        asked("sampling", "capital_question", &said).with("/result/content/0/text", json!("Paris")),
        asked("list_roots", "client_roots", &roots),
        asked("request_state", "confirm", &accepted(json!({ "ok": true }))),
        Row::new(
            "prompts/get",
            json!({ "name": "test_input_required_result_prompt" }),
            &[("/result/messages/0/content/text", json!("Context: a test"))],
        )
        .answering(json!({ "user_context": accepted(json!({ "context": "a test" })) })),
        Row::refused(
            "tools/call",
            json!({ "name": "test_missing_capability", "_meta": unsupported["_meta"] }),
            -32021,
        )
        .with(
            "/error/data/requiredCapabilities",
            json!({ "sampling": {} }),
        ),
        Row::refused("ping", json!({}), -32601),
        Row::refused("initialize", json!({}), -32601),
        Row::refused("logging/setLevel", json!({ "level": "info" }), -32601),
        Row::refused(
            "resources/subscribe",
            json!({ "uri": "test://watched-resource" }),
            -32601,
        ),
        Row::refused(
            "resources/unsubscribe",
            json!({ "uri": "test://watched-resource" }),
            -32601,
        ),
        Row::refused("tasks/list", json!({}), -32601),
    ]
}

/// What the client says of itself with each request where there are no sessions.
fn meta() -> Value {
    json!({
        "io.modelcontextprotocol/protocolVersion": NEW,
        "io.modelcontextprotocol/clientInfo": { "name": "messages", "version": "1.0.0" },
        "io.modelcontextprotocol/clientCapabilities": { "sampling": {}, "elicitation": {}, "roots": {} },
    })
}

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
