//! Servers that are asked over HTTP and do what they like with the connection.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use serde_json::{Value, json};
use skillrun::tools::ToolError;

use super::{Bench, reason, text};
use crate::harness::Reserved;

/// A request that came.
#[derive(Clone, Debug)]
struct Request {
    head: String,
    message: Value,
}

/// A server that speaks the protocol until a tool is called; then it writes whatever `call` gives for
/// the id of the call, and closes the connection unless the other side does.
struct Raw {
    port: u16,
    requests: Arc<Mutex<Vec<Request>>>,
}

type Reply = Arc<dyn Fn(&Value, &mut TcpStream) + Send + Sync>;

impl Raw {
    fn new(call: impl Fn(&Value, &mut TcpStream) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let requests: Arc<Mutex<Vec<Request>>> = Arc::default();
        let (seen, call): (_, Reply) = (Arc::clone(&requests), Arc::new(call));
        thread::spawn(move || {
            for stream in listener.incoming() {
                let (seen, call) = (Arc::clone(&seen), Arc::clone(&call));
                thread::spawn(move || serve(&mut stream.unwrap(), &seen, &call));
            }
        });
        Self { port, requests }
    }

    fn bench(&self, more: &str) -> Bench {
        let port = self.port;
        Bench::new(&format!(
            "[mcp_servers.r]\nurl = \"http://127.0.0.1:{port}/mcp?key=hunter2-query\"\n{more}"
        ))
    }

    fn seen(&self, method: &str) -> Vec<Request> {
        let mut seen = self.requests.lock().unwrap().clone();
        seen.retain(|request| request.message["method"] == method);
        seen
    }
}

