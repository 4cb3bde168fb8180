//! Reading a folder that is to be installed, under the same rules as an archive.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{CWD, Dir, FileType, Mode, OFlags};

use super::tree::Unpacking;
use super::{DEPTH_MAX, EntryRule, PackageError};

/// A folder is opened, and nothing is opened through a link; opening a pipe does not wait.
const FOLDER: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::CLOEXEC);
const NO_LINK: OFlags = OFlags::RDONLY
    .union(OFlags::NOFOLLOW)
    .union(OFlags::NONBLOCK)
    .union(OFlags::CLOEXEC);

/// Which entries of a folder count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Entries {
    All,
    /// Those whose names do not begin with a dot: the others belong to the place where a skill is worked
    /// on, such as `.git`.
    Visible,
}

/// Reads a folder; the path itself may be a link to it.
pub(super) fn read(path: &Path, entries: Entries) -> Result<Unpacking, PackageError> {
    let unreadable = |source: io::Error| PackageError::Unreadable {
        path: path.to_owned(),
        source,
    };
    let folder = rustix::fs::openat(CWD, path, FOLDER, Mode::empty());
    let folder = folder.map_err(|error| unreadable(error.into()))?;
    let mut unpacking = Unpacking::default();
    let mut walk = Walk {
        entries,
        unpacking: &mut unpacking,
        unreadable: &unreadable,
    };
    walk.folder(&folder, b"", 0)?;
    Ok(unpacking)
}

struct Walk<'a> {
    entries: Entries,
    unpacking: &'a mut Unpacking,
    unreadable: &'a dyn Fn(io::Error) -> PackageError,
}

impl Walk<'_> {
    fn folder(&mut self, folder: &OwnedFd, path: &[u8], depth: usize) -> Result<(), PackageError> {
        if depth > DEPTH_MAX {
            return Err(PackageError::refused(path, EntryRule::TooDeep { depth }));
        }
        for name in self.names(folder, path)? {
            let path = match path {
                b"" => name.clone(),
                path => [path, b"/", &name].concat(),
            };
            self.entry(folder, &name, &path, depth)?;
        }
        Ok(())
    }

    /// The names in a folder, sorted, so that it is always the same one that is refused first.
    fn names(&mut self, folder: &OwnedFd, path: &[u8]) -> Result<Vec<Vec<u8>>, PackageError> {
        let entries = Dir::read_from(folder).map_err(|error| (self.unreadable)(error.into()))?;
        let mut names = Vec::new();
        for entry in entries {
            let entry = entry.map_err(|error| (self.unreadable)(error.into()))?;
            let name = entry.file_name().to_bytes();
            let is_passed_over = self.entries == Entries::Visible && name.starts_with(b".");
            if matches!(name, b"." | b"..") || is_passed_over {
                continue;
            }
            if names.len() == super::ENTRIES_MAX {
                return Err(PackageError::refused(path, EntryRule::TooManyEntries));
            }
            names.push(name.to_vec());
        }
        names.sort();
        Ok(names)
    }

    fn entry(
        &mut self,
        folder: &OwnedFd,
        name: &[u8],
        path: &[u8],
        depth: usize,
    ) -> Result<(), PackageError> {
        let special = |what| Err(PackageError::refused(path, EntryRule::Special { what }));
        let opened = match rustix::fs::openat(folder, name, NO_LINK, Mode::empty()) {
            Err(rustix::io::Errno::LOOP) => return special("a symbolic link"),
            // A socket, or a device without a driver.
            Err(rustix::io::Errno::NXIO | rustix::io::Errno::NODEV) => {
                return special("a device or a socket");
            }
            opened => opened.map_err(|error| (self.unreadable)(error.into()))?,
        };
        let stat = rustix::fs::fstat(&opened).map_err(|error| (self.unreadable)(error.into()))?;
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => self.unpacking.file(path, File::from(opened)).map(drop),
            FileType::Directory => {
                self.unpacking.folder(path)?;
                self.folder(&opened, path, depth + 1)
            }
            FileType::Fifo => special("a pipe"),
            _ => special("a device or a socket"),
        }
    }
}
