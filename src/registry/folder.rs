//! Reading files of a skill's folder: bounded, and never through a link that leads out of it.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use sha2::{Digest, Sha256};

use super::document::Document;
use super::finding::Problem;

/// One skill's folder.
#[derive(Debug)]
pub(super) struct Folder {
    /// As the caller named it.
    pub(super) path: PathBuf,
    /// The same without links.
    root: PathBuf,
    /// Every file that was read, by the name it was read under.
    files: RefCell<BTreeMap<String, Document>>,
}

/// A file that was read whole.
#[derive(Debug)]
pub(super) struct Content {
    pub(super) bytes: Vec<u8>,
    /// SHA-256 of the bytes: 64 lower-case hexadecimal digits.
    pub(super) sha256: String,
    /// The file itself, when the name was a link to it.
    pub(super) target: PathBuf,
}

impl Folder {
    pub(super) fn open(path: &Path) -> Result<Self, Problem> {
        let root = fs::canonicalize(path).map_err(Problem::Unreadable)?;
        if !root.is_dir() {
            return Err(Problem::NotAFolder);
        }
        Ok(Self {
            path: path.to_owned(),
            root,
            files: RefCell::default(),
        })
    }

    /// The name by which the folder was reached; its own when the path ends in `.` or `..`.
    pub(super) fn name(&self) -> String {
        let name = self.path.file_name().or_else(|| self.root.file_name());
        name.unwrap_or_default().to_string_lossy().into_owned()
    }

    /// A file below the folder; none when there is nothing of that name.
    pub(super) fn read(&self, name: &str, bytes_max: u64) -> Result<Option<Content>, Problem> {
        let path = self.path.join(name);
        match fs::symlink_metadata(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(Problem::Unreadable(error)),
            Ok(_) => {}
        }
        let target = fs::canonicalize(&path).map_err(Problem::Unreadable)?;
        if !target.starts_with(&self.root) {
            return Err(Problem::LeadsOutside { target });
        }
        let bytes = read_regular(&target, bytes_max)?;
        let sha256 = sha256(&bytes);
        let document = Document {
            sha256: sha256.clone(),
            bytes: u64::try_from(bytes.len()).unwrap_or(u64::MAX),
        };
        self.files.borrow_mut().insert(name.to_owned(), document);
        Ok(Some(Content {
            bytes,
            sha256,
            target,
        }))
    }

    /// SHA-256 of every file that was read so far.
    pub(super) fn digests(&self) -> BTreeMap<String, String> {
        let files = self.files.borrow();
        let digests = files
            .iter()
            .map(|(name, file)| (name.clone(), file.sha256.clone()));
        digests.collect()
    }

    /// Every file that was read so far.
    pub(super) fn files(&self) -> BTreeMap<String, Document> {
        self.files.borrow().clone()
    }

    /// Like [`Folder::read`], for text.
    pub(super) fn read_text(&self, name: &str, bytes_max: u64) -> Result<Option<String>, Problem> {
        self.read(name, bytes_max)?
            .map(|content| String::from_utf8(content.bytes).map_err(|_| Problem::NotUtf8))
            .transpose()
    }
}

/// SHA-256 as 64 lower-case hexadecimal digits.
pub(super) fn sha256(bytes: &[u8]) -> String {
    format!("{:x}", Sha256::digest(bytes))
}

/// The content of a regular file. The last part of the path must not be a link, and opening a pipe
/// does not wait for a writer.
pub(super) fn read_regular(path: &Path, bytes_max: u64) -> Result<Vec<u8>, Problem> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = rustix::fs::open(path, flags, Mode::empty())
        .map_err(|error| Problem::Unreadable(error.into()))?;
    let file = File::from(file);
    let metadata = file.metadata().map_err(Problem::Unreadable)?;
    if !metadata.is_file() {
        return Err(Problem::NotAFile);
    }
    if metadata.len() > bytes_max {
        return Err(Problem::TooLarge { bytes_max });
    }
    let mut bytes = Vec::new();
    // The size can change while the file is read, so the reading is bounded too.
    file.take(bytes_max.saturating_add(1))
        .read_to_end(&mut bytes)
        .map_err(Problem::Unreadable)?;
    if u64::try_from(bytes.len()).is_ok_and(|length| length <= bytes_max) {
        Ok(bytes)
    } else {
        Err(Problem::TooLarge { bytes_max })
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::{Folder, Problem};

    #[test]
    fn links_may_stay_inside_and_not_lead_out() {
        let outer = tempfile::tempdir().unwrap();
        let inner = outer.path().join("inner");
        fs::create_dir(&inner).unwrap();
        fs::write(outer.path().join("secret"), "s").unwrap();
        fs::write(inner.join("file"), "f").unwrap();
        symlink("../secret", inner.join("out")).unwrap();
        symlink("file", inner.join("in")).unwrap();
        symlink("nowhere", inner.join("dangling")).unwrap();
        let folder = Folder::open(&inner).unwrap();

        assert_eq!(folder.read("in", 1).unwrap().unwrap().bytes, b"f");
        let out = folder.read("out", 1);
        assert!(matches!(out, Err(Problem::LeadsOutside { .. })), "{out:?}");
        let above = folder.read("../secret", 1);
        assert!(
            matches!(above, Err(Problem::LeadsOutside { .. })),
            "{above:?}"
        );
        let dangling = folder.read("dangling", 1);
        assert!(
            matches!(dangling, Err(Problem::Unreadable(_))),
            "{dangling:?}"
        );
        assert!(folder.read("absent", 1).unwrap().is_none());
    }

    #[test]
    fn only_regular_files_up_to_the_bound_are_read() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("file"), "12345").unwrap();
        fs::create_dir(dir.path().join("dir")).unwrap();
        rustix::fs::mknodat(
            rustix::fs::CWD,
            dir.path().join("pipe"),
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RUSR,
            0,
        )
        .unwrap();
        let folder = Folder::open(dir.path()).unwrap();

        assert_eq!(folder.read("file", 5).unwrap().unwrap().bytes, b"12345");
        let large = folder.read("file", 4);
        assert!(
            matches!(large, Err(Problem::TooLarge { bytes_max: 4 })),
            "{large:?}"
        );
        for name in ["dir", "pipe"] {
            let found = folder.read(name, 5);
            assert!(matches!(found, Err(Problem::NotAFile)), "{name}: {found:?}");
        }
    }
}
