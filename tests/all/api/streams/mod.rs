//! Events as clients get them, over real sockets.

use std::io::{BufReader, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use rustix::net::sockopt::set_socket_recv_buffer_size;
use skillrun::Skillrun;
use skillrun::api::{Api, ApiOptions};
use skillrun::clock::Clock;
use skillrun::config::{Config, Durability};
use skillrun::id::RunId;
use skillrun::ledger::{
    Event, Log, Origin, Recorder, RunCompleted, RunStarted, RunStatus, Store, StoreOptions,
};
use skillrun::outcome::OutcomeCode;
use skillrun::runner::runtime_builder;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::daemon::{Answer, read_chunk};
use crate::harness::Home;

mod all;
mod bounds;
mod browser;
mod one;
mod tickets;

/// What a slow client has room for.
const SLOW_BYTES: usize = 64 * 1024;
/// How long a client waits before a test gives up.
const READ_MAX: Duration = Duration::from_secs(60);

/// The surface inside the test's own process, so that the test can record what it likes.
struct Surface {
    runtime: Runtime,
    host: Skillrun,
    address: SocketAddr,
    shutdown: CancellationToken,
    served: JoinHandle<()>,
    _home: Home,
}

impl Surface {
    fn new(config: &str) -> Self {
        let home = Home::new(&[]);
        home.configure(&format!("{config}\n[ledger]\ndurability = \"relaxed\"\n"));
        let runtime = runtime_builder().build().unwrap();
        let config = Config::load(home.path()).unwrap();
        let settings = config.serve.clone();
        let host = Skillrun::builder(config).build().unwrap();
        let api = Api::new(ApiOptions {
            mcp: None,
            host: host.clone(),
            settings,
            token: None,
            local_token: None,
            traces: None,
        });
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let address = listener.local_addr().unwrap();
        let shutdown = CancellationToken::new();
        let fired = shutdown.clone();
        let served = runtime.spawn(async move { api.serve(listener, fired).await });
        Self {
            runtime,
            host,
            address,
            shutdown,
            served,
            _home: home,
        }
    }

    /// Begins a run that nobody carries out.
    fn begin(&self, skill: &str) -> Recorder {
        begin(&self.runtime, self.host.store(), skill)
    }

    fn watch(&self, run_id: &RunId, query: &str) -> Watcher {
        Watcher::open(
            self.address,
            &format!("/api/agent/runs/{run_id}/events{query}"),
            &[],
        )
        .unwrap()
    }
}

pub(super) fn begin(runtime: &Runtime, store: &Store, skill: &str) -> Recorder {
    let started = RunStarted {
        skill: skill.to_owned(),
        ..RunStarted::default()
    };
    let created = store.create(RunId::generate(), started);
    runtime.block_on(created).unwrap().0
}

/// The ledgers of a home, as another process has them.
pub(super) fn store_of(home: &Home) -> Store {
    Store::open(StoreOptions {
        runs_dir: home.path().join("runs"),
        durability: Durability::Relaxed,
        clock: Clock::system(),
    })
    .unwrap()
}

pub(super) fn log(recorder: &Recorder, message: &str) {
    let event = Event::from(Log {
        message: message.into(),
        ..Log::default()
    });
    recorder.record(Origin::Host, &event).unwrap();
}

pub(super) fn complete(recorder: &Recorder, status: RunStatus) {
    let code = match status {
        RunStatus::Suspended => OutcomeCode::Interrupted,
        _ => OutcomeCode::Ok,
    };
    let event = Event::from(RunCompleted::new(status, code));
    recorder.record(Origin::Host, &event).unwrap();
}

/// What a client is sent between two empty lines.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Frame {
    id: Option<String>,
    pub(super) name: String,
    pub(super) data: Option<String>,
}

impl Frame {
    /// The number of an event, which has an id and data.
    pub(super) fn seq(&self) -> Option<u64> {
        self.data.as_ref()?;
        self.id.as_ref()?.parse().ok()
    }

    pub(super) fn json(&self) -> serde_json::Value {
        serde_json::from_str(self.data.as_ref().unwrap()).unwrap()
    }
}

/// A client of a stream.
pub(super) struct Watcher {
    stream: BufReader<TcpStream>,
    text: Vec<u8>,
}

