//! The pair of events that a request leaves.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use skillrun_test_artifacts::FETCH;

use super::server::{Server, ok};
use super::{fetched, granted, payloads, probe, run_id};
use crate::harness::Home;

#[test]
fn a_request_and_its_response_are_on_record_in_full() {
    let server = Server::answering(
        "HTTP/1.1 201 Created\r\nX-One: 1\r\nX-One: 2\r\nContent-Length: 7\r\n\r\n{\"a\":1}",
    );
    let home = granted(&[&server.net("/#POST")], "");
    let verb = json!({
        "verb": "http", "url": server.url("/items?x=%2F"), "method": "POST",
        "headers": [["Content-Type", "text/plain"]], "body": "grüße",
    });
    let (document, exit) = probe(&home, &verb);
    assert_eq!(exit, 0, "{document}");
    let events = home.events(&run_id(&document));
    let kinds: Vec<&str> = events
        .iter()
        .map(|event| event["type"].as_str().unwrap())
        .collect();
    // That the guest waited for the response is on record too.
    let expected = [
        "run_started",
        "http_call",
        "http_result",
        "timer",
        "run_completed",
    ];
    assert_eq!(kinds, expected);
    assert!(events.iter().all(|event| event["source"] == "host"));
    let (call, result) = (&events[1]["payload"], &events[2]["payload"]);
    assert_eq!(
        call,
        &json!({
            "call_id": "http#1", "node_id": "", "method": "POST",
            "url": server.url("/items?x=%2F"),
            "headers": [["host", server.address.to_string()], ["content-type", "text/plain"]],
            "body": "grüße", "effect": "write",
        })
    );
    assert_eq!(result["call_id"], "http#1");
    assert_eq!(
        (&result["status"], &result["body"]),
        (&json!(201), &json!("{\"a\":1}"))
    );
    assert_eq!(
        result["headers"],
        json!([["x-one", "1"], ["x-one", "2"], ["content-length", "7"]])
    );
    assert!(result["duration_micros"].is_u64() && result["error"].is_null());
    // What is on record was sent, and nothing else but the length and the place in the trace.
    let seen = &server.seen()[0];
    assert_eq!(seen.line, "POST /items?x=%2F HTTP/1.1");
    assert_eq!(seen.body, "grüße".as_bytes());
    let mut names: Vec<&str> = seen.headers.iter().map(|(name, _)| name.as_str()).collect();
    names.sort_unstable();
    assert_eq!(
        names,
        ["content-length", "content-type", "host", "traceparent"]
    );
}

#[test]
fn the_class_of_a_request_is_that_of_its_method() {
    let server = Server::answering(ok(""));
    let home = granted(
        &[&server.net("/#GET,HEAD,OPTIONS,PUT,DELETE,POST,PATCH")],
        "",
    );
    for (method, effect) in [
        ("GET", "read"),
        ("HEAD", "read"),
        ("OPTIONS", "read"),
        ("PUT", "idempotent"),
        ("DELETE", "idempotent"),
        ("POST", "write"),
        ("PATCH", "write"),
    ] {
        let verb = json!({ "verb": "http", "url": server.url("/"), "method": method });
        let (document, exit) = probe(&home, &verb);
        assert_eq!(exit, 0, "{method}: {document}");
        let call = &payloads(&home, &run_id(&document), "http_call")[0];
        assert_eq!(
            (&call["effect"], &call["method"]),
            (&json!(effect), &json!(method))
        );
    }
}

#[test]
fn what_is_no_text_is_base64_and_what_is_large_a_blob() {
    let mut answer = b"HTTP/1.1 200 OK\r\nX-Odd: \xe4\r\nContent-Length: 3\r\n\r\n".to_vec();
    answer.extend_from_slice(b"\xff\0\xfe");
    let server = Server::answering(answer);
    let home = granted(&[&server.net("/#GET,POST")], "");
    let (_, run_id) = fetched(&home, &server.url("/"));
    let result = &payloads(&home, &run_id, "http_result")[0];
    assert_eq!(result["base64"], true);
    assert_eq!(result["body"], STANDARD.encode(b"\xff\0\xfe"));
    assert_eq!(result["headers"][0], json!(["x-odd", "\u{fffd}"]));

    let body = "large ".repeat(20_000);
    let server = Server::answering(ok(&body));
    let home = granted(&[&server.net("/#GET")], "");
    let (output, run_id) = fetched(&home, &server.url("/"));
    assert_eq!(output["bytes"], body.len());
    let result = &payloads(&home, &run_id, "http_result")[0];
    let digest = result["body"]["blob"].as_str().unwrap();
    let blob = home
        .path()
        .join("runs")
        .join(format!("{run_id}.blobs"))
        .join(digest);
    assert_eq!(std::fs::read_to_string(blob).unwrap(), body);
    assert_eq!(home.skillrun(&["runs", "verify", &run_id]).exit, Some(0));
}

/// No cookie, no compression, no agent's name, no field that nobody asked for but the place in the trace.
#[test]
fn a_request_carries_nothing_from_the_one_before() {
    let server = Server::answering(
        "HTTP/1.1 200 OK\r\nSet-Cookie: a=b\r\nContent-Encoding: gzip\r\nContent-Length: 5\r\n\r\nplain",
    );
    let home = granted(&[&server.net("/#GET")], "");
    let urls = [server.url("/1"), server.url("/2")];
    let mut command = home.command(&["run", "probe", "--json", "--input"]);
    command
        .arg(json!({ "verb": "http_each", "urls": urls }).to_string())
        // A proxy of the environment is not asked: the address that was checked is.
        .env("http_proxy", "http://127.0.0.1:1")
        .env("HTTP_PROXY", "http://127.0.0.1:1")
        .env("ALL_PROXY", "http://127.0.0.1:1");
    let document: Value = serde_json::from_slice(&command.output().unwrap().stdout).unwrap();
    assert_eq!(document["output"][1]["text"], "plain", "{document}");
    let mut places = Vec::new();
    for mut seen in server.seen() {
        let (trace, own): (Vec<_>, Vec<_>) = seen
            .headers
            .drain(..)
            .partition(|(name, _)| name == "traceparent");
        assert_eq!(own, [("host".to_owned(), server.address.to_string())]);
        places.extend(trace);
    }
    let [first, second] = &places[..] else {
        panic!("{places:?}")
    };
    assert_ne!(first, second);
}

/// The example skill, which asks for one place.
#[test]
fn the_example_reads_what_it_was_granted() {
    let server = Server::answering(ok("Example Domain"));
    let home = Home::new(&[FETCH]);
    let (document, exit) = home.run_json("fetch", &json!({ "url": "https://example.com/" }));
    assert_eq!(
        (exit, &document["code"]),
        (3, &json!("denied")),
        "{document}"
    );
    let capability = json!([server.net("/#GET")]);
    home.write_manifest("fetch", &format!("[capabilities]\nrequest = {capability}"));
    home.configure(&format!("[skills.fetch]\ngrant = {capability}"));
    let (document, exit) = home.run_json("fetch", &json!({ "url": server.url("/page") }));
    assert_eq!(exit, 0, "{document}");
    assert_eq!(
        document["output"],
        json!({ "status": 200, "text": "Example Domain" })
    );
}
