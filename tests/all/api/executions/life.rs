//! What an execution is asked, and answers.

use std::io::{BufReader, Write as _};
use std::slice::from_ref;

use serde_json::json;

use super::*;
use crate::api::metrics::samples;

#[test]
fn an_agent_is_launched_prompted_and_shown() {
    let home = home("");
    let daemon = Daemon::start(&home);
    let body = json!({
        "agent_profile_id": "probe-agent",
        "prompt": "remember x",
        "metadata": { "launch_request": { "session_id": "s-1", "task_id": "t-1" }, "color": "red" },
    });
    let id = launch(&daemon, &body);
    // The first prompt goes with the launch.
    let second = turn(&daemon, &id, "remember y\nrecall");
    assert_eq!(second["prompt_generation"], 2);
    assert_eq!(second["stop_reason"], "end_turn");
    assert_eq!(second["undone"], false);
    assert_eq!(second["usage"]["input_tokens"], 0);
    assert_eq!(said(&home, &id), ["x,y"]);

    let execution = until(&daemon, &id, "ready");
    for (key, expected) in [
        ("id", json!(id)),
        ("session_id", json!("s-1")),
        ("task_id", json!("t-1")),
        ("agent_profile_id", json!("probe-agent")),
        ("executor_id", json!("in-process")),
        ("mcp_mode", json!("task")),
        ("prior_session", json!(ledger(&id))),
        ("prompt_generation", json!(2)),
        ("prompts_queued", json!(0)),
        ("metadata", json!({ "color": "red" })),
        (
            "agentctl_url",
            json!(format!("http://{}{EXECUTIONS}/{id}", daemon.address)),
        ),
    ] {
        assert_eq!(execution[key], expected, "{key}: {execution}");
    }
}

/// The ids of the executions of one page.
fn listed(daemon: &Client, query: &str) -> Vec<String> {
    let page = daemon.get(&format!("{EXECUTIONS}?{query}")).json();
    let executions = page["executions"].as_array().unwrap();
    let ids = executions.iter().map(|execution| &execution["id"]);
    ids.map(|id| id.as_str().unwrap().to_owned()).collect()
}

#[test]
fn executions_are_listed_and_one_that_was_stopped_is_asked_for_nothing_more() {
    let home = home("");
    let daemon = Daemon::start(&home);
    let id = ready(&daemon, &of_session("s-1"));
    let other = ready(&daemon, &plain());
    let listed = |query: &str| listed(&daemon, query);
    assert_eq!(listed(""), [other.clone(), id.clone()]);
    assert_eq!(listed("session_id=s-1"), from_ref(&id));
    assert_eq!(listed("status=running"), Vec::<String>::new());
    let page = daemon.get(&format!("{EXECUTIONS}?limit=1")).json();
    let cursor = page["next_cursor"].as_str().unwrap();
    assert_eq!(listed(&format!("limit=1&cursor={cursor}")), from_ref(&id));

    let stopped = ask(
        &daemon,
        &id,
        "stop",
        &json!({ "reason": "the task is done" }),
    );
    assert_eq!(stopped.status, 200, "{stopped:?}");
    assert_eq!(
        stopped.json(),
        json!({ "id": id, "status": "stopped", "forced": false })
    );
    let execution = shown(&daemon, &id);
    assert_eq!(execution["status"], "stopped");
    assert_eq!(execution["code"], "cancelled");
    assert_eq!(execution["stop_reason"], "the task is done");
    assert!(execution["finished_at"].is_string(), "{execution}");
    assert_eq!(listed("status=stopped"), from_ref(&id));
    for (what, body) in [
        ("stop", json!({})),
        ("prompt", json!({ "prompt": "count" })),
        ("cancel", json!(null)),
        ("mode", json!({ "mode": "config" })),
    ] {
        let answer = ask(&daemon, &id, what, &body);
        let found = (answer.status, answer.problem());
        assert_eq!(found, (404, "not_found".to_owned()), "{what}");
    }
    let deleted = format!("{EXECUTIONS}/{other}?reason=enough");
    let deleted = daemon.request("DELETE", &deleted, &[], None);
    assert_eq!(deleted.status, 200, "{deleted:?}");
    assert_eq!(shown(&daemon, &other)["stop_reason"], "enough");
}

