//! A bound on what a server sends before its response begins.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::fields::RESPONSE_HEADER_BYTES_MAX;

/// Bytes before the response: its header, and what may have been read of its body with it. Protects the
/// thread, and with it every other run on it, from a server that sends interim responses without end:
/// those are read one after another without a pause in which a time limit would be seen.
const HEAD_BYTES_MAX: usize = RESPONSE_HEADER_BYTES_MAX + 512 * 1024;

/// A connection that ends when more than that comes before the response does.
pub(super) struct HeadBound<S> {
    inner: S,
    left: Allowance,
}

/// How much may still come.
#[derive(Clone)]
pub(super) struct Allowance(Arc<AtomicUsize>);

impl Allowance {
    /// The response has begun, so what comes now is its body, which is bounded elsewhere.
    pub(super) fn lift(&self) {
        self.0.store(usize::MAX, Ordering::Relaxed);
    }

    /// Whether more came than may.
    pub(super) fn is_used_up(&self) -> bool {
        self.0.load(Ordering::Relaxed) == 0
    }

    fn take(&self, bytes: usize) -> io::Result<()> {
        let taken = self
            .0
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| match left {
                usize::MAX => Some(left),
                left => Some(left.saturating_sub(bytes)),
            });
        if taken.is_ok() && !self.is_used_up() {
            return Ok(());
        }
        Err(io::Error::other("too much before the response"))
    }
}

impl<S> HeadBound<S> {
    pub(super) fn new(inner: S) -> (Self, Allowance) {
        let left = Allowance(Arc::new(AtomicUsize::new(HEAD_BYTES_MAX)));
        let bound = Self {
            inner,
            left: left.clone(),
        };
        (bound, left)
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for HeadBound<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.inner).poll_read(cx, buffer))?;
        let read = buffer.filled().len().saturating_sub(before);
        Poll::Ready(self.left.take(read))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for HeadBound<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}
