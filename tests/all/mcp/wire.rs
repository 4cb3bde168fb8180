//! A client that sends exactly the messages that it is told to, over either transport.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, ChildStdin, Stdio};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::Duration;

use serde_json::{Map, Value, json};

use crate::api::daemon::{Answer, Client};
use crate::harness::Home;

/// How long a message may take before a test gives up.
const MESSAGE_MAX: Duration = Duration::from_secs(60);

/// What came before the answer to a request, and the answer.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Heard {
    /// The `result` or the `error`, under that name.
    pub(crate) answer: Value,
    /// Notifications, as they came.
    pub(crate) told: Vec<Value>,
    /// Requests of the server.
    pub(crate) asked: Vec<Value>,
}

/// A connection to a server. What it says comes in over whichever way the transport has for that.
pub(crate) struct Wire {
    way: Way,
    incoming: Receiver<Value>,
}

enum Way {
    Stdio(Process),
    Http(Http),
}

/// `skillrun mcp`; it ends with the test.
struct Process {
    child: Child,
    stdin: Option<ChildStdin>,
}

/// `/mcp` of a daemon.
struct Http {
    client: Client,
    version: String,
    session: Option<String>,
    token: Option<String>,
    incoming: Sender<Value>,
}

impl Wire {
    /// Starts a server and speaks to it.
    pub(crate) fn stdio(home: &Home) -> Self {
        let mut command = home.command(&["mcp"]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.stderr(Stdio::null()).spawn().unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let (sender, incoming) = mpsc::channel();
        thread::spawn(move || {
            for line in stdout.lines() {
                // Nothing but messages is ever on standard output.
                let message = serde_json::from_str(&line.unwrap()).unwrap();
                if sender.send(message).is_err() {
                    break;
                }
            }
        });
        let stdin = child.stdin.take();
        let way = Way::Stdio(Process { child, stdin });
        Self { way, incoming }
    }

    /// Speaks to a daemon as a client of that revision.
    pub(crate) fn http(client: Client, version: &str) -> Self {
        let (sender, incoming) = mpsc::channel();
        let way = Way::Http(Http {
            client,
            version: version.to_owned(),
            session: None,
            token: None,
            incoming: sender,
        });
        Self { way, incoming }
    }

    /// Brings this token with each request over HTTP.
    pub(crate) fn with_token(mut self, token: &str) -> Self {
        if let Way::Http(http) = &mut self.way {
            http.token = Some(token.to_owned());
        }
        self
    }

    /// What its session over HTTP is called.
    pub(crate) fn session(&self) -> &str {
        match &self.way {
            Way::Http(http) => http.session.as_deref().unwrap(),
            Way::Stdio(_) => panic!("not on standard input"),
        }
    }

    /// Sends bytes as they are on standard input.
    pub(crate) fn raw(&mut self, bytes: &[u8]) {
        match &mut self.way {
            Way::Stdio(process) => {
                process.stdin.as_mut().unwrap().write_all(bytes).unwrap();
            }
            Way::Http(_) => panic!("not over HTTP"),
        }
    }

    /// Sends a request and does not wait for its answer.
    pub(crate) fn begin(&mut self, message: &Value) {
        match &mut self.way {
            Way::Stdio(process) => process.send(message),
            Way::Http(http) => {
                let (client, incoming) = (http.client, http.incoming.clone());
                let request = http.post(message);
                // The head of an answer comes with the first message.
                thread::spawn(move || {
                    let (head, stream) = open(client, &request);
                    deliver(&head, stream, &incoming);
                });
            }
        }
    }

    /// The next message that comes.
    #[track_caller]
    pub(crate) fn next(&self) -> Value {
        self.incoming.recv_timeout(MESSAGE_MAX).unwrap()
    }

    /// Ends the input, and waits for the process to end as it should.
    #[track_caller]
    pub(crate) fn end(self) {
        let Way::Stdio(mut process) = self.way else {
            panic!("not over HTTP");
        };
        drop(process.stdin.take());
        assert!(process.child.wait().unwrap().success());
    }

    /// The process on standard input.
    pub(crate) fn child(&mut self) -> &mut Child {
        match &mut self.way {
            Way::Stdio(process) => &mut process.child,
            Way::Http(_) => panic!("not over HTTP"),
        }
    }

    /// Sends a request over HTTP and gives the connection on which its answer comes.
    pub(crate) fn connection(&self, message: &Value) -> TcpStream {
        match &self.way {
            Way::Http(http) => {
                let mut stream = http.client.connect();
                stream.write_all(http.post(message).as_bytes()).unwrap();
                stream
            }
            Way::Stdio(_) => panic!("not on standard input"),
        }
    }

    /// Sends a message that has no answer: a notification, or what the server asked for.
    pub(crate) fn tell(&mut self, message: &Value) {
        match &mut self.way {
            Way::Stdio(process) => process.send(message),
            Way::Http(http) => http.tell(message),
        }
    }

    /// Sends a request and waits for its answer and so many notifications; what the server asks meanwhile is answered
    /// by `reply`.
    #[track_caller]
    pub(crate) fn ask(
        &mut self,
        message: &Value,
        told: usize,
        reply: &dyn Fn(&Value) -> Value,
    ) -> Heard {
        match &mut self.way {
            Way::Stdio(process) => process.send(message),
            Way::Http(http) => http.ask(message),
        }
        let mut heard = Heard::default();
        while heard.answer.is_null() || heard.told.len() < told {
            let next = self.incoming.recv_timeout(MESSAGE_MAX);
            let next = next.unwrap_or_else(|error| panic!("{error}: {message} {heard:?}"));
            if let Some(replied) = heard.take(next, &message["id"], reply) {
                self.tell(&replied);
            }
        }
        heard
    }
}

impl Heard {
    /// Takes a message in. When the server asks something, it is to be told what is given.
    fn take(
        &mut self,
        message: Value,
        id: &Value,
        reply: &dyn Fn(&Value) -> Value,
    ) -> Option<Value> {
        match (message.get("method").is_some(), message.get("id")) {
            (true, Some(of)) => {
                let replied = json!({ "jsonrpc": "2.0", "id": of, "result": reply(&message) });
                self.asked.push(message);
                return Some(replied);
            }
            (true, None) => self.told.push(message),
            (false, of) => {
                assert_eq!(of, Some(id), "{message}");
                let Value::Object(mut members) = message else {
                    panic!("no object: {message}");
                };
                members.retain(|key, _| ["result", "error"].contains(&key.as_str()));
                self.answer = Value::Object(members);
            }
        }
        None
    }
}

impl Process {
    fn send(&mut self, message: &Value) {
        let line = format!("{message}\n");
        let stdin = self.stdin.as_mut().unwrap();
        stdin.write_all(line.as_bytes()).unwrap();
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
    /// The head of a request, without the empty line.
    fn head(&self, method: &str) -> String {
        let mut head = format!(
            "{method} /mcp HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\
             Accept: application/json, text/event-stream\r\n",
            self.client.address,
        );
        if let Some(token) = &self.token {
            head.push_str(&format!("Authorization: Bearer {token}\r\n"));
        }
        if let Some(session) = &self.session {
            head.push_str(&format!("Mcp-Session-Id: {session}\r\n"));
        }
        head
    }

    /// The request that carries a message.
    fn post(&self, message: &Value) -> String {
        let body = message.to_string();
        let mut head = self.head("POST");
        let mut field = |name: &str, value: &str| head.push_str(&format!("{name}: {value}\r\n"));
        field("Content-Type", "application/json");
        field("Content-Length", &body.len().to_string());
        // Whoever begins a session does not know yet which revision it will be.
        if message["params"]["protocolVersion"].is_null() {
            field("MCP-Protocol-Version", &self.version);
        }
        if let Some(method) = message["method"].as_str() {
            field("Mcp-Method", method);
        }
        let params = &message["params"];
        let named = ["name", "uri", "taskId"].map(|key| params[key].as_str());
        if let Some(name) = named.into_iter().flatten().next() {
            field("Mcp-Name", name);
        }
        // The argument of `echo_header` that stands in the head, too.
        if let Some(region) = params["arguments"]["region"].as_str() {
            field("Mcp-Param-Region", region);
        }
        format!("{head}\r\n{body}")
    }

    #[track_caller]
    fn tell(&self, message: &Value) {
        let answer = self.client.send(self.post(message));
        assert_eq!(answer.status, 202, "{answer:?}");
        if message["method"] == "notifications/initialized" {
            // What belongs to no request comes on a stream of its own.
            let request = format!(
                "{}MCP-Protocol-Version: {}\r\n\r\n",
                self.head("GET"),
                self.version
            );
            let (head, stream) = open(self.client, &request);
            assert_eq!(head.status, 200, "{head:?}");
            let incoming = self.incoming.clone();
            thread::spawn(move || read_events(stream, &incoming));
        }
    }

    fn ask(&mut self, message: &Value) {
        let (head, stream) = open(self.client, &self.post(message));
        if let Some(session) = head.header("mcp-session-id") {
            self.session = Some(session.to_owned());
        }
        let incoming = self.incoming.clone();
        if head.header("content-type") == Some("text/event-stream") {
            thread::spawn(move || read_events(stream, &incoming));
            return;
        }
        deliver(&head, stream, &incoming);
    }
}

/// Sends a request and reads the head of its answer.
fn open(client: Client, request: &str) -> (Answer, BufReader<TcpStream>) {
    let mut stream = client.connect();
    stream.write_all(request.as_bytes()).unwrap();
    let mut stream = BufReader::new(stream);
    (Answer::read_head(&mut stream), stream)
}

/// Reads the messages of an answer: many, or the only one.
fn deliver(head: &Answer, mut stream: BufReader<TcpStream>, incoming: &Sender<Value>) {
    if head.header("content-type") == Some("text/event-stream") {
        return read_events(stream, incoming);
    }
    let length = head
        .header("content-length")
        .unwrap_or_else(|| panic!("{head:?}"));
    let mut body = vec![0; length.parse().unwrap()];
    stream.read_exact(&mut body).unwrap();
    let message = serde_json::from_slice(&body);
    let message = message
        .unwrap_or_else(|error| panic!("{error}: {head:?} {}", String::from_utf8_lossy(&body)));
    // A test that is over needs it no more.
    let _over = incoming.send(message);
}

/// Reads a stream of messages until it ends or nobody wants to know.
fn read_events(mut stream: BufReader<TcpStream>, incoming: &Sender<Value>) {
    let mut text = Vec::new();
    while let Some(chunk) = next_chunk(&mut stream) {
        text.extend(chunk);
        for message in events(&mut text) {
            if incoming.send(message).is_err() {
                return;
            }
        }
    }
}

/// The next chunk of a body; none when it was the last, or the connection ended.
fn next_chunk(stream: &mut BufReader<TcpStream>) -> Option<Vec<u8>> {
    let mut line = String::new();
    stream.read_line(&mut line).ok()?;
    let length = usize::from_str_radix(line.trim_end(), 16).ok()?;
    let mut chunk = vec![0; length + "\r\n".len()];
    stream.read_exact(&mut chunk).ok()?;
    chunk.truncate(length);
    (length > 0).then_some(chunk)
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
pub(crate) fn evened(value: &Value) -> Value {
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
