//! Talking with an agent in the page.

use std::fs;

use serde_json::json;

use super::*;
use crate::harness::{Reserved, eventually};

#[test]
fn an_agent_is_launched_talked_with_and_stopped() {
    let home = home();
    let daemon = Daemon::start(&home);
    Script::start("chat.mjs", &daemon, &[]).run_alone();
    let shown = daemon.get("/api/agent/executions").json();
    let execution = &shown["executions"][0];
    assert_eq!(execution["status"], "stopped", "{shown}");
    assert_eq!(execution["stop_reason"], "it is late", "{shown}");
    assert_eq!(execution["mcp_mode"], "office", "{shown}");
}

#[test]
fn a_form_that_is_half_typed_stays_and_nobody_is_called_back() {
    let home = home();
    let daemon = Daemon::start(&home);
    Script::start("executions.mjs", &daemon, &[]).run_alone();
    let shown = daemon.get("/api/agent/executions").json();
    let launched = shown["executions"].as_array().unwrap();
    assert_eq!(launched.len(), 1, "{shown}");
    assert_eq!(launched[0]["metadata"]["letters"], 3, "{shown}");
}

/// More than a page of the list has.
const EXECUTIONS: usize = 55;

#[test]
fn of_many_executions_only_the_newest_are_asked_for_again() {
    let home = home();
    let daemon = Daemon::start(&home);
    let launch = json!({ "agent_profile_id": "probe-agent", "prompt": "exit 0" });
    for _ in 0..EXECUTIONS {
        let launched = daemon.post("/api/agent/executions", &launch);
        assert_eq!(launched.status, 201, "{}", launched.json());
        // Only so many may be live at once.
        let path = format!(
            "/api/agent/executions/{}",
            launched.json()["id"].as_str().unwrap()
        );
        eventually("its end", || {
            let status = &daemon.get(&path).json()["status"];
            (status == "completed").then_some(())
        });
    }
    let total = EXECUTIONS.to_string();
    Script::start("executions_many.mjs", &daemon, &[&total]).run_alone();
}

/// What the form of `probe` asks for here: something with bounds of each kind.
const BOUNDED_SCHEMA: &str = r#"{
    "type": "object",
    "required": ["verb", "words"],
    "properties": {
        "verb": { "type": "string", "minLength": 1, "maxLength": 8 },
        "size": { "type": "integer", "minimum": 0, "maximum": 18446744073709551615 },
        "words": { "type": "array", "minItems": 1, "items": { "type": "string", "pattern": "^(a+)+$" } }
    }
}"#;

#[test]
fn a_form_says_what_its_schema_allows_and_holds_to_it() {
    let home = home();
    fs::write(home.skill("probe").join("input.json"), BOUNDED_SCHEMA).unwrap();
    home.write_manifest("probe", PROBE_MANIFEST);
    let daemon = Daemon::start(&home);
    Script::start("form.mjs", &daemon, &[]).run_alone();
    let shown = daemon.get("/api/agent/runs").json();
    assert_eq!(shown["runs"].as_array().unwrap().len(), 1, "{shown}");
}

#[test]
fn what_conversations_and_forms_need_no_browser_for_is_worked_out_rightly() {
    let script = Path::new(env!("CARGO_MANIFEST_DIR"));
    let script = script.join("tests/all/api/page/conversation_pure.mjs");
    let output = Command::new(toolchain(NODE)).arg(script).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}");
}

#[test]
fn what_an_agent_says_is_whole_over_a_reload_and_a_restart() {
    let home = home();
    let reserved = Reserved::new();
    let listen = reserved.address.to_string();
    let serve = ["serve", "--listen", &listen];
    let mut daemon = Some(Daemon::of(&home, &mut home.command(&serve)));
    let client = Client::new(reserved.address);
    let launch = json!({
        "agent_profile_id": "probe-agent",
        "prompt": "echo before\npermission Go on?\necho after",
    });
    let execution = client.post("/api/agent/executions", &launch).json();
    let id = execution["id"].as_str().unwrap();
    let run_id = eventually("a question", || {
        let open = client.get("/api/approvals").json();
        Some(open["approvals"][0]["run_id"].as_str()?.to_owned())
    });
    Script::start("cut_chat.mjs", &client, &[id]).run(|asked| {
        match asked {
            "answer" => {
                let decision = json!({ "decision": "approve", "option": "deny" });
                let path = format!("/api/agent/runs/{run_id}/approve");
                assert_eq!(client.post(&path, &decision).status, 200);
            }
            "restart" => {
                daemon = None;
                daemon = Some(Daemon::of(&home, &mut home.command(&serve)));
            }
            other => panic!("{other}"),
        }
        String::new()
    });
    drop(daemon);
}
