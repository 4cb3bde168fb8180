//! The folder of ledgers: the only place where their files are opened.
//!
//! Every name is opened relative to the folder's descriptor, never through a symbolic link, so that
//! what is checked and what is used are the same file.

use std::fs::{DirBuilder, File};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, Stat, Timespec, Timestamps};

use super::error::StoreError;
use super::sync::GroupSync;

/// Ledgers hold inputs and outputs of other people's work: only their owner may read them.
const FILE_MODE: Mode = Mode::RUSR.union(Mode::WUSR);
const FOLDER_MODE: u32 = 0o700;
const NANOS_PER_SECOND: i64 = 1_000_000_000;

/// Tells one state of a file from another: whoever changes the file changes this.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct FileStamp {
    pub(super) inode: u64,
    pub(super) bytes: u64,
    /// When its bytes were changed last, in nanoseconds since 1970.
    pub(super) mtime_nanos: i64,
}

impl FileStamp {
    /// The state of an open file.
    pub(super) fn of(file: impl AsFd) -> io::Result<Self> {
        Ok(Self::from_stat(&rustix::fs::fstat(file)?))
    }

    fn from_stat(stat: &Stat) -> Self {
        let nanos = i64::try_from(stat.st_mtime_nsec).unwrap_or(0);
        Self {
            inode: stat.st_ino,
            bytes: u64::try_from(stat.st_size).unwrap_or(0),
            mtime_nanos: stat
                .st_mtime
                .saturating_mul(NANOS_PER_SECOND)
                .saturating_add(nanos),
        }
    }
}

/// An open folder.
#[derive(Debug)]
pub(super) struct Folder {
    fd: OwnedFd,
    path: PathBuf,
    /// Shares one sync among all who made a name meanwhile.
    names: GroupSync,
}

impl Folder {
    /// Opens the folder at `path`.
    pub(super) fn open(path: &Path) -> Result<Self, StoreError> {
        let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
        let fd = rustix::fs::openat(CWD, path, flags, Mode::empty())
            .map_err(|error| failed("open", path, error.into()))?;
        Ok(Self {
            fd,
            path: path.to_owned(),
            names: GroupSync::default(),
        })
    }

