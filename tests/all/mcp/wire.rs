//! A client that sends exactly the messages that it is told to, over either transport.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::Duration;

use serde_json::{Map, Value, json};

use crate::api::daemon::{Answer, Client, read_chunk};
use crate::harness::Home;

/// How long a message may take before a test gives up.
const MESSAGE_MAX: Duration = Duration::from_secs(60);

/// What came before the answer to a request, and the answer.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Heard {
    /// The `result` or the `error`, under that name.
    pub(super) answer: Value,
    /// Notifications, as they came.
    pub(super) told: Vec<Value>,
    /// Requests of the server.
    pub(super) asked: Vec<Value>,
}

/// A connection to a server.
pub(super) enum Wire {
    Stdio(Process),
    Http(Http),
}

/// `skillrun mcp`; it ends with the test.
pub(super) struct Process {
    child: Child,
    stdin: ChildStdin,
    lines: Receiver<Value>,
}

/// `/mcp` of a daemon.
pub(super) struct Http {
    client: Client,
    session: Option<String>,
    version: String,
}

impl Wire {
    /// Starts a server and speaks to it.
    pub(super) fn stdio(home: &Home) -> Self {
        let mut command = home.command(&["mcp"]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.stderr(Stdio::null()).spawn().unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let (sender, lines) = mpsc::channel();
        thread::spawn(move || {
            for line in stdout.lines() {
                // Nothing but messages is ever on standard output.
                let message = serde_json::from_str(&line.unwrap()).unwrap();
                if sender.send(message).is_err() {
                    break;
                }
            }
        });
        Self::Stdio(Process {
            stdin: child.stdin.take().unwrap(),
            child,
            lines,
        })
    }

    /// Speaks to a daemon as a client of that revision.
    pub(super) fn http(client: Client, version: &str) -> Self {
        Self::Http(Http {
            client,
            session: None,
            version: version.to_owned(),
        })
    }

    /// Sends a notification.
    pub(super) fn tell(&mut self, message: &Value) {
        match self {
            Self::Stdio(stdio) => stdio.send(message),
            Self::Http(http) => {
                let answer = http.client.send(http.request(message));
                assert_eq!(answer.status, 202, "{answer:?}");
            }
        }
    }

    /// Sends a request and waits for its answer; what the server asks meanwhile is answered by `reply`.
    pub(super) fn ask(&mut self, message: &Value, reply: &dyn Fn(&Value) -> Value) -> Heard {
        match self {
            Self::Stdio(stdio) => stdio.ask(message, reply),
            Self::Http(http) => http.ask(message, reply),
        }
    }
}

impl Heard {
    /// Takes a message in; true when it is the answer, and what the server is to be told when it asked something.
    fn take(&mut self, message: Value, id: &Value, reply: &dyn Fn(&Value) -> Value) -> Taken {
        match (message.get("method").is_some(), message.get("id")) {
            (true, Some(of)) => {
                let result = reply(&message);
                let replied = json!({ "jsonrpc": "2.0", "id": of, "result": result });
                self.asked.push(message);
                Taken::Asked(replied)
            }
            (true, None) => {
                self.told.push(message);
                Taken::Told
            }
            (false, of) => {
                assert_eq!(of, Some(id), "{message}");
                let Value::Object(mut members) = message else {
                    panic!("no object: {message}");
                };
                members.retain(|key, _| ["result", "error"].contains(&key.as_str()));
                self.answer = Value::Object(members);
                Taken::Answered
            }
        }
    }
}

enum Taken {
    Told,
    Asked(Value),
    Answered,
}

impl Process {
    fn send(&mut self, message: &Value) {
        self.stdin
            .write_all(format!("{message}\n").as_bytes())
            .unwrap();
        self.stdin.flush().unwrap();
    }

