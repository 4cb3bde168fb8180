//! Clients that are slow, large, or speak something else.

use std::io::{BufReader, Read as _, Write as _};

use super::daemon::{Answer, Client, Daemon};
use crate::harness::{Home, eventually};

/// Reads until the connection ends, and gives what came.
fn rest(mut stream: impl std::io::Read) -> String {
    let mut bytes = Vec::new();
    // A reset is an end as well.
    let _end = stream.read_to_end(&mut bytes);
    String::from_utf8_lossy(&bytes).into_owned()
}

fn sent(client: &Client, bytes: &[u8]) -> String {
    let mut stream = client.connect();
    // It may be refused before all of it was taken.
    let _taken = stream.write_all(bytes);
    rest(stream)
}

#[test]
fn a_head_that_does_not_come_ends_the_connection() {
    let home = Home::new(&[]);
    home.configure("[serve]\nheader_timeout_ms = 2000\nconnections_max = 16\n");
    let daemon = Daemon::start(&home);
    let slow: Vec<_> = (0..40)
        .map(|_| {
            let mut stream = daemon.connect();
            stream.write_all(b"GET /healthz HTTP/1.1\r\nHos").unwrap();
            stream
        })
        .collect();
    // Whoever comes behind more than there is room for is served as soon as these are gone.
    assert_eq!(daemon.get("/healthz").status, 200);
    for stream in slow {
        let text = rest(stream);
        assert!(
            text.is_empty() || text.starts_with("HTTP/1.1 408"),
            "{text}"
        );
    }
    // One that asked and says nothing more is let go, too.
    let mut stream = daemon.connect();
    write!(
        stream,
        "GET /healthz HTTP/1.1\r\nHost: {}\r\n\r\n",
        daemon.address
    )
    .unwrap();
    let mut stream = BufReader::new(stream);
    assert_eq!(Answer::read(&mut stream).status, 200);
    let mut end = Vec::new();
    assert_eq!(stream.read_to_end(&mut end).unwrap(), 0);
}

#[test]
fn a_body_that_does_not_come_is_not_waited_for() {
    let home = Home::new(&[]);
    home.configure("[serve]\nrequest_timeout_ms = 200\n");
    let daemon = Daemon::start(&home);
    for path in ["/api/agent/runs", "/api/agent/runs?wait=true"] {
        let answer = daemon.send(format!(
            "POST {path} HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\n\
             Content-Length: 100\r\n\r\n{{",
            daemon.address
        ));
        assert_eq!(answer.status, 408, "{path}");
        assert_eq!(answer.problem(), "timeout", "{path}");
    }
}

