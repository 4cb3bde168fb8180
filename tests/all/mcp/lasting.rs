//! What outlasts a request: tasks over restarts and after their time, and questions that come back.

use std::fs;

use serde_json::{Value, json};
use skillrun_test_artifacts::PROBE;

use super::cases::{self, asked, call, in_session, initialize, questions, request, within_a_step};
use super::peer::daemon;
use super::requests::{NEW, OLD};
use super::wire::Wire;
use crate::api::daemon::Daemon;
use crate::harness::{Home, eventually};

/// A skill that asks for a yes, of which a call becomes a task as the manifest says.
fn asking(task: &str) -> (Home, Value) {
    let (home, arguments) = cases::asking();
    let manifest = format!("[capabilities]\nrequest = [\"approval\"]\n[mcp]\ntask = \"{task}\"\n");
    home.write_manifest("probe", &manifest);
    (home, arguments)
}

/// Begins what a task can be asked of over either transport. What is not standard input has a daemon.
fn start(home: &Home, over_http: bool) -> (Option<Daemon>, Wire) {
    match over_http {
        true => {
            let daemon = daemon(home);
            let wire = Wire::http(*daemon, NEW);
            (Some(daemon), wire)
        }
        false => (None, Wire::stdio(home)),
    }
}

/// What is at work for so long.
fn sleeping(ms: u64) -> Value {
    within_a_step(&json!({ "verb": "sleep", "ms": ms }))
}

#[track_caller]
fn begun(wire: &mut Wire, arguments: &Value) -> String {
    let created = asked(wire, &call("begin", "probe", arguments));
    assert_eq!(created["result"]["resultType"], "task", "{created}");
    created["result"]["taskId"].as_str().unwrap().to_owned()
}

fn got(wire: &mut Wire, id: &str) -> Value {
    asked(wire, &request("get", "tasks/get", json!({ "taskId": id })))
}

/// The task when it has that status.
#[track_caller]
fn until(wire: &mut Wire, id: &str, status: &str) -> Value {
    let task = eventually(status, || {
        let task = got(wire, id);
        assert!(task["result"].is_object(), "{task}");
        Some(task).filter(|task| task["result"]["status"] == status)
    });
    task["result"].clone()
}

#[test]
fn a_task_that_waits_for_an_answer_survives_a_restart() {
    for over_http in [true, false] {
        let (home, arguments) = asking("always");
        let (daemon, mut wire) = start(&home, over_http);
        let id = begun(&mut wire, &arguments);
        let before = until(&mut wire, &id, "input_required");
        // Both are killed, without a word.
        drop((daemon, wire));
        let (_daemon, mut wire) = start(&home, over_http);
        let after = until(&mut wire, &id, "input_required");
        assert_eq!(after["inputRequests"], before["inputRequests"]);
        let keys = after["inputRequests"].as_object().unwrap().keys();
        let yes = json!({ "action": "accept", "content": { "approve": true } });
        let answers: serde_json::Map<_, _> = keys.map(|key| (key.clone(), yes.clone())).collect();
        let answer = json!({ "taskId": id, "inputResponses": answers });
        let taken = asked(&mut wire, &request("update", "tasks/update", answer));
        assert!(taken["result"].is_object(), "{taken}");
        let done = until(&mut wire, &id, "completed");
        assert_eq!(done["result"]["isError"], false, "{done}");
        assert_eq!(home.run_ids(), [id.as_str()]);
        let decided = home.events_of(&id, "approval_response");
        assert_eq!(decided.len(), 1, "{decided:?}");
    }
}

#[test]
fn a_task_that_was_cut_off_at_work_goes_on_after_a_restart() {
    for over_http in [true, false] {
        let (home, _) = asking("always");
        let (daemon, mut wire) = start(&home, over_http);
        let id = begun(&mut wire, &sleeping(1_000));
        home.wait_for_event(&id, "node_enter");
        drop((daemon, wire));
        assert_eq!(home.events_of(&id, "run_completed").len(), 0);
        let (_daemon, mut wire) = start(&home, over_http);
        let done = until(&mut wire, &id, "completed");
        assert_eq!(done["result"]["isError"], false, "{done}");
        assert_eq!(home.run_ids(), [id.as_str()]);
    }
}

