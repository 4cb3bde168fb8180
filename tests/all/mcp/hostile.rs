//! What clients and skills do that mean no good.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufReader, Write as _};

use serde_json::{Value, json};
use skillrun_test_artifacts::PROBE;

use super::cases::{
    asked, call, cancelled, in_session, initialize, new_run, request, within_a_step,
};
use super::peer::{daemon, write_prompt};
use super::requests::{NEW, OLD};
use super::wire::Wire;
use crate::api::daemon::{Answer, Daemon};
use crate::harness::{Home, eventually};

/// How much larger a server may be after it was sent what is much longer than it takes.
const GROWTH_BYTES_MAX: usize = 96 * 1024 * 1024;
/// What is much longer than a message may be.
const LONG_BYTES: usize = 100 * 1024 * 1024;

/// Looks that a connection answers as it did.
#[track_caller]
fn assert_goes_on(wire: &mut Wire) {
    let echo = json!({ "verb": "echo", "value": { "on": true } });
    let answer = asked(wire, &call("goes-on", "probe", &echo));
    assert_eq!(
        answer["result"]["structuredContent"]["on"], true,
        "{answer}"
    );
}

#[track_caller]
fn assert_goes_on_in_session(wire: &mut Wire) {
    let echo = json!({ "verb": "echo", "value": { "on": true } });
    let answer = asked(wire, &in_session(call("goes-on", "probe", &echo)));
    assert_eq!(
        answer["result"]["structuredContent"]["on"], true,
        "{answer}"
    );
}

/// Lines that are no requests, the id under which each is answered, and the code.
fn malformed() -> Vec<(String, Value, i32)> {
    let no_json = |line: &str| (line.to_owned(), Value::Null, -32700);
    let none = |line: Value, id: Value| (line.to_string(), id, -32600);
    vec![
        no_json("{"),
        no_json("nonsense"),
        no_json("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"} trailing"),
        no_json("\u{1}"),
        no_json(&"[".repeat(10_000)),
        (
            format!("{}{}", "[".repeat(10_000), "]".repeat(10_000)),
            Value::Null,
            -32600,
        ),
        (
            format!("{}1{}", "{\"a\":".repeat(10_000), "}".repeat(10_000)),
            Value::Null,
            -32600,
        ),
        none(json!([]), Value::Null),
        none(
            json!([{ "jsonrpc": "2.0", "id": 1, "method": "ping" }]),
            Value::Null,
        ),
        none(json!(1), Value::Null),
        none(json!({}), Value::Null),
        none(json!({ "jsonrpc": "2.0", "id": 1 }), Value::Null),
        none(
            json!({ "jsonrpc": "1.0", "id": 1, "method": "ping" }),
            json!(1),
        ),
        none(json!({ "id": "a", "method": "ping" }), json!("a")),
        none(
            json!({ "jsonrpc": "2.0", "id": {}, "method": "ping" }),
            Value::Null,
        ),
        none(
            json!({ "jsonrpc": "2.0", "id": [1], "method": "tools/list" }),
            Value::Null,
        ),
        none(json!({ "jsonrpc": "2.0", "id": 4, "method": 5 }), json!(4)),
        (format!("[0{}]", ",0".repeat(600_000)), Value::Null, -32600),
    ]
}

#[test]
fn what_is_no_message_is_answered_with_an_error_and_the_connection_goes_on() {
    let home = Home::new(&[PROBE]);
    let mut stdio = Wire::stdio(&home);
    let daemon = daemon(&home);
    for (line, id, code) in malformed() {
        let shown: String = line.chars().take(80).collect();
        stdio.raw(format!("{line}\n").as_bytes());
        let answer = stdio.next();
        assert_eq!(answer["error"]["code"], code, "{shown}: {answer}");
        assert_eq!(answer["id"], id, "{shown}: {answer}");
        let answer = posted(&daemon, &[], &line);
        assert_eq!(answer.status, 400, "{shown}: {answer:?}");
        let answer = answer.json();
        assert_eq!(answer["error"]["code"], code, "{shown}: {answer}");
        assert_eq!(answer["id"], id, "{shown}: {answer}");
    }
    assert_goes_on(&mut stdio);
    assert_goes_on(&mut Wire::http(*daemon, NEW));
}

