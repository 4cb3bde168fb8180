//! Cases of the list in which clients of MCP meet the server.

use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use skillrun_test_artifacts::PROBE;

use super::peer::daemon;
use super::requests::{NEW, OLD, meta};
use super::wire::Wire;
use crate::api::daemon::Daemon;
use crate::executor::skill_of;
use crate::harness::{Home, eventually};
use crate::wit::examples;

/// How long a cancelled run may go on, many times over: what it does would take ten minutes.
const CANCELLED_MS_MAX: i128 = 2_500;

/// A request of a client without a session, which can be asked and knows tasks.
pub(super) fn request(id: impl Into<Value>, method: &str, mut params: Value) -> Value {
    let mut own = meta();
    own["io.modelcontextprotocol/clientCapabilities"]["extensions"] =
        json!({ "io.modelcontextprotocol/tasks": {} });
    params["_meta"] = own;
    json!({ "jsonrpc": "2.0", "id": id.into(), "method": method, "params": params })
}

/// A call of a tool.
pub(super) fn call(id: impl Into<Value>, tool: &str, arguments: &Value) -> Value {
    request(
        id,
        "tools/call",
        json!({ "name": tool, "arguments": arguments }),
    )
}

/// The same of a client that has said in its session who it is.
pub(super) fn in_session(mut message: Value) -> Value {
    let params = message["params"].as_object_mut().unwrap();
    params.remove("_meta");
    message
}

/// The answer to a request, of a client that is asked nothing by the way.
#[track_caller]
pub(super) fn asked(wire: &mut Wire, message: &Value) -> Value {
    let heard = wire.ask(message, 0, &|asked| panic!("{asked}"));
    heard.answer
}

/// Begins a session.
#[track_caller]
pub(super) fn initialize(wire: &mut Wire) {
    let params = json!({
        "protocolVersion": OLD,
        "capabilities": { "elicitation": {} },
        "clientInfo": { "name": "cases", "version": "1.0.0" },
    });
    let first =
        json!({ "jsonrpc": "2.0", "id": "first", "method": "initialize", "params": params });
    let answer = asked(wire, &first);
    assert_eq!(answer["result"]["protocolVersion"], OLD, "{answer}");
    wire.tell(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
}

/// What a skill does that is cancelled in the middle of a step.
fn within_a_step(then: &Value) -> Value {
    json!({ "verb": "in_node", "name": "n", "then": then })
}

/// In a loop, and in a call of the host.
fn endless() -> [Value; 2] {
    [
        json!({ "verb": "spin" }),
        json!({ "verb": "sleep", "ms": 600_000 }),
    ]
    .map(|then| within_a_step(&then))
}

/// The one run that was not there before, when it has come to its step.
#[track_caller]
pub(super) fn new_run(home: &Home, before: &[String]) -> String {
    let run_id = eventually("a run", || {
        let mut runs = home.run_ids();
        runs.retain(|run_id| !before.contains(run_id));
        runs.pop()
    });
    home.wait_for_event(&run_id, "node_enter");
    run_id
}

fn now_micros() -> i128 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    i128::try_from(since.as_micros()).unwrap()
}

/// When the run ended, as its ledger has it, after looking that it was cancelled.
#[track_caller]
pub(super) fn cancelled(home: &Home, run_id: &str) -> i128 {
    home.wait_for_event(run_id, "run_completed");
    let events = home.events(run_id);
    let end = events.last().unwrap();
    assert_eq!(
        (&end["type"], &end["payload"]["status"]),
        (&json!("run_completed"), &json!("cancelled")),
        "{end}"
    );
    let time: skillrun::clock::Timestamp = end["time"].as_str().unwrap().parse().unwrap();
    i128::from(time.unix_micros())
}

