//! Reads ledgers line by line, with bounded memory, also while they are being written.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::FileExt as _;

use super::error::{Corruption, Damage, StoreError};
use super::line::{LINE_BYTES_MAX, Record, SeqPeek};
use crate::id::RunId;

/// Bytes that are read at once.
const READ_BYTES: usize = 64 * 1024;
/// Lines of one page.
pub const PAGE_LINES_MAX: usize = 10_000;
/// Bytes after which a page takes no further line. Protects the memory of whoever asked.
const PAGE_BYTES_MAX: usize = 4 * LINE_BYTES_MAX;

/// A place between two lines, from which reading can go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Position {
    /// Bytes before it.
    byte: u64,
    /// Lines before it.
    lines: u64,
}

/// What a line is.
#[derive(Debug, Clone)]
pub enum Entry {
    /// An event.
    Record(Box<Record>),
    /// Something that is not one of this run's events; the lines after it can still be read.
    Damaged(Corruption),
}

/// Some consecutive lines of a ledger.
#[derive(Debug, Clone, Default)]
pub struct Page {
    /// The lines, in the order of the file.
    pub entries: Vec<Entry>,
    /// Where the next page begins; absent when the file, as it is now, has no further line.
    pub next: Option<Position>,
    /// Bytes at the end of the file that are no whole line: one that is just being written, or that a
    /// writer did not finish.
    pub unfinished_bytes: u64,
}

impl Position {
    /// Bytes before it.
    pub fn byte(self) -> u64 {
        self.byte
    }

    /// Lines before it.
    pub fn lines(self) -> u64 {
        self.lines
    }
}

impl Page {
    /// The events among the lines.
    pub fn records(&self) -> impl Iterator<Item = &Record> {
        self.entries.iter().filter_map(|entry| match entry {
            Entry::Record(record) => Some(&**record),
            Entry::Damaged(_) => None,
        })
    }
}

/// A line as it is in the file.
#[derive(Debug)]
pub(super) struct RawLine<'a> {
    /// The line's number, from 1.
    pub(super) number: u64,
    /// Where it begins.
    pub(super) byte: u64,
    /// Without the line break; the beginning only, when the line is too long.
    pub(super) text: &'a [u8],
    pub(super) too_long: bool,
}

impl RawLine<'_> {
    pub(super) fn parse(&self) -> Result<Record, Damage> {
        if self.too_long {
            Err(Damage::TooLong)
        } else {
            Record::parse(self.text)
        }
    }

    pub(super) fn corrupt(&self, damage: Damage) -> Corruption {
        Corruption {
            line: self.number,
            byte: self.byte,
            damage,
        }
    }
}

/// Splits a file into lines. What follows the last line break is not a line.
#[derive(Debug)]
pub(super) struct Lines {
    file: BufReader<File>,
    position: Position,
    /// Bytes of a line, its break included; a longer one is passed over.
    line_bytes_max: usize,
    buffer: Vec<u8>,
    /// Where the file is to be read next, when that is not where its descriptor stands.
    seek: bool,
}

impl Lines {
    pub(super) fn new(file: File, position: Position) -> Self {
        Self {
            file: BufReader::with_capacity(READ_BYTES, file),
            position,
            line_bytes_max: LINE_BYTES_MAX,
            buffer: Vec::new(),
            seek: position != Position::default(),
        }
    }

    /// Lines of a file from its beginning, longer than those of a ledger.
    pub(super) fn longer(file: File, line_bytes_max: usize) -> Self {
        Self {
            line_bytes_max,
            seek: true,
            ..Self::new(file, Position::default())
        }
    }

    pub(super) fn position(&self) -> Position {
        self.position
    }

    pub(super) fn byte(&self) -> u64 {
        self.position.byte
    }