/// Its client is told so, however often it asks, and asking leaves no trace.
#[test]
fn a_task_that_cannot_go_on_has_failed() {
    let (home, _) = asking("always");
    let (daemon, mut wire) = start(&home, true);
    let id = begun(&mut wire, &sleeping(600_000));
    home.wait_for_event(&id, "node_enter");
    drop((daemon, wire));
    fs::remove_dir_all(home.skill("probe")).unwrap();
    let (_daemon, mut wire) = start(&home, true);
    let failed = until(&mut wire, &id, "failed");
    assert!(failed["error"]["data"]["code"].is_string(), "{failed}");
    let events = home.events(&id).len();
    for _ in 0..5 {
        assert_eq!(got(&mut wire, &id)["result"], failed);
    }
    assert_eq!(home.events(&id).len(), events);
}

#[test]
fn a_task_that_has_ended_is_told_of_for_its_time_to_live() {
    let (home, _) = asking("always");
    home.configure("[mcp]\ntask_ttl_ms = 1_000\n");
    let (_daemon, mut wire) = start(&home, true);
    let lasting = begun(&mut wire, &sleeping(600_000));
    let short = begun(&mut wire, &json!({ "verb": "noop" }));
    let over = eventually("a task whose time is over", || {
        let task = got(&mut wire, &short);
        assert_ne!(task["result"]["status"], "failed", "{task}");
        Some(task).filter(|task| task["error"].is_object())
    });
    assert_eq!(over["error"]["code"], -32602, "{over}");
    // The run stays, and a task that goes on is not over.
    home.wait_for_event(&short, "run_completed");
    let lives = got(&mut wire, &lasting);
    assert_eq!(lives["result"]["status"], "working", "{lives}");
    assert_eq!(lives["result"]["ttlMs"], 1_000, "{lives}");
}

/// Somebody else than the client can answer a task: nobody says no in the client's place.
#[test]
fn a_question_that_the_client_cannot_be_asked_makes_its_call_a_task() {
    let (home, arguments) = asking("auto");
    let (daemon, mut wire) = start(&home, true);
    let mut message = call("begin", "probe", &arguments);
    let capabilities =
        &mut message["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"];
    capabilities.as_object_mut().unwrap().remove("elicitation");
    let created = asked(&mut wire, &message);
    assert_eq!(created["result"]["resultType"], "task", "{created}");
    let id = created["result"]["taskId"].as_str().unwrap();
    assert_eq!(home.events_of(id, "approval_response").len(), 0);
    let path = format!("/api/agent/runs/{id}/approve");
    let daemon = daemon.unwrap();
    let approved = daemon.post(&path, &json!({ "decision": "approve" }));
    assert_eq!(approved.status, 200, "{approved:?}");
    let done = until(&mut wire, id, "completed");
    assert_eq!(done["result"]["isError"], false, "{done}");
}

/// A skill that has its client fill in forms, each by a key of the skill's own.
fn filling_in(keys: &[&str]) -> (Home, Value) {
    let home = Home::new(&[PROBE]);
    let capability = "\"tool:client__*\"";
    home.write_manifest(
        "probe",
        &format!("[capabilities]\nrequest = [{capability}]\n"),
    );
    home.configure(&format!("[capabilities]\ngrant = [{capability}]\n"));
    let form = json!({ "type": "object", "properties": { "name": { "type": "string" } } });
    let calls = keys.iter().enumerate().map(|(n, key)| {
        let arguments =
            json!({ "key": key, "message": format!("Form {n}"), "requestedSchema": form });
        json!({ "call": "tool", "name": "client__elicit", "arguments": arguments.to_string() })
    });
    (
        home,
        json!({ "verb": "calls", "calls": calls.collect::<Vec<_>>() }),
    )
}

fn named(name: &str) -> Value {
    json!({ "action": "accept", "content": { "name": name } })
}

/// What was filled in, as the skill has it of each of its calls.
fn names(answer: &Value) -> Vec<String> {
    let calls = answer["result"]["structuredContent"].clone();
    let calls = match calls {
        Value::Array(calls) => calls,
        _ => {
            let text = answer["result"]["content"][0]["text"].as_str().unwrap();
            serde_json::from_str(text).unwrap()
        }
    };
    let name = |call: &Value| {
        let content = call["ok"]["content"]
            .as_str()
            .unwrap_or_else(|| panic!("{call}"));
        let blocks: Value = serde_json::from_str(content).unwrap();
        let answer = blocks[0]["text"].as_str().unwrap();
        let answer: Value = serde_json::from_str(answer).unwrap();
        answer["content"]["name"].as_str().unwrap().to_owned()
    };
    calls.iter().map(name).collect()
}

