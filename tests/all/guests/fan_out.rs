//! `fan-out`: what it says of itself, and that a call which is refused is a result in its place.

use serde_json::json;
use skillrun_test_artifacts::FAN_OUT;

use crate::harness::Home;

/// Without a grant each call is refused and recorded as refused, and the run is none the worse for it.
#[test]
pub(super) fn main_job() {
    let home = Home::new(&[FAN_OUT]);
    let input = json!({ "tool": "math__root", "calls": [{ "n": 4 }, { "n": 9 }] });
    let (document, exit) = home.run_json("fan-out", &input);
    assert_eq!(exit, 0, "{document}");
    let results = document["output"]["results"].as_array().unwrap();
    let kinds: Vec<_> = results
        .iter()
        .map(|result| &result["error"]["kind"])
        .collect();
    assert_eq!(kinds, ["denied", "denied"], "{document}");
    let run_id = document["run_id"].as_str().unwrap();
    let denied = home.events_of(run_id, "denied");
    let capabilities: Vec<_> = denied
        .iter()
        .map(|event| &event["payload"]["capability"])
        .collect();
    assert_eq!(capabilities, ["tool:math__root", "tool:math__root"]);
    let left = home.events_of(run_id, "node_exit");
    assert_eq!(left[0]["payload"]["node_id"], "step:fan-out#1");
}

#[test]
fn its_schema_bounds_the_calls() {
    let home = Home::new(&[FAN_OUT]);
    let inspected = home
        .skillrun(&["skills", "inspect", "fan-out", "--json"])
        .json();
    let calls = &inspected["input_schema"]["properties"]["calls"];
    assert_eq!(
        (&calls["minItems"], &calls["maxItems"]),
        (&json!(1), &json!(100))
    );
    assert_eq!(inspected["policy"]["requested"], json!(["tool:*"]));
}

#[test]
fn no_calls_are_refused() {
    let home = Home::new(&[FAN_OUT]);
    let (document, _) = home.run_json("fan-out", &json!({ "tool": "math__root", "calls": [] }));
    assert_eq!(document["code"], "invalid_input", "{document}");
}

/// A real tool server, whose answers come in the order of the calls.
#[test]
fn answers_of_a_tool_server_come_in_the_order_of_the_calls() {
    let home = Home::new(&[FAN_OUT]);
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let command = json!([
        root.join("target/toolchains/python/bin/python"),
        root.join("tests/all/tools/friendly.py"),
    ]);
    home.configure(&format!(
        "[mcp_servers.friendly]\ncommand = {command}\n[skills.fan-out]\ngrant = [\"tool:friendly__*\"]\n"
    ));
    let calls: Vec<_> = (0..9).map(|n| json!({ "a": n, "b": 1 })).collect();
    let input = json!({ "tool": "add", "calls": calls, "parallel_max": 3 });
    let (document, exit) = home.run_json("fan-out", &input);
    assert_eq!(exit, 0, "{document}");
    let results = document["output"]["results"].as_array().unwrap();
    let sums: Vec<_> = results
        .iter()
        .map(|one| one["content"][0]["text"].clone())
        .collect();
    let expected: Vec<_> = (1..=9).map(|sum: u32| json!(sum.to_string())).collect();
    assert_eq!(sums, expected, "{document}");
    let run_id = document["run_id"].as_str().unwrap();
    let calls = home.events_of(run_id, "tool_call");
    assert_eq!(calls[0]["payload"]["name"], "friendly__add");
    assert_eq!(
        (
            &calls[0]["payload"]["asked"],
            &calls[0]["payload"]["effect"]
        ),
        (&json!("add"), &json!("read"))
    );
    assert_eq!(home.events_of(run_id, "tool_result").len(), 9);

    // A wrong type is found out here, with its place, and the server never sees it.
    let input = json!({ "tool": "add", "calls": [{ "a": "5", "b": 1 }] });
    let (document, _) = home.run_json("fan-out", &input);
    let error = &document["output"]["results"][0]["error"];
    assert_eq!(error["kind"], "invalid");
    assert!(
        error["message"].as_str().unwrap().contains("$.a: \"5\""),
        "{document}"
    );
}
