//! Reading a zip archive.
//!
//! A zip says everything twice, in a header before each entry and in a directory at the end, and
//! programs differ in which of the two they believe. Here both have to agree.

use std::cell::Cell;
use std::io::{self, Read, Seek, SeekFrom};
use std::rc::Rc;

use zip::CompressionMethod;
use zip::read::{ArchiveOffset, Config, ZipArchive, ZipReadOptions};
use zip::result::ZipError;

use super::tree::Unpacking;
use super::{ENTRIES_MAX, EntryRule, Format, PackageError};

/// Bytes that are read to find the directory at the end. A thousand entries take a tenth of it; the
/// bound protects memory from a directory that is all there is.
const DIRECTORY_BYTES_MAX: u64 = 2 * 1024 * 1024;

/// The part of a Unix mode that says what kind of thing it is, and the two kinds that are taken.
const KIND_MASK: u32 = 0o170_000;
const KIND_FILE: u32 = 0o100_000;
const KIND_FOLDER: u32 = 0o040_000;

pub(super) fn read(
    archive: impl Read + Seek,
    unpacking: &mut Unpacking,
) -> Result<(), PackageError> {
    let broken = |error: ZipError| PackageError::damaged(Format::Zip, error);
    let left = Rc::new(Cell::new(DIRECTORY_BYTES_MAX));
    let metered = Metered {
        inner: archive,
        left: Rc::clone(&left),
    };
    let config = Config {
        archive_offset: ArchiveOffset::Known(0),
    };
    let mut archive = ZipArchive::with_config(config, metered).map_err(broken)?;
    left.set(u64::MAX);
    if archive.has_duplicate_names() {
        return Err(PackageError::damaged(
            Format::Zip,
            "a path stands in it twice",
        ));
    }
    if archive.len() > ENTRIES_MAX {
        let name = archive.file_names_raw().nth(ENTRIES_MAX);
        let name = name.unwrap_or_default();
        return Err(PackageError::refused(name, EntryRule::TooManyEntries));
    }
    for index in 0..archive.len() {
        read_entry(&mut archive, index, unpacking)?;
    }
    // Entries within each other, and entries that the directory conceals.
    archive.validate_header_consistency().map_err(broken)
}

fn read_entry<R: Read + Seek>(
    archive: &mut ZipArchive<R>,
    index: usize,
    unpacking: &mut Unpacking,
) -> Result<(), PackageError> {
    let entry = archive
        .by_index_data(index)
        .map_err(|error| PackageError::damaged(Format::Zip, error))?;
    let name = entry.name_raw().to_vec();
    let refuse = |rule| PackageError::refused(&name, rule);
    let is_folder = name.ends_with(b"/");
    let kind = entry.unix_mode().unwrap_or_default() & KIND_MASK;
    check_kind(kind, is_folder).map_err(|what| refuse(EntryRule::Special { what }))?;
    if entry.encrypted() {
        return Err(refuse(EntryRule::Encrypted));
    }
    let method = entry.compression();
    if ![CompressionMethod::Stored, CompressionMethod::Deflated].contains(&method) {
        return Err(refuse(EntryRule::Method));
    }
    let options = ZipReadOptions::new().enforce_header_consistency(true);
    let content = archive
        .by_index_with_options(index, options)
        .map_err(|error| {
            refuse(EntryRule::Damaged {
                reason: error.to_string(),
            })
        })?;
    if !is_folder {
        unpacking.file(&name, content)?;
        return Ok(());
    }
    if content.size() > 0 {
        let what = "a folder with content";
        return Err(refuse(EntryRule::Special { what }));
    }
    unpacking.folder(&name)
}

/// Refuses what is neither a file nor a folder, or not the one that its name says.
fn check_kind(kind: u32, is_folder: bool) -> Result<(), &'static str> {
    match (kind, is_folder) {
        (0, _) | (KIND_FILE, false) | (KIND_FOLDER, true) => Ok(()),
        (KIND_FILE, true) => Err("a file with the name of a folder"),
        (KIND_FOLDER, false) => Err("a folder with the name of a file"),
        (0o120_000, _) => Err("a symbolic link"),
        (0o010_000, _) => Err("a pipe"),
        (0o020_000 | 0o060_000, _) => Err("a device"),
        _ => Err("an entry of unknown type"),
    }
}

/// A reader that gives out no more than a number of bytes, which whoever made it can change.
struct Metered<R> {
    inner: R,
    left: Rc<Cell<u64>>,
}

impl<R: Read> Read for Metered<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        let left = u64::try_from(count)
            .ok()
            .and_then(|count| self.left.get().checked_sub(count))
            .ok_or_else(|| io::Error::other("directory of more than 2 MiB"))?;
        self.left.set(left);
        Ok(count)
    }
}

impl<R: Seek> Seek for Metered<R> {
    fn seek(&mut self, position: SeekFrom) -> io::Result<u64> {
        self.inner.seek(position)
    }
}