/// What was answered once is no answer to what has the same key later.
#[test]
fn a_key_that_a_skill_uses_twice_is_asked_twice() {
    let (home, arguments) = filling_in(&["who", "who"]);
    let daemon = daemon(&home);

    let mut wire = Wire::http(*daemon, NEW);
    let first = asked(&mut wire, &call("a", "probe", &arguments));
    let (keys, state) = questions(&first);
    assert_eq!(keys, ["who"]);
    let bring = |id: &str, state: &Value, answers: Value| {
        let mut message = call(id, "probe", &arguments);
        message["params"]["requestState"] = state.clone();
        message["params"]["inputResponses"] = answers;
        message
    };
    let answered = bring("b", &state, json!({ "who": named("one") }));
    let (keys, later) = questions(&asked(&mut wire, &answered));
    assert_eq!(keys.len(), 1);
    assert_ne!(keys[0], "who");
    // What is brought once more decides nothing, and is asked what is open.
    let (again, _) = questions(&asked(&mut wire, &answered));
    assert_eq!(again, keys);
    let last = bring(
        "c",
        &later,
        json!({ (&keys[0]): named("two"), "who": named("no") }),
    );
    let done = asked(&mut wire, &last);
    assert_eq!(names(&done), ["one", "two"]);

    let mut wire = Wire::http(*daemon, OLD);
    initialize(&mut wire);
    let heard = wire.ask(&in_session(call("a", "probe", &arguments)), 0, &|asked| {
        named(asked["params"]["message"].as_str().unwrap())
    });
    assert_eq!(heard.asked.len(), 2, "{heard:?}");
    assert_eq!(names(&heard.answer), ["Form 0", "Form 1"]);
}

/// A person elsewhere can decline in the client's place, and not fill in its form.
#[test]
fn a_yes_from_elsewhere_is_no_answer_of_the_client() {
    let (home, arguments) = filling_in(&["who"]);
    let daemon = daemon(&home);
    let mut wire = Wire::http(*daemon, NEW);
    let (_, state) = questions(&asked(&mut wire, &call("a", "probe", &arguments)));
    let run_id = home.run_ids()[0].clone();
    let open = daemon.get("/api/approvals").json();
    assert_eq!(open["approvals"][0]["needs_answer"], true, "{open}");
    let path = format!("/api/agent/runs/{run_id}/approve");
    let refused = daemon.post(&path, &json!({ "decision": "approve" }));
    assert_eq!(
        (refused.status, refused.problem().as_str()),
        (400, "invalid_input")
    );
    let told = home.skillrun(&["runs", "approve", &run_id, "--decision", "approve"]);
    assert_eq!(told.exit, Some(2), "{told:?}");
    let mut message = call("b", "probe", &arguments);
    message["params"]["requestState"] = state;
    message["params"]["inputResponses"] = json!({ "who": named("one") });
    assert_eq!(names(&asked(&mut wire, &message)), ["one"]);

    let (_, state) = questions(&asked(&mut wire, &call("c", "probe", &arguments)));
    let runs = home.run_ids();
    let second = runs.iter().find(|id| **id != run_id).unwrap();
    let path = format!("/api/agent/runs/{second}/approve");
    assert_eq!(
        daemon.post(&path, &json!({ "decision": "reject" })).status,
        200
    );
    let mut message = call("d", "probe", &arguments);
    message["params"]["requestState"] = state;
    let declined = asked(&mut wire, &message).to_string();
    assert!(declined.contains("decline"), "{declined}");
}

/// The host's own keys have other characters in them than a skill's can have.
#[test]
fn a_key_like_one_of_the_hosts_is_refused() {
    for key in ["approval#1", "run_0/approval#1", "", "a b"] {
        let (home, arguments) = filling_in(&[key]);
        let mut wire = Wire::stdio(&home);
        let answer = asked(&mut wire, &call("a", "probe", &arguments));
        let text = answer["result"]["content"][0]["text"].as_str();
        let text = text.unwrap_or_else(|| panic!("{answer}"));
        assert!(text.contains("key"), "{key:?} {answer}");
        let run_id = home.run_ids().pop().unwrap();
        assert_eq!(home.events_of(&run_id, "approval_request").len(), 0);
    }
}
