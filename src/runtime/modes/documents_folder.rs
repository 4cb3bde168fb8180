//! The documents of an execution: files in a folder of its own, below the home.

use std::io::{self, Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use cap_std::ambient_authority;
use cap_std::fs::{Dir, DirBuilder, DirBuilderExt as _, OpenOptions, OpenOptionsExt as _};
use rustix::fs::{FlockOperation, Mode, OFlags};
use serde::Serialize;
use sha2::{Digest as _, Sha256};

use super::tool::{Refusal, RefusalCode};
use crate::id::RunId;

/// Documents of one execution. Protects the disk, and whoever lists them.
pub const DOCUMENTS_MAX: usize = 64;
/// Bytes of one document. Protects the disk, and ledgers, which hold whatever is read or written.
pub const DOCUMENT_BYTES_MAX: usize = 1024 * 1024;
/// Bytes of a name.
const NAME_BYTES_MAX: usize = 64;
/// Entries of a folder that are looked at: as many as it may have, what is being written, and some that others put
/// there.
const ENTRIES_MAX: usize = 4 * DOCUMENTS_MAX;
/// What is written before it gets its name. No document is called so.
const NEW_FILE: &str = ".new";
/// The mode of files and of folders: for their owner alone.
const FILE_MODE: u32 = 0o600;
const FOLDER_MODE: u32 = 0o700;

/// The name of a document: 1 to 64 of `a-z`, `0-9`, `.`, `_` and `-`, beginning with a letter or a digit.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct DocumentName(String);

impl DocumentName {
    pub(super) fn parse(text: &str) -> Result<Self, Refusal> {
        let may_begin = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        let fits = |byte: u8| may_begin(&byte) || matches!(byte, b'.' | b'_' | b'-');
        let begins = text.as_bytes().first().is_some_and(may_begin);
        if begins && text.len() <= NAME_BYTES_MAX && text.bytes().all(fits) {
            return Ok(Self(text.to_owned()));
        }
        let problem = format!(
            "malformed name of a document: expected 1 to {NAME_BYTES_MAX} of a-z, 0-9, '.', '_' and '-', with a letter or a digit first"
        );
        Err(Refusal::new(RefusalCode::Invalid, problem))
    }
}

/// What is known of a document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct DocumentFacts {
    pub(super) name: String,
    pub(super) bytes: u64,
    /// SHA-256 of its bytes: 64 lower-case hexadecimal digits.
    pub(super) sha256: String,
}

/// The documents of one execution. Its methods block.
#[derive(Debug)]
pub(super) struct Documents {
    documents_dir: PathBuf,
    run_id: RunId,
}

fn failed(error: &io::Error) -> Refusal {
    Refusal::internal("the documents cannot be read or written", error)
}

fn sha256(bytes: &[u8]) -> String {
    format!("{:x}", Sha256::digest(bytes))
}

impl Documents {
    /// Those of the ledger of that run, so that an execution which takes it up has them too.
    pub(super) fn of(documents_dir: &Path, run_id: &RunId) -> Self {
        Self {
            documents_dir: documents_dir.to_owned(),
            run_id: run_id.clone(),
        }
    }