/// Case C5: a notification stops a run in the middle of what it does, and nothing comes of it afterwards.
#[test]
fn c5_a_call_is_cancelled_by_its_notification() {
    let home = Home::new(&[PROBE]);
    let daemon = daemon(&home);
    let mut stdio = Wire::stdio(&home);
    let mut session = Wire::stdio(&home);
    initialize(&mut session);
    let mut http = Wire::http(*daemon, OLD);
    initialize(&mut http);
    let without: fn(Value) -> Value = |message| message;
    for (wire, spoken) in [
        (&mut stdio, without),
        (&mut session, in_session as fn(Value) -> Value),
        (&mut http, in_session),
    ] {
        for arguments in endless() {
            let before = home.run_ids();
            wire.begin(&spoken(call("endless", "probe", &arguments)));
            let run_id = new_run(&home, &before);
            let begun = now_micros();
            let params = json!({ "requestId": "endless", "reason": "enough" });
            wire.tell(
                &json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": params }),
            );
            let took_ms = (cancelled(&home, &run_id) - begun) / 1_000;
            assert!(took_ms < CANCELLED_MS_MAX, "{took_ms} {arguments}");
            let events = home.events(&run_id).len();
            let next = call("next", "probe", &json!({ "verb": "noop" }));
            let answer = asked(wire, &spoken(next));
            assert_eq!(answer["result"]["isError"], false, "{answer}");
            assert_eq!(home.events(&run_id).len(), events, "{arguments}");
        }
    }
}

/// Cases C5 and C39: a request over HTTP whose client goes away takes its run with it, and nothing else does.
#[test]
fn c39_a_call_whose_client_goes_away_is_cancelled_and_a_run_that_was_posted_goes_on() {
    let home = Home::new(&[PROBE]);
    let daemon = daemon(&home);
    let body = json!({ "skill_name": "probe", "input": within_a_step(&json!({ "verb": "sleep", "ms": 600_000 })) });
    let posted = daemon.post("/api/agent/runs", &body).json();
    let posted = posted["run_id"].as_str().unwrap().to_owned();
    home.wait_for_event(&posted, "node_enter");
    let wire = Wire::http(*daemon, NEW);
    for arguments in endless() {
        let before = home.run_ids();
        let connection = wire.connection(&call(1, "probe", &arguments));
        let run_id = new_run(&home, &before);
        let begun = now_micros();
        drop(connection);
        let took_ms = (cancelled(&home, &run_id) - begun) / 1_000;
        assert!(took_ms < CANCELLED_MS_MAX, "{took_ms} {arguments}");
    }
    assert_eq!(home.events_of(&posted, "run_completed").len(), 0);
    let cancel = format!("/api/agent/runs/{posted}/cancel");
    assert_eq!(daemon.request("POST", &cancel, &[], None).status, 202);
    cancelled(&home, &posted);
}

/// Case C39 on standard input: the end of the input, and a client that is killed.
#[test]
fn c39_a_client_that_dies_takes_its_calls_with_it() {
    let home = Home::new(&[PROBE]);
    // One that becomes a task in the meantime could go on later.
    home.write_manifest("probe", "[mcp]\ntask = \"never\"\n");
    for arguments in endless() {
        let before = home.run_ids();
        let mut wire = Wire::stdio(&home);
        wire.begin(&call(1, "probe", &arguments));
        let run_id = new_run(&home, &before);
        wire.end();
        cancelled(&home, &run_id);
    }
}

/// Case C5: a task goes on when the request that began it is cancelled, or its client is gone.
#[test]
fn c5_a_task_goes_on_without_its_client() {
    let home = Home::new(&[PROBE]);
    home.write_manifest("probe", "[mcp]\ntask = \"always\"\n");
    let daemon = daemon(&home);
    let arguments = within_a_step(&json!({ "verb": "sleep", "ms": 300 }));
    let mut wire = Wire::http(*daemon, NEW);
    let created = asked(&mut wire, &call(1, "probe", &arguments));
    assert_eq!(created["result"]["resultType"], "task", "{created}");
    let task = created["result"]["taskId"].as_str().unwrap().to_owned();
    drop(wire);
    home.wait_for_event(&task, "run_completed");
    let end = &home.events_of(&task, "run_completed")[0];
    assert_eq!(end["payload"]["status"], "ok", "{end}");
}