    fn ask(&mut self, message: &Value, reply: &dyn Fn(&Value) -> Value) -> Heard {
        self.send(message);
        let mut heard = Heard::default();
        loop {
            let next = self.lines.recv_timeout(MESSAGE_MAX);
            let next = next.unwrap_or_else(|error| panic!("{error} after {message}"));
            match heard.take(next, &message["id"], reply) {
                Taken::Told => {}
                Taken::Asked(replied) => self.send(&replied),
                Taken::Answered => return heard,
            }
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _killed = self.child.kill();
        let _reaped = self.child.wait();
    }
}

impl Http {
    /// The request that carries a message.
    fn request(&self, message: &Value) -> String {
        let body = message.to_string();
        let mut head = format!(
            "POST /mcp HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\n\
             Accept: application/json, text/event-stream\r\nContent-Length: {}\r\n",
            self.client.address,
            body.len()
        );
        let mut field = |name: &str, value: &str| head.push_str(&format!("{name}: {value}\r\n"));
        if message["method"] != "initialize" {
            field("MCP-Protocol-Version", &self.version);
        }
        if let Some(session) = &self.session {
            field("Mcp-Session-Id", session);
        }
        if let Some(method) = message["method"].as_str() {
            field("Mcp-Method", method);
        }
        let named = ["name", "uri", "taskId"].map(|key| message["params"][key].as_str());
        if let Some(name) = named.into_iter().flatten().next() {
            field("Mcp-Name", name);
        }
        format!("{head}Connection: close\r\n\r\n{body}")
    }

    fn ask(&mut self, message: &Value, reply: &dyn Fn(&Value) -> Value) -> Heard {
        let mut stream = self.client.connect();
        stream.write_all(self.request(message).as_bytes()).unwrap();
        let mut stream = BufReader::new(stream);
        let head = Answer::read_head(&mut stream);
        if let Some(session) = head.header("mcp-session-id") {
            self.session = Some(session.to_owned());
        }
        let is_stream = head.header("content-type") == Some("text/event-stream");
        let is_chunked = head.header("transfer-encoding") == Some("chunked");
        let mut heard = Heard::default();
        let mut text = Vec::new();
        loop {
            let chunk = match is_chunked {
                true => read_chunk(&mut stream),
                false => Some(read_rest(&head, &mut stream)),
            };
            text.extend(chunk.unwrap_or_else(|| panic!("no answer to {message}")));
            let messages = match is_stream {
                true => events(&mut text),
                false => serde_json::from_slice(&text).ok().into_iter().collect(),
            };
            for next in messages {
                match heard.take(next, &message["id"], reply) {
                    Taken::Told => {}
                    Taken::Asked(replied) => self.reply(&replied),
                    Taken::Answered => return heard,
                }
            }
        }
    }

    fn reply(&self, replied: &Value) {
        let answer = self.client.send(self.request(replied));
        assert_eq!(answer.status, 202, "{answer:?}");
    }
}

fn read_rest(head: &Answer, stream: &mut BufReader<std::net::TcpStream>) -> Vec<u8> {
    let length = head
        .header("content-length")
        .map_or(0, |length| length.parse().unwrap());
    let mut body = vec![0; length];
    std::io::Read::read_exact(stream, &mut body).unwrap();
    assert!(length > 0, "{head:?}");
    body
}

/// The messages of the events that are whole, which are taken from the text.
fn events(text: &mut Vec<u8>) -> Vec<Value> {
    let end = text.windows(2).rposition(|pair| pair == b"\n\n");
    let whole: Vec<u8> = text.drain(..end.map_or(0, |end| end + 2)).collect();
    let whole = String::from_utf8(whole).unwrap();
    let data = whole.lines().filter_map(|line| line.strip_prefix("data:"));
    let data = data.map(str::trim).filter(|data| !data.is_empty());
    data.map(|data| serde_json::from_str(data).unwrap())
        .collect()
}

/// What differs from call to call is made the same: ids of runs, times, and states that only the server reads.
pub(super) fn evened(value: &Value) -> Value {
    match value {
        Value::Object(members) => {
            let member = |(key, value): (&String, &Value)| {
                let varies = ["requestState", "createdAt", "lastUpdatedAt"];
                let value = match varies.contains(&key.as_str()) {
                    true => json!("…"),
                    false => evened(value),
                };
                (key.clone(), value)
            };
            Value::Object(members.iter().map(member).collect::<Map<_, _>>())
        }
        Value::Array(items) => items.iter().map(evened).collect(),
        Value::String(text) => json!(without_run_ids(text)),
        other => other.clone(),
    }
}

fn without_run_ids(text: &str) -> String {
    const DIGITS: usize = 32;
    let mut parts = text.split("run_");
    let mut evened = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let digits = part.bytes().take_while(u8::is_ascii_hexdigit).count();
        let rest = if digits == DIGITS {
            &part[DIGITS..]
        } else {
            part
        };
        evened.push_str("run_");
        evened.push_str(rest);
    }
    evened
}
