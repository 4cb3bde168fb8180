//! Sizes, times and numbers: each bound with a server, or a guest, that goes beyond it.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, mpsc};
use std::time::Duration;

use rustix::process::Signal;
use serde_json::{Value, json};

use super::server::{Server, ok, wait_for_close};
use super::{failed, fetched, grant, granted, payloads, probe, result, run_id};
use crate::harness::{Home, eventually};

fn get(server: &Server) -> Value {
    json!({ "verb": "http", "url": server.url("/") })
}

/// An answer that is wrong, what the guest is told of it, and how the record begins.
type Wrong = (String, &'static str, &'static str);

fn wrong_answers() -> Vec<Wrong> {
    let head = "HTTP/1.1 200 OK\r\n";
    let fields: String = (0..101).map(|n| format!("X-{n}: y\r\n")).collect();
    let long = "z".repeat(70_000);
    vec![
        (
            format!("{head}Content-Length: 1001\r\n\r\n"),
            "HttpResponseBodySize(Some(1000))",
            "HTTP-response-body-size(1000): http_response_bytes is above the limit of 1000 bytes (set by config)",
        ),
        (
            format!(
                "{head}Transfer-Encoding: chunked\r\n\r\n3E9\r\n{}\r\n",
                "x".repeat(1001)
            ),
            "HttpResponseBodySize",
            "HTTP-response-body-size",
        ),
        (
            format!("{head}\r\n{}", "x".repeat(1001)),
            "HttpResponseBodySize",
            "HTTP-response-body-size",
        ),
        (
            format!("{head}{fields}\r\n"),
            "HttpResponseHeaderSectionSize",
            "HTTP-response-header-section-size",
        ),
        (
            format!("{head}X: {long}\r\n\r\n"),
            "HttpResponseHeaderSectionSize",
            "HTTP-response-header-section-size",
        ),
        (
            format!("{head}Content-Length: 10\r\n\r\nshort"),
            "HttpResponseIncomplete",
            "HTTP-response-incomplete",
        ),
        (
            format!("{head}Transfer-Encoding: chunked\r\n\r\nA\r\nshort"),
            "HttpResponseIncomplete",
            "HTTP-response-incomplete",
        ),
        (
            String::new(),
            "HttpResponseIncomplete",
            "HTTP-response-incomplete",
        ),
        (
            "HTTP/1.1 200".to_owned(),
            "HttpResponseIncomplete",
            "HTTP-response-incomplete",
        ),
        (
            "\0\u{1}nonsense\r\n\r\n".to_owned(),
            "HttpProtocolError",
            "HTTP-protocol-error",
        ),
        (
            format!("{head}Content-Length: 1\r\nContent-Length: 2\r\n\r\nxx"),
            "HttpProtocolError",
            "HTTP-protocol-error",
        ),
    ]
}

/// Servers that send too much, too little, or no HTTP.
#[test]
fn whatever_a_server_sends_ends_in_a_typed_error() {
    let home = granted(&[], "");
    for (answer, error, recorded) in wrong_answers() {
        let told = answer.get(..60).unwrap_or(&answer).to_owned();
        let server = Server::answering(answer);
        grant(
            &home,
            &[&server.net("/#GET")],
            "[limits]\nhttp_response_bytes = 1000",
        );
        let (message, run_id) = failed(&home, &get(&server));
        assert!(message.contains(error), "{told:?}: {message}");
        let result = result(&home, &run_id);
        let reason = result["error"].as_str().unwrap();
        assert!(reason.starts_with(recorded), "{told:?}: {reason}");
        assert_eq!(
            (&result["status"], &result["body"]),
            (&Value::Null, &Value::Null)
        );
        assert!(result["duration_micros"].is_u64());
    }
}

#[test]
fn a_server_that_is_not_there_is_told_from_one_that_is() {
    let server = Server::answering(ok(""));
    let home = granted(&["net:http://127.0.0.1:1/#GET"], "");
    let (message, run_id) = failed(
        &home,
        &json!({ "verb": "http", "url": "http://127.0.0.1:1/" }),
    );
    assert!(message.contains("ConnectionRefused"), "{message}");
    let reason = result(&home, &run_id)["error"].clone();
    let expected = "connection-refused: cannot connect: 127.0.0.1:1: ";
    assert!(reason.as_str().unwrap().starts_with(expected), "{reason}");
    drop(server);
}