    /// The next line; `None` when there is no whole one yet, after which it may be asked for again.
    pub(super) fn next_line(&mut self) -> io::Result<Option<RawLine<'_>>> {
        if std::mem::take(&mut self.seek) {
            self.file.seek(SeekFrom::Start(self.position.byte))?;
        }
        self.buffer.clear();
        let bytes_max = u64::try_from(self.line_bytes_max).unwrap_or(u64::MAX);
        let read = self
            .file
            .by_ref()
            .take(bytes_max)
            .read_until(b'\n', &mut self.buffer)?;
        let mut bytes = len(read);
        let mut terminated = self.buffer.last() == Some(&b'\n');
        let too_long = !terminated && read == self.line_bytes_max;
        if too_long {
            self.buffer.truncate(READ_BYTES);
            let skipped = skip_line(&mut self.file)?;
            bytes += skipped.bytes;
            terminated = skipped.terminated;
        }
        if !terminated {
            self.seek = true;
            return Ok(None);
        }
        let at = self.position;
        self.position = Position {
            byte: at.byte + bytes,
            lines: at.lines + 1,
        };
        Ok(Some(RawLine {
            number: at.lines + 1,
            byte: at.byte,
            text: self.buffer.strip_suffix(b"\n").unwrap_or(&self.buffer),
            too_long,
        }))
    }

    /// Gives back the room that a long line took, so that whoever waits for the next one does not hold it.
    fn give_back(&mut self) {
        if self.buffer.capacity() > READ_BYTES {
            self.buffer.clear();
            self.buffer.shrink_to(READ_BYTES);
        }
    }

    /// Bytes from the end of the last line to the end of the file.
    pub(super) fn bytes_left(&self) -> io::Result<u64> {
        let bytes = self.file.get_ref().metadata()?.len();
        Ok(bytes.saturating_sub(self.position.byte))
    }
}

struct Skipped {
    bytes: u64,
    terminated: bool,
}

/// Reads to the end of a line without keeping it.
fn skip_line(file: &mut BufReader<File>) -> io::Result<Skipped> {
    let mut bytes = 0;
    loop {
        let chunk = file.fill_buf()?;
        let newline = chunk.iter().position(|byte| *byte == b'\n');
        let used = newline.map_or(chunk.len(), |at| at + 1);
        file.consume(used);
        bytes += len(used);
        if newline.is_some() || used == 0 {
            return Ok(Skipped {
                bytes,
                terminated: newline.is_some(),
            });
        }
    }
}

fn len(bytes: usize) -> u64 {
    u64::try_from(bytes).unwrap_or(u64::MAX)
}

/// Reads a ledger from some place on, and on again when it has grown. It yields whole lines only.
#[derive(Debug)]
pub struct Follower {
    run_id: RunId,
    lines: Lines,
}

impl Follower {
    pub(super) fn new(run_id: RunId, file: File, from: Position) -> Self {
        Self {
            run_id,
            lines: Lines::new(file, from),
        }
    }

    pub(super) fn run_id(&self) -> &RunId {
        &self.run_id
    }

    /// Lines before the next one.
    pub fn lines(&self) -> u64 {
        self.lines.position().lines
    }

