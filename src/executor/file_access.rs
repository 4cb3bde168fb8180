//! Opening and listing below a folder: what blocks, and so is done on threads for it.
//!
//! `wasmtime-wasi` keeps paths inside a folder, and so does `cap-std`, by the same rules. Here it is
//! `cap-std`, because an open must not wait for the other end of a pipe, and because a listing must not
//! take more of the host's memory than a page of it.

use std::collections::VecDeque;
use std::ffi::CStr;
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cap_std::fs::{Metadata, OpenOptions, OpenOptionsExt as _};
use rustix::fs::{AtFlags, FileType, OFlags};
use wasmtime_wasi::OpenMode;
use wasmtime_wasi::p2::FsResult;
use wasmtime_wasi::p2::bindings::filesystem::types::{
    DescriptorFlags, DescriptorType, DirectoryEntry, ErrorCode, OpenFlags, PathFlags,
};

use super::files::{OpenFile, Refusal};

/// Entries of a folder that are read ahead of the guest. Protects the host's heap from folders that have
/// millions of them.
const ENTRIES_AT_ONCE: usize = 128;

/// Runs what blocks on a thread for it.
pub(crate) async fn on_thread<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> FsResult<T> {
    let ended = tokio::task::spawn_blocking(work).await;
    Ok(ended.map_err(|_panicked| ErrorCode::Io)?)
}

/// How something is to be opened.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Opening {
    follow: bool,
    oflags: OpenFlags,
    pub(crate) mode: OpenMode,
}

/// What was opened.
pub(crate) enum Opened {
    File(File),
    Dir(File),
    /// It is there, and the guest does not get it.
    Refused(Refusal),
}

impl Opening {
    /// # Errors
    /// The flags contradict each other, or ask for what no host has.
    pub(crate) fn new(
        path: PathFlags,
        oflags: OpenFlags,
        flags: DescriptorFlags,
    ) -> Result<Self, ErrorCode> {
        let synced = DescriptorFlags::FILE_INTEGRITY_SYNC
            | DescriptorFlags::DATA_INTEGRITY_SYNC
            | DescriptorFlags::REQUESTED_WRITE_SYNC;
        if flags.intersects(synced) {
            return Err(ErrorCode::Unsupported);
        }
        let creates = OpenFlags::CREATE | OpenFlags::EXCLUSIVE | OpenFlags::TRUNCATE;
        if oflags.contains(OpenFlags::DIRECTORY) && oflags.intersects(creates) {
            return Err(ErrorCode::Invalid);
        }
        let writes = flags.contains(DescriptorFlags::WRITE)
            || oflags.intersects(OpenFlags::CREATE | OpenFlags::TRUNCATE);
        let reads =
            flags.contains(DescriptorFlags::READ) || !flags.contains(DescriptorFlags::WRITE);
        let mut mode = OpenMode::empty();
        mode.set(OpenMode::READ, reads);
        mode.set(OpenMode::WRITE, writes);
        Ok(Self {
            follow: path.contains(PathFlags::SYMLINK_FOLLOW),
            oflags,
            mode,
        })
    }

    pub(crate) fn writes(self) -> bool {
        self.mode.contains(OpenMode::WRITE)
    }

    pub(crate) fn creates(self) -> bool {
        self.oflags.contains(OpenFlags::CREATE)
    }

    /// The same, for the operating system. A pipe that has no other end, and a file that another process
    /// has leased, are not waited for.
    fn options(self) -> OpenOptions {
        let mut flags = OFlags::NONBLOCK | OFlags::NOCTTY;
        flags.set(OFlags::NOFOLLOW, !self.follow);
        let mut options = OpenOptions::new();
        options
            .read(self.mode.contains(OpenMode::READ))
            .write(self.mode.contains(OpenMode::WRITE))
            .truncate(self.oflags.contains(OpenFlags::TRUNCATE))
            .custom_flags(flags.bits().cast_signed());
        if self.creates() && self.oflags.contains(OpenFlags::EXCLUSIVE) {
            options.create_new(true);
        } else {
            options.create(self.creates());
        }
        options
    }
}

/// Opens a file or a folder below `dir`, and nothing else. A device is looked at before it is opened,
/// since for some of them being opened is an event; what is there when it is open is what counts.
pub(crate) fn open(dir: &File, path: &str, opening: Opening) -> io::Result<Opened> {
    let dir = cap_std::fs::Dir::from_std_file(dir.try_clone()?);
    let seen = match opening.follow {
        true => dir.metadata(path),
        false => dir.symlink_metadata(path),
    };
    let is_link = |seen: &Metadata| !opening.follow && seen.is_symlink();
    if seen.is_ok_and(|seen| !seen.is_file() && !seen.is_dir() && !is_link(&seen)) {
        return Ok(Opened::Refused(Refusal::NotAFile));
    }
    let opened = match dir.open_with(path, &opening.options()) {
        Ok(opened) => opened.into_std(),
        Err(error) if is_escape(&error) => return Ok(Opened::Refused(Refusal::LeadsOut)),
        Err(error) => return Err(error),
    };
    let kind = opened.metadata()?.file_type();
    let dir_is_wanted = opening.oflags.contains(OpenFlags::DIRECTORY);
    match (kind.is_dir(), kind.is_file()) {
        (true, _) => Ok(Opened::Dir(opened)),
        (false, true) if dir_is_wanted => Err(rustix::io::Errno::NOTDIR.into()),
        (false, true) => Ok(Opened::File(opened)),
        (false, false) => Ok(Opened::Refused(Refusal::NotAFile)),
    }
}

