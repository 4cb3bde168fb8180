//! Messages as lines, to and from a process. What comes is a stranger's: it is bounded before it is
//! parsed, and the first line that is no message ends the connection.

use std::sync::{Arc, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use rmcp::RoleClient;
use rmcp::model::{ClientRequest, JsonRpcMessage, RequestId};
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{Mutex, Semaphore};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::json_lines::{LINE_BYTES_MAX, Line, LineReader, VALUES_MAX, json_values, write_line};
use crate::tools::error::MessageError;

/// For how long a message may wait to be taken. Protects the host's heap from messages that pile up.
const WRITE_TIME: Duration = Duration::from_secs(30);
/// Requests of a server that wait for their answers to be taken. Protects the same.
pub(in crate::tools) const REQUESTS_MAX: usize = 256;

/// Why a connection ended, told by whoever saw it first.
#[derive(Debug, Clone, Default)]
pub(super) struct Cause(Arc<OnceLock<String>>);

impl Cause {
    pub(super) fn set(&self, cause: impl Into<String>) {
        // The first cause is the one that others follow from.
        let _kept = self.0.set(cause.into());
    }

    pub(super) fn get(&self) -> Option<&str> {
        self.0.get().map(String::as_str)
    }
}

/// A connection on which each message is a line.
pub(super) struct Lines<R, W> {
    read: LineReader<R>,
    write: Arc<Mutex<Option<W>>>,
    answers: Arc<Semaphore>,
    broken: CancellationToken,
    cause: Cause,
    /// The question whether the server does without a handshake, until it is answered.
    probe: Option<RequestId>,
    /// The handshake was begun, whether that was answered or not.
    is_shaking_hands: bool,
    /// The server said that it does, after the handshake was begun.
    does_without: bool,
}

impl<R: AsyncRead, W> Lines<R, W> {
    pub(super) fn new(read: R, write: W, cause: Cause) -> Self {
        Self {
            read: LineReader::new(read),
            write: Arc::new(Mutex::new(Some(write))),
            answers: Arc::new(Semaphore::new(REQUESTS_MAX)),
            broken: CancellationToken::new(),
            cause,
            probe: None,
            is_shaking_hands: false,
            does_without: false,
        }
    }
}

impl<R, W> Lines<R, W> {
    fn note_sent(&mut self, message: &TxJsonRpcMessage<RoleClient>) {
        let JsonRpcMessage::Request(request) = message else {
            return;
        };
        match &request.request {
            ClientRequest::DiscoverRequest(_) => {
                self.probe = Some(request.id.clone());
                self.is_shaking_hands = false;
            }
            ClientRequest::InitializeRequest(_) => self.is_shaking_hands = true,
            _ => {}
        }
    }

    /// Whether it answers what is no longer asked. The library gives the first question up after a while; a server
    /// that takes longer to start answers it all the same, and before the handshake, to which it is no answer.
    fn is_too_late(&mut self, message: &RxJsonRpcMessage<RoleClient>) -> bool {
        let id = match message {
            JsonRpcMessage::Response(response) => Some(&response.id),
            JsonRpcMessage::Error(error) => error.id.as_ref(),
            _ => return false,
        };
        // Some servers answer to a number with its text, or to no number at all.
        let is_of = |probe: &mut RequestId| id.is_none_or(|id| id.to_string() == probe.to_string());
        let is_too_late = self.probe.take_if(is_of).is_some() && self.is_shaking_hands;
        if is_too_late && matches!(message, JsonRpcMessage::Response(_)) {
            self.does_without = true;
        }
        is_too_late
    }

    /// Whether the server said too late that it does without a handshake.
    pub(super) fn does_without_handshake(&self) -> bool {
        self.does_without
    }
}

impl<R: AsyncRead + Unpin, W> Lines<R, W> {
    async fn next(&mut self) -> Result<Option<RxJsonRpcMessage<RoleClient>>, MessageError> {
        loop {
            let line = self.read.next().await.map_err(|error| {
                let reason = error.to_string();
                MessageError::Unreadable { reason }
            })?;
            let line = match line {
                None => return Ok(None),
                Some(Line::TooLong) => return Err(MessageError::TooLong),
                Some(Line::Whole(line)) => line,
            };
            let Some(message) = parse(&line)? else {
                continue;
            };
            if self.is_too_late(&message) {
                continue;
            }
            if matches!(message, JsonRpcMessage::Request(_)) {
                let place = self.answers.try_acquire();
                place.map_err(|_| MessageError::Unanswered)?.forget();
            }
            return Ok(Some(message));
        }
    }
}

impl<R, W> Transport<RoleClient> for Lines<R, W>
where
    R: AsyncRead + Send + Unpin,
    W: AsyncWrite + Send + Unpin + 'static,
{
    type Error = std::io::Error;

    fn send(
        &mut self,
        message: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        self.note_sent(&message);
        let write = Arc::clone(&self.write);
        let answers = Arc::clone(&self.answers);
        let (broken, cause) = (self.broken.clone(), self.cause.clone());
        async move {
            let is_answer = matches!(
                message,
                JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_)
            );
            let mut line = serde_json::to_vec(&message)?;
            line.push(b'\n');
            let written = timeout(WRITE_TIME, write_line(&write, &line)).await;
            if is_answer {
                answers.add_permits(1);
            }
            written.unwrap_or_else(|_elapsed| {
                // A part of the line may be with the server, so that nothing can follow it.
                cause.set("it does not read its standard input");
                broken.cancel();
                Err(std::io::ErrorKind::TimedOut.into())
            })
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        let broken = self.broken.clone();
        let next = tokio::select! {
            biased;
            () = broken.cancelled() => return None,
            next = self.next() => next,
        };
        next.unwrap_or_else(|error| {
            self.cause.set(error.to_string());
            None
        })
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        drop(self.write.lock().await.take());
        Ok(())
    }
}

/// Lines that are lent to a handshake, and can be had again when that has failed.
pub(super) struct Lent<R, W> {
    /// None once they were given back.
    lines: Option<Lines<R, W>>,
    back: Returned<R, W>,
}

/// Where lines are that were given back.
pub(super) struct Returned<R, W>(Arc<std::sync::Mutex<Option<Lines<R, W>>>>);

impl<R, W> Returned<R, W> {
    fn place(&self) -> MutexGuard<'_, Option<Lines<R, W>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn take(&self) -> Option<Lines<R, W>> {
        self.place().take()
    }
}