/// What a response may have, it may have: a body and a header just within the limits.
#[test]
fn what_is_within_the_bounds_comes_through() {
    let fields: String = (0..98).map(|n| format!("X-{n}: y\r\n")).collect();
    let body = "x".repeat(1000);
    let server = Server::answering(format!(
        "HTTP/1.1 200 OK\r\n{fields}Content-Length: 1000\r\n\r\n{body}"
    ));
    let home = granted(
        &[&server.net("/#GET")],
        "[limits]\nhttp_response_bytes = 1000",
    );
    let (output, _) = fetched(&home, &server.url("/"));
    assert_eq!(
        (&output["bytes"], &output["status"]),
        (&json!(1000), &json!(200))
    );
    assert_eq!(output["headers"].as_array().unwrap().len(), 99);
}

/// A server that says nothing, one that never ends, and one that drips.
#[test]
fn a_server_that_is_slow_is_given_up() {
    let silent = Server::start(|_, wire| {
        wait_for_close(wire);
        Ok(())
    });
    let drip = Server::start(|_, wire| {
        wire.write_all(b"HTTP/1.1 200 OK\r\n\r\n")?;
        let (_never, interval) = mpsc::channel::<()>();
        loop {
            wire.write_all(b"x")?;
            wire.flush()?;
            let _elapsed = interval.recv_timeout(Duration::from_millis(5));
        }
    });
    for server in [&silent, &drip] {
        let home = granted(&[&server.net("/#GET")], "[limits]\nhttp_timeout_ms = 200");
        let (message, run_id) = failed(&home, &get(server));
        assert!(message.contains("HttpResponseTimeout"), "{message}");
        let reason = result(&home, &run_id)["error"].clone();
        let expected =
            "HTTP-response-timeout: no whole response within http_timeout_ms = 200 (set by config)";
        assert_eq!(reason, expected);
    }
}

/// The times that a guest sets hold where they are shorter.
#[test]
fn the_times_of_the_guest_are_kept() {
    let silent = Server::start(|seen, wire| {
        if seen.path() == "/begun" {
            wire.write_all(b"HTTP/1.1 200 OK\r\n\r\nx")?;
            wire.flush()?;
        }
        wait_for_close(wire);
        Ok(())
    });
    let home = granted(&[&silent.net("/#GET")], "");
    for (path, key) in [("/", "first_byte_ms"), ("/begun", "between_bytes_ms")] {
        let verb = json!({ "verb": "http", "url": silent.url(path), key: 50 });
        let (message, run_id) = failed(&home, &verb);
        assert!(message.contains("ConnectionReadTimeout"), "{message}");
        let reason = result(&home, &run_id)["error"].clone();
        let expected =
            "connection-read-timeout: nothing received within the 50 ms that the guest set";
        assert_eq!(reason, expected);
    }
    // TLS with a server that says nothing is a connection that is never made.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("https://{}/", listener.local_addr().unwrap());
    grant(&home, &[&format!("net:{url}#GET")], "");
    let verb = json!({ "verb": "http", "url": url, "connect_ms": 50 });
    let (message, run_id) = failed(&home, &verb);
    assert!(message.contains("ConnectionTimeout"), "{message}");
    let reason = result(&home, &run_id)["error"].clone();
    assert_eq!(reason, "connection-timeout: no connection within 50 ms");
}

/// Interim responses are read without a pause, so it is their bytes that are bounded.
#[test]
fn interim_responses_without_end_are_not_read_to_the_end() {
    let flood = Server::start(|_, wire| {
        let interim = b"HTTP/1.1 100 Continue\r\n\r\n".repeat(1_000);
        loop {
            wire.write_all(&interim)?;
        }
    });
    let home = granted(&[&flood.net("/#GET")], "");
    let verb = json!({ "verb": "http", "url": flood.url("/") });
    let (message, run_id) = failed(&home, &verb);
    assert!(
        message.contains("HttpResponseHeaderSectionSize"),
        "{message}"
    );
    let reason = result(&home, &run_id)["error"].clone();
    assert!(
        reason
            .as_str()
            .unwrap()
            .contains("response header too large")
    );
}

/// Chunks tell the length of a body; a field that tells another one does not reach the guest.
#[test]
fn a_length_beside_chunks_is_left_out() {
    let server = Server::answering(
        "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
    );
    let home = granted(&[&server.net("/#GET")], "");
    let (_, run_id) = fetched(&home, &server.url("/"));
    let result = result(&home, &run_id);
    assert_eq!(result["body"], "hello");
    assert!(
        !result["headers"].to_string().contains("content-length"),
        "{result}"
    );
}