/// A body at `/mcp`, with further fields of the head.
#[track_caller]
fn posted(daemon: &Daemon, more: &[&str], body: &str) -> Answer {
    let version = format!("MCP-Protocol-Version: {NEW}");
    let accept = "Accept: application/json, text/event-stream";
    let headers: Vec<&str> = [accept, version.as_str()]
        .into_iter()
        .chain(more.iter().copied())
        .collect();
    daemon.request("POST", "/mcp", &headers, Some(body))
}

/// Requests of which one member is of the wrong type, or absurd: each is an error under its id.
#[test]
fn wrong_types_are_errors_under_the_id_of_their_request() {
    let home = Home::new(&[PROBE]);
    let daemon = daemon(&home);
    let mut stdio = Wire::stdio(&home);
    let mut http = Wire::http(*daemon, NEW);
    let wrong = [
        json!(5),
        json!([]),
        json!([{}]),
        json!(true),
        json!({ "a": 1 }),
        json!("text"),
    ];
    let members = [
        ("tools/call", "name"),
        ("tools/call", "arguments"),
        ("tools/call", "inputResponses"),
        ("tools/call", "requestState"),
        ("tasks/get", "taskId"),
        ("tasks/update", "inputResponses"),
        ("tasks/cancel", "taskId"),
        ("prompts/get", "name"),
        ("resources/read", "uri"),
        ("completion/complete", "ref"),
        ("completion/complete", "argument"),
    ];
    for (n, (method, member)) in members.into_iter().enumerate() {
        for value in &wrong {
            let mut params = match method {
                "tools/call" => json!({ "name": "none" }),
                "tasks/update" => json!({ "taskId": "none" }),
                _ => json!({}),
            };
            params[member] = value.clone();
            let message = request(n, method, params);
            for wire in [&mut stdio, &mut http] {
                let answer = asked(wire, &message);
                // A text is an address, at which there is nothing.
                let codes = [Some(-32602), Some(-32002)];
                let code = answer["error"]["code"].as_i64();
                assert!(codes.contains(&code), "{message}: {answer}");
            }
        }
    }
    for params in [json!(5), json!("text"), json!(null), json!([])] {
        let message =
            json!({ "jsonrpc": "2.0", "id": "p", "method": "tools/call", "params": params });
        stdio.begin(&message);
        let answer = stdio.next();
        assert!(answer["error"]["code"].is_i64(), "{message}: {answer}");
        assert_eq!(answer["id"], "p", "{message}: {answer}");
    }
    assert_eq!(home.run_ids(), Vec::<String>::new());
    assert_goes_on(&mut stdio);
    assert_goes_on(&mut http);
}

/// A line and a body of 100 MB: refused, without being kept.
#[test]
fn what_is_far_too_long_is_refused_and_not_kept() {
    let home = Home::new(&[PROBE]);
    let mut stdio = Wire::stdio(&home);
    assert_goes_on(&mut stdio);
    let before = resident_bytes(stdio.child().id());
    let piece = vec![b'x'; 1024 * 1024];
    for _ in 0..LONG_BYTES / piece.len() {
        stdio.raw(&piece);
    }
    let growth = resident_bytes(stdio.child().id()).saturating_sub(before);
    assert!(growth < GROWTH_BYTES_MAX, "{growth}");
    stdio.raw(b"\n");
    let answer = stdio.next();
    assert_eq!(answer["error"]["code"], -32600, "{answer}");
    assert_goes_on(&mut stdio);

    let daemon = daemon(&home);
    assert_goes_on(&mut Wire::http(*daemon, NEW));
    let before = daemon.resident_bytes();
    let mut stream = daemon.connect();
    let head = format!(
        "POST /mcp HTTP/1.1\r\nHost: {}\r\nAccept: application/json, text/event-stream\r\n\
         Content-Type: application/json\r\nContent-Length: {LONG_BYTES}\r\n\r\n",
        daemon.address,
    );
    stream.write_all(head.as_bytes()).unwrap();
    for _ in 0..LONG_BYTES / piece.len() {
        // It need not be read to its end.
        if stream.write_all(&piece).is_err() {
            break;
        }
    }
    let growth = daemon.resident_bytes().saturating_sub(before);
    assert!(growth < GROWTH_BYTES_MAX, "{growth}");
    let short = json!({ "verb": "noop" });
    assert_goes_on(&mut Wire::http(*daemon, NEW));
    // A body that says nothing of its length.
    let mut stream = daemon.connect();
    let head = head.replace(
        &format!("Content-Length: {LONG_BYTES}"),
        "Transfer-Encoding: chunked",
    );
    stream.write_all(head.as_bytes()).unwrap();
    let chunk = [format!("{:x}\r\n", piece.len()).as_bytes(), &piece, b"\r\n"].concat();
    for _ in 0..LONG_BYTES / piece.len() {
        if stream.write_all(&chunk).is_err() {
            break;
        }
    }
    let growth = daemon.resident_bytes().saturating_sub(before);
    assert!(growth < GROWTH_BYTES_MAX, "{growth}");
    let answer = asked(&mut Wire::http(*daemon, NEW), &call(1, "probe", &short));
    assert_eq!(answer["result"]["isError"], false, "{answer}");
}

