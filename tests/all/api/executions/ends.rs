//! Executions when the daemon ends, and after that.

use std::io::Write as _;

use rustix::process::Signal;
use serde_json::json;

use super::*;
use crate::api::streams::Watcher;
use crate::tools::{hostile, started, wait_for_end};

/// Takes a ledger up.
fn taken_up(id: &str) -> Value {
    let mut body = plain();
    body["prior_session"] = json!(ledger(id));
    body
}

#[test]
fn nobody_waits_for_an_agent_that_waits_for_a_prompt() {
    // Were it waited for, the test would be over long before.
    let home = home("[serve]\ndrain_ms = 600000\n");
    let mut daemon = Daemon::start(&home);
    let id = ready(&daemon, &of_session("s-1"));
    turn(&daemon, &id, "remember x");
    until(&daemon, &id, "ready");
    let path = format!("{EXECUTIONS}/{id}/events?after=newest");
    let mut watcher = Watcher::open(daemon.address, &path, &[]).unwrap();
    daemon.signal(Signal::TERM);
    let end = watcher.next_event().unwrap();
    assert_eq!(end.name, "stopped", "{end:?}");
    assert_eq!(end.json()["reason"], "interrupted");
    assert_eq!(daemon.end(), Some(0));

    let daemon = Daemon::start(&home);
    let execution = shown(&daemon, &id);
    assert_eq!(execution["status"], "stopped");
    assert_eq!(execution["stop_reason"], "interrupted");
    let second = ready(&daemon, &taken_up(&id));
    assert_eq!(second, format!("{}_2", id.strip_suffix("_1").unwrap()));
    assert_eq!(turn(&daemon, &second, "recall")["prompt_generation"], 2);
    assert_eq!(said(&home, &id), ["x"]);
    assert_eq!(shown(&daemon, &second)["session_id"], "s-1");
    // The first part is what it was.
    assert_eq!(shown(&daemon, &id)["status"], "stopped");
    let again = daemon.post(EXECUTIONS, &taken_up(&id));
    assert_eq!((again.status, again.problem().as_str()), (409, "conflict"));
    assert_eq!(again.json()["execution_id"], second);
}

#[test]
fn nothing_begins_while_the_daemon_ends_and_a_turn_may_go_on() {
    let home = home("[serve]\ndrain_ms = 600000\n");
    let mut daemon = Daemon::start(&home);
    let id = ready(&daemon, &plain());
    begin(&daemon, &id, "permission Go on?");
    crate::api::approvals::until_open(&daemon, &ledger(&id), 1);
    daemon.signal(Signal::TERM);
    eventually("a daemon that ends", || {
        (daemon.get("/readyz").status == 503).then_some(())
    });
    for (path, body) in [
        (EXECUTIONS.to_owned(), plain()),
        (
            format!("{EXECUTIONS}/{id}/prompt"),
            json!({ "prompt": "count" }),
        ),
    ] {
        let answer = daemon.post(&path, &body);
        assert_eq!(
            (answer.status, answer.problem().as_str()),
            (503, "shutting_down")
        );
    }
    assert_eq!(shown(&daemon, &id)["status"], "running");
    let path = format!("/api/agent/runs/{}/approve", ledger(&id));
    let body = json!({ "decision": "approve", "option": "allow" });
    assert_eq!(daemon.post(&path, &body).status, 200);
    assert_eq!(daemon.end(), Some(0));
    assert_eq!(said(&home, &id), ["allow"]);
}

#[test]
fn an_execution_whose_daemon_was_killed_is_not_shown_as_live_and_can_be_taken_up() {
    let home = home("");
    let mut daemon = Daemon::start(&home);
    let id = ready(&daemon, &plain());
    turn(&daemon, &id, "remember x");
    begin(&daemon, &id, "remember y\npermission Go on?\nrecall");
    home.wait_for_event(&ledger(&id), "approval_request");
    daemon.signal(Signal::KILL);
    daemon.end();

    let daemon = Daemon::start(&home);
    assert_eq!(shown(&daemon, &id)["status"], "stopped");
    let live = daemon.get(&format!("{EXECUTIONS}?status=running")).json();
    assert_eq!(live, json!({ "executions": [] }));
    // The turn that was cut off goes on, up to its question.
    let second = launch(&daemon, &taken_up(&id));
    until(&daemon, &second, "running");
    crate::api::approvals::until_open(&daemon, &ledger(&id), 1);
    let path = format!("/api/agent/runs/{}/approve", ledger(&id));
    let body = json!({ "decision": "approve", "option": "allow" });
    assert_eq!(daemon.post(&path, &body).status, 200);
    until(&daemon, &second, "ready");
    assert_eq!(said(&home, &id), ["allow", "x,y"]);
}

#[test]
fn a_launch_whose_client_goes_away_leaves_at_most_one_that_is_found() {
    let home = home("");
    let daemon = Daemon::start(&home);
    for number in 0..20 {
        let body = of_session(&format!("s-{number}")).to_string();
        let mut stream = daemon.connect();
        let head = format!(
            "POST {EXECUTIONS} HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            daemon.address,
            body.len()
        );
        stream.write_all(head.as_bytes()).unwrap();
    }
    // Each session is served by what was registered, or by nobody: then it can be launched.
    for number in 0..20 {
        let session = format!("s-{number}");
        let answer = eventually("an answer", || {
            let answer = daemon.post(EXECUTIONS, &of_session(&session));
            [201, 409].contains(&answer.status).then_some(answer)
        });
        let document = answer.json();
        let id = document.get("id").or(document.get("execution_id")).unwrap();
        until(&daemon, id.as_str().unwrap(), "ready");
        let path = format!("{EXECUTIONS}?session_id={session}&status=ready");
        let live = daemon.get(&path).json();
        assert_eq!(live["executions"].as_array().unwrap().len(), 1, "{live}");
    }
}

/// Also one that has servers which do not end by themselves; what it carried out can be taken up.
#[test]
fn a_worker_ends_with_its_daemon_and_leaves_nothing() {
    let home = home("");
    let server = hostile(&home, "stays");
    home.configure(&format!(
        "[capabilities]\ngrant = [\"tool:*\"]\n[runtime]\ndefault_backend = \"subprocess\"\n{server}"
    ));
    let mut daemon = Daemon::start(&home);
    let id = ready(&daemon, &plain());
    turn(&daemon, &id, "remember x\ntool h__echo {}");
    daemon.signal(Signal::KILL);
    assert_eq!(daemon.end(), None);
    wait_for_end(started(&home)[0]);
    let end = home.events_of(&ledger(&id), "run_completed").remove(0);
    assert_eq!(end["payload"]["code"], "interrupted", "{end}");

    let daemon = Daemon::start(&home);
    assert_eq!(shown(&daemon, &id)["stop_reason"], "interrupted");
    let second = ready(&daemon, &taken_up(&id));
    turn(&daemon, &second, "recall");
    assert!(said(&home, &id).contains(&"x".to_owned()));
}
