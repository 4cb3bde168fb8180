use std::sync::Arc;

use async_trait::async_trait;
use serde_json::{Value, json};
use skillrun::call::{Effect, ToolAnswer, ToolDefinition};
use skillrun::outcome::OutcomeCode;
use skillrun::runner::Caller;
use skillrun::tools::{HostTool, ToolError, Toolbox};
use tokio::sync::{Barrier, Notify};
use tokio_util::sync::CancellationToken;

use super::{Bench, Parts, of_type, tool, types};

const OBJECT: &str = r#"{"type":"object"}"#;

fn schema() -> Value {
    serde_json::from_str(OBJECT).unwrap()
}

fn bench(grants: &[&str], tools: Toolbox) -> Bench {
    Bench::new(
        grants,
        Parts {
            tools,
            ..Parts::default()
        },
    )
}

/// Three tools of two servers, of which two have the same own name.
fn three() -> Toolbox {
    let names = [
        ("a__echo", Effect::Read),
        ("b__echo", Effect::Idempotent),
        ("a__write", Effect::Write),
    ];
    names.iter().fold(Toolbox::new(), |tools, (name, effect)| {
        let echo = |arguments: &Value| Ok(arguments.clone());
        tools
            .with_host_tool(tool(name, *effect, &schema(), echo).0)
            .unwrap()
    })
}

fn call(name: &str, arguments: &str) -> Value {
    json!({ "call": "tool", "name": name, "arguments": arguments })
}

