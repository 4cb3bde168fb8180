//! Runs in the page: started, watched, answered, looked at again.

use serde_json::json;
use skillrun::ledger::RunStatus;
use skillrun::runner::runtime_builder;

use super::super::streams::{begin, complete, log, store_of};
use super::*;
use crate::harness::{Reserved, eventually};

#[test]
fn a_run_is_started_by_form_watched_and_approved() {
    let home = home();
    let daemon = Daemon::start(&home);
    Script::start("approve.mjs", &daemon, &[]).run(|asked| {
        let (what, run_id) = asked.split_once(' ').unwrap();
        let path = format!("/api/agent/runs/{run_id}/approve");
        match what {
            // Somebody else is first.
            "answer" => {
                let decision = json!({ "decision": "reject", "reason": "there is no paper" });
                let answer = daemon.post(&path, &decision);
                assert_eq!(answer.status, 200, "{answer:?}");
            }
            other => panic!("{other}"),
        }
        String::new()
    });
    let runs = daemon.get("/api/agent/runs").json();
    let approved = runs["runs"][1]["run_id"].as_str().unwrap();
    let answers = home.events_of(approved, "approval_response");
    assert_eq!(answers.len(), 1, "{answers:?}");
    assert_eq!(answers[0]["payload"]["approved"], true);
    assert_eq!(answers[0]["payload"]["reason"], "they are due");
    assert_eq!(answers[0]["payload"]["source"], "web");
    let started = &home.events_of(approved, "run_started")[0]["payload"];
    let question =
        json!({ "call": "ask", "prompt": "Send 3 letters?", "payload": "{\"letters\": 3}" });
    let input = json!({ "verb": "calls", "calls": [question] });
    assert_eq!(started["input"], input, "{started}");
}

#[test]
fn a_run_is_whole_over_a_reload_and_a_restart() {
    let home = home();
    let reserved = Reserved::new();
    let listen = reserved.address.to_string();
    let serve = ["serve", "--listen", &listen];
    let mut daemon = Some(Daemon::of(&home, &mut home.command(&serve)));
    let runtime = runtime_builder().build().unwrap();
    let recorder = begin(&runtime, &store_of(&home), "watched");
    log(&recorder, "before");
    let client = Client::new(reserved.address);
    let run_id = recorder.run_id().to_string();
    eventually("a run that is listed", || {
        (client.get(&format!("/api/agent/runs/{run_id}")).status == 200).then_some(())
    });
    Script::start("cut_run.mjs", &client, &[&run_id]).run(|asked| {
        match asked {
            "stop" => {
                daemon = None;
                log(&recorder, "while nobody serves");
            }
            "start" => daemon = Some(Daemon::of(&home, &mut home.command(&serve))),
            "end" => {
                log(&recorder, "after");
                complete(&recorder, RunStatus::Ok);
            }
            other => panic!("{other}"),
        }
        String::new()
    });
    drop(daemon);
}
