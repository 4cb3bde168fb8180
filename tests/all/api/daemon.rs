//! `skillrun serve` at work, and a client that sends exactly the bytes that it is told to.

use std::fs::{self, File};
use std::io::{BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::ops::Deref;
use std::path::PathBuf;
use std::process::{Child, Command};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::harness::{Home, eventually};

/// How long an answer may take before a test gives up.
const ANSWER_MAX: Duration = Duration::from_secs(60);

/// A daemon that ends with the test. It is asked like its [`Client`].
pub(crate) struct Daemon {
    child: Child,
    client: Client,
    log: PathBuf,
}

/// Asks whoever listens at an address.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Client {
    pub(crate) address: SocketAddr,
}

impl Deref for Daemon {
    type Target = Client;

    fn deref(&self) -> &Client {
        &self.client
    }
}

/// An answer, read to its end.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Daemon {
    /// Starts the binary on a free port of loopback, and waits until it listens.
    #[track_caller]
    pub(crate) fn start(home: &Home) -> Self {
        Self::of(
            home,
            &mut home.command(&["serve", "--listen", "127.0.0.1:0"]),
        )
    }

    /// The same of a command with settings of its own.
    #[track_caller]
    pub(crate) fn of(home: &Home, command: &mut Command) -> Self {
        let log = home.path().join("daemon.log");
        let _of_the_last_one = fs::remove_file(&log);
        command.stderr(File::create(&log).unwrap());
        let mut child = command.spawn().unwrap();
        let address = eventually("a daemon that listens", || {
            let text = fs::read_to_string(&log).unwrap();
            if let Some(status) = child.try_wait().unwrap() {
                panic!("it ended as {status}: {text}");
            }
            let (_, rest) = text.split_once("listening on http://")?;
            let (address, _) = rest.split_once('\n')?;
            Some(address.parse().unwrap())
        });
        Self {
            child,
            client: Client { address },
            log,
        }
    }

    /// What it wrote to standard error.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap()
    }

    /// The memory that it has now.
    pub(crate) fn resident_bytes(&self) -> usize {
        let status = format!("/proc/{}/status", self.child.id());
        let status = fs::read_to_string(status).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kib = line.and_then(|line| line.trim().strip_suffix(" kB"));
        kib.unwrap().trim().parse::<usize>().unwrap() * 1024
    }

    /// Sends it a signal.
    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Waits for its end and gives its exit code.
    pub(crate) fn end(&mut self) -> Option<i32> {
        self.child.wait().unwrap().code()
    }
}

impl Client {
    /// A client of an address.
    pub(crate) fn new(address: SocketAddr) -> Self {
        Self { address }
    }

    /// Opens a connection.
    pub(crate) fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(ANSWER_MAX)).unwrap();
        stream
    }

    /// Sends these bytes on a connection of their own and reads one answer.
    #[track_caller]
    pub(crate) fn send(&self, bytes: impl AsRef<[u8]>) -> Answer {
        let mut stream = self.connect();
        stream.write_all(bytes.as_ref()).unwrap();
        Answer::read(&mut BufReader::new(stream))
    }

    /// Sends a request with further header fields, each `Name: value`, and maybe a body.
    #[track_caller]
    pub(crate) fn request(
        &self,
        method: &str,
        path: &str,
        headers: &[&str],
        body: Option<&str>,
    ) -> Answer {
        let mut text = format!("{method} {path} HTTP/1.1\r\nHost: {}\r\n", self.address);
        for header in headers {
            text.push_str(&format!("{header}\r\n"));
        }
        if let Some(body) = body {
            if !headers
                .iter()
                .any(|header| header.starts_with("Content-Type:"))
            {
                text.push_str("Content-Type: application/json\r\n");
            }
            text.push_str(&format!("Content-Length: {}\r\n", body.len()));
        }
        text.push_str("Connection: close\r\n\r\n");
        self.send(text + body.unwrap_or_default())
    }

    /// Sends a request without a body.
    #[track_caller]
    pub(crate) fn get(&self, path: &str) -> Answer {
        self.request("GET", path, &[], None)
    }

    /// Sends a request with a JSON body.
    #[track_caller]
    pub(crate) fn post(&self, path: &str, body: &Value) -> Answer {
        self.request("POST", path, &[], Some(&body.to_string()))
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _killed = self.child.kill();
        let _reaped = self.child.wait();
    }
}

impl Answer {
    /// Reads one answer, by its length, by its chunks, or to the end of the connection.
    #[track_caller]
    pub(crate) fn read(stream: &mut impl std::io::BufRead) -> Self {
        let mut answer = Self::read_head(stream);
        let has = |name: &str, value: &str| answer.header(name).is_some_and(|it| it == value);
        if has("transfer-encoding", "chunked") {
            while let Some(chunk) = read_chunk(stream) {
                answer.body.extend(chunk);
            }
        } else if let Some(length) = answer.header("content-length") {
            let length: u64 = length.parse().unwrap();
            stream.take(length).read_to_end(&mut answer.body).unwrap();
        } else if answer.status != 204 {
            stream.read_to_end(&mut answer.body).unwrap();
        }
        answer
    }

    /// Reads the head of an answer; its body is still to come.
    #[track_caller]
    pub(crate) fn read_head(stream: &mut impl std::io::BufRead) -> Self {
        let line = read_line(stream);
        let status = line.split(' ').nth(1).unwrap_or_default();
        let status = status
            .parse()
            .unwrap_or_else(|_| panic!("no status: {line:?}"));
        let mut headers = Vec::new();
        loop {
            let line = read_line(stream);
            if line.is_empty() {
                break;
            }
            let (name, value) = line.split_once(": ").unwrap();
            headers.push((name.to_owned(), value.to_owned()));
        }
        Self {
            status,
            headers,
            body: Vec::new(),
        }
    }

    /// A header field, by its name in lower case.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str())
    }

    /// The body as JSON.
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// The stable code of a problem, after looking that it is one with everything that belongs to one.
    #[track_caller]
    pub(crate) fn problem(&self) -> String {
        assert_eq!(
            self.header("content-type"),
            Some("application/problem+json"),
            "{self:?}"
        );
        let document = self.json();
        assert_eq!(document["status"], self.status, "{document}");
        assert_eq!(
            document["request_id"].as_str(),
            self.header("x-request-id"),
            "{document}"
        );
        for key in ["type", "title", "detail"] {
            assert!(document[key].is_string(), "{key}: {document}");
        }
        document["code"].as_str().unwrap().to_owned()
    }
}

/// The next chunk of a body; none when it was the last.
#[track_caller]
pub(crate) fn read_chunk(stream: &mut impl std::io::BufRead) -> Option<Vec<u8>> {
    let length = usize::from_str_radix(&read_line(stream), 16).unwrap();
    let mut chunk = vec![0; length];
    stream.read_exact(&mut chunk).unwrap();
    assert_eq!(read_line(stream), "");
    (length > 0).then_some(chunk)
}

#[track_caller]
fn read_line(stream: &mut impl std::io::BufRead) -> String {
    let mut line = String::new();
    stream.read_line(&mut line).unwrap();
    line.trim_end_matches(['\r', '\n']).to_owned()
}
