//! What a guest writes into the body of a request.
//!
//! How fast a body is taken up depends on what else the machine does, and the guest must not see it: it
//! would do something else when its run is replayed. So what it may write follows from what it did: it
//! has two writes, and each time it waits until there is room it has one more. When nobody takes the body
//! any more, because the guest gave the request up or it is more than a request may have, that does not
//! show either; the bytes are counted here, and beyond that bound the stream is closed.
//!
//! One thing is left: a guest that gives up a request of a stated length, writes on and then finishes the
//! body is told, or not, that the length is not right. It knows that it gave the request up.

use bytes::Bytes;
use wasmtime_wasi::p2::{DynOutputStream, OutputStream, Pollable, StreamError, StreamResult};

use super::outgoing::{WRITE_BYTES_MAX, WRITES_KEPT};

/// The stream of one body.
pub(super) struct RequestBody {
    stream: DynOutputStream,
    /// Writes that it has room for, whatever was taken up.
    writes_left: usize,
    /// Bytes that the body may still have; none, once it has more.
    bytes_left: Option<u64>,
}

impl RequestBody {
    /// The body behind `stream`, which has room for [`WRITES_KEPT`] writes and is not taken up beyond
    /// `bytes_max`.
    pub(super) fn new(stream: DynOutputStream, bytes_max: u64) -> Self {
        Self {
            stream,
            writes_left: WRITES_KEPT,
            bytes_left: Some(bytes_max),
        }
    }
}

#[async_trait::async_trait]
impl Pollable for RequestBody {
    async fn ready(&mut self) {
        if self.writes_left == 0 && self.bytes_left.is_some() {
            self.stream.ready().await;
            self.writes_left = 1;
        }
    }
}

#[async_trait::async_trait]
impl OutputStream for RequestBody {
    fn write(&mut self, bytes: Bytes) -> StreamResult<()> {
        let Some(bytes_left) = self.bytes_left else {
            return Err(StreamError::Closed);
        };
        let len = bytes.len();
        let (true, Some(writes_left)) = (len <= WRITE_BYTES_MAX, self.writes_left.checked_sub(1))
        else {
            return Err(StreamError::trap("more bytes written than were permitted"));
        };
        self.writes_left = writes_left;
        self.bytes_left = bytes_left.checked_sub(u64::try_from(len).unwrap_or(u64::MAX));
        match self.stream.write(bytes) {
            Err(StreamError::Closed) => Ok(()),
            written => written,
        }
    }

    fn flush(&mut self) -> StreamResult<()> {
        self.check_write().map(|_bytes| ())
    }

    fn check_write(&mut self) -> StreamResult<usize> {
        match (self.bytes_left, self.writes_left) {
            (None, _) => Err(StreamError::Closed),
            (Some(_), 0) => Ok(0),
            (Some(_), _) => Ok(WRITE_BYTES_MAX),
        }
    }
}
