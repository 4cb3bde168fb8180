//! A skill that is to be installed: a folder, or an archive of one.
//!
//! It is read as a whole, and checked as a whole, before a byte of it is written anywhere. What it
//! unpacks to is counted while it is unpacked; what its headers say of sizes is not relied on.

mod folder;
mod tar;
mod tree;
mod zip;

use std::fs::File;
use std::io::{self, Read, Seek};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};

pub(super) use tree::Tree;

use super::front_matter::SKILL_FILE;
use crate::config::COMPONENT_BYTES_MAX;
use folder::Entries;
use tree::Unpacking;

/// Bytes of all files together: the largest component that any configuration takes, and 64 MiB beside it.
/// They are held in memory until they are known to be in order, so this is what an archive can cost.
const UNPACKED_BYTES_MAX: u64 = COMPONENT_BYTES_MAX + 64 * 1024 * 1024;
/// Bytes of an archive, which may be one that does not compress; protects the time of the reader.
const ARCHIVE_BYTES_MAX: u64 = UNPACKED_BYTES_MAX;
/// Entries of an archive or a folder; protects the file system.
const ENTRIES_MAX: usize = 1000;
/// Folders within each other; protects whoever walks them.
const DEPTH_MAX: usize = 16;
/// Bytes of one part of a path, as file systems have it.
const NAME_BYTES_MAX: usize = 255;
/// Characters of a hostile name that an error repeats.
const NAME_CHARS_SHOWN: usize = 160;

/// The forms of archives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// `.tar.gz` or `.tgz`
    TarGz,
    /// `.zip`
    Zip,
}

impl Format {
    /// The form that the name of a file promises.
    fn of(path: &Path) -> Option<Self> {
        let name = path.file_name()?.to_string_lossy().to_ascii_lowercase();
        let is = |ending: &str| name.ends_with(ending);
        if is(".tar.gz") || is(".tgz") {
            Some(Self::TarGz)
        } else {
            is(".zip").then_some(Self::Zip)
        }
    }

    fn as_str(self) -> &'static str {
        match self {
            Self::TarGz => "tar.gz",
            Self::Zip => "zip",
        }
    }
}

/// The rule that an entry of an archive or a folder breaks.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EntryRule {
    /// The path does not begin in the skill's folder.
    #[error("absolute path: expected a path inside the skill's folder")]
    Absolute,
    /// The path leads upwards.
    #[error(".. in its path")]
    Upwards,
    /// The path could be read in two ways.
    #[error("empty part or . in its path")]
    EmptyPart,
    /// A character that is a separator elsewhere, or that no screen shows.
    #[error("backslash or control character in its path")]
    Character,
    /// The name is not UTF-8.
    #[error("path that is not UTF-8")]
    NotUtf8,
    /// A part of the path is longer than file systems take.
    #[error("name of {bytes} bytes: expected at most {NAME_BYTES_MAX}")]
    LongName {
        /// Its size.
        bytes: usize,
    },
    /// The path is deeper than any honest one.
    #[error("path of {depth} parts: expected at most {DEPTH_MAX}")]
    TooDeep {
        /// Its parts.
        depth: usize,
    },
    /// It is neither a file nor a folder.
    #[error("{what}: expected regular files and folders only")]
    Special {
        /// What it is.
        what: &'static str,
    },
    /// An extension header would give the next entry another name, size or kind.
    #[error("extension header {key:?}, which could rename or resize an entry")]
    Extension {
        /// The key.
        key: String,
    },
    /// The same path twice.
    #[error("duplicate path")]
    Duplicate,
    /// Two paths that are one where the case of letters does not count.
    #[error("path that differs from {other:?} only in the case of letters")]
    CaseClash {
        /// The other.
        other: String,
    },
    /// The path is that of a file here and of a folder there.
    #[error("both a file and a folder")]
    FileAndFolder,
    /// More entries than a skill may have.
    #[error("too many entries: expected at most {ENTRIES_MAX}")]
    TooManyEntries,
    /// More bytes than a skill may have.
    #[error("too large: expected at most {UNPACKED_BYTES_MAX} bytes in all files")]
    TooManyBytes,
    /// The content needs a password.
    #[error("encrypted entry")]
    Encrypted,
    /// The content is compressed in a way that is not read.
    #[error("compressed by another method than deflate")]
    Method,
    /// What the archive says of the entry in one place is not what it says in another, or its content
    /// is damaged.
    #[error("damaged entry: {reason}")]
    Damaged {
        /// What the reader of such archives said.
        reason: String,
    },
}