#[test]
fn whoever_waits_for_a_turn_and_goes_away_takes_it_along() {
    let home = home("");
    let daemon = Daemon::start(&home);
    let id = ready(&daemon, &plain());
    let body = json!({ "prompt": "sleep 600000" }).to_string();
    let waiting = |query: &str| {
        let mut stream = daemon.connect();
        let head = format!(
            "POST {EXECUTIONS}/{id}/prompt{query} HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            daemon.address,
            body.len()
        );
        stream.write_all(head.as_bytes()).unwrap();
        stream
    };
    let stream = waiting("?wait=true");
    until(&daemon, &id, "running");
    drop(stream);
    until(&daemon, &id, "ready");
    let ends = || home.events_of(&ledger(&id), "turn_completed");
    assert_eq!(ends()[0]["payload"]["stop_reason"], "cancelled");

    // A prompt that was accepted is nobody's any more.
    let mut stream = BufReader::new(waiting(""));
    assert_eq!(Answer::read(&mut stream).status, 202);
    drop(stream);
    until(&daemon, &id, "running");
    // One that waits is taken back before its turn.
    let queued = waiting("?wait=true");
    let is_queued = |count: usize| {
        eventually("a prompt that waits", || {
            (shown(&daemon, &id)["prompts_queued"] == count).then_some(())
        });
    };
    is_queued(1);
    drop(queued);
    is_queued(0);
    assert_eq!(shown(&daemon, &id)["status"], "running");
    let cancelled = ask(&daemon, &id, "cancel", &json!(null)).json();
    assert_eq!(cancelled["turn"]["stop_reason"], "cancelled");
    assert_eq!(cancelled["turn"]["prompt_generation"], 2);
    until(&daemon, &id, "ready");
    let none = ask(&daemon, &id, "cancel", &json!(null));
    assert_eq!((none.status, none.json()), (200, json!({ "id": id })));
    assert_eq!(ends().len(), 2);
}

/// What an agent is given to come to an end is longer here than what a request may take.
#[test]
fn who_ends_a_turn_or_an_execution_is_answered_however_long_the_grace_is() {
    let home = home("[serve]\nrequest_timeout_ms = 200\n[runtime]\ngrace_ms = 600");
    let daemon = Daemon::start(&home);
    let launched = json!({ "agent_profile_id": "probe-agent", "metadata": { "finish": "spin" } });
    for end in ["stop", "DELETE"] {
        let id = ready(&daemon, &launched);
        let answer = ask(&daemon, &id, "prompt", &json!({ "prompt": "spin" }));
        assert_eq!(answer.status, 202, "{answer:?}");
        until(&daemon, &id, "running");
        let cancelled = ask(&daemon, &id, "cancel", &json!(null));
        assert_eq!(cancelled.status, 200, "{cancelled:?}");
        assert_eq!(cancelled.json()["turn"]["undone"], true);
        let stopped = match end {
            "stop" => ask(&daemon, &id, end, &json!(null)),
            _ => daemon.request(end, &format!("{EXECUTIONS}/{id}"), &[], None),
        };
        assert_eq!(stopped.status, 200, "{stopped:?}");
        assert_eq!(stopped.json()["status"], "stopped");
    }
}

#[test]
fn a_turn_goes_on_when_the_time_to_wait_for_it_is_over() {
    let home = home("");
    let daemon = Daemon::start(&home);
    let id = ready(&daemon, &plain());
    let body = json!({ "prompt": "sleep 600000" });
    let answer = ask(&daemon, &id, "prompt?wait=20", &body);
    assert_eq!(answer.status, 202, "{answer:?}");
    until(&daemon, &id, "running");
    assert_eq!(ask(&daemon, &id, "cancel", &json!(null)).status, 200);
    // What the agent does is no problem of the request.
    let failed = turn(&daemon, &id, "fail no_luck it did not work");
    assert_eq!(failed["stop_reason"], "error");
    assert!(
        failed["error"]
            .as_str()
            .unwrap()
            .contains("it did not work"),
        "{failed}"
    );
}