/// Case C16: whoever was led here by a name or a page of somebody else's.
#[test]
fn c16_a_foreign_host_or_origin_is_refused_at_mcp() {
    let home = Home::new(&[]);
    let daemon = daemon(&home);
    let own = format!("Host: {}", daemon.address);
    let body = request(1, "tools/list", json!({})).to_string();
    for method in ["POST", "GET", "DELETE"] {
        for (host, origin, code) in [
            ("Host: evil", "", "forbidden_host"),
            (&own, "Origin: http://evil\r\n", "forbidden_origin"),
            (&own, "Origin: null\r\n", "forbidden_origin"),
        ] {
            let head = format!(
                "{method} /mcp HTTP/1.1\r\n{host}\r\n{origin}Connection: close\r\n\
                 Accept: application/json, text/event-stream\r\nContent-Type: application/json\r\n\
                 Mcp-Method: tools/list\r\nMCP-Protocol-Version: {NEW}\r\nContent-Length: {}\r\n\r\n{body}",
                body.len(),
            );
            let answer = daemon.send(head);
            assert_eq!(
                (answer.status, answer.problem().as_str()),
                (403, code),
                "{method} {host} {origin}"
            );
        }
    }
}

fn install(home: &Home, name: &str, wasm: &[u8]) {
    let skill = home.skill(name);
    fs::create_dir_all(&skill).unwrap();
    let front_matter = format!("---\nname: {name}\ndescription: One of many\n---\n");
    fs::write(skill.join("SKILL.md"), front_matter).unwrap();
    fs::write(skill.join("skill.wasm"), wasm).unwrap();
}

/// The names and schemas that the first list has.
#[track_caller]
fn listed(wire: &mut Wire) -> Vec<Value> {
    let answer = asked(wire, &request(1, "tools/list", json!({})));
    let tools = answer["result"]["tools"].as_array();
    let tools = tools.unwrap_or_else(|| panic!("{answer}"));
    let told = |tool: &Value| json!([tool["name"], tool["inputSchema"], tool["description"]]);
    tools.iter().map(told).collect()
}

/// Case C20: the first list that a client is given is whole, after a restart and with a damaged cache as well.
#[test]
fn c20_the_first_list_has_every_tool_with_its_schema() {
    let home = Home::new(&[]);
    home.configure("[engine]\ncompile_time_ms = 600_000\n");
    let python = fs::read(examples::python().join("skill.wasm")).unwrap();
    for n in 0..18 {
        let wasm = skill_of("", "", &"(func)".repeat(n), "");
        install(&home, &format!("small-{n:02}"), &wasm);
    }
    install(&home, "python-1", &python);
    install(&home, "python-2", &python);
    // An interpreter takes a while.
    let inspected = home.skillrun(&["skills", "inspect", "python-1", "--json"]);
    assert_eq!(inspected.exit, Some(0), "{inspected:?}");
    let first = listed(&mut Wire::stdio(&home));
    assert_eq!(first.len(), 20, "{first:?}");
    assert!(first.iter().all(|tool| tool[1]["type"] == "object"));
    let typed = first
        .iter()
        .filter(|tool| tool[1]["properties"].is_object());
    assert_eq!(typed.count(), 2, "{first:?}");
    let cached = fs::read_dir(home.path().join("cache")).unwrap();
    let mut cached: Vec<_> = cached.map(|entry| entry.unwrap().path()).collect();
    cached.sort_by_key(|path| fs::metadata(path).unwrap().len());
    for path in &cached[..5] {
        let file = File::options().write(true).open(path).unwrap();
        file.write_all_at(b"damage", 1_000).unwrap();
    }
    assert_eq!(listed(&mut Wire::stdio(&home)), first);
    let daemon = daemon(&home);
    assert_eq!(listed(&mut Wire::http(*daemon, NEW)), first);
}

/// A skill that asks for a yes, and fails when it hears no.
fn asking() -> (Home, Value) {
    let home = Home::new(&[PROBE]);
    home.write_manifest("probe", "[capabilities]\nrequest = [\"approval\"]\n");
    home.configure("[capabilities]\ngrant = [\"approval\"]\n");
    let ask = json!({ "call": "ask", "prompt": "go on?", "payload": "{\"file\":\"a\"}" });
    (home, json!({ "verb": "insist", "on": ask }))
}