    /// The folder; none when nothing was written yet. It is not followed where it is a link.
    fn folder(&self) -> Result<Option<Dir>, Refusal> {
        let all = Dir::open_ambient_dir(&self.documents_dir, ambient_authority());
        let opened = all.and_then(|all| {
            let is_link = all.symlink_metadata(self.run_id.as_str())?.is_symlink();
            match is_link {
                true => Err(io::ErrorKind::InvalidInput.into()),
                false => all.open_dir(self.run_id.as_str()),
            }
        });
        match opened {
            Ok(folder) => Ok(Some(folder)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(failed(&error)),
        }
    }

    fn made_folder(&self) -> Result<Dir, Refusal> {
        if let Some(folder) = self.folder()? {
            return Ok(folder);
        }
        let mut builder = DirBuilder::new();
        builder.recursive(true).mode(FOLDER_MODE);
        let make = || {
            Dir::create_ambient_dir_all(&self.documents_dir, ambient_authority())?;
            let all = Dir::open_ambient_dir(&self.documents_dir, ambient_authority())?;
            all.create_dir_with(self.run_id.as_str(), &builder)?;
            sync(&all)
        };
        make().map_err(|error| failed(&error))?;
        self.folder()?
            .ok_or_else(|| failed(&io::ErrorKind::NotFound.into()))
    }

    /// All of them, in order of their names.
    pub(super) fn list(&self) -> Result<Vec<DocumentFacts>, Refusal> {
        let Some(folder) = self.folder()? else {
            return Ok(Vec::new());
        };
        let mut documents = Vec::new();
        for name in names(&folder)? {
            if let Some(bytes) = read(&folder, &name)? {
                documents.push(facts(&name, &bytes));
            }
        }
        Ok(documents)
    }

    /// The text of one.
    pub(super) fn read(&self, name: &DocumentName) -> Result<(DocumentFacts, String), Refusal> {
        let unknown = || {
            let problem = format!("there is no document {:?}", name.0);
            Refusal::new(RefusalCode::NotFound, problem)
        };
        let folder = self.folder()?.ok_or_else(unknown)?;
        let bytes = read(&folder, name)?.ok_or_else(unknown)?;
        let facts = facts(name, &bytes);
        let no_text = |_| Refusal::new(RefusalCode::Failed, "the document is no UTF-8 text");
        Ok((facts, String::from_utf8(bytes).map_err(no_text)?))
    }

    /// Writes one whole: who reads it finds what was there or what is there now. With `expected`, only if that is
    /// the digest of what is there; of none that is there, it is empty. What is there already is written again,
    /// whatever was expected: then it was written before, and nobody was told.
    pub(super) fn write(
        &self,
        name: &DocumentName,
        text: &str,
        expected: Option<&str>,
    ) -> Result<DocumentFacts, Refusal> {
        if text.len() > DOCUMENT_BYTES_MAX {
            let problem = format!(
                "document of {} bytes: expected at most {DOCUMENT_BYTES_MAX}",
                text.len()
            );
            return Err(Refusal::new(RefusalCode::Full, problem));
        }
        let written = facts(name, text.as_bytes());
        let folder = self.made_folder()?;
        let _writing = lock(&folder).map_err(|error| failed(&error))?;
        let there = read(&folder, name)?.map(|bytes| sha256(&bytes));
        if there.as_ref() == Some(&written.sha256) {
            return Ok(written);
        }
        let found = there.as_deref().unwrap_or_default();
        if expected.is_some_and(|expected| expected != found) {
            let problem = match found {
                "" => "there is no such document".to_owned(),
                found => format!("the document has another SHA-256 by now: {found}"),
            };
            return Err(Refusal::new(RefusalCode::Conflict, problem));
        }
        if there.is_none() && names(&folder)?.len() >= DOCUMENTS_MAX {
            let problem = format!("{DOCUMENTS_MAX} documents: there may be no more");
            return Err(Refusal::new(RefusalCode::Full, problem));
        }
        replace(&folder, name, text.as_bytes()).map_err(|error| failed(&error))?;
        Ok(written)
    }
}

fn facts(name: &DocumentName, bytes: &[u8]) -> DocumentFacts {
    DocumentFacts {
        name: name.0.clone(),
        bytes: u64::try_from(bytes.len()).unwrap_or(u64::MAX),
        sha256: sha256(bytes),
    }
}

/// The names of documents in a folder, in order. What has no such name was put there by somebody else.
fn names(folder: &Dir) -> Result<Vec<DocumentName>, Refusal> {
    let entries = folder.entries().map_err(|error| failed(&error))?;
    let mut names = Vec::new();
    for entry in entries.take(ENTRIES_MAX) {
        let name = entry.map_err(|error| failed(&error))?.file_name();
        let name = name.to_str().map(DocumentName::parse);
        names.extend(name.and_then(Result::ok));
    }
    names.sort();
    Ok(names)
}

/// The bytes of a document; none when there is no file of that name, or another one than a document can be.
fn read(folder: &Dir, name: &DocumentName) -> Result<Option<Vec<u8>>, Refusal> {
    let mut options = OpenOptions::new();
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    options
        .read(true)
        .custom_flags(i32::try_from(flags.bits()).unwrap_or_default());
    let file = match folder.open_with(&name.0, &options) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        file => file.map_err(|error| failed(&error))?,
    };
    let metadata = file.metadata().map_err(|error| failed(&error))?;
    let max = u64::try_from(DOCUMENT_BYTES_MAX).unwrap_or(u64::MAX);
    if !metadata.is_file() || metadata.len() > max {
        return Err(failed(&io::ErrorKind::InvalidInput.into()));
    }
    let mut bytes = Vec::new();
    let read = file.take(max).read_to_end(&mut bytes);
    read.map_err(|error| failed(&error))?;
    Ok(Some(bytes))
}