#[test]
fn a_prompt_whose_execution_ends_is_told_how() {
    let home = home("");
    let daemon = Daemon::start(&home);
    for (prompt, status, exit_code) in [("exit 0", "completed", 0), ("exit 1", "failed", 1)] {
        let id = ready(&daemon, &plain());
        let answer = ask(
            &daemon,
            &id,
            "prompt?wait=true",
            &json!({ "prompt": prompt }),
        );
        assert_eq!((answer.status, answer.problem().as_str()), (409, "ended"));
        assert_eq!(answer.json()["execution_id"], id);
        let ended = until(&daemon, &id, status);
        assert_eq!(ended["exit_code"], exit_code, "{ended}");
    }
}

#[test]
fn a_choice_is_an_approval_with_options() {
    let home = home("");
    let daemon = Daemon::start(&home);
    let id = ready(&daemon, &plain());
    begin(&daemon, &id, "permission Delete it?");
    let run_id = ledger(&id);
    let open = crate::api::approvals::until_open(&daemon, &run_id, 1);
    assert_eq!(open[0]["prompt"], "Delete it?");
    assert_eq!(
        open[0]["options"],
        json!([{ "id": "allow", "label": "Allow" }, { "id": "deny", "label": "Deny" }])
    );
    let decide = |body| daemon.post(&format!("/api/agent/runs/{run_id}/approve"), &body);
    for body in [
        json!({ "decision": "approve", "option": "perhaps" }),
        json!({ "decision": "approve" }),
    ] {
        let answer = decide(body);
        assert_eq!(
            (answer.status, answer.problem().as_str()),
            (400, "invalid_input")
        );
    }
    let answer = decide(json!({ "decision": "approve", "option": "deny", "reason": "not now" }));
    assert_eq!(answer.status, 200, "{answer:?}");
    assert_eq!(answer.json()["decision"]["option"], "deny");
    until(&daemon, &id, "ready");
    assert_eq!(said(&home, &id), ["deny"]);

    // A question of a turn that is cancelled needs no answer any more.
    begin(&daemon, &id, "permission And now?");
    crate::api::approvals::until_open(&daemon, &run_id, 1);
    assert_eq!(ask(&daemon, &id, "cancel", &json!(null)).status, 200);
    crate::api::approvals::until_open(&daemon, &run_id, 0);
}

#[test]
fn a_mode_is_changed_once() {
    let home = home("");
    let daemon = Daemon::start(&home);
    let id = ready(&daemon, &plain());
    let set = |mode: &str| ask(&daemon, &id, "mode", &json!({ "mode": mode })).json();
    let told =
        |mode: &str, changed: bool| json!({ "id": id, "mcp_mode": mode, "changed": changed });
    assert_eq!(set("office"), told("office", true));
    assert_eq!(set("office"), told("office", false));
    assert_eq!(shown(&daemon, &id)["mcp_mode"], "office");
    let answer = ask(&daemon, &id, "mode", &json!({ "mode": "root" }));
    assert_eq!(answer.status, 400, "{answer:?}");
    let statuses = home.events_of(&ledger(&id), "session_status");
    let changes = statuses
        .iter()
        .filter(|status| status["payload"]["status"] == "mode_changed");
    assert_eq!(changes.count(), 1);
}

#[test]
fn executions_and_turns_are_counted() {
    let home = home("");
    let daemon = Daemon::start(&home);
    let id = ready(&daemon, &plain());
    for _ in 0..3 {
        turn(&daemon, &id, "count");
    }
    until(&daemon, &id, "ready");
    let other = ready(&daemon, &plain());
    begin(&daemon, &other, "sleep 600000");
    let body = json!({ "prompt": "count" });
    assert_eq!(ask(&daemon, &other, "prompt", &body).status, 202);
    let found = samples(&daemon);
    for (name, expected) in [
        ("skillrun_executions_launched_total", 2.0),
        ("skillrun_executions{status=\"ready\"}", 1.0),
        ("skillrun_executions{status=\"running\"}", 1.0),
        ("skillrun_prompts_queued", 1.0),
        ("skillrun_turn_duration_seconds_count", 3.0),
    ] {
        assert_eq!(found.get(name), Some(&expected), "{name}: {found:?}");
    }
    assert_eq!(ask(&daemon, &other, "stop", &json!({})).status, 200);
    let ended = "skillrun_executions_ended_total{status=\"stopped\",code=\"cancelled\"}";
    assert_eq!(samples(&daemon).get(ended), Some(&1.0));
}