/// The same call with what is brought back for it.
fn again(id: &str, arguments: &Value, state: &Value, answers: Option<&Value>) -> Value {
    let mut message = call(id, "probe", arguments);
    message["params"]["requestState"] = state.clone();
    if let Some(answers) = answers {
        message["params"]["inputResponses"] = answers.clone();
    }
    message
}

fn yes_or_no(key: &str, approve: bool) -> Value {
    json!({ key: { "action": "accept", "content": { "approve": approve } } })
}

/// The keys of what is asked, and the state to bring back.
#[track_caller]
pub(super) fn questions(answer: &Value) -> (Vec<String>, Value) {
    let result = &answer["result"];
    assert_eq!(result["resultType"], "input_required", "{answer}");
    let keys = result["inputRequests"].as_object().unwrap().keys();
    (keys.cloned().collect(), result["requestState"].clone())
}

/// Case C33: a question that waits over a restart is the same afterwards, and answered once.
#[test]
fn c33_a_question_is_asked_again_after_a_restart_and_answered_once() {
    let (home, arguments) = asking();
    let start = |home: &Home| -> (Option<Daemon>, Wire) {
        let daemon = daemon(home);
        let wire = Wire::http(*daemon, NEW);
        (Some(daemon), wire)
    };
    let start_stdio = |home: &Home| -> (Option<Daemon>, Wire) { (None, Wire::stdio(home)) };
    let ways: [&dyn Fn(&Home) -> (Option<Daemon>, Wire); 2] = [&start, &start_stdio];
    for start in ways {
        let (daemon, mut wire) = start(&home);
        let before = home.run_ids();
        let (keys, state) = questions(&asked(&mut wire, &call("a", "probe", &arguments)));
        let mut runs = home.run_ids();
        runs.retain(|run_id| !before.contains(run_id));
        assert_eq!((keys.len(), runs.len()), (1, 1));
        // Both are killed, without a word.
        drop((daemon, wire));
        let (_daemon, mut wire) = start(&home);
        let once_more = asked(&mut wire, &again("b", &arguments, &state, None));
        let (keys_again, state) = questions(&once_more);
        assert_eq!(keys_again, keys);
        let yes = yes_or_no(&keys[0], true);
        let done = asked(&mut wire, &again("c", &arguments, &state, Some(&yes)));
        assert_eq!(done["result"]["isError"], false, "{done}");
        // Whoever says no now is told what was decided.
        let no = yes_or_no(&keys[0], false);
        let done = asked(&mut wire, &again("d", &arguments, &state, Some(&no)));
        assert_eq!(done["result"]["isError"], false, "{done}");
        let decided = home.events_of(&runs[0], "approval_response");
        assert_eq!(decided.len(), 1, "{decided:?}");
        assert_eq!(decided[0]["payload"]["approved"], true, "{decided:?}");
        assert_eq!(home.run_ids().len(), before.len() + 1);
    }
}

/// Case C33: of two that answer at once, one decides, and both are told the same.
#[test]
fn c33_two_that_answer_at_once_are_told_one_decision() {
    let (home, arguments) = asking();
    let daemon = daemon(&home);
    for _ in 0..8 {
        let mut wire = Wire::http(*daemon, NEW);
        let before = home.run_ids();
        let (keys, state) = questions(&asked(&mut wire, &call("a", "probe", &arguments)));
        let answer = |approve: bool| {
            let mut wire = Wire::http(*daemon, NEW);
            let answers = yes_or_no(&keys[0], approve);
            asked(&mut wire, &again("b", &arguments, &state, Some(&answers)))
        };
        let answer = &answer;
        let (yes, no) = std::thread::scope(|scope| {
            let yes = scope.spawn(move || answer(true));
            let no = scope.spawn(move || answer(false));
            (yes.join().unwrap(), no.join().unwrap())
        });
        assert_eq!(yes["result"], no["result"], "{yes} {no}");
        let mut runs = home.run_ids();
        runs.retain(|run_id| !before.contains(run_id));
        let decided = home.events_of(&runs[0], "approval_response");
        assert_eq!(decided.len(), 1, "{decided:?}");
        let is_error = decided[0]["payload"]["approved"] == false;
        assert_eq!(yes["result"]["isError"], is_error, "{yes} {decided:?}");
    }
}

