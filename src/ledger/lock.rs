//! One writer owns a ledger.
//!
//! The lock is `flock`: it goes with the open file, so it ends with its process however that ends, and
//! a reader in the same process does not disturb it. It costs one system call. Who holds it is looked
//! up in the system's table of locks, and only when somebody was refused.

use std::fs::File;
use std::io::{self, Read as _};

use rustix::fs::{FlockOperation, Stat};

use super::folder::Folder;

/// Where Linux lists the locks that are held.
const TABLE: &str = "/proc/locks";
/// Bytes of that table that are read; a holder further down stays unnamed.
const TABLE_BYTES_MAX: u64 = 8 * 1024 * 1024;

/// Takes the lock if it is free, and says whether it was.
pub(super) fn try_exclusive(file: &File) -> io::Result<bool> {
    match rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(true),
        Err(rustix::io::Errno::WOULDBLOCK) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Takes the lock, waiting for whoever has it.
pub(super) fn exclusive(file: &File) -> io::Result<()> {
    let locked =
        rustix::io::retry_on_intr(|| rustix::fs::flock(file, FlockOperation::LockExclusive));
    Ok(locked?)
}

/// What became of an attempt to own the file with a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Claim {
    /// The lock is taken, and the file is the one with that name for as long as it is held.
    Taken,
    /// Somebody else has the lock.
    Held,
    /// Since the file was opened, its name was taken away or given to another file.
    Gone,
}

/// Takes the lock of `file`, which was opened as `name`, if it is free.
///
/// Whoever removes a ledger holds its lock until the name is gone, so that only the name, looked at
/// under the lock, tells whether what is written to the file will ever be read.
pub(super) fn claim(folder: &Folder, name: &str, file: &File) -> io::Result<Claim> {
    if !try_exclusive(file)? {
        Ok(Claim::Held)
    } else if folder.names_file(name, file)? {
        Ok(Claim::Taken)
    } else {
        Ok(Claim::Gone)
    }
}

/// Gives the lock up before the file is closed.
pub(super) fn release(file: &File) {
    // Whatever it answers, the lock ends with the last descriptor.
    let _released = rustix::fs::flock(file, FlockOperation::Unlock);
}

/// The locks that are held at one moment.
pub(super) struct Holders(String);

impl Holders {
    /// Reads the system's table; where there is none, nobody is known to hold anything.
    pub(super) fn now() -> Self {
        let mut table = String::new();
        if let Ok(file) = File::open(TABLE) {
            // What was read before a failure is still true.
            let _read = file.take(TABLE_BYTES_MAX).read_to_string(&mut table);
        }
        Self(table)
    }

    /// Nobody, for whoever does not ask.
    pub(super) fn none() -> Self {
        Self(String::new())
    }

    /// The process that holds the lock of the file.
    pub(super) fn of(&self, file: &File) -> Option<u32> {
        find(&self.0, &rustix::fs::fstat(file).ok()?)
    }
}

/// Some file systems show another device in the table than on the file; then the inode has to do.
fn find(table: &str, stat: &Stat) -> Option<u32> {
    let inode = stat.st_ino.to_string();
    let (major, minor) = (
        rustix::fs::major(stat.st_dev),
        rustix::fs::minor(stat.st_dev),
    );
    let device = format!("{major:02x}:{minor:02x}");
    let mut by_inode = None;
    for line in table.lines() {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        let [_, "FLOCK", _, _, pid, place, ..] = fields.as_slice() else {
            continue;
        };
        let Some((on, number)) = place.rsplit_once(':') else {
            continue;
        };
        let Some(pid) = pid.parse().ok().filter(|&pid| pid > 0 && number == inode) else {
            continue;
        };
        if on == device {
            return Some(pid);
        }
        by_inode = Some(pid);
    }
    by_inode
}

#[cfg(test)]
mod tests {
    use super::{Claim, Folder, Holders, claim, find, release, try_exclusive};

    #[test]
    fn a_second_opener_is_refused_and_told_by_whom() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let first = file.reopen().unwrap();
        let second = file.reopen().unwrap();
        assert!(try_exclusive(&first).unwrap());
        assert!(!try_exclusive(&second).unwrap());
        assert_eq!(Holders::now().of(&second), Some(std::process::id()));
        release(&first);
        assert!(try_exclusive(&second).unwrap());
    }

    #[test]
    fn a_file_that_lost_its_name_meanwhile_is_not_owned() {
        let dir = tempfile::tempdir().unwrap();
        let folder = Folder::open(dir.path()).unwrap();
        let open = || folder.open_append("a").unwrap();
        drop(folder.create_new("a").unwrap());
        let (first, second) = (open(), open());
        assert_eq!(claim(&folder, "a", &first).unwrap(), Claim::Taken);
        assert_eq!(claim(&folder, "a", &second).unwrap(), Claim::Held);
        folder.rename("a", "b").unwrap();
        drop(first);
        assert_eq!(claim(&folder, "a", &second).unwrap(), Claim::Gone);
        release(&second);
        // Another file of that name does not make it the one that was opened.
        drop(folder.create_new("a").unwrap());
        assert_eq!(claim(&folder, "a", &second).unwrap(), Claim::Gone);
        folder.remove("b").unwrap();
        assert_eq!(claim(&folder, "a", &second).unwrap(), Claim::Gone);
        assert_eq!(claim(&folder, "a", &open()).unwrap(), Claim::Taken);
    }

    #[test]
    fn lines_of_the_table_that_say_something_else_are_passed_over() {
        let file = tempfile::tempfile().unwrap();
        let stat = rustix::fs::fstat(&file).unwrap();
        let inode = stat.st_ino;
        let table = format!(
            "1: POSIX  ADVISORY  WRITE 11 fe:00:{inode} 0 EOF\n\
             2: -> FLOCK  ADVISORY  WRITE 12 fe:00:{inode} 0 EOF\n\
             3: FLOCK  ADVISORY  WRITE -1 fe:00:{inode} 0 EOF\n\
             nonsense\n\
             4: FLOCK  ADVISORY  WRITE 14 fe:00:{inode}0 0 EOF\n\
             5: FLOCK  ADVISORY  WRITE 15 zz:00:{inode} 0 EOF\n"
        );
        assert_eq!(find(&table, &stat), Some(15));
        assert_eq!(find("", &stat), None);
    }
}