impl<R, W> Lent<R, W> {
    pub(super) fn new(lines: Lines<R, W>) -> (Self, Returned<R, W>) {
        let place = Arc::default();
        let lent = Self {
            lines: Some(lines),
            back: Returned(Arc::clone(&place)),
        };
        (lent, Returned(place))
    }
}

impl<R, W> Drop for Lent<R, W> {
    fn drop(&mut self) {
        *self.back.place() = self.lines.take();
    }
}

impl<R, W> Transport<RoleClient> for Lent<R, W>
where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    type Error = std::io::Error;

    fn send(
        &mut self,
        message: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        let sending = self.lines.as_mut().map(|lines| lines.send(message));
        async move {
            match sending {
                Some(sending) => sending.await,
                None => Err(std::io::ErrorKind::NotConnected.into()),
            }
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        self.lines.as_mut()?.receive().await
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        match &mut self.lines {
            Some(lines) => lines.close().await,
            None => Ok(()),
        }
    }
}

/// The message that a line is; none if there is nothing on it.
pub(in crate::tools) fn parse(
    line: &[u8],
) -> Result<Option<RxJsonRpcMessage<RoleClient>>, MessageError> {
    let line = line.trim_ascii();
    if line.is_empty() {
        return Ok(None);
    }
    if line.len() > LINE_BYTES_MAX {
        return Err(MessageError::TooLong);
    }
    if json_values(line) > VALUES_MAX {
        return Err(MessageError::TooManyValues { max: VALUES_MAX });
    }
    // Neither the parser's words nor the line are shown: they are the server's, and may be a secret.
    let parsed = serde_json::from_slice(line);
    parsed.map(Some).map_err(|_| MessageError::NoMessage)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_messages_are_taken() {
        for line in [
            r#"{"jsonrpc":"2.0","id":1,"result":{}}"#,
            r#"{"jsonrpc":"2.0","id":1,"error":{"code":-1,"message":"no"}}"#,
            r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#,
            r#"{"jsonrpc":"2.0","method":"notifications/of/tomorrow","params":{"a":1}}"#,
            "{\"jsonrpc\":\"2.0\",\"id\":\"a\",\"method\":\"ping\"}\r",
        ] {
            assert!(matches!(parse(line.as_bytes()), Ok(Some(_))), "{line}");
        }
        for line in ["", " ", "\r"] {
            assert!(matches!(parse(line.as_bytes()), Ok(None)), "{line:?}");
        }
        let deep = "[".repeat(100_000);
        for line in ["Listening on stdio", "{}", "[]", "{", "null", deep.as_str()] {
            let refused = parse(line.as_bytes()).unwrap_err();
            assert_eq!(refused, MessageError::NoMessage);
        }
        assert_eq!(parse(b"\xff\xfe").unwrap_err(), MessageError::NoMessage);
        let many = format!("[0{}]", ",0".repeat(VALUES_MAX));
        let refused = parse(many.as_bytes()).unwrap_err();
        assert_eq!(refused, MessageError::TooManyValues { max: VALUES_MAX });
    }

    #[tokio::test]
    async fn a_line_that_is_too_long_ends_the_connection() {
        let cause = Cause::default();
        let endless = tokio::io::repeat(b'x');
        let mut lines = Lines::new(endless, tokio::io::sink(), cause.clone());
        assert!(lines.receive().await.is_none());
        assert!(cause.get().unwrap().contains("16777216"), "{cause:?}");
    }

    #[tokio::test]
    async fn requests_that_nobody_takes_the_answers_of_end_the_connection() {
        let ping = b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n".repeat(REQUESTS_MAX + 1);
        let cause = Cause::default();
        let mut lines = Lines::new(ping.as_slice(), tokio::io::sink(), cause.clone());
        for _ in 0..REQUESTS_MAX {
            assert!(lines.receive().await.is_some());
        }
        assert!(lines.receive().await.is_none());
        assert!(cause.get().unwrap().contains("256"), "{cause:?}");
    }
}
