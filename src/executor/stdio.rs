//! Standard output and standard error of a guest: each line becomes a log line.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use bytes::Bytes;
use tokio::io::AsyncWrite;
use wasmtime_wasi::cli::{IsTerminal, StdoutStream};
use wasmtime_wasi::p2::{OutputStream, Pollable, StreamError, StreamResult};

use super::guest_record::{GuestRecord, LOG_LINE_BYTES_MAX};
use super::run_host::{LogLevel, LogOrigin, RecordRefused};
use crate::limits::{LimitKey, LimitReached};

/// What a guest may write at a time; WASI's own figure for streams.
const WRITE_BYTES_MAX: usize = 64 * 1024;

/// How a Rust guest begins its report of a panic, and what it says before the place.
const PANIC_START: &str = "thread '";
const PANIC_MARK: &str = " panicked at ";
/// How it goes on below the message.
const PANIC_NOTE: &str = "note: ";

/// One of the two streams. Clones share the unfinished line.
#[derive(Clone)]
pub(crate) struct LineStream(Arc<Shared>);

struct Shared {
    record: Arc<GuestRecord>,
    origin: LogOrigin,
    line: Mutex<Line>,
    /// What was written, when it is to be kept.
    captured: Option<Mutex<Captured>>,
}

/// What was written to a stream, up to the bound on a result.
#[derive(Default)]
struct Captured {
    bytes: Vec<u8>,
    is_full: bool,
}

#[derive(Default)]
struct Line {
    bytes: Vec<u8>,
    /// The lines that follow say what a panic was about.
    in_panic: bool,
}

impl LineStream {
    pub(crate) fn new(record: Arc<GuestRecord>, origin: LogOrigin) -> Self {
        Self::with(record, origin, None)
    }

    /// A stream that also keeps what is written to it.
    pub(crate) fn capturing(record: Arc<GuestRecord>, origin: LogOrigin) -> Self {
        Self::with(record, origin, Some(Mutex::default()))
    }

    fn with(
        record: Arc<GuestRecord>,
        origin: LogOrigin,
        captured: Option<Mutex<Captured>>,
    ) -> Self {
        Self(Arc::new(Shared {
            record,
            origin,
            line: Mutex::default(),
            captured,
        }))
    }

    /// What was written, if it was kept.
    ///
    /// # Errors
    /// It was more than a result may be.
    pub(crate) fn captured(&self) -> Result<Vec<u8>, LimitReached> {
        let Some(captured) = &self.0.captured else {
            return Ok(Vec::new());
        };
        let mut captured = captured.lock().unwrap_or_else(PoisonError::into_inner);
        if captured.is_full {
            return Err(self.0.record.reached(LimitKey::OutputBytes));
        }
        Ok(std::mem::take(&mut captured.bytes))
    }

    /// Writes out a last line that has no end.
    pub(crate) fn finish(&self) {
        let mut line = self.0.line.lock().unwrap_or_else(PoisonError::into_inner);
        if !line.bytes.is_empty() {
            // A record that cannot be written is met again by the run's terminal event.
            let _met_again = self.0.end_line(&mut line);
        }
    }

    fn write(&self, bytes: &[u8]) -> wasmtime::Result<()> {
        self.0.capture(bytes)?;
        let mut line = self.0.line.lock().unwrap_or_else(PoisonError::into_inner);
        for part in bytes.split_inclusive(|&byte| byte == b'\n') {
            let (text, ends) = match part.strip_suffix(b"\n") {
                Some(text) => (text, true),
                None => (part, false),
            };
            line.push(text);
            if ends {
                self.0.end_line(&mut line)?;
            }
        }
        Ok(())
    }
}

impl Line {
    fn push(&mut self, text: &[u8]) {
        // A few bytes above the bound leave the cut to the record, which knows where characters end.
        let room = (LOG_LINE_BYTES_MAX + 4).saturating_sub(self.bytes.len());
        let kept = text.get(..room).unwrap_or(text);
        self.bytes.extend_from_slice(kept);
    }
}

impl Shared {
    fn capture(&self, bytes: &[u8]) -> Result<(), LimitReached> {
        let Some(captured) = &self.captured else {
            return Ok(());
        };
        let mut captured = captured.lock().unwrap_or_else(PoisonError::into_inner);
        let bytes_max = self.record.limits().value(LimitKey::OutputBytes);
        let bytes_max = usize::try_from(bytes_max).unwrap_or(usize::MAX);
        if bytes.len() > bytes_max.saturating_sub(captured.bytes.len()) {
            captured.is_full = true;
            return Err(self.record.reached(LimitKey::OutputBytes));
        }
        captured.bytes.extend_from_slice(bytes);
        Ok(())
    }

    fn end_line(&self, line: &mut Line) -> Result<(), RecordRefused> {
        let bytes = std::mem::take(&mut line.bytes);
        let text = String::from_utf8_lossy(&bytes);
        let text = text.strip_suffix('\r').unwrap_or(&text);
        let level = match self.origin {
            LogOrigin::Stderr => {
                self.watch_for_panic(line, text);
                LogLevel::Warn
            }
            _ => LogLevel::Info,
        };
        self.record.log(level, self.origin, text, &[])
    }

    /// A panic of a Rust guest ends in `unreachable`, as any trap might; its report on standard error
    /// is all that tells the two apart.
    fn watch_for_panic(&self, line: &mut Line, text: &str) {
        if let Some((_, place)) = text
            .strip_prefix(PANIC_START)
            .and_then(|rest| rest.split_once(PANIC_MARK))
        {
            line.in_panic = true;
            self.record.note_panic(place);
        } else if text.starts_with(PANIC_NOTE) {
            line.in_panic = false;
        } else if line.in_panic && !text.is_empty() {
            self.record.note_panic(text);
        }
    }
}

impl IsTerminal for LineStream {
    fn is_terminal(&self) -> bool {
        false
    }
}

impl StdoutStream for LineStream {
    fn async_stream(&self) -> Box<dyn AsyncWrite + Send + Sync> {
        Box::new(self.clone())
    }

    fn p2_stream(&self) -> Box<dyn OutputStream> {
        Box::new(self.clone())
    }
}

#[async_trait::async_trait]
impl Pollable for LineStream {
    async fn ready(&mut self) {}
}

impl OutputStream for LineStream {
    fn write(&mut self, bytes: Bytes) -> StreamResult<()> {
        // The guest was told how much it may write; the binding does not hold it to that.
        if bytes.len() > WRITE_BYTES_MAX {
            return Err(StreamError::trap("more bytes written than were permitted"));
        }
        Self::write(self, &bytes).map_err(StreamError::Trap)
    }

    fn flush(&mut self) -> StreamResult<()> {
        Ok(())
    }

    fn check_write(&mut self) -> StreamResult<usize> {
        Ok(WRITE_BYTES_MAX)
    }
}

impl AsyncWrite for LineStream {
    fn poll_write(
        self: Pin<&mut Self>,
        _cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        let bytes = bytes.get(..WRITE_BYTES_MAX).unwrap_or(bytes);
        Poll::Ready(match Self::write(&self, bytes) {
            Ok(()) => Ok(bytes.len()),
            Err(refused) => Err(std::io::Error::other(refused)),
        })
    }

    fn poll_flush(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
