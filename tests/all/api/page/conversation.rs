//! Talking with an agent in the page.

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
