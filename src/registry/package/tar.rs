//! Reading a compressed tar archive.
//!
//! Of the many extensions of the format, those are taken that cannot change what an entry is called,
//! how long it is or what it is; the others are refused. So there is one way to read an archive, and it
//! is the one in which a person who lists it reads it.

use std::io::{self, Read};

use flate2::read::MultiGzDecoder;
use tar::{Archive, EntryType, PaxExtensions};

use super::tree::{Unpacking, damaged};
use super::{EntryRule, Format, PackageError, UNPACKED_BYTES_MAX};

/// Bytes of the unpacked stream beside the content of files: headers and padding of as many entries as
/// there may be, extension headers included. Protects from a stream that never ends.
const OVERHEAD_BYTES_MAX: u64 = 8 * 1024 * 1024;
/// Bytes of one extension header.
const EXTENSION_BYTES_MAX: u64 = 64 * 1024;
/// Extension keys, and starts of keys, that say nothing of name, size or kind.
const HARMLESS_KEYS: [&str; 8] = [
    "mtime", "atime", "ctime", "uid", "gid", "uname", "gname", "comment",
];
const HARMLESS_PREFIXES: [&str; 5] = [
    "LIBARCHIVE.",
    "SCHILY.xattr.",
    "SCHILY.acl.",
    "SCHILY.fflags",
    "RHT.security.",
];

pub(super) fn read(archive: impl Read, unpacking: &mut Unpacking) -> Result<(), PackageError> {
    let stream = Bounded {
        inner: MultiGzDecoder::new(archive),
        left: UNPACKED_BYTES_MAX.saturating_add(OVERHEAD_BYTES_MAX),
    };
    let broken = |error: io::Error| PackageError::damaged(Format::TarGz, error);
    let mut archive = Archive::new(stream);
    for entry in archive.entries().map_err(broken)?.raw(true) {
        read_entry(&mut entry.map_err(broken)?, unpacking)?;
    }
    // Only at the end of the stream does the decoder compare its checksum.
    io::copy(&mut archive.into_inner(), &mut io::sink()).map_err(broken)?;
    Ok(())
}

fn read_entry<R: Read>(
    entry: &mut tar::Entry<'_, R>,
    unpacking: &mut Unpacking,
) -> Result<(), PackageError> {
    let name = entry.header().path_bytes().into_owned();
    let refuse = |rule| Err(PackageError::refused(&name, rule));
    let special = |what| refuse(EntryRule::Special { what });
    match entry.header().entry_type() {
        EntryType::Regular => {
            let size = entry.size();
            let read = unpacking.file(&name, &mut *entry)?;
            if read == size {
                Ok(())
            } else {
                refuse(damaged(&io::ErrorKind::UnexpectedEof.into()))
            }
        }
        EntryType::Directory if entry.size() == 0 => unpacking.folder(&name),
        EntryType::Directory => special("a folder with content"),
        EntryType::XHeader | EntryType::XGlobalHeader => {
            unpacking.count(&name)?;
            extensions(entry).or_else(refuse)
        }
        EntryType::Link => special("a hard link"),
        EntryType::Symlink => special("a symbolic link"),
        EntryType::Char | EntryType::Block => special("a device"),
        EntryType::Fifo => special("a pipe"),
        EntryType::GNUSparse => special("a sparse file"),
        EntryType::GNULongName | EntryType::GNULongLink => special("a long name that stands apart"),
        _ => special("an entry of unknown type"),
    }
}

/// Refuses an extension header with a key that is not known to be harmless.
fn extensions<R: Read>(entry: &mut tar::Entry<'_, R>) -> Result<(), EntryRule> {
    let refuse = |key: &str| EntryRule::Extension {
        key: key.chars().take(80).collect(),
    };
    if entry.size() > EXTENSION_BYTES_MAX {
        return Err(refuse("of more than 64 KiB"));
    }
    let mut text = Vec::new();
    entry
        .read_to_end(&mut text)
        .map_err(|error| damaged(&error))?;
    for extension in PaxExtensions::new(&text) {
        let extension = extension.map_err(|error| damaged(&error))?;
        let key = String::from_utf8_lossy(extension.key_bytes());
        let is_harmless = HARMLESS_KEYS.contains(&&*key)
            || HARMLESS_PREFIXES.iter().any(|start| key.starts_with(start));
        if !is_harmless {
            return Err(refuse(&key));
        }
    }
    Ok(())
}

/// A stream that is an error when it is longer than it may be.
struct Bounded<R> {
    inner: R,
    left: u64,
}

impl<R: Read> Read for Bounded<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        self.left = u64::try_from(count)
            .ok()
            .and_then(|count| self.left.checked_sub(count))
            .ok_or_else(|| io::Error::other(EntryRule::TooManyBytes))?;
        Ok(count)
    }
}