fn serve(stream: &mut TcpStream, seen: &Mutex<Vec<Request>>, call: &Reply) {
    let Some(request) = read(stream) else { return };
    seen.lock().unwrap().push(request.clone());
    let id = &request.message["id"];
    let result = |result: Value| json!({"jsonrpc": "2.0", "id": id, "result": result}).to_string();
    match request.message["method"].as_str() {
        Some("initialize") => {
            let version = &request.message["params"]["protocolVersion"];
            let info = json!({"name": "raw", "version": "0"});
            let began = json!({"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info});
            answer(stream, "200 OK\r\nMcp-Session-Id: s", &result(began));
        }
        Some("tools/list") => {
            let tool = json!({"name": "t", "inputSchema": {"type": "object"}});
            answer(stream, "200 OK", &result(json!({"tools": [tool]})));
        }
        Some("tools/call") => call(id, stream),
        Some(_) if id.is_null() => answer(stream, "202 Accepted", ""),
        Some(_) => {
            let error = json!({"code": -32601, "message": "no such method"});
            let refused = json!({"jsonrpc": "2.0", "id": id, "error": error});
            answer(stream, "200 OK", &refused.to_string());
        }
        None => answer(stream, "405 Method Not Allowed", ""),
    }
}

fn read(stream: &mut TcpStream) -> Option<Request> {
    let mut reader = BufReader::new(stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if reader.read_line(&mut head).ok()? == 0 {
            return None;
        }
    }
    let lines = head.lines().map(str::to_ascii_lowercase);
    let mut length = lines.filter_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
    let mut body = vec![0; length.next().unwrap_or(0)];
    reader.read_exact(&mut body).ok()?;
    let message = serde_json::from_slice(&body).unwrap_or_default();
    Some(Request { head, message })
}

fn answer(stream: &mut TcpStream, status: &str, body: &str) {
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
    );
    // The other side may be gone.
    let _sent = stream.write_all(format!("{head}{body}").as_bytes());
}

/// Waits until the other side closes the connection.
fn wait_for_close(stream: &mut TcpStream) {
    let _closed = stream.read(&mut [0]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_body_that_never_ends_is_given_up() {
    for kind in ["application/json", "text/event-stream"] {
        let raw = Raw::new(move |_, stream| {
            let head =
                format!("HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Length: 1000\r\n\r\n");
            stream.write_all(head.as_bytes()).unwrap();
            wait_for_close(stream);
        });
        let bench = raw.bench("timeout_ms = 2000");
        let late = bench.call("r__t", json!({})).await;
        assert_eq!(
            late,
            Err(ToolError::TimedOut { timeout_ms: 2000 }),
            "{kind}"
        );
        assert_eq!(raw.seen("tools/call").len(), 1);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_body_that_is_too_large_is_an_error() {
    for (kind, start) in [("application/json", "\""), ("text/event-stream", "data: ")] {
        let raw = Raw::new(move |_, stream| {
            let head = format!(
                "HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nConnection: close\r\n\r\n{start}"
            );
            let part = [b'x'; 64 * 1024];
            let mut sent = stream.write_all(head.as_bytes());
            while sent.is_ok() {
                sent = stream.write_all(&part);
            }
        });
        let bench = raw.bench("");
        let refused = bench.call("r__t", json!({})).await;
        assert!(
            matches!(
                refused,
                Err(ToolError::Unavailable { .. } | ToolError::Failed(_))
            ),
            "{kind}: {refused:?}"
        );
        assert_eq!(raw.seen("tools/call").len(), 1);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redirect_is_not_followed() {
    let elsewhere = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = elsewhere.local_addr().unwrap().port();
    let raw = Raw::new(move |_, stream| {
        let place = format!("307 Temporary Redirect\r\nLocation: http://127.0.0.1:{port}/");
        answer(stream, &place, "");
    });
    let reason = reason(raw.bench("").call("r__t", json!({})).await);
    assert!(reason.starts_with("the call was cut off"), "{reason}");
    elsewhere.set_nonblocking(true).unwrap();
    assert!(elsewhere.accept().is_err());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_that_is_none_fails_the_call_alone() {
    for (status, body, part) in [
        ("200 OK", "<html>hunter2-page</html>", "no message"),
        ("404 Not Found", "", "it ended the session"),
        ("500 Internal Server Error", "<html>", "HTTP 500"),
        (
            "401 Unauthorized\r\nWWW-Authenticate: Bearer",
            "",
            "who asks",
        ),
    ] {
        let first = Mutex::new(true);
        let raw = Raw::new(move |id, stream| {
            if std::mem::take(&mut *first.lock().unwrap()) {
                return answer(stream, status, body);
            }
            let content = json!([{"type": "text", "text": "well"}]);
            let result = json!({"jsonrpc": "2.0", "id": id, "result": {"content": content}});
            answer(stream, "200 OK", &result.to_string());
        });
        let bench = raw.bench("");
        let reason = reason(bench.call("r__t", json!({})).await);
        assert!(reason.contains(part), "{status}: {reason}");
        assert!(!reason.contains("hunter2"), "{reason}");
        assert_eq!(raw.seen("tools/call").len(), 1, "{status}");
        let well = bench.call("r__t", json!({})).await.unwrap();
        assert_eq!(text(&well), "well");
        assert_eq!(raw.seen("initialize").len(), 2, "{status}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_goes_away_is_named_and_its_address_is_not() {
    let raw = Raw::new(|_, _| {});
    let reason_of_call = reason(raw.bench("").call("r__t", json!({})).await);
    assert!(
        reason_of_call.starts_with("the call was cut off"),
        "{reason_of_call}"
    );
    assert_eq!(raw.seen("tools/call").len(), 1);

    let nobody = Reserved::new();
    let url = format!("http://{}/?key=hunter2-query", nobody.address);
    let config = format!("[mcp_servers.r]\nurl = \"{url}\"");
    let bench = Bench::new(&config);
    let reason = reason(bench.toolbox.find("r__t").await.map(|_| Value::Null));
    assert!(reason.contains("refused"), "{reason}");
    assert!(!format!("{reason}{reason_of_call}").contains("hunter2"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_secret_is_sent_with_every_request_and_shown_in_no_error() {
    let raw = Raw::new(|id, stream| {
        let error = json!({"code": -32000, "message": "no, Bearer hunter2-secret"});
        let refused = json!({"jsonrpc": "2.0", "id": id, "error": error});
        answer(stream, "200 OK", &refused.to_string());
    });
    let port = raw.port;
    let home = crate::harness::Home::new(&[]);
    std::fs::write(home.path().join("key"), "hunter2-secret\n").unwrap();
    let bench = Bench::of(
        home,
        &format!(
            "[secrets.K]\nfile = \"key\"\nurl = \"http://127.0.0.1:{port}/mcp\"\nheader = \"Authorization\"\nprefix = \"Bearer \"\n\
             [mcp_servers.r]\nurl = \"http://127.0.0.1:{port}/mcp\"\nsecret = \"K\"\n"
        ),
    );
    let refused = bench.call("r__t", json!({})).await.unwrap_err();
    assert_eq!(
        refused.to_string(),
        "MCP server \"r\": no, Bearer [hidden] (error -32000)"
    );
    let requests = raw.requests.lock().unwrap().clone();
    assert!(requests.len() >= 3, "{requests:?}");
    for request in requests {
        let head = request.head.to_ascii_lowercase();
        assert!(
            head.contains("authorization: bearer hunter2-secret\r\n"),
            "{head}"
        );
    }
}