    /// Bytes of the file that begin `offset` bytes after `line` does, at most `bytes_max` of them, whatever is
    /// read line by line meanwhile. None at the end of the file.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn piece(
        &self,
        line: Position,
        offset: u64,
        bytes_max: usize,
    ) -> Result<Vec<u8>, StoreError> {
        let mut bytes = vec![0; bytes_max];
        let file = self.lines.file.get_ref();
        let read = file.read_at(&mut bytes, line.byte.saturating_add(offset));
        let read = read.map_err(|source| unreadable(&self.run_id, source))?;
        bytes.truncate(read);
        Ok(bytes)
    }

    /// Where the next line begins.
    pub fn position(&self) -> Position {
        self.lines.position()
    }

    /// The next line; `None` when there is no further one yet.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn next_entry(&mut self) -> Result<Option<Entry>, StoreError> {
        let run_id = &self.run_id;
        let line = self
            .lines
            .next_line()
            .map_err(|source| unreadable(run_id, source))?;
        let entry = line.map(|line| match line.parse() {
            Ok(record) if record.run_id == *run_id => Entry::Record(Box::new(record)),
            Ok(record) => Entry::Damaged(line.corrupt(Damage::OtherRun {
                found: record.run_id,
            })),
            Err(damage) => Entry::Damaged(line.corrupt(damage)),
        });
        self.lines.give_back();
        Ok(entry)
    }

    /// Passes over the next `lines` lines, damaged ones too, or over all that there are.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn skip_lines(&mut self, lines: u64) -> Result<(), StoreError> {
        for _ in 0..lines {
            let line = self
                .lines
                .next_line()
                .map_err(|source| unreadable(&self.run_id, source))?;
            if line.is_none() {
                break;
            }
        }
        Ok(())
    }

    /// Passes over the events with a number below `seq`.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn skip_to(&mut self, seq: u64) -> Result<(), StoreError> {
        if seq <= 1 {
            return Ok(());
        }
        let peek = SeqPeek::new(&self.run_id);
        loop {
            let before = self.lines.position();
            let line = self
                .lines
                .next_line()
                .map_err(|source| unreadable(&self.run_id, source))?;
            let Some(line) = line else {
                return Ok(());
            };
            let found = peek
                .seq(line.text)
                .or_else(|| line.parse().ok().map(|record| record.seq));
            if found.is_some_and(|found| found >= seq) {
                self.lines.position = before;
                self.lines.seek = true;
                return Ok(());
            }
        }
    }

    /// The next lines, at most `limit` of them, and at most [`PAGE_LINES_MAX`].
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn page(&mut self, limit: usize) -> Result<Page, StoreError> {
        let limit = limit.min(PAGE_LINES_MAX);
        let mut page = Page::default();
        let mut bytes = 0;
        while page.entries.len() < limit && bytes < PAGE_BYTES_MAX {
            let Some(entry) = self.next_entry()? else {
                page.unfinished_bytes = self
                    .lines
                    .bytes_left()
                    .map_err(|source| unreadable(&self.run_id, source))?;
                return Ok(page);
            };
            if let Entry::Record(record) = &entry {
                bytes += record.line.len();
            }
            page.entries.push(entry);
        }
        page.next = Some(self.position());
        Ok(page)
    }
}

fn unreadable(run_id: &RunId, source: io::Error) -> StoreError {
    StoreError::Io {
        operation: "read",
        path: super::store::file_name(run_id).into(),
        source,
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    fn texts(lines: &mut Lines) -> Vec<(u64, u64, String)> {
        let mut found = Vec::new();
        while let Some(line) = lines.next_line().unwrap() {
            let text = String::from_utf8_lossy(line.text).chars().take(8).collect();
            found.push((line.number, line.byte, text));
        }
        found
    }

    #[test]
    fn only_whole_lines_are_yielded_and_a_growing_file_goes_on() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        let mut lines = Lines::new(file.reopen().unwrap(), Position::default());
        file.write_all(b"one\ntw").unwrap();
        assert_eq!(texts(&mut lines), [(1, 0, "one".to_owned())]);
        assert_eq!(lines.bytes_left().unwrap(), 2);
        file.write_all(b"o\n\nlast").unwrap();
        assert_eq!(
            texts(&mut lines),
            [(2, 4, "two".to_owned()), (3, 8, String::new())]
        );
        let mut resumed = Lines::new(file.reopen().unwrap(), lines.position());
        file.write_all(b"\n").unwrap();
        assert_eq!(texts(&mut resumed), [(4, 9, "last".to_owned())]);
    }

    #[test]
    fn a_line_without_end_is_passed_over_in_bounded_memory() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(&vec![0; LINE_BYTES_MAX + 5]).unwrap();
        let mut lines = Lines::new(file.reopen().unwrap(), Position::default());
        assert!(lines.next_line().unwrap().is_none());
        file.write_all(b"\nafter\n").unwrap();
        assert!(lines.next_line().unwrap().unwrap().too_long);
        let after = u64::try_from(LINE_BYTES_MAX).unwrap() + 6;
        assert_eq!(texts(&mut lines), [(2, after, "after".to_owned())]);
        assert!(lines.buffer.capacity() <= 2 * LINE_BYTES_MAX);
    }
}
