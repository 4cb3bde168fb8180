//! What is refused, with which code, and that nothing is left of it.

use serde_json::json;

use super::*;

fn with(key: &str, value: Value) -> Value {
    let mut body = plain();
    body[key] = value;
    body
}

fn request(request: Value) -> Value {
    with("metadata", json!({ "launch_request": request }))
}

#[track_caller]
fn refused(daemon: &Daemon, body: &Value, expected: (u16, &str)) {
    let answer = daemon.post(EXECUTIONS, body);
    let shown: String = body.to_string().chars().take(200).collect();
    assert_eq!(answer.status, expected.0, "{shown}: {answer:?}");
    assert_eq!(answer.problem(), expected.1, "{shown}: {answer:?}");
}

#[test]
fn what_cannot_be_launched_is_refused_and_leaves_nothing() {
    let home = home("");
    let daemon = Daemon::start(&home);
    let absent = "run_00000000000070008000000000000000";
    for agent in ["nobody", ""] {
        let body = json!({ "agent_profile_id": agent });
        refused(&daemon, &body, (404, "not_found"));
    }
    for body in [
        json!({}),
        json!([]),
        with("agent", json!("probe-agent")),
        with("mcp_mode", json!("root")),
        with("metadata", json!([])),
    ] {
        refused(&daemon, &body, (400, "bad_request"));
    }
    for body in [
        with("executor_id", json!("bare-metal")),
        with("prior_session", json!("run_1")),
        with("prior_session", json!(absent)),
        with("prompt", json!("x".repeat(1024 * 1024 + 1))),
        with("metadata", json!({ "launch_request": 1 })),
        with("metadata", json!({ "x": "x".repeat(20_000) })),
        with("workspace", json!({ "path": "/" })),
        with("workspace", json!({ "path": "here" })),
        request(json!({ "session_id": "../s" })),
        request(json!({ "session_id": 7 })),
        request(json!({ "limits": { "fuel": 1 } })),
        request(json!({ "workspace": { "path": "/" } })),
    ] {
        refused(&daemon, &body, (400, "invalid_input"));
    }
    assert_eq!(home.run_ids(), Vec::<String>::new());
    let page = daemon.get(EXECUTIONS).json();
    assert_eq!(page, json!({ "executions": [] }));
}

/// The operator chose how far executions are kept from the daemon, and clients choose no less.
#[test]
fn a_client_names_no_backend_that_isolates_less_than_the_configured_one() {
    let home = home("[runtime]\ndefault_backend = \"subprocess\"\n");
    let daemon = Daemon::start(&home);
    for body in [
        with("executor_id", json!("in-process")),
        request(json!({ "executor_id": "in-process" })),
    ] {
        let answer = daemon.post(EXECUTIONS, &body);
        assert_eq!(
            (answer.status, answer.problem().as_str()),
            (403, "denied"),
            "{answer:?}"
        );
        let hint = answer.json()["hint"].as_str().unwrap().to_owned();
        assert!(hint.contains("runtime.default_backend"), "{hint}");
    }
    assert_eq!(home.run_ids(), Vec::<String>::new());
    let id = ready(&daemon, &with("executor_id", json!("subprocess")));
    assert_eq!(shown(&daemon, &id)["executor_id"], "subprocess");
    drop(daemon);

    home.configure("");
    let daemon = Daemon::start(&home);
    let id = ready(&daemon, &with("executor_id", json!("subprocess")));
    assert_eq!(shown(&daemon, &id)["executor_id"], "subprocess");
}

/// Which of the two a component is, is known when it is loaded, and by then its execution is on record.
#[test]
fn a_skill_that_is_no_agent_fails_at_once() {
    let home = home("");
    let daemon = Daemon::start(&home);
    let id = launch(&daemon, &json!({ "agent_profile_id": "greet" }));
    let failed = until(&daemon, &id, "failed");
    assert_eq!(failed["code"], "load_error", "{failed}");
    let message = failed["error_message"].as_str().unwrap();
    assert!(message.contains("is no agent"), "{message}");
}

#[test]
fn an_agent_that_is_not_for_this_surface_is_as_good_as_absent() {
    let home = home("");
    home.write_manifest(
        "probe-agent",
        "[component]\nworld = \"0.1\"\n[expose]\napi = false\n",
    );
    let daemon = Daemon::start(&home);
    let answer = daemon.post(EXECUTIONS, &plain());
    assert_eq!(
        (answer.status, answer.problem().as_str()),
        (404, "not_found")
    );
}

