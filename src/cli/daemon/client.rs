//! Asking the daemon of a home.

use std::time::Duration;

use anyhow::Context as _;
use bytes::Bytes;
use http::Request;
use http::header::{AUTHORIZATION, CONTENT_LENGTH, HOST};
use http_body_util::{BodyExt as _, Empty, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

use super::DaemonRecord;

/// How long an answer may take. Protects from a process that took the daemon's port.
const ANSWER_TIME: Duration = Duration::from_secs(10);
/// Bytes of an answer that are read; a problem has some hundred.
const ANSWER_BYTES_MAX: usize = 64 * 1024;

/// What the daemon answered.
pub(crate) struct Answer {
    /// The status of HTTP, such as 202.
    pub(crate) status: u16,
    body: Bytes,
}

impl Answer {
    /// What a problem says of itself.
    pub(crate) fn detail(&self) -> Option<String> {
        let problem: serde_json::Value = serde_json::from_slice(&self.body).ok()?;
        Some(problem.get("detail")?.as_str()?.to_owned())
    }
}

impl DaemonRecord {
    /// Sends a request without a body and reads the answer.
    ///
    /// # Errors
    /// It does not answer.
    pub(crate) async fn post(&self, path: &str) -> anyhow::Result<Answer> {
        let asked = tokio::time::timeout(ANSWER_TIME, self.exchange(path)).await;
        asked.with_context(|| format!("no answer within {} s", ANSWER_TIME.as_secs()))?
    }

    async fn exchange(&self, path: &str) -> anyhow::Result<Answer> {
        let address = self.reached_at();
        let token = self.token().context("daemon.json has no token")?;
        let stream = TcpStream::connect(address).await;
        let stream = stream.with_context(|| format!("cannot connect to {address}"))?;
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        let connection = tokio::spawn(connection);
        let request = Request::post(path)
            .header(HOST, address.to_string())
            .header(AUTHORIZATION, format!("Bearer {}", token.value()))
            .header(CONTENT_LENGTH, 0)
            .body(Empty::<Bytes>::new())?;
        let response = sender.send_request(request).await?;
        let status = response.status().as_u16();
        let body = Limited::new(response.into_body(), ANSWER_BYTES_MAX);
        let body = body.collect().await;
        connection.abort();
        let body = body.map_err(|error| anyhow::anyhow!(error))?.to_bytes();
        Ok(Answer { status, body })
    }
}
