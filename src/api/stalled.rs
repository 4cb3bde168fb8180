//! Connections whose other end takes nothing any more.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use rustix::net::sockopt::set_socket_send_buffer_size;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::Sleep;

/// Bytes that the system keeps of what was sent and is not taken yet; it doubles that for what it needs itself. Of its
/// own accord it would keep some MiB for each client that does not read.
const SEND_BUFFER_BYTES: usize = 128 * 1024;

/// A connection that fails when it takes nothing for too long of what is to be written.
#[derive(Debug)]
pub(super) struct Watched<S> {
    stream: S,
    stall_timeout: Duration,
    /// Runs while a write waits.
    stalled: Option<Pin<Box<Sleep>>>,
}

impl Watched<TcpStream> {
    /// Watches a connection, of which the system does not keep more than is good either.
    pub(super) fn tcp(stream: TcpStream, stall_timeout: Duration) -> Self {
        // Small answers are not held back for others to join them. Without either it works, if less well.
        let _at_once = stream.set_nodelay(true);
        let _bounded = set_socket_send_buffer_size(&stream, SEND_BUFFER_BYTES);
        Self::new(stream, stall_timeout)
    }
}

impl<S> Watched<S> {
    fn new(stream: S, stall_timeout: Duration) -> Self {
        Self {
            stream,
            stall_timeout,
            stalled: None,
        }
    }

    /// What a write came to, unless it waits for too long.
    fn watch<T>(
        &mut self,
        cx: &mut Context<'_>,
        written: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.stalled = None;
            return written;
        }
        let stall_timeout = self.stall_timeout;
        let stalled = self
            .stalled
            .get_or_insert_with(|| Box::pin(tokio::time::sleep(stall_timeout)));
        ready!(stalled.as_mut().poll(cx));
        let reason = "the other end takes nothing";
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, reason)))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Watched<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_read(cx, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Watched<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let own = self.get_mut();
        let written = Pin::new(&mut own.stream).poll_write(cx, bytes);
        own.watch(cx, written)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let own = self.get_mut();
        let written = Pin::new(&mut own.stream).poll_write_vectored(cx, parts);
        own.watch(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let own = self.get_mut();
        let flushed = Pin::new(&mut own.stream).poll_flush(cx);
        own.watch(cx, flushed)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let own = self.get_mut();
        let closed = Pin::new(&mut own.stream).poll_shutdown(cx);
        own.watch(cx, closed)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn only_a_write_that_does_not_move_at_all_ends_it() {
        let timeout = Duration::from_secs(60);
        let (ours, mut theirs) = tokio::io::duplex(4);
        let mut watched = Watched::new(ours, timeout);
        let slow = async {
            for _ in 0..4 {
                tokio::time::advance(timeout - Duration::from_millis(1)).await;
                theirs.read_exact(&mut [0; 4]).await.unwrap();
            }
        };
        let (written, ()) = tokio::join!(watched.write_all(&[0; 20]), slow);
        written.unwrap();
        let error = watched.write_all(&[0; 1]).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }
}
