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

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use futures_util::FutureExt as _;
    use wasmtime_wasi::p2::{OutputStream, Pollable, StreamError, StreamResult};

    use super::{RequestBody, WRITE_BYTES_MAX};

    /// Takes up what is written, or is not there any more.
    struct Taken {
        is_gone: bool,
    }

    #[async_trait::async_trait]
    impl Pollable for Taken {
        async fn ready(&mut self) {}
    }

    impl OutputStream for Taken {
        fn write(&mut self, _bytes: Bytes) -> StreamResult<()> {
            match self.is_gone {
                true => Err(StreamError::Closed),
                false => Ok(()),
            }
        }

        fn flush(&mut self) -> StreamResult<()> {
            self.write(Bytes::new())
        }

        fn check_write(&mut self) -> StreamResult<usize> {
            self.write(Bytes::new()).map(|()| usize::MAX)
        }
    }

    fn body(is_gone: bool, bytes_max: u64) -> RequestBody {
        RequestBody::new(Box::new(Taken { is_gone }), bytes_max)
    }

    fn shown(result: StreamResult<usize>) -> String {
        result.map_or_else(|error| error.to_string(), |bytes| bytes.to_string())
    }

    #[test]
    fn each_wait_gives_one_write_whoever_takes_them_up() {
        for is_gone in [false, true] {
            let mut body = body(is_gone, 5);
            let mut seen = Vec::new();
            for bytes in [2, 0, 3, 1] {
                seen.push(shown(body.check_write()));
                let written = body.write(Bytes::from(vec![0; bytes]));
                if let Err(StreamError::Trap(_)) = written {
                    body.ready().now_or_never().unwrap();
                    body.ready().now_or_never().unwrap();
                    seen.push(shown(body.check_write()));
                    body.write(Bytes::from(vec![0; bytes])).unwrap();
                }
            }
            let most = WRITE_BYTES_MAX.to_string();
            assert_eq!(seen, [&most, &most, "0", &most, "0", &most]);
            assert_eq!(shown(body.check_write()), "closed");
            assert!(matches!(body.flush(), Err(StreamError::Closed)));
            assert!(matches!(body.write(Bytes::new()), Err(StreamError::Closed)));
        }
    }

    #[test]
    fn a_write_of_more_than_was_permitted_ends_the_guest() {
        let large = Bytes::from(vec![0; WRITE_BYTES_MAX + 1]);
        let written = body(false, u64::MAX).write(large);
        assert!(matches!(written, Err(StreamError::Trap(_))));
    }
}
