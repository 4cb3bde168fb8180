//! One daemon a home: its lock, and where its own user's commands find it.
//!
//! `daemon.lock` is held for as long as the daemon lives, however it ends. `daemon.json` says what it is: a record
//! without a lock is nobody's.

mod client;
mod frames;

pub(crate) use self::client::{Answer, EventStream};

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{Read as _, Write as _};
use std::net::SocketAddr;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use rand::Rng as _;
use rustix::fs::{FlockOperation, OFlags};
use serde::{Deserialize, Serialize};

use super::exit::Refused;
use crate::config::Token;

/// The file that is locked.
const LOCK_FILE: &str = "daemon.lock";
/// The file that says who has the lock.
const RECORD_FILE: &str = "daemon.json";
/// Bytes of such a file that are read. Protects from one that somebody else made.
const RECORD_BYTES_MAX: u64 = 4 * 1024;
/// How often the lock is tried while commands look at it. Protects the start from one that never ends looking.
const LOOKS_MAX: u32 = 10_000;
/// Bytes of the token for commands: nobody guesses as many.
const TOKEN_BYTES: usize = 32;

/// What a daemon is.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct DaemonRecord {
    /// Its process.
    pub(crate) pid: u32,
    /// Where it listens.
    pub(crate) address: SocketAddr,
    /// What its own user's commands bring along.
    token: String,
}

impl DaemonRecord {
    /// This process, with a token that nobody else knows.
    pub(crate) fn new(address: SocketAddr) -> Self {
        let mut bytes = [0; TOKEN_BYTES];
        rand::rng().fill_bytes(&mut bytes);
        Self {
            pid: std::process::id(),
            address,
            token: bytes.iter().map(|byte| format!("{byte:02x}")).collect(),
        }
    }

    /// The token; none that a stranger's file has may be in a header field.
    pub(crate) fn token(&self) -> Option<Token> {
        Token::new(self.token.as_str())
    }

    /// The daemon that has the lock of the home, if there is one and its record can be trusted.
    pub(crate) fn of(home: &Path) -> Option<Self> {
        let lock = open(&home.join(LOCK_FILE), false).ok()?;
        if !is_held(&lock) {
            return None;
        }
        Self::read(home)
    }

    /// What the file says, unless somebody else may have written it.
    fn read(home: &Path) -> Option<Self> {
        let mut options = OpenOptions::new();
        options.read(true).custom_flags(open_flags());
        let file = options.open(home.join(RECORD_FILE)).ok()?;
        let about = file.metadata().ok()?;
        let is_own = about.uid() == rustix::process::geteuid().as_raw();
        if !about.is_file() || !is_own || about.mode() & 0o077 != 0 {
            tracing::warn!("daemon.json is not its user's alone, and is not used");
            return None;
        }
        let mut text = String::new();
        file.take(RECORD_BYTES_MAX).read_to_string(&mut text).ok()?;
        serde_json::from_str(&text).ok()
    }

    /// Where a command of this machine reaches it.
    pub(crate) fn reached_at(&self) -> SocketAddr {
        let mut address = self.address;
        if address.ip().is_unspecified() {
            address.set_ip(match address {
                SocketAddr::V4(_) => std::net::Ipv4Addr::LOCALHOST.into(),
                SocketAddr::V6(_) => std::net::Ipv6Addr::LOCALHOST.into(),
            });
        }
        address
    }
}

/// The lock of a home, until it is dropped or the process ends.
pub(crate) struct DaemonLock {
    _file: File,
    home: PathBuf,
}

impl DaemonLock {
    /// Takes the lock. The home is made if it is not there.
    ///
    /// # Errors
    /// Another daemon has it, or it cannot be made.
    pub(crate) fn take(home: &Path) -> anyhow::Result<Self> {
        let made = DirBuilder::new().recursive(true).mode(0o700).create(home);
        made.with_context(|| format!("cannot make {}", home.display()))?;
        let path = home.join(LOCK_FILE);
        let file = open(&path, true).with_context(|| format!("cannot open {}", path.display()))?;
        let locked = lock(&file, std::thread::yield_now);
        match locked.with_context(|| format!("cannot lock {}", path.display()))? {
            true => Ok(Self {
                _file: file,
                home: home.to_owned(),
            }),
            false => Err(taken(home).into()),
        }
    }

    /// Lets commands find this process, until what this gives is dropped.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(crate) fn publish(&self, record: &DaemonRecord) -> anyhow::Result<Published> {
        let path = self.home.join(RECORD_FILE);
        let failed = || format!("cannot write {}", path.display());
        // Made for its owner alone, as every temporary file is.
        let mut file = tempfile::NamedTempFile::new_in(&self.home).with_context(failed)?;
        let text = serde_json::to_vec(record)?;
        file.write_all(&text).with_context(failed)?;
        file.persist(&path).with_context(failed)?;
        Ok(Published(path))
    }
}

