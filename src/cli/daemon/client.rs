//! Asking the daemon of a home.

use std::time::Duration;

use anyhow::Context as _;
use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_TYPE, HOST};
use http::{Method, Request, Response};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::net::TcpStream;
use tokio::task::AbortHandle;

use super::DaemonRecord;
use super::frames::{Frame, Frames};
use crate::cli::exit::Refused;

/// How long an answer may take. Protects from a process that took the daemon's port.
const ANSWER_TIME: Duration = Duration::from_secs(10);
/// How long an answer may take to what waits for the end of something, such as a stop.
const LONG_ANSWER_TIME: Duration = Duration::from_secs(120);
/// Bytes of an answer that are read: more than a page of executions has, each with all of its metadata.
const ANSWER_BYTES_MAX: usize = 8 * 1024 * 1024;

/// What the daemon answered.
pub(crate) struct Answer {
    /// The status of HTTP, such as 202.
    pub(crate) status: u16,
    body: Bytes,
}

impl Answer {
    fn problem(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    /// What a problem says of itself.
    pub(crate) fn detail(&self) -> Option<String> {
        Some(self.problem().get("detail")?.as_str()?.to_owned())
    }

    /// What was asked for, or why it is refused.
    ///
    /// # Errors
    /// It is a problem, or no answer of this version's.
    pub(crate) fn document<T: DeserializeOwned>(&self) -> anyhow::Result<T> {
        if self.status < 400 {
            let document = serde_json::from_slice(&self.body);
            return document.context("the daemon answers with something else than was asked for");
        }
        let problem = self.problem();
        let text = |key: &str| problem.get(key).and_then(Value::as_str);
        let detail = text("detail").unwrap_or("no reason given").to_owned();
        let refused = match text("code").unwrap_or_default() {
            "not_found" => Refused::not_found(detail),
            "bad_request" | "invalid_input" | "too_large" => Refused::usage(detail),
            "denied" => Refused::denied(detail),
            "conflict" | "ended" | "busy" | "shutting_down" => Refused::conflict(detail),
            "not_runnable" => Refused::invalid(detail),
            _ => {
                let refused = format!("the daemon answers {}: {detail}", self.status);
                return Err(anyhow::anyhow!(refused));
            }
        };
        Err(match text("hint") {
            Some(hint) => refused.with_hint(hint),
            None => refused,
        }
        .into())
    }
}

/// A connection, which ends with this.
struct Connection(AbortHandle);

impl Drop for Connection {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Events of the daemon as they come.
pub(crate) struct EventStream {
    body: Incoming,
    frames: Frames,
    _connection: Connection,
}

impl EventStream {
    /// The next event; none when the daemon has closed the stream.
    ///
    /// # Errors
    /// The connection broke off, or what comes is no stream of events.
    pub(crate) async fn next(&mut self) -> anyhow::Result<Option<Frame>> {
        loop {
            if let Some(frame) = self.frames.next() {
                return Ok(Some(frame));
            }
            let Some(frame) = self.body.frame().await else {
                return Ok(None);
            };
            if let Ok(data) = frame.context("the stream broke off")?.into_data() {
                self.frames.push(&data)?;
            }
        }
    }
}

async fn read(response: Response<Incoming>) -> anyhow::Result<Answer> {
    let status = response.status().as_u16();
    let body = Limited::new(response.into_body(), ANSWER_BYTES_MAX);
    let body = body.collect().await;
    let body = body.map_err(|error| anyhow::anyhow!(error))?.to_bytes();
    Ok(Answer { status, body })
}

impl DaemonRecord {
    /// Sends a request without a body and reads the answer.
    ///
    /// # Errors
    /// It does not answer.
    pub(crate) async fn post(&self, path: &str) -> anyhow::Result<Answer> {
        self.ask(Method::POST, path, None).await
    }

    /// Sends a request and reads the answer, which comes at once.
    ///
    /// # Errors
    /// It does not answer.
    pub(crate) async fn ask(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> anyhow::Result<Answer> {
        self.ask_within(ANSWER_TIME, method, path, body).await
    }

    /// Posts something and reads the answer, which comes when something has ended that has a bound.
    ///
    /// # Errors
    /// It does not answer.
    pub(crate) async fn post_and_wait(
        &self,
        path: &str,
        body: Option<&Value>,
    ) -> anyhow::Result<Answer> {
        self.ask_within(LONG_ANSWER_TIME, Method::POST, path, body)
            .await
    }

    async fn ask_within(
        &self,
        time: Duration,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> anyhow::Result<Answer> {
        let asked = tokio::time::timeout(time, self.exchange(method, path, body)).await;
        let asked = asked.with_context(|| format!("no answer within {} s", time.as_secs()));
        let asked = asked.and_then(|asked| asked);
        asked.with_context(|| format!("cannot ask the daemon, process {}", self.pid))
    }

    async fn exchange(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> anyhow::Result<Answer> {
        let (response, _connection) = self.send(method, path, body).await?;
        read(response).await
    }

    /// Posts something and reads the answer, however long it takes: the daemon has a bound of its own.
    ///
    /// # Errors
    /// It does not answer.
    pub(crate) async fn post_at_leisure(
        &self,
        path: &str,
        body: Option<&Value>,
    ) -> anyhow::Result<Answer> {
        let asked = self.exchange(Method::POST, path, body).await;
        asked.with_context(|| format!("cannot ask the daemon, process {}", self.pid))
    }

    /// Opens a stream of events.
    ///
    /// # Errors
    /// It does not answer, or refuses.
    pub(crate) async fn events(&self, path: &str) -> anyhow::Result<EventStream> {
        let opened = tokio::time::timeout(ANSWER_TIME, self.send(Method::GET, path, None)).await;
        let opened =
            opened.with_context(|| format!("no answer within {} s", ANSWER_TIME.as_secs()));
        let opened = opened.and_then(|opened| opened);
        let (response, connection) =
            opened.with_context(|| format!("cannot ask the daemon, process {}", self.pid))?;
        let status = response.status().as_u16();
        if status < 400 {
            return Ok(EventStream {
                body: response.into_body(),
                frames: Frames::default(),
                _connection: connection,
            });
        }
        let refused = read(response).await?.document::<Value>();
        Err(refused
            .err()
            .unwrap_or_else(|| anyhow::anyhow!("the daemon answers {status}")))
    }

    async fn send(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> anyhow::Result<(Response<Incoming>, Connection)> {
        let address = self.reached_at();
        let token = self.token().context("daemon.json has no token")?;
        let stream = TcpStream::connect(address).await;
        let stream = stream.with_context(|| format!("cannot connect to {address}"))?;
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        let connection = Connection(tokio::spawn(connection).abort_handle());
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header(HOST, address.to_string())
            .header(AUTHORIZATION, format!("Bearer {}", token.value()));
        if body.is_some() {
            request = request.header(CONTENT_TYPE, "application/json");
        }
        let body = body.map_or_else(Vec::new, |body| body.to_string().into_bytes());
        let request = request.body(Full::new(Bytes::from(body)))?;
        let response = sender.send_request(request).await?;
        Ok((response, connection))
    }
}
