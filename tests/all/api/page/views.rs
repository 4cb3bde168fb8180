//! The views as a whole: whether everybody can use them, and what they need a token for.

use std::fs;

use serde_json::json;

use super::*;
use crate::harness::eventually;

/// What the daemon asks for here.
const TOKEN: &str = "0123456789abcdef-secret";

#[test]
fn every_view_can_be_used_by_everybody() {
    let home = home();
    let daemon = Daemon::start(&home);
    let question = json!({ "skill_name": "probe", "input": { "verb": "calls", "calls": [
        { "call": "ask", "prompt": "Send 3 letters?", "payload": "{\"letters\": 3}" }
    ] } });
    let started = daemon.post("/api/agent/runs", &question).json();
    let greet = json!({ "skill_name": "greet", "input": { "name": "Ada" } });
    let greeted = daemon.post("/api/agent/runs?wait=true", &greet).json();
    let trap = json!({ "skill_name": "probe", "input": { "verb": "nodes", "names": [1] } });
    let failed = daemon.post("/api/agent/runs?wait=true", &trap).json();
    let launch = json!({
        "agent_profile_id": "probe-agent",
        "prompt": "echo Good day\nplan\nreason slowly\nwindow 10 100\ntool missing {}\npermission Delete 3 letters?",
    });
    let execution = daemon.post("/api/agent/executions", &launch).json();
    eventually("two questions", || {
        let open = daemon.get("/api/approvals").json();
        (open["approvals"].as_array()?.len() == 2).then_some(())
    });
    let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
    let arguments = [
        toolchain(AXE).to_str().unwrap().to_owned(),
        text(&started["run_id"]),
        text(&greeted["run_id"]),
        text(&execution["id"]),
        text(&failed["run_id"]),
    ];
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    Script::start("accessible.mjs", &daemon, &arguments).run_alone();
}

#[test]
fn the_token_is_asked_for_once_and_is_in_no_address() {
    let home = home();
    fs::write(home.path().join("token"), format!("{TOKEN}\n")).unwrap();
    let config = fs::read_to_string(home.path().join("config.toml")).unwrap();
    home.configure(&format!("{config}[serve]\ntoken_file = \"token\"\n"));
    let daemon = Daemon::start(&home);
    let axe = toolchain(AXE);
    Script::start("token.mjs", &daemon, &[TOKEN, axe.to_str().unwrap()]).run_alone();
    assert!(!daemon.log().contains(TOKEN));
}

#[test]
fn what_needs_no_browser_is_worked_out_rightly() {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/all/api/page/pure.mjs");
    let output = Command::new(toolchain(NODE)).arg(script).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}");
}