#[test]
fn the_body_of_a_request_is_bounded_and_never_sent_in_part() {
    let server = Server::answering(ok(""));
    let home = granted(
        &[&server.net("/#POST")],
        "[limits]\nhttp_request_bytes = 100_000",
    );
    let post = |bytes: usize| json!({ "verb": "http", "url": server.url("/"), "method": "POST", "body_bytes": bytes });
    let (message, run_id) = failed(&home, &post(100_001));
    assert!(
        message.contains("HttpRequestBodySize(Some(100000))"),
        "{message}"
    );
    assert_eq!(payloads(&home, &run_id, "http_call").len(), 0);
    let (document, exit) = probe(&home, &post(100_000));
    assert_eq!(exit, 0, "{document}");
    let seen = server.seen();
    assert_eq!(seen.len(), 1);
    assert_eq!(seen[0].body.len(), 100_000);
}

/// How fast a body is taken up, and whether it still is, does not show: it would differ from run to run.
#[test]
fn what_may_be_written_follows_from_what_the_guest_did() {
    let server = Server::answering(ok(""));
    let home = granted(
        &[&server.net("/#POST")],
        "[limits]\nhttp_request_bytes = 100_000",
    );
    for give_up in [false, true] {
        let verb = json!({ "verb": "http_pieces", "url": server.url("/"), "bytes": 16_384, "give_up": give_up });
        let (document, exit) = probe(&home, &verb);
        assert_eq!(exit, 0, "{document}");
        let (most, output) = (16_384, &document["output"]);
        // Seven pieces are more than the bound: one that is left over is no longer asked for.
        let allowed = [most, most, 0, most, 0, most, 0, most, 0, most, 0, most];
        assert_eq!(output["allowed"], json!(allowed), "{document}");
        assert_eq!(output["finished"], true);
        let got = output["got"].as_str().unwrap_or_default();
        assert_eq!(got.contains("HttpRequestBodySize"), !give_up, "{document}");
    }
    assert_eq!(server.seen().len(), 0);
}

#[test]
fn a_body_that_does_not_end_as_it_should_is_not_sent() {
    let server = Server::answering(ok(""));
    let home = granted(&[&server.net("/#POST")], "");
    for (trailers, error) in [
        (true, "HttpRequestTrailerSectionSize"),
        (false, "HttpProtocolError"),
    ] {
        let verb = json!({ "verb": "http_odd_body", "url": server.url("/"), "trailers": trailers });
        let (document, exit) = probe(&home, &verb);
        assert_eq!(exit, 0);
        assert!(
            document["output"].as_str().unwrap().contains(error),
            "{document}"
        );
    }
    assert_eq!(server.seen().len(), 0);
}

#[test]
fn too_many_fields_are_refused_to_the_guest_and_too_large_ones_end_it() {
    let server = Server::answering(ok(""));
    let home = granted(&[&server.net("/#GET")], "");
    let with = |headers: Vec<(String, String)>| json!({ "verb": "http", "url": server.url("/"), "headers": headers });
    let many = (0..101)
        .map(|n| (format!("x-{n}"), "y".to_owned()))
        .collect();
    let (message, _) = failed(&home, &with(many));
    assert!(
        message.contains("HttpRequestHeaderSectionSize"),
        "{message}"
    );
    let (document, exit) = probe(&home, &with(vec![("x".to_owned(), "y".repeat(40_000))]));
    assert_eq!((exit, &document["code"]), (1, &json!("trap")), "{document}");
    assert_eq!(server.seen().len(), 0);
}