fn resident_bytes(pid: u32) -> usize {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB"));
    kib.unwrap().trim().parse::<usize>().unwrap() * 1024
}

/// All clients together, and whoever does not watch goes on.
#[test]
fn there_is_a_bound_to_what_clients_watch() {
    let home = Home::new(&[PROBE]);
    let daemon = daemon(&home);
    // Each takes a place for itself, and one for each of its addresses.
    let uris = vec!["skill://probe/SKILL.md"; 64];
    let listen = |id: usize| {
        request(
            id,
            "subscriptions/listen",
            json!({ "notifications": { "resourceSubscriptions": uris } }),
        )
    };
    let mut wire = Wire::http(*daemon, NEW);
    for id in 0..32 {
        wire.begin(&listen(id));
    }
    let refused = eventually("a stream too many", || {
        let message = wire.next();
        message["error"].is_object().then_some(message)
    });
    assert_eq!(refused["error"]["data"]["code"], "busy", "{refused}");
    assert_goes_on(&mut Wire::http(*daemon, NEW));
}

#[test]
fn a_revision_that_nobody_knows_is_refused() {
    let home = Home::new(&[PROBE]);
    let daemon = daemon(&home);
    let mut stdio = Wire::stdio(&home);
    for version in ["", "1999-01-01", "v999", "2026-07-28 "] {
        let mut list = request(1, "tools/list", json!({}));
        list["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!(version);
        let answer = asked(&mut stdio, &list);
        assert!(answer["error"]["code"].is_i64(), "{version}: {answer}");
        let field = format!("MCP-Protocol-Version: {version}");
        let headers = [
            "Accept: application/json, text/event-stream",
            field.as_str(),
            "Mcp-Method: tools/list",
        ];
        let answer = daemon.request("POST", "/mcp", &headers, Some(&list.to_string()));
        assert_eq!(answer.status, 400, "{version}: {answer:?}");
    }
    assert_goes_on(&mut stdio);
    // Whoever begins a session is told of a revision that there is.
    let mut old = Wire::stdio(&home);
    let params = json!({
        "protocolVersion": "2999-01-01", "capabilities": {}, "clientInfo": { "name": "a", "version": "1" },
    });
    let first = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params });
    let answer = asked(&mut old, &first);
    assert_eq!(answer["result"]["protocolVersion"], OLD, "{answer}");
}

