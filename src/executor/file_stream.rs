//! The streams of a file: they count what is written, and keep the file among those that are open.

use std::sync::Arc;

use bytes::Bytes;
use wasmtime_wasi::p2::{
    DynInputStream, DynOutputStream, InputStream, OutputStream, Pollable, StreamError, StreamResult,
};

use super::files::OpenFile;
use crate::limits::{Budget, LimitKey};

/// A file that is read.
pub(crate) struct FileInput {
    stream: DynInputStream,
    _place: Arc<OpenFile>,
}

/// A file that is written. What would be more than the run may write ends it, before it is written.
pub(crate) struct FileOutput {
    stream: DynOutputStream,
    budget: Arc<Budget>,
    _place: Arc<OpenFile>,
}

impl FileInput {
    pub(crate) fn new(stream: DynInputStream, place: Arc<OpenFile>) -> Self {
        Self {
            stream,
            _place: place,
        }
    }
}

impl FileOutput {
    pub(crate) fn new(stream: DynOutputStream, budget: Arc<Budget>, place: Arc<OpenFile>) -> Self {
        Self {
            stream,
            budget,
            _place: place,
        }
    }

    fn take(&self, bytes: &Bytes) -> StreamResult<()> {
        let bytes = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        self.budget
            .take(LimitKey::FileWriteBytes, bytes)
            .map_err(|reached| StreamError::Trap(reached.into()))
    }
}

#[async_trait::async_trait]
impl Pollable for FileInput {
    async fn ready(&mut self) {
        self.stream.ready().await;
    }
}

#[async_trait::async_trait]
impl InputStream for FileInput {
    fn read(&mut self, size: usize) -> StreamResult<Bytes> {
        self.stream.read(size)
    }

    async fn blocking_read(&mut self, size: usize) -> StreamResult<Bytes> {
        self.stream.blocking_read(size).await
    }

    async fn cancel(&mut self) {
        self.stream.cancel().await;
    }
}

#[async_trait::async_trait]
impl Pollable for FileOutput {
    async fn ready(&mut self) {
        self.stream.ready().await;
    }
}

#[async_trait::async_trait]
impl OutputStream for FileOutput {
    fn write(&mut self, bytes: Bytes) -> StreamResult<()> {
        self.take(&bytes)?;
        self.stream.write(bytes)
    }

    async fn blocking_write_and_flush(&mut self, bytes: Bytes) -> StreamResult<()> {
        self.take(&bytes)?;
        self.stream.blocking_write_and_flush(bytes).await
    }

    fn flush(&mut self) -> StreamResult<()> {
        self.stream.flush()
    }

    fn check_write(&mut self) -> StreamResult<usize> {
        self.stream.check_write()
    }

    async fn cancel(&mut self) {
        self.stream.cancel().await;
    }
}