impl Watcher {
    /// Asks for a stream; whatever else is answered is the error.
    pub(super) fn open(address: SocketAddr, path: &str, headers: &[&str]) -> Result<Self, Answer> {
        let stream = ask(address, path, headers, None);
        let mut stream = BufReader::new(stream);
        let head = Answer::read_head(&mut stream);
        if head.status != 200 {
            let mut rest = head;
            let length = rest.header("content-length").unwrap_or("0");
            let length: u64 = length.parse().unwrap();
            let mut body = std::io::Read::take(&mut stream, length);
            std::io::Read::read_to_end(&mut body, &mut rest.body).unwrap();
            return Err(rest);
        }
        assert_eq!(head.header("content-type"), Some("text/event-stream"));
        assert_eq!(head.header("cache-control"), Some("no-store"));
        Ok(Self::of(stream))
    }

    /// A client with so little room that it soon is behind when it does not read.
    pub(super) fn slow(address: SocketAddr, path: &str) -> Self {
        let stream = ask(address, path, &[], Some(SLOW_BYTES));
        let mut stream = BufReader::new(stream);
        assert_eq!(Answer::read_head(&mut stream).status, 200);
        Self::of(stream)
    }

    /// A client that has read the head of the answer.
    fn of(stream: BufReader<TcpStream>) -> Self {
        let mut watcher = Self {
            stream,
            text: Vec::new(),
        };
        let opening = watcher.next_block().unwrap();
        assert!(opening.starts_with("retry: "), "{opening}");
        watcher
    }

    /// The next lines up to an empty one; none at the end of the stream.
    fn next_block(&mut self) -> Option<String> {
        let mut seen = 0;
        loop {
            let from = seen.max(1) - 1;
            let end = self.text[from..].windows(2).position(|two| two == b"\n\n");
            if let Some(end) = end {
                let rest = self.text.split_off(from + end + 2);
                let block = std::mem::replace(&mut self.text, rest);
                return Some(String::from_utf8(block[..from + end].to_vec()).unwrap());
            }
            seen = self.text.len();
            match read_chunk(&mut self.stream) {
                Some(chunk) => self.text.extend(chunk),
                None => {
                    assert_eq!(self.text, b"", "an event that is not ended");
                    return None;
                }
            }
        }
    }

    /// The next event, or the next that tells a place or that the stream is there.
    pub(super) fn next_frame(&mut self) -> Option<Frame> {
        let block = self.next_block()?;
        let mut frame = Frame::default();
        for line in block.split('\n') {
            let (field, value) = line.split_once(':').unwrap();
            let value = value.strip_prefix(' ').unwrap_or(value);
            match field {
                "id" => frame.id = Some(value.to_owned()),
                "event" => value.clone_into(&mut frame.name),
                "data" => match &mut frame.data {
                    Some(data) => *data = format!("{data}\n{value}"),
                    None => frame.data = Some(value.to_owned()),
                },
                "" => {}
                _ => panic!("{block}"),
            }
        }
        Some(frame)
    }

    /// The next event, heartbeats passed over.
    pub(super) fn next_event(&mut self) -> Option<Frame> {
        loop {
            let frame = self.next_frame()?;
            if frame.data.is_some() {
                return Some(frame);
            }
        }
    }

    /// All events to the end.
    pub(super) fn rest(mut self) -> Vec<Frame> {
        std::iter::from_fn(|| self.next_event()).collect()
    }
}

/// Sends a request on a connection of its own, whose receiver may be made small.
fn ask(
    address: SocketAddr,
    path: &str,
    headers: &[&str],
    receive_bytes: Option<usize>,
) -> TcpStream {
    let mut stream = TcpStream::connect(address).unwrap();
    if let Some(bytes) = receive_bytes {
        set_socket_recv_buffer_size(&stream, bytes).unwrap();
    }
    stream.set_read_timeout(Some(READ_MAX)).unwrap();
    let mut head = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\n");
    for header in headers {
        head.push_str(&format!("{header}\r\n"));
    }
    stream.write_all(format!("{head}\r\n").as_bytes()).unwrap();
    stream
}

/// The numbers of the events among these.
fn seqs(frames: &[Frame]) -> Vec<u64> {
    frames.iter().filter_map(Frame::seq).collect()
}

fn names(frames: &[Frame]) -> Vec<&str> {
    frames.iter().map(|frame| frame.name.as_str()).collect()
}