/// Two requests with one id at a time: one of them is answered at least, both runs come to their end, and nothing hangs.
#[test]
fn ids_that_are_in_flight_twice_harm_nobody() {
    let home = Home::new(&[PROBE]);
    let slow = within_a_step(&json!({ "verb": "sleep", "ms": 500 }));
    let end_of_all = |home: &Home, runs: usize| {
        eventually("the end of both", || {
            let ids = home.run_ids();
            let ended = |id: &&String| !home.events_of(id, "run_completed").is_empty();
            (ids.iter().filter(ended).count() == runs).then_some(())
        });
    };
    let mut stdio = Wire::stdio(&home);
    stdio.begin(&call("same", "probe", &slow));
    stdio.begin(&call("same", "probe", &slow));
    assert_eq!(stdio.next()["id"], "same");
    end_of_all(&home, 2);
    let noop = json!({ "verb": "noop" });
    stdio.begin(&call("other", "probe", &noop));
    while stdio.next()["id"] != "other" {}
    let daemon = daemon(&home);
    let mut session = Wire::http(*daemon, OLD);
    initialize(&mut session);
    let before = home.run_ids();
    let _first = session.connection(&in_session(call("same", "probe", &slow)));
    new_run(&home, &before);
    let second = session.connection(&in_session(call("same", "probe", &slow)));
    let second = Answer::read_head(&mut BufReader::new(second));
    assert!([200, 400, 409, 500].contains(&second.status), "{second:?}");
    assert_goes_on_in_session(&mut session);
}

/// The 1,025th session is refused, and whoever has one, or needs none, notices nothing.
#[test]
fn there_are_as_many_sessions_as_there_may_be() {
    let home = Home::new(&[PROBE]);
    let daemon = daemon(&home);
    let mut first = Wire::http(*daemon, OLD);
    initialize(&mut first);
    let params = json!({
        "protocolVersion": OLD, "capabilities": {}, "clientInfo": { "name": "a", "version": "1" },
    });
    let begin =
        json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params }).to_string();
    let accept = ["Accept: application/json, text/event-stream"];
    for n in 1..1_024 {
        let answer = daemon.request("POST", "/mcp", &accept, Some(&begin));
        assert_eq!(answer.status, 200, "{n}: {answer:?}");
    }
    let refused = daemon.request("POST", "/mcp", &accept, Some(&begin));
    assert_eq!(refused.status, 503, "{refused:?}");
    assert!(refused.header("retry-after").is_some(), "{refused:?}");
    assert_eq!(refused.json()["id"], 1, "{refused:?}");
    assert_goes_on_in_session(&mut first);
    assert_goes_on(&mut Wire::http(*daemon, NEW));
}

/// 200 calls at once: each is answered, under its own id, with its result or with being busy.
#[test]
fn two_hundred_calls_at_once_are_all_answered() {
    let home = Home::new(&[PROBE]);
    home.configure("[runs]\nat_once_max = 8\nqueue_max = 256\n");
    let daemon = daemon(&home);
    for wire in [&mut Wire::stdio(&home), &mut Wire::http(*daemon, NEW)] {
        for n in 0..200 {
            wire.begin(&call(
                n,
                "probe",
                &json!({ "verb": "echo", "value": { "n": n } }),
            ));
        }
        let mut seen = BTreeSet::new();
        for _ in 0..200 {
            let answer = wire.next();
            let content = &answer["result"]["structuredContent"];
            assert_eq!(content["n"], answer["id"], "{answer}");
            seen.insert(answer["id"].as_u64());
        }
        assert_eq!(seen.len(), 200);
    }
}

/// What a skill answers is checked, whole, and one message.
#[test]
fn what_a_hostile_skill_answers_is_a_message_or_an_error() {
    let home = Home::new(&[PROBE]);
    let daemon = daemon(&home);
    let text = "\u{0}\u{1b}[2J\r\n\u{2028}{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n";
    for wire in [&mut Wire::stdio(&home), &mut Wire::http(*daemon, NEW)] {
        let echo = json!({ "verb": "echo", "value": text });
        let answer = asked(wire, &call(1, "probe", &echo));
        assert_eq!(answer["result"]["content"][0]["text"], text, "{answer}");
        let long = json!({ "verb": "output", "bytes": 8 * 1024 * 1024 });
        let answer = asked(wire, &call(2, "probe", &long));
        let whole = answer["result"]["content"][0]["text"].as_str();
        let is_whole = whole.is_some_and(|text| text.len() >= 8 * 1024 * 1024 - 2);
        let is_refused =
            answer["error"]["data"]["code"].is_string() || answer["result"]["isError"] == true;
        assert!(is_whole || is_refused, "{:.300}", answer.to_string());
        let failing = json!({ "verb": "fail", "message": text, "code": "a\nb" });
        let answer = asked(wire, &call(3, "probe", &failing));
        assert_eq!(answer["result"]["isError"], true, "{answer}");
        assert_goes_on(wire);
    }
}

