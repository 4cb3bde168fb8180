//! The server on standard input and output. Each message is a line; what is none is answered with an error, and the
//! connection goes on.

use std::sync::Arc;
use std::time::Duration;

use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use rmcp::{RoleServer, ServiceExt as _};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::Mutex;
use tokio::task::JoinHandle;

use super::Mcp;
use super::message::{Refused, parse};
use super::server::Server;
use crate::json_lines::{LINE_BYTES_MAX, Line, LineReader, write_line};

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
            read: LineReader::new(input),
            write: Arc::new(Mutex::new(Some(output))),
            refusal: None,
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
    read: LineReader<R>,
    write: Arc<Mutex<Option<W>>>,
    /// The answer to a line that was no message, on its way. No further line is read before it is there.
    refusal: Option<JoinHandle<std::io::Result<()>>>,
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
            write_line(&write, &line).await
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleServer>> {
        loop {
            if let Some(refusal) = &mut self.refusal {
                let written = refusal.await;
                self.refusal = None;
                written.ok()?.ok()?;
            }
            let parsed = match self.read.next().await.ok()?? {
                Line::TooLong => Err(Refused::unread(format!(
                    "the line is too long: expected at most {LINE_BYTES_MAX} bytes"
                ))),
                Line::Whole(line) => match line.trim_ascii() {
                    [] => continue,
                    line => parse(line),
                },
            };
            match parsed {
                Ok(message) => return Some(message),
                Err(refused) => {
                    let answer = self.send(refused.answer());
                    self.refusal = Some(tokio::spawn(answer));
                }
            }
        }
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        drop(self.write.lock().await.take());
        Ok(())
    }
}