/// Requests go on at once up to the limit, and the others wait: two at a time meet at the server, and
/// never a third.
#[test]
fn no_more_requests_at_once_than_may_be() {
    let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (counted, highest) = (Arc::clone(&now), Arc::clone(&most));
    let pairs = Barrier::new(2);
    let server = Server::start(move |_, wire| {
        highest.fetch_max(counted.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        pairs.wait();
        counted.fetch_sub(1, Ordering::SeqCst);
        wire.write_all(&ok("x"))
    });
    let home = granted(&[&server.net("/#GET")], "[limits]\nparallel_calls = 2");
    let urls: Vec<String> = (0..6).map(|n| server.url(&format!("/{n}"))).collect();
    let (document, exit) = probe(&home, &json!({ "verb": "http_at_once", "urls": urls }));
    assert_eq!(exit, 0, "{document}");
    let output = document["output"].as_array().unwrap();
    assert!(output.iter().all(|one| one["status"] == 200), "{output:?}");
    assert_eq!((most.load(Ordering::SeqCst), server.seen().len()), (2, 6));
    // The ids are in the order of the guest, whichever was sent first, and in its step.
    let calls = payloads(&home, &run_id(&document), "http_call");
    for call in &calls {
        let url = call["url"].as_str().unwrap();
        let n: u32 = url.rsplit_once('/').unwrap().1.parse().unwrap();
        assert_eq!(call["call_id"], format!("http#{}", n + 1));
        assert_eq!(call["node_id"], "step:at-once#1");
    }
    assert_eq!(
        (
            calls.len(),
            payloads(&home, &run_id(&document), "http_result").len()
        ),
        (6, 6)
    );
}

/// A guest that reads no response has room for a few.
#[test]
fn responses_that_nobody_reads_are_bounded() {
    let server = Server::answering(ok(&"x".repeat(900)));
    let limits = "[limits]\nparallel_calls = 2\nhttp_response_bytes = 1000";
    let home = granted(&[&server.net("/#GET")], limits);
    let verb = json!({ "verb": "http_hoard", "url": server.url("/"), "requests": 5 });
    let (document, exit) = probe(&home, &verb);
    assert_eq!(exit, 0, "{document}");
    assert_eq!(document["output"]["kept"], 2);
    assert!(
        document["output"]["error"]
            .as_str()
            .unwrap()
            .contains("HttpResponseBodySize")
    );
    // One that reads them has room again.
    let urls = [
        server.url("/"),
        server.url("/"),
        server.url("/"),
        server.url("/"),
    ];
    let (document, _) = probe(&home, &json!({ "verb": "http_each", "urls": urls }));
    let output = document["output"].as_array().unwrap();
    assert!(output.iter().all(|one| one["bytes"] == 900), "{output:?}");
}

/// A response without a body whose header is nearly as large as one may be.
fn large_header() -> Vec<u8> {
    let value = "x".repeat(1000);
    let fields: String = (0..60).map(|n| format!("X-{n}: {value}\r\n")).collect();
    format!("HTTP/1.1 200 OK\r\n{fields}Content-Length: 0\r\n\r\n").into_bytes()
}

#[test]
fn headers_of_responses_that_nobody_lets_go_are_bounded() {
    let server = Server::answering(large_header());
    let home = granted(&[&server.net("/#GET")], "");
    let verb = json!({ "verb": "http_hoard", "url": server.url("/"), "requests": 300 });
    let (document, exit) = probe(&home, &verb);
    assert_eq!(exit, 0, "{document}");
    // Each takes 76 KiB of the 8 MiB.
    let kept = document["output"]["kept"].as_u64().unwrap();
    assert!((100..115).contains(&kept), "{document}");
    let error = document["output"]["error"].as_str().unwrap();
    assert!(error.contains("HttpResponseHeaderSectionSize"), "{error}");
    // One that lets them go has room again.
    let urls = vec![server.url("/"); 120];
    let verb = json!({ "verb": "http_each", "urls": urls });
    let (document, exit) = probe(&home, &verb);
    assert_eq!((exit, &document["code"]), (4, &json!("output_limit")));
    assert_eq!(
        payloads(&home, &run_id(&document), "http_result")
            .iter()
            .filter(|result| result["status"] == 200)
            .count(),
        120
    );
}

/// What a server sends comes on record within the bound on what a guest may put there.
#[test]
fn what_requests_put_into_the_ledger_is_bounded() {
    let large = ok(&"x".repeat(100_000));
    let server = Server::start(move |seen, wire| match seen.path() {
        "/header" => wire.write_all(&large_header()),
        _ => wire.write_all(&large),
    });
    let limits = "[limits]\nguest_event_bytes = 500_000";
    let home = granted(&[&server.net("/#GET")], limits);
    let urls = vec![server.url("/header"); 30];
    let (document, exit) = probe(&home, &json!({ "verb": "http_each", "urls": urls }));
    assert_eq!(exit, 0, "{document}");
    let output = document["output"].as_array().unwrap();
    let answered = output.iter().filter(|one| one["status"] == 200).count();
    assert_eq!(answered, 8);
    for refused in &output[answered..] {
        let error = refused["error"].as_str().unwrap();
        let limit = "guest_event_bytes limit of 500000 reached (set by config)";
        assert!(error.contains(limit), "{error}");
    }
    let run_id = run_id(&document);
    let results = payloads(&home, &run_id, "http_result");
    let without = results.iter().filter(|result| result["error"].is_string());
    assert_eq!(without.count(), results.len() - answered);
    let ledger = home.path().join("runs").join(format!("{run_id}.jsonl"));
    let bytes = std::fs::metadata(ledger).unwrap().len();
    assert!((480_000..520_000).contains(&bytes), "{bytes}");
    assert_eq!(home.skillrun(&["runs", "verify", &run_id]).exit, Some(0));
    // What is kept beside the ledger has a bound of its own.
    let urls = vec![server.url("/body"); 30];
    let (document, _) = probe(&home, &json!({ "verb": "http_each", "urls": urls }));
    let output = document["output"].as_array().unwrap();
    assert!(
        output.iter().all(|one| one["bytes"] == 100_000),
        "{document}"
    );
}

#[test]
fn each_request_is_a_host_call_and_too_many_end_the_run() {
    let server = Server::answering(ok(""));
    let home = granted(&[&server.net("/#GET")], "[limits]\nhost_calls = 3");
    let urls = [
        server.url("/a"),
        server.url("/b"),
        "http://x/".to_owned(),
        server.url("/c"),
    ];
    let (document, exit) = probe(&home, &json!({ "verb": "http_each", "urls": urls }));
    assert_eq!(
        (exit, &document["code"]),
        (4, &json!("host_call_limit")),
        "{document}"
    );
    assert!(
        document["error"]
            .as_str()
            .unwrap()
            .contains("host_calls limit of 3")
    );
    assert_eq!(server.seen().len(), 2);
}

/// A server that tells when the other side has closed the connection.
fn holding() -> (Server, Arc<AtomicUsize>) {
    let closed = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&closed);
    let server = Server::start(move |_, wire| {
        wait_for_close(wire);
        count.fetch_add(1, Ordering::SeqCst);
        Ok(())
    });
    (server, closed)
}