    /// As [`Folder::open`], making the folder first if it is missing.
    pub(super) fn open_or_make(path: &Path) -> Result<Self, StoreError> {
        let missing: Vec<&Path> = path
            .ancestors()
            .take_while(|folder| !folder.as_os_str().is_empty() && !folder.exists())
            .collect();
        if !missing.is_empty() {
            let mut builder = DirBuilder::new();
            builder.recursive(true).mode(FOLDER_MODE);
            builder
                .create(path)
                .map_err(|error| failed("make", path, error))?;
        }
        // The name of a folder is as durable as the folder that it stands in.
        for parent in missing.into_iter().filter_map(Path::parent) {
            let is_here = parent.as_os_str().is_empty();
            let parent = Self::open(if is_here { Path::new(".") } else { parent })?;
            parent
                .sync_now()
                .map_err(|error| failed("sync", &parent.path, error))?;
        }
        Self::open(path)
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    fn open_at(&self, name: &str, flags: OFlags) -> io::Result<File> {
        let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(rustix::fs::openat(&self.fd, name, flags, FILE_MODE)?.into())
    }

    /// Makes a file that must not exist yet, to append to.
    pub(super) fn create_new(&self, name: &str) -> io::Result<File> {
        self.open_at(
            name,
            OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::APPEND,
        )
    }

    /// Opens a file to read it and append to it.
    pub(super) fn open_append(&self, name: &str) -> io::Result<File> {
        regular(self.open_at(name, OFlags::RDWR | OFlags::APPEND | OFlags::NONBLOCK)?)
    }

    /// Opens a file to read it. It does not wait for the other end of a pipe that someone put there.
    pub(super) fn open_read(&self, name: &str) -> io::Result<File> {
        regular(self.open_at(name, OFlags::RDONLY | OFlags::NONBLOCK)?)
    }

    /// Makes an empty file, in place of one that may be left from before.
    pub(super) fn create_temporary(&self, name: &str) -> io::Result<File> {
        self.open_at(name, OFlags::CREATE | OFlags::TRUNC | OFlags::WRONLY)
    }

    /// Makes a folder inside this one, unless it is there; says whether it made it.
    pub(super) fn make_folder(&self, name: &str) -> io::Result<bool> {
        match rustix::fs::mkdirat(&self.fd, name, Mode::from_raw_mode(FOLDER_MODE)) {
            Ok(()) => Ok(true),
            Err(rustix::io::Errno::EXIST) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Opens a folder inside this one.
    pub(super) fn open_folder(&self, name: &str) -> io::Result<Self> {
        let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(Self {
            fd: rustix::fs::openat(&self.fd, name, flags, Mode::empty())?,
            path: self.path.join(name),
            names: GroupSync::default(),
        })
    }

    /// Gives a file a second name, which must be free.
    pub(super) fn link(&self, from: &str, to: &str) -> io::Result<()> {
        Ok(rustix::fs::linkat(
            &self.fd,
            from,
            &self.fd,
            to,
            AtFlags::empty(),
        )?)
    }

    pub(super) fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        Ok(rustix::fs::renameat(&self.fd, from, &self.fd, to)?)
    }

    pub(super) fn remove(&self, name: &str) -> io::Result<()> {
        Ok(rustix::fs::unlinkat(&self.fd, name, AtFlags::empty())?)
    }

    /// Removes an empty folder inside this one.
    pub(super) fn remove_folder(&self, name: &str) -> io::Result<()> {
        Ok(rustix::fs::unlinkat(&self.fd, name, AtFlags::REMOVEDIR)?)
    }

    /// The state of the file with that name.
    pub(super) fn stamp_of(&self, name: &str) -> io::Result<FileStamp> {
        let stat = rustix::fs::statat(&self.fd, name, AtFlags::SYMLINK_NOFOLLOW)?;
        Ok(FileStamp::from_stat(&stat))
    }

    /// Whether `name` stands for the open file, and not for another one or for none.
    pub(super) fn names_file(&self, name: &str, file: &File) -> io::Result<bool> {
        match self.stamp_of(name) {
            // As long as a file is open, no other one gets its inode.
            Ok(named) => Ok(named.inode == FileStamp::of(file)?.inode),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// The state of the folder itself, which changes with every name that comes or goes.
    pub(super) fn stamp(&self) -> io::Result<FileStamp> {
        FileStamp::of(&self.fd)
    }

    /// Sets the time when a file was changed last.
    pub(super) fn set_mtime(&self, name: &str, mtime_nanos: i64) -> io::Result<()> {
        let time = Timespec {
            tv_sec: mtime_nanos.div_euclid(NANOS_PER_SECOND),
            tv_nsec: mtime_nanos.rem_euclid(NANOS_PER_SECOND),
        };
        let times = Timestamps {
            last_access: time,
            last_modification: time,
        };
        let flags = AtFlags::SYMLINK_NOFOLLOW;
        Ok(rustix::fs::utimensat(&self.fd, name, &times, flags)?)
    }

    /// The names in the folder, in no order.
    pub(super) fn names(&self) -> io::Result<impl Iterator<Item = io::Result<String>>> {
        Ok(self.entries()?.map(|entry| entry.map(|(name, _)| name)))
    }

    /// The names in the folder with the inodes that they stand for, in no order.
    pub(super) fn entries(&self) -> io::Result<impl Iterator<Item = io::Result<(String, u64)>>> {
        let entries = Dir::read_from(&self.fd)?;
        Ok(entries.filter_map(|entry| match entry {
            Err(error) => Some(Err(error.into())),
            Ok(entry) => {
                let name = entry.file_name().to_bytes();
                let is_self = matches!(name, b"." | b"..");
                (!is_self).then(|| Ok((String::from_utf8_lossy(name).into_owned(), entry.ino())))
            }
        }))
    }

    /// Makes everything durable that was written to the file system of this folder.
    pub(super) fn sync_file_system(&self) -> io::Result<()> {
        Ok(rustix::fs::syncfs(&self.fd)?)
    }

    /// Makes the names that exist now durable; callers at the same time share one sync.
    pub(super) fn sync(&self) -> io::Result<()> {
        self.names.wait(self.names.ticket(), || self.sync_now())
    }

    fn sync_now(&self) -> io::Result<()> {
        Ok(rustix::fs::fsync(&self.fd)?)
    }

    /// Lets [`Folder::sync`] fail from now on.
    #[cfg(test)]
    pub(super) fn break_sync(&self) {
        let broken = || Err(io::Error::other("broken for a test"));
        let _broken = self.names.wait(self.names.ticket(), broken);
    }

    /// Makes [`Folder::sync`] usable again after a failure, provided that the folder now syncs.
    pub(super) fn repair(&self) -> io::Result<()> {
        // A fresh descriptor, because the old one may report an old failure, or hide a new one.
        let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
        let fresh = rustix::fs::openat(&self.fd, ".", flags, Mode::empty())?;
        rustix::fs::fsync(fresh)?;
        self.names.repair();
        Ok(())
    }

    /// The error that says what could not be done to `name`.
    pub(super) fn failed(
        &self,
        operation: &'static str,
        name: &str,
        source: io::Error,
    ) -> StoreError {
        failed(operation, &self.path.join(name), source)
    }
}

/// A removal that found nothing to remove has come to the same end.
pub(super) fn unless_gone(removed: io::Result<()>) -> io::Result<()> {
    match removed {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

fn regular(file: File) -> io::Result<File> {
    let stat = rustix::fs::fstat(&file)?;
    if FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile {
        Ok(file)
    } else {
        Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "not a regular file",
        ))
    }
}

fn failed(operation: &'static str, path: &Path, source: io::Error) -> StoreError {
    StoreError::Io {
        operation,
        path: path.to_owned(),
        source,
    }
}
