//! The streams of a file: they count what is written, and keep the file among those that are open.

use std::fs::File;
use std::io;
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
    /// None: wherever the file ends.
    at: Option<WriteAt>,
    budget: Arc<Budget>,
    _place: Arc<OpenFile>,
}

/// Where the next byte of a stream goes.
pub(crate) struct WriteAt {
    file: Arc<File>,
    offset: u64,
}

impl WriteAt {
    pub(crate) fn new(file: &Arc<File>, offset: u64) -> Self {
        Self {
            file: Arc::clone(file),
            offset,
        }
    }

    /// Bytes by which the file grows without being written, if the next byte is written now. The file may
    /// have been cut since the last one was.
    fn hole(&self) -> io::Result<u64> {
        Ok(self.offset.saturating_sub(self.file.metadata()?.len()))
    }
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
    pub(crate) fn new(
        stream: DynOutputStream,
        at: Option<WriteAt>,
        budget: Arc<Budget>,
        place: Arc<OpenFile>,
    ) -> Self {
        Self {
            stream,
            at,
            budget,
            _place: place,
        }
    }

    fn take(&mut self, bytes: &Bytes) -> StreamResult<()> {
        let bytes = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        let mut growth = bytes;
        // Nothing is written where nothing is given, so there is no hole either.
        if let Some(at) = self.at.as_mut().filter(|_| bytes > 0) {
            let hole = at.hole();
            let hole = hole.map_err(|error| StreamError::LastOperationFailed(error.into()))?;
            growth = hole.saturating_add(bytes);
            at.offset = at.offset.saturating_add(bytes);
        }
        self.budget
            .take(LimitKey::FileWriteBytes, growth)
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