#[track_caller]
fn assert_closed(closed: &AtomicUsize) {
    eventually("a closed connection", || {
        (closed.load(Ordering::SeqCst) == 1).then_some(())
    });
}

#[track_caller]
fn assert_ended(home: &Home, run_id: &str) {
    let kinds: Vec<Value> = home
        .events(run_id)
        .iter()
        .map(|event| event["type"].clone())
        .collect();
    assert_eq!(kinds.last().unwrap(), "run_completed");
    assert_eq!(home.skillrun(&["runs", "verify", run_id]).exit, Some(0));
}

#[test]
fn wall_time_ends_a_request_with_its_run() {
    let (server, closed) = holding();
    let home = granted(&[&server.net("/#GET")], "[limits]\nwall_time_ms = 5000");
    let (document, exit) = probe(&home, &get(&server));
    assert_eq!(
        (exit, &document["code"]),
        (4, &json!("time_limit")),
        "{document}"
    );
    assert_closed(&closed);
    let run_id = run_id(&document);
    let reason = result(&home, &run_id)["error"].clone();
    assert_eq!(reason, "connection-terminated: the run ended");
    assert_ended(&home, &run_id);
}

/// Its end is not recorded: the run was cut off, and nobody knows what became of the request.
#[test]
fn an_interrupt_ends_a_request_with_its_run() {
    let (server, closed) = holding();
    let home = granted(&[&server.net("/#GET")], "");
    let run_id = "run_01f00000000070008000000000000001";
    let input = get(&server).to_string();
    let mut running = home.start(&["run", "probe", "--run-id", run_id, "--input", &input]);
    eventually("a request", || (!server.seen().is_empty()).then_some(()));
    running.signal(Signal::INT);
    assert_closed(&closed);
    assert_eq!(running.end().exit, Some(130));
    assert_eq!(payloads(&home, run_id, "http_call").len(), 1);
    assert_eq!(payloads(&home, run_id, "http_result").len(), 0);
    assert_ended(&home, run_id);
}

#[test]
fn a_request_that_the_guest_leaves_is_closed_and_on_record() {
    // Given up at once, it may never have begun; left alone, it goes on until the run ends.
    let (server, _closed) = holding();
    let home = granted(&[&server.net("/#GET")], "");
    for drop_it in [true, false] {
        let verb = json!({ "verb": "http_leave", "url": server.url("/"), "drop": drop_it });
        let (document, exit) = probe(&home, &verb);
        assert_eq!(exit, 0, "{document}");
        let run_id = run_id(&document);
        let calls = payloads(&home, &run_id, "http_call");
        let results = payloads(&home, &run_id, "http_result");
        assert_eq!(calls.len(), results.len());
        assert_eq!(home.skillrun(&["runs", "verify", &run_id]).exit, Some(0));
    }
}
