//! Appends lines to one open file.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;

use super::digest::Digest;
use super::error::RecordError;
use super::event::{Event, Origin};
use super::line::{LINE_BYTES_MAX, LineEncoder};
use super::lock;
use super::payload::Head;
use crate::clock::Timestamp;
use crate::id::RunId;

/// Bytes of the line buffer that are kept between two lines. Protects the host's memory when a run
/// wrote one long line and then waits.
const BUFFER_BYTES_KEPT_MAX: usize = 64 * 1024;

/// The one writer of a ledger. It holds the file's lock.
#[derive(Debug)]
pub(super) struct Writer {
    file: Arc<File>,
    encoder: LineEncoder,
    buffer: Vec<u8>,
    head: Head,
}

/// Why a line is not in the file.
#[derive(Debug)]
pub(super) enum AppendError {
    /// Nothing was written.
    Refused(RecordError),
    /// Some of it may have been, so that nothing may follow.
    Failed(io::Error),
}

impl Writer {
    /// Goes on after `head` in `file`, whose lock the caller took.
    pub(super) fn new(file: File, run_id: &RunId, head: Head) -> Self {
        Self {
            file: Arc::new(file),
            encoder: LineEncoder::new(run_id),
            buffer: Vec::new(),
            head,
        }
    }

    pub(super) fn file(&self) -> &Arc<File> {
        &self.file
    }

    pub(super) fn head(&self) -> Head {
        self.head
    }

    /// Writes the next line with one system call and returns its number.
    pub(super) fn append(
        &mut self,
        time: Timestamp,
        origin: Origin,
        event: &Event,
    ) -> Result<u64, AppendError> {
        let seq = self.head.seq + 1;
        self.encoder
            .encode(&mut self.buffer, seq, time, origin, event, self.head.sha256)
            .map_err(AppendError::Failed)?;
        if self.buffer.len() > LINE_BYTES_MAX {
            let bytes = self.buffer.len();
            self.buffer = Vec::new();
            return Err(AppendError::Refused(RecordError::TooLong {
                kind: event.kind().to_owned(),
                bytes,
            }));
        }
        write_once(&*self.file, &self.buffer).map_err(AppendError::Failed)?;
        let line = self.buffer.strip_suffix(b"\n").unwrap_or(&self.buffer);
        self.head = Head {
            seq,
            sha256: Digest::of(line),
        };
        if self.buffer.capacity() > BUFFER_BYTES_KEPT_MAX {
            self.buffer = Vec::new();
        }
        Ok(seq)
    }

    /// Gives up the lock, also while a sync still has the file, or a process that is being started and has
    /// not closed yet what it was born with.
    pub(super) fn close(self) {
        lock::release(&self.file);
    }
}

/// One `write`. Less than all of it is a failure: to go on would glue the next line to half a one.
fn write_once(file: impl AsFd, bytes: &[u8]) -> io::Result<()> {
    let written = rustix::io::retry_on_intr(|| rustix::io::write(&file, bytes))?;
    if written == bytes.len() {
        Ok(())
    } else {
        Err(io::Error::new(
            io::ErrorKind::WriteZero,
            format!("{written} of {} bytes written", bytes.len()),
        ))
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::OwnedFd;
    use std::path::Path;

    use rustix::fs::{OFlags, fcntl_setfl};

    use super::super::folder::Folder;
    use super::super::payload::Log;
    use super::*;

    fn log(message: &str) -> Event {
        Log {
            message: message.into(),
            ..Log::default()
        }
        .into()
    }

    fn append(writer: &mut Writer, event: &Event) -> Result<u64, AppendError> {
        writer.append(Timestamp::from_unix_micros(0), Origin::Host, event)
    }

    fn start() -> Head {
        Head {
            seq: 0,
            sha256: Digest::ZERO,
        }
    }

    #[test]
    fn lines_are_numbered_and_chained() {
        let mut writer = Writer::new(tempfile::tempfile().unwrap(), &RunId::generate(), start());
        assert_eq!(append(&mut writer, &log("a")).unwrap(), 1);
        let first = writer.head();
        assert_eq!(append(&mut writer, &log("b")).unwrap(), 2);
        let line = std::str::from_utf8(&writer.buffer).unwrap();
        assert!(line.contains(r#""seq":2,"#));
        assert!(line.ends_with(&format!("\"prev\":\"{}\"}}\n", first.sha256)));
    }

    #[test]
    fn a_full_disk_is_a_failure() {
        let devices = Folder::open(Path::new("/dev")).unwrap();
        let full = devices.create_temporary("full").unwrap();
        let mut writer = Writer::new(full, &RunId::generate(), start());
        let failed = append(&mut writer, &log("a"));
        assert!(matches!(failed, Err(AppendError::Failed(error))
            if error.kind() == io::ErrorKind::StorageFull));
        assert_eq!(writer.head(), start());
    }

    #[test]
    fn a_short_write_is_a_failure() {
        let (_reader, pipe) = io::pipe().unwrap();
        fcntl_setfl(&pipe, OFlags::NONBLOCK).unwrap();
        let mut writer = Writer::new(File::from(OwnedFd::from(pipe)), &RunId::generate(), start());
        let failed = append(&mut writer, &log(&"x".repeat(1024 * 1024)));
        assert!(matches!(failed, Err(AppendError::Failed(error))
            if error.kind() == io::ErrorKind::WriteZero));
    }

    #[test]
    fn a_line_that_no_reader_would_take_is_refused_before_it_is_written() {
        let mut writer = Writer::new(tempfile::tempfile().unwrap(), &RunId::generate(), start());
        let refused = append(&mut writer, &log(&"x".repeat(LINE_BYTES_MAX)));
        assert!(matches!(
            refused,
            Err(AppendError::Refused(RecordError::TooLong { .. }))
        ));
        assert_eq!(writer.file().metadata().unwrap().len(), 0);
        assert_eq!(append(&mut writer, &log("a")).unwrap(), 1);
    }
}