/// Whether a path led out of its folder: what the operating system does not permit has its number.
fn is_escape(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::PermissionDenied && error.raw_os_error().is_none()
}

/// What a file or folder is, whatever it is called: its device and its number there.
type Identity = (u64, u64);

/// Whether an open folder is what is at `path`, lies in it or has it in it. Where there is nothing yet, the
/// folder has it in it that has the place for it.
pub(crate) fn meets(folder: &File, path: &Path) -> io::Result<bool> {
    let above = identities_above(folder)?;
    let path = std::path::absolute(path)?;
    let mut is_there = true;
    for place in path.ancestors() {
        // Without links, what is above it is above it by name.
        let Ok(real) = place.canonicalize() else {
            is_there = false;
            continue;
        };
        if is_there && above.contains(&identity(&real.metadata()?)) {
            return Ok(true);
        }
        for place in real.ancestors() {
            if above.first() == Some(&identity(&place.metadata()?)) {
                return Ok(true);
            }
        }
        break;
    }
    Ok(false)
}

/// An open folder and all folders that it is in.
fn identities_above(folder: &File) -> io::Result<Vec<Identity>> {
    let mut known = vec![identity(&folder.metadata()?)];
    let mut up = String::new();
    loop {
        up.push_str("../");
        let stat = rustix::fs::statat(folder, &up, AtFlags::empty())?;
        let above = (stat.st_dev, stat.st_ino);
        // Above the root there is the root.
        if known.last() == Some(&above) {
            return Ok(known);
        }
        known.push(above);
    }
}

fn identity(metadata: &std::fs::Metadata) -> Identity {
    (metadata.dev(), metadata.ino())
}

/// Whether the target of a link is more than a way down.
pub(crate) fn leads_up(target: &[u8]) -> bool {
    target.starts_with(b"/") || target.split(|&byte| byte == b'/').any(|name| name == b"..")
}

/// Whether there is a link at `path` that leads up. What cannot be looked at is none here: whoever wants
/// to do something with it meets the same obstacle.
pub(crate) fn is_link_up(dir: &File, path: &str) -> bool {
    // With a separator or a dot at its end it would be the path of what the link leads to.
    let path: PathBuf = Path::new(path).components().collect();
    let target = dir
        .try_clone()
        .and_then(|dir| cap_std::fs::Dir::from_std_file(dir).read_link_contents(path));
    target.is_ok_and(|target| leads_up(target.as_os_str().as_encoded_bytes()))
}

/// A folder that is being listed, a page at a time.
pub(crate) struct Listing {
    /// What is left of it; taken out while the next page is read.
    rest: Option<rustix::fs::Dir>,
    page: VecDeque<Result<DirectoryEntry, ErrorCode>>,
    _place: Arc<OpenFile>,
}

impl Listing {
    pub(crate) fn new(rest: rustix::fs::Dir, place: Arc<OpenFile>) -> Self {
        Self {
            rest: Some(rest),
            page: VecDeque::new(),
            _place: place,
        }
    }

    /// The next entry, if one was read already.
    pub(crate) fn pop(&mut self) -> Option<Result<DirectoryEntry, ErrorCode>> {
        self.page.pop_front()
    }

    pub(crate) fn take_rest(&mut self) -> Option<rustix::fs::Dir> {
        self.rest.take()
    }

    pub(crate) fn put(&mut self, page: Page) {
        self.rest = page.rest;
        self.page = page.entries;
    }
}

/// Some entries, and what follows them.
pub(crate) struct Page {
    rest: Option<rustix::fs::Dir>,
    entries: VecDeque<Result<DirectoryEntry, ErrorCode>>,
}

pub(crate) fn read_page(mut rest: rustix::fs::Dir) -> Page {
    let mut entries = VecDeque::new();
    while entries.len() < ENTRIES_AT_ONCE {
        let entry = match rest.read() {
            None => {
                return Page {
                    rest: None,
                    entries,
                };
            }
            Some(Ok(entry)) => entry,
            Some(Err(errno)) => {
                entries.push_back(Err(io::Error::from(errno).into()));
                return Page {
                    rest: None,
                    entries,
                };
            }
        };
        let name = entry.file_name();
        if name == c"." || name == c".." {
            continue;
        }
        let kind = match entry.file_type() {
            FileType::Unknown => kind_of(&rest, name),
            known => known,
        };
        entries.push_back(match name.to_str() {
            Ok(name) => Ok(DirectoryEntry {
                type_: descriptor_type(kind),
                name: name.to_owned(),
            }),
            Err(_) => Err(ErrorCode::IllegalByteSequence),
        });
    }
    Page {
        rest: Some(rest),
        entries,
    }
}

/// The kind of an entry, on file systems that do not say it with the name.
fn kind_of(dir: &rustix::fs::Dir, name: &CStr) -> FileType {
    let stat = dir
        .fd()
        .and_then(|fd| rustix::fs::statat(fd, name, AtFlags::SYMLINK_NOFOLLOW));
    stat.map_or(FileType::Unknown, |stat| {
        FileType::from_raw_mode(stat.st_mode)
    })
}

fn descriptor_type(kind: FileType) -> DescriptorType {
    match kind {
        FileType::RegularFile => DescriptorType::RegularFile,
        FileType::Directory => DescriptorType::Directory,
        FileType::Symlink => DescriptorType::SymbolicLink,
        FileType::Fifo => DescriptorType::Fifo,
        FileType::Socket => DescriptorType::Socket,
        FileType::CharacterDevice => DescriptorType::CharacterDevice,
        FileType::BlockDevice => DescriptorType::BlockDevice,
        FileType::Unknown => DescriptorType::Unknown,
    }
}
