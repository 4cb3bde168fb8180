//! The last part of the demo: a daemon that is asked over HTTP, and a stream of what a run did.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, ensure};

use crate::demo::{SKILL, skillrun};
use crate::process::{run, say};

/// With this the daemon begins the line that says where it is.
const LISTENING: &str = "listening on http://";

/// A daemon that ends with this.
pub(crate) struct Daemon(Child);

impl Daemon {
    /// Starts one on `home`, and says where it listens.
    pub(crate) fn start(home: &Path) -> Result<(Self, String)> {
        say("$ skillrun serve --listen 127.0.0.1:0 &")?;
        let mut serve = skillrun(home);
        serve.args(["serve", "--listen", "127.0.0.1:0"]);
        let mut process = serve
            .stdin(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .context("cannot start skillrun serve")?;
        let stderr = process.stderr.take().context("skillrun says nothing")?;
        let daemon = Self(process);
        let mut said = BufReader::new(stderr).lines();
        loop {
            let line = said.next().context("the daemon ended")??;
            say(&line)?;
            if let Some(address) = line.strip_prefix(LISTENING) {
                let address = address.to_owned();
                // Whatever it says later has to go somewhere.
                std::thread::spawn(move || said.for_each(drop));
                return Ok((daemon, address));
            }
        }
    }

    /// Kills it, as a power cut would.
    pub(crate) fn kill(self) -> Result<()> {
        say(&format!("$ kill -9 {}", self.0.id()))
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _killed = self.0.kill();
        let _reaped = self.0.wait();
    }
}

/// Starts a daemon on `home`, where the skill is installed, asks it for a run, and ends it.
pub(crate) fn show(home: &Path) -> Result<()> {
    say("\n== A daemon on the same home")?;
    let (mut daemon, address) = Daemon::start(home)?;

    say("\n== A run, asked for over HTTP")?;
    let body = format!(r#"{{"skill_name":"{SKILL}","input":{{"name":"Grace"}}}}"#);
    let url = format!("http://{address}/api/agent/runs?wait=true");
    say(&format!(
        "$ curl -s '{url}' -H 'Content-Type: application/json' -d '{body}'"
    ))?;
    let answer = ask(&address, "POST", "/api/agent/runs?wait=true", &body)?;
    say(&answer)?;
    let answer: serde_json::Value = serde_json::from_str(&answer).context("it is no JSON")?;
    let run_id = answer.get("run_id").and_then(|id| id.as_str());
    let run_id = run_id.context("the answer names no run")?;

    say("\n== What it did, as server-sent events")?;
    let path = format!("/api/agent/runs/{run_id}/events");
    say(&format!("$ curl -sN 'http://{address}{path}'"))?;
    let events = ask(&address, "GET", &path, "")?;
    say(&events)?;
    ensure!(events.contains("event: end"), "the stream has no end");

    run(Command::new("kill").arg(daemon.0.id().to_string()))?;
    let ended = daemon.0.wait().context("cannot wait for the daemon")?;
    ensure!(ended.success(), "the daemon ended as {ended}");
    Ok(())
}

/// Asks on a connection of its own, and gives the body of the answer without what it was cut into.
fn ask(address: &str, method: &str, path: &str, body: &str) -> Result<String> {
    let mut stream = TcpStream::connect(address).context("cannot reach the daemon")?;
    let length = body.len();
    write!(
        stream,
        "{method} {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\
         Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
    )
    .context("cannot ask the daemon")?;
    let mut stream = BufReader::new(stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        let read = stream.read_line(&mut head).context("there is no answer")?;
        ensure!(read > 0, "the answer has no end: {head}");
    }
    ensure!(head.starts_with("HTTP/1.1 200"), "{head}");
    if !head.contains("transfer-encoding: chunked") {
        let mut body = String::new();
        stream
            .read_to_string(&mut body)
            .context("the answer breaks off")?;
        return Ok(body);
    }
    let mut body = Vec::new();
    loop {
        let mut line = String::new();
        stream
            .read_line(&mut line)
            .context("the answer breaks off")?;
        let length = usize::from_str_radix(line.trim(), 16).context("a piece has no length")?;
        // Behind each piece there is an end of a line.
        let mut piece = vec![0; length + 2];
        stream
            .read_exact(&mut piece)
            .context("the answer breaks off")?;
        if length == 0 {
            return String::from_utf8(body).context("the answer is no text");
        }
        piece.truncate(length);
        body.extend(piece);
    }
}
