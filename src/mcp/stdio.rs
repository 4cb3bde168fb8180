//! The server on standard input and output. Each message is a line; what is none is answered with an error, and the
//! connection goes on.

use std::sync::Arc;
use std::time::Duration;

use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use rmcp::{RoleServer, ServiceExt as _};
use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncWrite, AsyncWriteExt as _, BufReader};
use tokio::sync::Mutex;

use super::Mcp;
use super::message::{Refused, parse};
use super::server::Server;
use crate::runner::INPUT_BYTES_MAX;

/// Bytes of one message: an input of a skill, each byte of it escaped. Protects the host's memory from a message that
/// does not end.
const LINE_BYTES_MAX: usize = 2 * INPUT_BYTES_MAX;
/// How long it is waited for that requests of a client that has gone are given up.
const CANCELLED_MAX: Duration = Duration::from_secs(1);

/// Why a connection did not come about or ended too soon.
#[derive(Debug, thiserror::Error)]
#[error("the connection failed: {0}")]
pub struct StdioError(String);

impl Mcp {
    /// Serves one client, until its input ends. Runs that it waits for then are cancelled, and tasks go on.
    ///
    /// # Errors
    /// It did not begin as MCP says.
    pub async fn serve_stdio(
        &self,
        input: impl AsyncRead + Unpin + Send + 'static,
        output: impl AsyncWrite + Unpin + Send + 'static,
    ) -> Result<(), StdioError> {
        let lines = Lines {
            read: BufReader::new(input),
            line: Vec::new(),
            is_too_long: false,
            write: Arc::new(Mutex::new(Some(output))),
            refused: None,
        };
        let failed = |error: String| StdioError(error);
        let server = match Server::new(self.on_stdio()).serve(lines).await {
            // Whoever goes away before it said anything is no failure.
            Err(rmcp::service::ServerInitializeError::ConnectionClosed(_)) => return Ok(()),
            server => server.map_err(|error| failed(error.to_string()))?,
        };
        let ended = server.waiting().await;
        // Whoever serves the client may end all runs next, as interrupted: those that went with it are cancelled.
        self.followed().close();
        let _late = tokio::time::timeout(CANCELLED_MAX, self.followed().wait()).await;
        ended.map_err(|error| failed(error.to_string()))?;
        Ok(())
    }
}

/// A connection on which each message is a line.
struct Lines<R, W> {
    read: BufReader<R>,
    line: Vec<u8>,
    /// The line is longer than one may be: its rest is not kept.
    is_too_long: bool,
    write: Arc<Mutex<Option<W>>>,
    /// What is to be answered to a line that was no message, before the next one is read.
    refused: Option<Vec<u8>>,
}

impl<R: AsyncRead + Unpin, W> Lines<R, W> {
    /// Reads one line without its end into `self.line`; false when there is none any more. A future that is dropped
    /// loses nothing.
    async fn read_line(&mut self) -> std::io::Result<bool> {
        loop {
            let available = self.read.fill_buf().await?;
            if available.is_empty() {
                return Ok(false);
            }
            let end = available.iter().position(|&byte| byte == b'\n');
            let part = available
                .get(..end.unwrap_or(available.len()))
                .unwrap_or_default();
            if self.is_too_long || self.line.len().saturating_add(part.len()) > LINE_BYTES_MAX {
                self.is_too_long = true;
                self.line = Vec::new();
            } else {
                self.line.extend_from_slice(part);
            }
            let consumed = part.len() + usize::from(end.is_some());
            self.read.consume(consumed);
            if end.is_some() {
                return Ok(true);
            }
        }
    }
}

impl<R, W: AsyncWrite + Unpin> Lines<R, W> {
    /// Answers what was refused. A future that is dropped before the answer is on its way answers it later.
    async fn answer_refused(&mut self) -> std::io::Result<()> {
        if self.refused.is_some() {
            let mut write = self.write.lock().await;
            if let (Some(line), Some(write)) = (self.refused.take(), write.as_mut()) {
                write.write_all(&line).await?;
                write.flush().await?;
            }
        }
        Ok(())
    }
}

impl<R, W> Transport<RoleServer> for Lines<R, W>
where
    R: AsyncRead + Send + Unpin,
    W: AsyncWrite + Send + Unpin + 'static,
{
    type Error = std::io::Error;

    fn send(
        &mut self,
        message: TxJsonRpcMessage<RoleServer>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        let write = Arc::clone(&self.write);
        async move {
            let mut line = serde_json::to_vec(&message)?;
            line.push(b'\n');
            let mut write = write.lock().await;
            let write = write.as_mut().ok_or(std::io::ErrorKind::NotConnected)?;
            write.write_all(&line).await?;
            write.flush().await
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleServer>> {
        loop {
            self.answer_refused().await.ok()?;
            if !self.read_line().await.ok()? {
                return None;
            }
            // A buffer that one large message has made large is not kept.
            let line = std::mem::take(&mut self.line);
            let line = line.trim_ascii();
            let parsed = match std::mem::take(&mut self.is_too_long) {
                true => Err(Refused::unread(format!(
                    "the line is too long: expected at most {LINE_BYTES_MAX} bytes"
                ))),
                false if line.is_empty() => continue,
                false => parse(line),
            };
            match parsed {
                Ok(message) => return Some(message),
                Err(refused) => {
                    let mut answer = serde_json::to_vec(&refused.answer()).ok()?;
                    answer.push(b'\n');
                    self.refused = Some(answer);
                }
            }
        }
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        drop(self.write.lock().await.take());
        Ok(())
    }
}
