//! A server of a few lines, that can be as wrong as a test wants it.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

/// A request as it came over the wire.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
    /// The first line.
    pub(crate) line: String,
    /// The header fields, names in lower case.
    pub(crate) headers: Vec<(String, String)>,
    /// The body.
    pub(crate) body: Vec<u8>,
}

impl Seen {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut fields = self.headers.iter();
        let (_, value) = fields.find(|(field, _)| field == name)?;
        Some(value)
    }

    pub(crate) fn path(&self) -> &str {
        self.line.split(' ').nth(1).unwrap()
    }
}

/// Answers every request on a thread of its own, one for each connection.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    seen: Arc<Mutex<Vec<Seen>>>,
}

/// Something that is read and written: with TLS or without.
pub(crate) trait Wire: Read + Write {}
impl<T: Read + Write> Wire for T {}

impl Server {
    /// A server that writes whatever `answer` writes.
    pub(crate) fn start(
        answer: impl Fn(&Seen, &mut dyn Wire) -> io::Result<()> + Send + Sync + 'static,
    ) -> Self {
        Self::over("127.0.0.1:0", |stream| stream, answer)
    }

    /// A server that answers every request with this.
    pub(crate) fn answering(response: impl Into<Vec<u8>>) -> Self {
        let response = response.into();
        Self::start(move |_, wire| wire.write_all(&response))
    }

    /// A server on another address, or behind another layer.
    pub(crate) fn over<W: Wire + 'static>(
        address: &str,
        layer: impl Fn(TcpStream) -> W + Send + Sync + 'static,
        answer: impl Fn(&Seen, &mut dyn Wire) -> io::Result<()> + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind(address).unwrap();
        let address = listener.local_addr().unwrap();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let (both, log) = (Arc::new((layer, answer)), Arc::clone(&seen));
        thread::spawn(move || {
            for stream in listener.incoming() {
                let (both, log) = (Arc::clone(&both), Arc::clone(&log));
                thread::spawn(move || {
                    let mut wire = both.0(stream.unwrap());
                    // A client that goes away is what some tests are about.
                    if let Ok(request) = read_request(&mut wire) {
                        log.lock().unwrap().push(request.clone());
                        let _gone = both.1(&request, &mut wire);
                        let _gone = wire.flush();
                    }
                });
            }
        });
        Self { address, seen }
    }

    /// The requests so far.
    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }

    /// An address on it.
    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// A capability for it.
    pub(crate) fn net(&self, prefix_and_methods: &str) -> String {
        format!("net:http://{}{prefix_and_methods}", self.address)
    }
}

/// A plain response.
pub(crate) fn ok(body: &str) -> Vec<u8> {
    let length = body.len();
    format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n{body}").into_bytes()
}

/// Waits until the other side closes the connection.
pub(crate) fn wait_for_close(wire: &mut dyn Wire) {
    let mut byte = [0];
    while matches!(wire.read(&mut byte), Ok(1)) {}
}

fn read_request(wire: &mut dyn Wire) -> io::Result<Seen> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        wire.read_exact(&mut byte)?;
        head.push(byte[0]);
    }
    let head = String::from_utf8(head).unwrap();
    let mut lines = head.trim_end().split("\r\n");
    let line = lines.next().unwrap().to_owned();
    let headers: Vec<(String, String)> = lines
        .map(|line| {
            let (name, value) = line.split_once(": ").unwrap();
            (name.to_ascii_lowercase(), value.to_owned())
        })
        .collect();
    let length = headers.iter().find(|(name, _)| name == "content-length");
    let mut body = vec![0; length.map_or(0, |(_, value)| value.parse().unwrap())];
    wire.read_exact(&mut body)?;
    Ok(Seen {
        line,
        headers,
        body,
    })
}