#[test]
fn an_agent_is_launched_and_not_run() {
    let home = home("");
    let daemon = Daemon::start(&home);
    let body = json!({ "skill_name": "probe-agent" });
    let answer = daemon.post("/api/agent/runs?wait=true", &body);
    let text = String::from_utf8_lossy(&answer.body).into_owned();
    assert!(text.contains("agent"), "{text}");
    assert_ne!(answer.json()["status"], "ok", "{text}");
}

#[test]
fn a_session_has_one_execution_at_a_time() {
    let home = home("[runtime]\nexecutions_max = 2\n");
    let daemon = Daemon::start(&home);
    let id = ready(&daemon, &of_session("s-1"));
    let again = daemon.post(EXECUTIONS, &of_session("s-1"));
    assert_eq!((again.status, again.problem().as_str()), (409, "conflict"));
    assert_eq!(again.json()["execution_id"], id);
    ready(&daemon, &of_session("s-2"));
    let third = daemon.post(EXECUTIONS, &of_session("s-3"));
    assert_eq!((third.status, third.problem().as_str()), (429, "busy"));
    assert_eq!(third.header("retry-after"), Some("1"));
    let hint = third.json()["hint"].as_str().unwrap().to_owned();
    assert!(hint.contains("runtime.executions_max"), "{hint}");
    assert_eq!(ask(&daemon, &id, "stop", &json!(null)).status, 200);
    ready(&daemon, &of_session("s-1"));
}

#[test]
fn what_is_asked_of_an_execution_has_bounds() {
    let home = home("");
    let daemon = Daemon::start(&home);
    let id = ready(&daemon, &plain());
    let long = "x".repeat(1_025);
    for (what, body, code) in [
        ("prompt", json!({ "prompt": "" }), "invalid_input"),
        (
            "prompt",
            json!({ "prompt": "x".repeat(1024 * 1024 + 1) }),
            "invalid_input",
        ),
        ("prompt", json!({}), "bad_request"),
        ("prompt", json!(["x"]), "bad_request"),
        (
            "prompt?wait=yes",
            json!({ "prompt": "count" }),
            "invalid_input",
        ),
        ("stop", json!({ "reason": long }), "invalid_input"),
        ("stop", json!({ "why": "" }), "bad_request"),
        ("stop-children", json!({ "reason": long }), "invalid_input"),
    ] {
        let answer = ask(&daemon, &id, what, &body);
        let found = (answer.status, answer.problem());
        assert_eq!(found, (400, code.to_owned()), "{what}");
    }
    let path = format!("{EXECUTIONS}/{id}?reason={long}");
    assert_eq!(daemon.request("DELETE", &path, &[], None).status, 400);
    assert_eq!(shown(&daemon, &id)["status"], "ready");
    let children = ask(&daemon, &id, "stop-children", &json!(null));
    assert_eq!(
        (children.status, children.json()),
        (200, json!({ "stopped": [] }))
    );

    // Prompts that wait have a bound too.
    begin(&daemon, &id, "sleep 600000");
    let prompt = || ask(&daemon, &id, "prompt", &json!({ "prompt": "count" }));
    for _ in 0..64 {
        assert_eq!(prompt().status, 202);
    }
    let answer = prompt();
    assert_eq!((answer.status, answer.problem().as_str()), (429, "busy"));
}

#[test]
fn an_id_that_names_nothing_is_not_found_wherever_it_stands() {
    let home = home("");
    let daemon = Daemon::start(&home);
    let absent = "exec_00000000000070008000000000000000_1";
    for id in [
        absent,
        "exec_1",
        "run_00000000000070008000000000000000",
        "..%2f..",
    ] {
        for (method, what, body) in [
            ("GET", "", None),
            ("GET", "/events", None),
            ("DELETE", "", None),
            ("POST", "/cancel", None),
            ("POST", "/stop", None),
            ("POST", "/stop-children", None),
            ("POST", "/prompt", Some(r#"{"prompt":"x"}"#)),
            ("POST", "/mode", Some(r#"{"mode":"task"}"#)),
        ] {
            let path = format!("{EXECUTIONS}/{id}{what}");
            let answer = daemon.request(method, &path, &[], body);
            let found = (answer.status, answer.problem());
            assert_eq!(found, (404, "not_found".to_owned()), "{method} {path}");
        }
    }
    for query in [
        "limit=0",
        "limit=201",
        "cursor=x",
        "status=paused",
        "parent=exec_1",
        "x=1",
    ] {
        assert_eq!(
            daemon.get(&format!("{EXECUTIONS}?{query}")).status,
            400,
            "{query}"
        );
    }
}