/// Case C40: arguments of a wrong type are told by their path and what was expected, before the skill runs.
#[test]
fn c40_arguments_of_a_wrong_type_are_told_by_their_path() {
    let home = Home::new(&[PROBE]);
    let schema = "[schemas]\ninput = { type = \"object\", properties = { n = { type = \"object\", properties = { deep = { type = \"integer\" } } } } }\n";
    home.write_manifest("probe", schema);
    let daemon = daemon(&home);
    for wire in [&mut Wire::stdio(&home), &mut Wire::http(*daemon, NEW)] {
        let before = home.run_ids();
        let arguments = json!({ "verb": "noop", "n": { "deep": "5" } });
        let answer = asked(wire, &call(1, "probe", &arguments));
        assert_eq!(answer["result"]["isError"], true, "{answer}");
        let text = answer["result"]["content"][0]["text"].as_str().unwrap();
        assert!(text.contains("$.n.deep"), "{text}");
        assert!(text.contains("\"5\" is not of type \"integer\""), "{text}");
        let mut runs = home.run_ids();
        runs.retain(|run_id| !before.contains(run_id));
        let ran = runs.iter().flat_map(|run_id| home.events(run_id));
        assert!(ran.into_iter().all(|event| event["source"] != "guest"));
    }
}

/// Case C41: what does not fit its schema is an error with a code, and no result.
#[test]
fn c41_a_result_that_does_not_fit_is_an_error() {
    let home = Home::new(&[PROBE]);
    let schema = "[schemas]\noutput = { type = \"object\", properties = { n = { type = \"integer\" } }, required = [\"n\"] }\n";
    home.write_manifest("probe", schema);
    let daemon = daemon(&home);
    for wire in [&mut Wire::stdio(&home), &mut Wire::http(*daemon, NEW)] {
        let good = json!({ "verb": "echo", "value": { "n": 1 } });
        let answer = asked(wire, &call(1, "probe", &good));
        assert_eq!(answer["result"]["structuredContent"], json!({ "n": 1 }));
        for value in [json!({ "n": "1" }), json!({}), json!(1), json!(null)] {
            let arguments = json!({ "verb": "echo", "value": value });
            let answer = asked(wire, &call(2, "probe", &arguments));
            assert_eq!(answer["error"]["code"], -32603, "{answer}");
            assert_eq!(answer["error"]["data"]["code"], "invalid_output");
            assert_eq!(answer.get("result"), None);
        }
    }
}

/// Case C42: the second call of a skill does not wait for the first one.
#[test]
fn c42_two_calls_of_one_skill_go_on_at_once() {
    let home = Home::new(&[PROBE]);
    home.write_manifest("probe", "[mcp]\ntask = \"never\"\n");
    let daemon = daemon(&home);
    for wire in [&mut Wire::stdio(&home), &mut Wire::http(*daemon, NEW)] {
        let before = home.run_ids();
        let slow = within_a_step(&json!({ "verb": "sleep", "ms": 2_000 }));
        wire.begin(&call(1, "probe", &slow));
        wire.begin(&call(2, "probe", &slow));
        for _ in 0..2 {
            let answer = wire.next();
            assert_eq!(answer["result"]["isError"], false, "{answer}");
        }
        let mut runs = home.run_ids();
        runs.retain(|run_id| !before.contains(run_id));
        let time = |run_id: &String, kind: &str| {
            home.events_of(run_id, kind)[0]["time"]
                .as_str()
                .unwrap()
                .to_owned()
        };
        let within = runs.iter().map(|run_id| time(run_id, "node_enter"));
        let ended = runs.iter().map(|run_id| time(run_id, "run_completed"));
        assert_eq!(runs.len(), 2);
        assert!(within.max() < ended.min(), "one after the other");
    }
}