fn replace(folder: &Dir, name: &DocumentName, bytes: &[u8]) -> io::Result<()> {
    match folder.remove_file(NEW_FILE) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        // What a writer left that was cut off.
        _ => {}
    }
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(FILE_MODE);
    let mut file = folder.open_with(NEW_FILE, &options)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    folder.rename(NEW_FILE, folder, &name.0)?;
    sync(folder)
}

/// The folder, opened for what `cap_std` does not open it for.
fn opened(folder: &Dir) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(rustix::fs::openat(folder, ".", flags, Mode::empty())?)
}

/// Waits for the right to write in a folder; it ends with what this gives.
fn lock(folder: &Dir) -> io::Result<OwnedFd> {
    let opened = opened(folder)?;
    rustix::io::retry_on_intr(|| rustix::fs::flock(&opened, FlockOperation::LockExclusive))?;
    Ok(opened)
}

/// Makes the names in a folder durable.
fn sync(folder: &Dir) -> io::Result<()> {
    Ok(rustix::fs::fsync(opened(folder)?)?)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::{DOCUMENT_BYTES_MAX, DOCUMENTS_MAX, DocumentName, Documents, sha256};
    use crate::id::RunId;
    use crate::runtime::modes::RefusalCode;

    fn name(text: &str) -> DocumentName {
        DocumentName::parse(text).unwrap()
    }

    #[test]
    fn a_name_cannot_leave_the_folder() {
        for good in ["a", "0", "notes.md", "a..b", "a-b_c.1", &"a".repeat(64)] {
            assert!(DocumentName::parse(good).is_ok(), "{good}");
        }
        for bad in [
            "",
            ".",
            "..",
            ".new",
            "../a",
            "a/b",
            "/a",
            "A",
            "a b",
            "a\0",
            "é",
            "-a",
            "_a",
            &"a".repeat(65),
        ] {
            let refused = DocumentName::parse(bad).unwrap_err();
            assert_eq!(refused.error, RefusalCode::Invalid, "{bad}");
        }
    }

    #[test]
    fn what_is_written_is_read_and_private() {
        let home = tempfile::tempdir().unwrap();
        let dir = home.path().join("documents");
        let documents = Documents::of(&dir, &RunId::generate());
        assert_eq!(documents.list().unwrap(), []);
        assert_eq!(
            documents.read(&name("a")).unwrap_err().error,
            RefusalCode::NotFound
        );
        let written = documents.write(&name("a"), "one", None).unwrap();
        assert_eq!(written.sha256, sha256(b"one"));
        assert_eq!(documents.read(&name("a")).unwrap().1, "one");
        assert_eq!(documents.list().unwrap(), [written]);
        let folder = dir.join(documents.run_id.as_str());
        let mode = |path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(
            (mode(folder.clone()), mode(folder.join("a"))),
            (0o700, 0o600)
        );
        // Nobody else's.
        let others = Documents::of(&dir, &RunId::generate());
        assert_eq!(others.list().unwrap(), []);
    }

    #[test]
    fn who_expects_something_else_writes_nothing() {
        let home = tempfile::tempdir().unwrap();
        let documents = Documents::of(home.path(), &RunId::generate());
        let write = |text, expected: Option<&str>| documents.write(&name("a"), text, expected);
        let conflict = RefusalCode::Conflict;
        assert_eq!(write("x", Some(&sha256(b""))).unwrap_err().error, conflict);
        // That it is not there can be expected, too.
        let first = write("one", Some("")).unwrap();
        assert_eq!(write("two", Some("")).unwrap_err().error, conflict);
        let second = write("two", Some(&first.sha256)).unwrap();
        assert_eq!(
            write("three", Some(&first.sha256)).unwrap_err().error,
            conflict
        );
        // The same call once more, of which nobody was told that it was carried out.
        assert_eq!(write("two", Some(&first.sha256)).unwrap(), second);
        assert_eq!(documents.read(&name("a")).unwrap().1, "two");
    }

    /// Calls of one turn may come at the same time.
    #[test]
    fn writers_wait_for_each_other() {
        let home = tempfile::tempdir().unwrap();
        let documents = Documents::of(home.path(), &RunId::generate());
        documents.write(&name("a"), "first", None).unwrap();
        let expected = sha256(b"first");
        let write =
            |number: usize| documents.write(&name("a"), &number.to_string(), Some(&expected));
        let won = std::thread::scope(|scope| {
            let writers: Vec<_> = (0..16)
                .map(|number| scope.spawn(move || write(number)))
                .collect();
            let written = writers.into_iter().map(|writer| writer.join().unwrap());
            written.filter(|written| written.is_ok()).count()
        });
        assert_eq!(won, 1);
    }

    #[test]
    fn there_is_room_for_so_many_and_so_much() {
        let home = tempfile::tempdir().unwrap();
        let documents = Documents::of(home.path(), &RunId::generate());
        let big = "x".repeat(DOCUMENT_BYTES_MAX + 1);
        let refused = documents.write(&name("big"), &big, None).unwrap_err();
        assert_eq!(refused.error, RefusalCode::Full);
        for number in 0..DOCUMENTS_MAX {
            documents
                .write(&name(&number.to_string()), "x", None)
                .unwrap();
        }
        let refused = documents.write(&name("more"), "x", None).unwrap_err();
        assert_eq!(refused.error, RefusalCode::Full);
        // One that is there can still be written.
        documents.write(&name("0"), "y", None).unwrap();
        assert_eq!(documents.list().unwrap().len(), DOCUMENTS_MAX);
    }

    #[test]
    fn a_link_is_not_followed() {
        let home = tempfile::tempdir().unwrap();
        let documents = Documents::of(home.path(), &RunId::generate());
        documents.write(&name("a"), "one", None).unwrap();
        let folder = home.path().join(documents.run_id.as_str());
        let secret = home.path().join("secret");
        fs::write(&secret, "secret").unwrap();
        fs::remove_file(folder.join("a")).unwrap();
        symlink(&secret, folder.join("a")).unwrap();
        assert!(documents.read(&name("a")).is_err());
        assert!(documents.write(&name("a"), "two", None).is_err());
        assert_eq!(fs::read_to_string(&secret).unwrap(), "secret");
        let elsewhere = tempfile::tempdir().unwrap();
        fs::remove_dir_all(&folder).unwrap();
        symlink(elsewhere.path(), &folder).unwrap();
        assert!(documents.write(&name("a"), "two", None).is_err());
        assert_eq!(fs::read_dir(elsewhere.path()).unwrap().count(), 0);
    }
}