/// The record, for as long as it holds.
pub(crate) struct Published(PathBuf);

impl Drop for Published {
    fn drop(&mut self) {
        // One that stays is without a lock, and so nobody's.
        let _removed = std::fs::remove_file(&self.0);
    }
}

fn taken(home: &Path) -> Refused {
    let who = match DaemonRecord::read(home) {
        Some(record) => format!(
            "process {} listens on http://{}",
            record.pid, record.address
        ),
        None => "another process is about to listen".to_owned(),
    };
    Refused::conflict(format!("{} has a daemon: {who}", home.display()))
        .with_hint("one daemon serves a home; end that one first, or name another --home")
}

/// A link would lead to a file of somebody else's choice, and another process must not get the lock.
fn open_flags() -> i32 {
    (OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK)
        .bits()
        .cast_signed()
}

fn open(path: &Path, create: bool) -> std::io::Result<File> {
    let mut options = OpenOptions::new();
    options
        .read(true)
        .write(create)
        .create(create)
        .mode(0o600)
        .custom_flags(open_flags());
    options.open(path)
}

/// Takes the lock, unless another process keeps it. A command that looks whether it is held has it for a moment,
/// shared with others who look, and is waited for.
fn lock(file: &File, mut wait: impl FnMut()) -> rustix::io::Result<bool> {
    let tried = |operation| match rustix::fs::flock(file, operation) {
        Ok(()) => Ok(true),
        Err(rustix::io::Errno::WOULDBLOCK) => Ok(false),
        Err(error) => Err(error),
    };
    for _ in 0..LOOKS_MAX {
        if tried(FlockOperation::NonBlockingLockExclusive)? {
            return Ok(true);
        }
        if !tried(FlockOperation::NonBlockingLockShared)? {
            return Ok(false);
        }
        rustix::fs::flock(file, FlockOperation::Unlock)?;
        wait();
    }
    Ok(false)
}

/// Whether somebody has the lock. A shared one is tried, so that two who look do not see each other.
fn is_held(lock: &File) -> bool {
    let tried = rustix::fs::flock(lock, FlockOperation::NonBlockingLockShared);
    tried == Err(rustix::io::Errno::WOULDBLOCK)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::{DaemonLock, DaemonRecord, LOCK_FILE, RECORD_FILE, is_held, lock, open};

    #[test]
    fn commands_that_look_for_a_daemon_stop_none_that_starts() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(LOCK_FILE);
        let looks = || {
            let file = open(&path, true).unwrap();
            assert!(!is_held(&file));
            file
        };
        // Two look at it when it is first tried, one when it is tried again, and none after that.
        let mut looking = vec![looks(), looks()];
        let file = open(&path, true).unwrap();
        assert!(lock(&file, || drop(looking.pop().unwrap())).unwrap());
        let second = open(&path, true).unwrap();
        assert!(!lock(&second, || panic!("it is waited for a daemon")).unwrap());
        drop(file);
        let _looks_for_ever = looks();
        assert!(!lock(&second, || {}).unwrap());
    }

    #[test]
    fn a_record_counts_while_the_lock_is_held_and_if_it_is_the_users_alone() {
        let dir = tempfile::tempdir().unwrap();
        let home = dir.path();
        assert!(DaemonRecord::of(home).is_none());
        let lock = DaemonLock::take(home).unwrap();
        assert!(DaemonLock::take(home).is_err());
        assert!(DaemonRecord::of(home).is_none());
        let record = DaemonRecord::new(([0, 0, 0, 0], 7).into());
        let published = lock.publish(&record).unwrap();
        let found = DaemonRecord::of(home).unwrap();
        assert_eq!(found.pid, std::process::id());
        assert_eq!(found.reached_at(), ([127, 0, 0, 1], 7).into());
        assert_eq!(found.token().unwrap().value().len(), 64);
        let path = home.join(RECORD_FILE);
        let mode = |bits| fs::set_permissions(&path, fs::Permissions::from_mode(bits)).unwrap();
        assert_eq!(
            fs::metadata(&path).unwrap().permissions().mode() & 0o777,
            0o600
        );
        mode(0o620);
        assert!(DaemonRecord::of(home).is_none());
        mode(0o600);
        assert!(DaemonRecord::of(home).is_some());
        fs::rename(&path, home.join("elsewhere")).unwrap();
        symlink("elsewhere", &path).unwrap();
        assert!(DaemonRecord::of(home).is_none());
        fs::rename(home.join("elsewhere"), &path).unwrap();
        drop(lock);
        assert!(DaemonRecord::of(home).is_none());
        drop(published);
        assert!(!path.exists());
    }
}