#[test]
fn what_is_too_large_or_no_http_is_refused_by_its_status() {
    let home = Home::new(&[]);
    home.configure("[serve]\nbody_bytes_max = 1024\n");
    let daemon = Daemon::start(&home);
    let host = format!("Host: {}\r\n", daemon.address);
    let get = format!("GET /healthz HTTP/1.1\r\n{host}");
    let post = format!("POST /api/agent/runs HTTP/1.1\r\n{host}Content-Type: application/json\r\n");
    let fields = "A: b\r\n".repeat(200);
    let large = "a".repeat(200_000);
    let cases: Vec<(String, &[&str])> = vec![
        (format!("{get}{fields}\r\n"), &["431"]),
        (format!("{get}X: {large}\r\n\r\n"), &["431"]),
        (
            format!("GET /{large} HTTP/1.1\r\n{host}\r\n"),
            &["414", "431"],
        ),
        ("\0\u{1}\u{2}\r\n\r\n".to_owned(), &["400"]),
        (
            format!("GET /healthz HTTP/9.9\r\n{host}\r\n"),
            &["400", "505"],
        ),
        (
            // Whoever begins so takes no answer of another version: the connection ends.
            "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_owned(),
            &[""],
        ),
        (format!("GET  /healthz\r\n{host}\r\n"), &["400"]),
        (format!("{get}Bad Name: x\r\n\r\n"), &["400"]),
        (format!("{get}X : y\r\n\r\n"), &["400"]),
        (
            format!("{post}Content-Length: 5\r\nContent-Length: 6\r\n\r\n{{}}   "),
            &["400"],
        ),
        (format!("{post}Content-Length: -1\r\n\r\n"), &["400"]),
        (format!("{post}Content-Length: 1e3\r\n\r\n"), &["400"]),
        (
            format!("{post}Content-Length: 99999999999999999999999\r\n\r\n"),
            &["400"],
        ),
        (
            format!("{post}Content-Length: 4096\r\n\r\n{large}"),
            &["413"],
        ),
        (
            format!("{post}Transfer-Encoding: chunked\r\n\r\nFFFFFFFFFFFFFFFFF\r\nx"),
            &["400"],
        ),
        (
            format!("{post}Transfer-Encoding: chunked\r\n\r\nzz\r\n{{}}\r\n0\r\n\r\n"),
            &["400"],
        ),
        (
            format!("{post}Transfer-Encoding: chunked, identity\r\n\r\n{{}}"),
            &["400"],
        ),
    ];
    for (bytes, statuses) in cases {
        let text = sent(&daemon, bytes.as_bytes());
        let status = text.split(' ').nth(1).unwrap_or_default();
        let shown: String = bytes.chars().take(120).collect();
        assert!(statuses.contains(&status), "{shown:?}: {text:?}");
    }
    assert_eq!(daemon.get("/healthz").status, 200);
}

#[test]
fn many_large_bodies_have_so_much_memory_together_and_small_ones_are_taken_all_the_same() {
    const CLIENTS: usize = 40;
    const SENT_BYTES: usize = 15 * 1024 * 1024;
    const HELD_BYTES_MAX: usize = 300 * 1024 * 1024;
    let home = Home::new(&[]);
    // However slowly they are sent.
    home.configure("[serve]\nrequest_timeout_ms = 600000\n");
    let daemon = Daemon::start(&home);
    let before = daemon.resident_bytes();
    let post = |bytes: usize| {
        format!(
            "POST /api/agent/runs?wait=true HTTP/1.1\r\nHost: {}\r\n\
             Content-Type: application/json\r\nContent-Length: {bytes}\r\n\r\n",
            daemon.address
        )
    };
    let part = vec![b' '; SENT_BYTES];
    let held: Vec<_> = (0..CLIENTS)
        .map(|_| {
            let mut stream = daemon.connect();
            stream.write_all(post(SENT_BYTES + 1).as_bytes()).unwrap();
            // Those that there is no room for are told so before they have sent it all.
            let _refused = stream.write_all(&part);
            stream
        })
        .collect();
    let taken = daemon.resident_bytes().saturating_sub(before);
    assert!(taken < HELD_BYTES_MAX, "{taken}");
    // What was sent may still be on its way, and has its room when it has come.
    let text = eventually("a refusal", || {
        let text = sent(&daemon, &[post(SENT_BYTES).as_bytes(), &part].concat());
        text.starts_with("HTTP/1.1 429").then_some(text)
    });
    assert!(text.contains("\"code\":\"busy\""), "{text}");
    let small = daemon.post(
        "/api/agent/runs",
        &serde_json::json!({ "skill_name": "none" }),
    );
    assert_eq!(small.status, 404, "{small:?}");
    drop(held);
}

#[test]
fn no_request_hides_in_the_body_of_another() {
    let home = Home::new(&[]);
    let daemon = Daemon::start(&home);
    let host = format!("Host: {}\r\n", daemon.address);
    let inner = format!("GET /healthz HTTP/1.1\r\n{host}\r\n");
    // A length beside chunks: whoever believes the one sees another request than whoever believes the other.
    let text = sent(
        &daemon,
        format!(
            "POST /api/agent/nothing HTTP/1.1\r\n{host}Content-Length: 5\r\n\
             Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n{inner}"
        )
        .as_bytes(),
    );
    assert!(!text.contains("\"status\":\"ok\""), "{text}");
}
