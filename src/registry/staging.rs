//! A place of one's own in the folder of skills, where a skill is made whole before it gets its name,
//! and where one that lost its name is taken apart.
//!
//! Its name begins with a dot, so nobody loads it. It goes with the value; what a process left that
//! was cut off goes with the next one that is made.

use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use rand::Rng as _;
use rustix::fs::{CWD, FlockOperation, Mode, OFlags, RenameFlags};

use super::state::StateLock;

const PREFIX: &str = ".staging-";

/// A private folder below the folder of skills.
#[derive(Debug)]
pub(super) struct Staging {
    path: PathBuf,
    /// Tells other processes that somebody still works in it.
    _lock: File,
}

impl Staging {
    /// Makes one. Whoever makes or removes such folders holds the lock, so that none is taken for
    /// abandoned before it is locked itself.
    pub(super) fn make(skills_dir: &Path, _right: &StateLock) -> io::Result<Self> {
        remove_abandoned(skills_dir)?;
        let mut digits = [0; 8];
        rand::rng().fill_bytes(&mut digits);
        let name = format!("{PREFIX}{:016x}", u64::from_le_bytes(digits));
        let path = skills_dir.join(name);
        DirBuilder::new().mode(0o700).create(&path)?;
        let lock = File::open(&path)?;
        rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive)?;
        Ok(Self { path, _lock: lock })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Lets the folder in here and the one in the folder of skills change places; without one there,
    /// the one in here goes there.
    pub(super) fn exchange(&self, name: &str, target: &Path) -> io::Result<()> {
        let is_there = target.symlink_metadata().is_ok();
        let flags = if is_there {
            RenameFlags::EXCHANGE
        } else {
            RenameFlags::NOREPLACE
        };
        rename(&self.path.join(name), target, flags)
    }

    /// Takes a folder in here.
    pub(super) fn take(&self, name: &str, from: &Path) -> io::Result<()> {
        rename(from, &self.path.join(name), RenameFlags::NOREPLACE)
    }

    /// Gives a folder back that was taken.
    pub(super) fn give_back(&self, name: &str, to: &Path) -> io::Result<()> {
        rename(&self.path.join(name), to, RenameFlags::NOREPLACE)
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.path) {
            tracing::warn!(path = %self.path.display(), %error, "cannot remove what is no longer needed");
        }
    }
}

fn rename(from: &Path, to: &Path, flags: RenameFlags) -> io::Result<()> {
    Ok(rustix::fs::renameat_with(CWD, from, CWD, to, flags)?)
}

/// Removes what processes left that are gone. Nobody else begins to work in such a folder meanwhile.
fn remove_abandoned(skills_dir: &Path) -> io::Result<()> {
    for entry in fs::read_dir(skills_dir)? {
        let entry = entry?;
        let name = entry.file_name();
        if !name.as_encoded_bytes().starts_with(PREFIX.as_bytes()) {
            continue;
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let Ok(folder) = rustix::fs::open(entry.path(), flags, Mode::empty()) else {
            continue;
        };
        if rustix::fs::flock(&folder, FlockOperation::NonBlockingLockExclusive).is_ok() {
            fs::remove_dir_all(entry.path())?;
        }
    }
    Ok(())
}