#[test]
fn content_that_no_client_could_take_is_an_error() {
    let home = Home::new(&[PROBE]);
    home.write_manifest("probe", "[mcp]\nresult = \"content\"\n");
    let mut wire = Wire::stdio(&home);
    let deep = (0..100).fold(json!(1), |inner, _| json!({ "a": inner }));
    for value in [
        json!({ "content": [{ "type": "image", "data": "not base64!", "mimeType": "image/png" }] }),
        json!({ "content": [{ "type": "image", "data": "aGk", "mimeType": "image/png" }] }),
        json!({ "content": [{ "type": "text" }] }),
        json!({ "content": vec![json!({ "type": "text", "text": "" }); 1_001] }),
        json!({ "content": [], "structuredContent": "text" }),
        json!({ "content": [], "resultType": "task", "task": {} }),
        json!({ "content": [], "_meta": { "skillrun/run_id": "run_0" } }),
        json!([deep]),
    ] {
        let arguments = json!({ "verb": "echo", "value": value });
        let answer = asked(&mut wire, &call(1, "probe", &arguments));
        assert_eq!(answer["error"]["code"], -32603, "{answer}");
        assert_eq!(
            answer["error"]["data"]["code"], "invalid_output",
            "{answer}"
        );
    }
}

/// A skill does not take the name of another one, or of an operation or prompt, by saying that it has it.
#[test]
fn no_skill_takes_the_name_of_another() {
    let home = Home::new(&[]);
    for name in ["good", "bad", "worse"] {
        home.install_as(&PROBE, name, PROBE.folder.as_ref());
        let head = format!("---\nname: {name}\ndescription: One of three.\n---\n");
        fs::write(home.skill(name).join("SKILL.md"), head).unwrap();
    }
    home.write_manifest("bad", "[mcp]\nname = \"good\"\n");
    home.write_manifest("worse", "[mcp]\nname = \"mine\"\n");
    write_prompt(&home, "mine", "A prompt.", "");
    let mut wire = Wire::stdio(&home);
    let listed = asked(&mut wire, &request(1, "tools/list", json!({})));
    let tools = listed["result"]["tools"].as_array().unwrap();
    let names: Vec<&str> = tools
        .iter()
        .filter_map(|tool| tool["name"].as_str())
        .collect();
    assert_eq!(names, ["bad", "good", "worse"]);
    let noop = json!({ "verb": "noop" });
    for name in names {
        let answer = asked(&mut wire, &call(2, name, &noop));
        let run_id = answer["result"]["_meta"]["skillrun/run_id"]
            .as_str()
            .unwrap();
        let began = &home.events_of(run_id, "run_started")[0];
        assert_eq!(began["payload"]["skill"], name, "{began}");
    }
}

/// A client that is killed, or whose connection is reset, in the middle of a call.
#[test]
fn a_client_that_dies_in_mid_call_leaves_nothing_behind() {
    let home = Home::new(&[PROBE]);
    let endless = within_a_step(&json!({ "verb": "spin" }));
    let mut wire = Wire::stdio(&home);
    wire.begin(&call(1, "probe", &endless));
    let run_id = new_run(&home, &[]);
    wire.child().kill().unwrap();
    wire.child().wait().unwrap();
    assert_goes_on(&mut Wire::stdio(&home));
    let end = home.events_of(&run_id, "run_completed");
    assert!(
        end.iter().all(|end| end["payload"]["status"] != "ok"),
        "{end:?}"
    );
    let daemon = daemon(&home);
    let before = home.run_ids();
    let connection = Wire::http(*daemon, NEW).connection(&call(1, "probe", &endless));
    let run_id = new_run(&home, &before);
    // What was sent and not read makes the end of the connection a reset.
    rustix::net::sockopt::set_socket_linger(&connection, Some(std::time::Duration::ZERO)).unwrap();
    drop(connection);
    cancelled(&home, &run_id);
    assert_goes_on(&mut Wire::http(*daemon, NEW));
}