/// Why nothing can be installed from a folder or an archive.
#[derive(Debug, thiserror::Error)]
pub enum PackageError {
    /// The operating system refused.
    #[error("cannot read {}", path.display())]
    Unreadable {
        /// The file or folder.
        path: PathBuf,
        /// What it said.
        source: io::Error,
    },
    /// The path names no folder and no archive.
    #[error("{} is no skill: expected a folder, or a file that ends in .tar.gz, .tgz or .zip", path.display())]
    UnknownFormat {
        /// The path.
        path: PathBuf,
    },
    /// The archive is larger than any skill.
    #[error("archive of {bytes} bytes: expected at most {ARCHIVE_BYTES_MAX}")]
    TooLarge {
        /// Its size.
        bytes: u64,
    },
    /// The archive as a whole is damaged.
    #[error("damaged {format} archive: {reason}")]
    Damaged {
        /// The form that its name promises.
        format: &'static str,
        /// What the reader of such archives said.
        reason: String,
    },
    /// An entry breaks a rule.
    #[error("entry {entry:?}: {rule}")]
    Refused {
        /// Its path as it stands, cut after 160 characters.
        entry: String,
        /// The rule.
        rule: EntryRule,
    },
    /// There is no SKILL.md where one has to be.
    #[error("no SKILL.md: expected one at the top, or in the only folder there")]
    NoSkill,
}

impl PackageError {
    fn refused(name: &[u8], rule: EntryRule) -> Self {
        let name = String::from_utf8_lossy(name);
        Self::Refused {
            entry: name.chars().take(NAME_CHARS_SHOWN).collect(),
            rule,
        }
    }

    fn damaged(format: Format, reason: impl ToString) -> Self {
        Self::Damaged {
            format: format.as_str(),
            reason: reason.to_string(),
        }
    }
}

/// Everything in the folder of an installed skill.
pub(super) fn read_installed(folder: &Path) -> Result<Tree, PackageError> {
    Ok(folder::read(folder, Entries::All)?.finish())
}

/// The files of the skill that `path` names, with the SKILL.md at the top. Of a folder, entries whose names
/// begin with a dot are passed over.
pub(super) fn read(path: &Path) -> Result<Tree, PackageError> {
    let unreadable = |source| PackageError::Unreadable {
        path: path.to_owned(),
        source,
    };
    if path.metadata().map_err(unreadable)?.is_dir() {
        return Ok(folder::read(path, Entries::Visible)?.finish());
    }
    let format = Format::of(path).ok_or_else(|| PackageError::UnknownFormat {
        path: path.to_owned(),
    })?;
    // Opening a pipe must not wait for a writer.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file =
        rustix::fs::open(path, flags, Mode::empty()).map_err(|error| unreadable(error.into()))?;
    let file = File::from(file);
    let metadata = file.metadata().map_err(unreadable)?;
    if !metadata.is_file() {
        return Err(PackageError::UnknownFormat {
            path: path.to_owned(),
        });
    }
    if metadata.len() > ARCHIVE_BYTES_MAX {
        return Err(PackageError::TooLarge {
            bytes: metadata.len(),
        });
    }
    unpack(format, file)
}

fn unpack(format: Format, archive: impl Read + Seek) -> Result<Tree, PackageError> {
    let mut unpacking = Unpacking::default();
    match format {
        Format::TarGz => tar::read(archive, &mut unpacking)?,
        Format::Zip => zip::read(archive, &mut unpacking)?,
    }
    let tree = unpacking.finish();
    if tree.files.contains_key(SKILL_FILE) {
        return Ok(tree);
    }
    tree.below_only_folder()
        .filter(|tree| tree.files.contains_key(SKILL_FILE))
        .ok_or(PackageError::NoSkill)
}

/// Reads an archive as an installation does, and gives the paths of its files. Nothing is written.
///
/// # Errors
/// The archive is damaged, or an entry breaks a rule.
pub fn check_archive(
    format: Format,
    archive: impl Read + Seek,
) -> Result<Vec<String>, PackageError> {
    Ok(unpack(format, archive)?.files.into_keys().collect())
}