#[tokio::test]
async fn a_call_is_on_record_before_and_after_and_says_what_a_repetition_would_do() {
    let bench = bench(&["tool:a__*"], three());
    let (said, events) = bench
        .calls(json!([call("a__write", r#"{"b": 1, "a": 1e2}"#)]))
        .await;
    assert_eq!(said[0]["ok"]["is_error"], false);
    let calls = of_type(&events, "tool_call");
    let expected = json!({
        "call_id": "tool#1", "node_id": "", "name": "a__write", "kind": "tool",
        "arguments": { "b": 1, "a": 100.0 }, "effect": "write",
    });
    assert_eq!(calls, [&expected]);
    let result = of_type(&events, "tool_result")[0];
    assert_eq!(result["call_id"], "tool#1");
    assert_eq!(result["output"][0]["type"], "text");
    assert!(result["duration_micros"].is_u64());
    assert_eq!(
        types(&events),
        ["run_started", "tool_call", "tool_result", "run_completed"]
    );
    assert!(events.iter().all(|event| event["source"] == "host"));
}

#[tokio::test]
async fn a_name_without_a_server_works_when_one_allowed_tool_has_it() {
    let calls = json!([
        call("echo", "{}"),
        call("write", "{}"),
        call("nothing", "{}")
    ]);
    let (said, events) = bench(&["tool:a__*"], three()).calls(calls.clone()).await;
    assert!(
        said[0]["ok"].is_object() && said[1]["ok"].is_object(),
        "{said:?}"
    );
    assert_eq!(said[2]["error"]["kind"], "not_found");
    let names: Vec<_> = of_type(&events, "tool_call")
        .iter()
        .map(|call| (call["name"].clone(), call["asked"].clone()))
        .collect();
    assert_eq!(
        names,
        [
            (json!("a__echo"), json!("echo")),
            (json!("a__write"), json!("write")),
            (json!("nothing"), Value::Null)
        ]
    );
    let unfound = of_type(&events, "tool_result")[2];
    assert_eq!(
        unfound["error"],
        json!({ "kind": "not_found", "name": "nothing" })
    );

    let (said, events) = bench(&["tool:*"], three()).calls(calls).await;
    assert_eq!(
        said[0]["error"],
        json!({ "kind": "ambiguous", "detail": ["a__echo", "b__echo"] })
    );
    let ambiguous = of_type(&events, "tool_result")[0];
    assert_eq!(ambiguous["error"]["names"], json!(["a__echo", "b__echo"]));
}

#[tokio::test]
async fn only_allowed_tools_are_seen_and_called() {
    let calls = json!([
        { "call": "available" },
        call("b__echo", "{}"),
        call("b*", "{}"),
        call("a__absent", "{}"),
    ]);
    let (said, events) = bench(&["tool:a__*"], three()).calls(calls.clone()).await;
    let names: Vec<_> = said[0]["ok"].as_array().unwrap().iter().collect();
    assert_eq!(
        names,
        [
            &json!({ "name": "a__echo", "read_only": true, "idempotent": true }),
            &json!({ "name": "a__write", "read_only": false, "idempotent": false })
        ]
    );
    let kinds: Vec<_> = said[1..].iter().map(|one| &one["error"]["kind"]).collect();
    assert_eq!(kinds, ["denied", "not_found", "not_found"]);
    assert_eq!(of_type(&events, "denied")[0]["capability"], "tool:b__echo");

    let (said, events) = bench(&[], three()).calls(calls).await;
    assert_eq!(said[0]["ok"], json!([]));
    let kinds: Vec<_> = said[1..].iter().map(|one| &one["error"]["kind"]).collect();
    assert_eq!(kinds, ["denied"; 3]);
    assert_eq!(of_type(&events, "denied").len(), 3);
    assert!(of_type(&events, "tool_call").is_empty());
}

#[tokio::test]
async fn c40_arguments_of_a_wrong_type_never_reach_the_tool() {
    let schema = json!({
        "type": "object",
        "properties": { "n": { "type": "integer" } },
        "required": ["n"],
    });
    let (scripted, called) = tool("m__root", Effect::Read, &schema, |_| Ok(json!(2)));
    let tools = Toolbox::new().with_host_tool(scripted).unwrap();
    let calls = json!([
        call("m__root", r#"{"n": "5"}"#),
        call("m__root", r#"{}"#),
        call("m__root", r#"[]"#),
        call("m__root", r#"{"n":"#),
        call("m__root", r#"{"n": 4}"#),
    ]);
    let (said, events) = bench(&["tool:m__root"], tools).calls(calls).await;
    for (one, part) in said.iter().zip(["$.n: \"5\"", "\"n\"", "$: ", "JSON"]) {
        assert_eq!(one["error"]["kind"], "invalid", "{one}");
        let detail = one["error"]["detail"].as_str().unwrap();
        assert!(detail.contains(part), "{detail}");
    }
    assert_eq!(*called.lock().unwrap(), [json!({ "n": 4 })]);
    // What is no JSON cannot stand in a ledger; whatever else was refused does.
    assert_eq!(of_type(&events, "tool_call").len(), 4);
    assert_eq!(
        of_type(&events, "tool_result")[0]["error"]["kind"],
        "invalid"
    );
}

#[tokio::test]
async fn what_a_tool_says_and_how_it_fails_reach_the_guest() {
    let fails = |arguments: &Value| {
        Err(match arguments["how"].as_str().unwrap() {
            "late" => ToolError::TimedOut { timeout_ms: 250 },
            "gone" => ToolError::Unavailable {
                server: "s".to_owned(),
                reason: "it exited".to_owned(),
            },
            "itself" => return Ok(json!("failed")),
            how => ToolError::Failed(how.to_owned()),
        })
    };
    let tools = Toolbox::new()
        .with_host_tool(tool("s__fail", Effect::Write, &schema(), fails).0)
        .unwrap();
    let calls = ["late", "gone", "itself", "badly"].map(|how| {
        let arguments = json!({ "how": how }).to_string();
        call("s__fail", &arguments)
    });
    let (said, events) = bench(&["tool:s__fail"], tools).calls(json!(calls)).await;
    assert_eq!(
        said[0]["error"],
        json!({ "kind": "timed_out", "detail": 250 })
    );
    assert_eq!(said[1]["error"]["kind"], "failed");
    assert!(
        said[1]["error"]["detail"]
            .as_str()
            .unwrap()
            .contains("it exited")
    );
    assert_eq!(said[2]["ok"]["is_error"], true);
    assert_eq!(
        said[3]["error"],
        json!({ "kind": "failed", "detail": "badly" })
    );
    let results = of_type(&events, "tool_result");
    assert!(results.iter().all(|result| result["is_error"] == true));
    assert_eq!(
        results[0]["error"],
        json!({ "kind": "timed_out", "limit_ms": 250 })
    );
    assert_eq!(results[2]["error"], Value::Null);
}

/// A tool of which two calls must be there before either answers.
struct Together(Barrier);

#[async_trait]
impl HostTool for Together {
    fn definition(&self) -> ToolDefinition {
        ToolDefinition {
            name: "t__meet".to_owned(),
            description: String::new(),
            input_schema: OBJECT.to_owned(),
            effect: Effect::Read,
        }
    }

    async fn call(&self, arguments: &str) -> Result<ToolAnswer, ToolError> {
        self.0.wait().await;
        Ok(ToolAnswer {
            content: json!([{ "type": "text", "text": arguments }]).to_string(),
            is_error: false,
        })
    }
}

#[tokio::test]
async fn calls_go_on_at_once_and_their_answers_are_in_their_order() {
    let tools = Toolbox::new()
        .with_host_tool(Arc::new(Together(Barrier::new(2))))
        .unwrap();
    let calls: Vec<_> = (0..6)
        .map(|n| json!(["t__meet", json!({ "n": n }).to_string()]))
        .collect();
    let calls = json!([{ "call": "tools", "calls": calls, "parallel_max": 2 }]);
    let (said, events) = bench(&["tool:t__*"], tools).calls(calls).await;
    for (n, one) in said[0].as_array().unwrap().iter().enumerate() {
        let content = one["ok"]["content"].as_str().unwrap();
        assert!(content.contains(&format!("\\\"n\\\":{n}")), "{content}");
    }
    let arguments: Vec<_> = of_type(&events, "tool_call")
        .iter()
        .map(|call| (call["call_id"].clone(), call["arguments"]["n"].clone()))
        .collect();
    for n in 0..6 {
        let expected = (json!(format!("tool#{}", n + 1)), json!(n));
        assert!(arguments.contains(&expected), "{arguments:?}");
    }
    assert_eq!(of_type(&events, "tool_result").len(), 6);
}

/// A tool that never answers, and says when it is called and when it is given up.
#[derive(Default)]
struct Endless {
    called: Notify,
    given_up: Arc<Notify>,
}

struct Tell(Arc<Notify>);

impl Drop for Tell {
    fn drop(&mut self) {
        self.0.notify_one();
    }
}

struct Shared(Arc<Endless>);

#[async_trait]
impl HostTool for Shared {
    fn definition(&self) -> ToolDefinition {
        ToolDefinition {
            name: "e__wait".to_owned(),
            description: String::new(),
            input_schema: OBJECT.to_owned(),
            effect: Effect::Read,
        }
    }

    async fn call(&self, _arguments: &str) -> Result<ToolAnswer, ToolError> {
        let _tell = Tell(Arc::clone(&self.0.given_up));
        self.0.called.notify_one();
        std::future::pending().await
    }
}

#[tokio::test]
async fn cancelling_the_run_gives_the_call_up() {
    let endless = Arc::new(Endless::default());
    let tools = Toolbox::new()
        .with_host_tool(Arc::new(Shared(Arc::clone(&endless))))
        .unwrap();
    let bench = bench(&["tool:e__*"], tools);
    let verb = json!({ "verb": "calls", "calls": [call("e__wait", "{}")] });
    let token = CancellationToken::new();
    let caller = Caller::new().with_cancellation(token.clone());
    let run = bench.runner.run(caller, bench.options("probe", &verb));
    let cancel = async {
        endless.called.notified().await;
        token.cancel();
        endless.given_up.notified().await;
    };
    let (ended, ()) = tokio::join!(run, cancel);
    let error = ended.unwrap_err();
    assert_eq!(error.code(), OutcomeCode::Cancelled);
    let events = bench.events(error.run_id().unwrap().as_str());
    assert_eq!(
        types(&events),
        ["run_started", "tool_call", "run_completed"]
    );
}

#[tokio::test]
async fn many_calls_meet_the_limits_of_the_run() {
    let flood = json!([{
        "call": "tools",
        "calls": vec![json!(["a__echo", "{}"]); 11],
        "parallel_max": 0,
    }]);
    let verb = json!({ "verb": "calls", "calls": flood });
    let limited = bench(&["tool:*"], three()).limited("host_calls", 10);
    let error = limited.run("probe", &verb).await.unwrap_err();
    assert_eq!(error.code(), OutcomeCode::HostCallLimit);
    let events = limited.events(error.run_id().unwrap().as_str());
    assert!(
        of_type(&events, "tool_call").is_empty(),
        "all of them or none"
    );

    let limited = bench(&["tool:*"], three()).limited("guest_event_bytes", 3000);
    let (said, events) = limited.calls(flood).await;
    let refused = said[0].as_array().unwrap().last().unwrap();
    assert_eq!(refused["error"]["kind"], "exhausted", "{refused}");
    let detail = refused["error"]["detail"].as_str().unwrap();
    assert!(detail.contains("guest_event_bytes"), "{detail}");
    assert!(of_type(&events, "tool_call").len() < 11);
}
