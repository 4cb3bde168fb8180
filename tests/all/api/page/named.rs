//! What the page says of calls, runs, skills and the daemon.

use serde_json::json;
use skillrun::call::Effect;
use skillrun::ledger::{CallFailure, Event, Json, Origin, RunStatus, ToolCall, ToolResult};
use skillrun::runner::runtime_builder;

use super::super::streams::{begin, complete, store_of};
use super::*;

#[test]
fn what_is_known_stands_where_people_look_for_it() {
    let home = home();
    let config = fs::read_to_string(home.path().join("config.toml")).unwrap();
    home.configure(&format!("{config}[limits]\nwall_time_ms = 7_000\n"));
    let runtime = runtime_builder().build().unwrap();
    let recorder = begin(&runtime, &store_of(&home), "triage");
    let record = |event: Event| recorder.record(Origin::Host, &event).unwrap();
    let call = |call_id: &str, name: &str| {
        record(
            ToolCall {
                call_id: call_id.to_owned(),
                name: name.to_owned(),
                arguments: Json::parse(r#"{"ticket":"T-1"}"#).unwrap(),
                effect: Effect::Write,
                ..ToolCall::default()
            }
            .into(),
        );
    };
    call("tool#1", "tickets__search");
    call("tool#2", "tickets__set");
    record(
        ToolResult {
            call_id: "tool#1".to_owned(),
            output: Some(Json::string("a part")),
            truncated: true,
            is_error: true,
            error: Some(CallFailure::Failed {
                message: "no such ticket".to_owned(),
            }),
            ..ToolResult::default()
        }
        .into(),
    );
    record(
        ToolResult {
            call_id: "tool#2".to_owned(),
            ..ToolResult::default()
        }
        .into(),
    );
    complete(&recorder, RunStatus::Ok);
    let daemon = Daemon::start(&home);
    let noop = json!({ "skill_name": "probe", "input": { "verb": "noop" } });
    let real = daemon.post("/api/agent/runs?wait=true", &noop).json();
    let calls = recorder.run_id().to_string();
    let arguments = [calls.as_str(), real["run_id"].as_str().unwrap()];
    Script::start("named.mjs", &daemon, &arguments).run_alone();
}
