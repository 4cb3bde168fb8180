//! Files by path, under the rules for what a skill may consist of.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read, Write as _};

use cap_std::fs::{Dir, DirBuilder, DirBuilderExt as _, OpenOptions, OpenOptionsExt as _};

use rustix::fs::{Mode, OFlags};

use super::{DEPTH_MAX, ENTRIES_MAX, EntryRule, NAME_BYTES_MAX, PackageError, UNPACKED_BYTES_MAX};

/// What is given to whoever runs skills: modes of an archive are not taken over.
const FILE_MODE: u32 = 0o644;
const FOLDER_MODE: u32 = 0o755;

/// Files and folders that are in order.
#[derive(Debug, Default, PartialEq, Eq)]
pub(in crate::registry) struct Tree {
    /// Content by path; the parts of a path are divided by `/`.
    pub(super) files: BTreeMap<String, Vec<u8>>,
    /// Every folder, so that an empty one is kept.
    folders: BTreeSet<String>,
}

impl Tree {
    /// The content of a file.
    pub(in crate::registry) fn file(&self, path: &str) -> Option<&[u8]> {
        self.files.get(path).map(Vec::as_slice)
    }

    /// What is in the one folder in which everything is; none when there is no such folder.
    pub(super) fn below_only_folder(self) -> Option<Self> {
        let first = self.files.keys().next()?;
        let prefix = format!("{}/", first.split('/').next()?);
        let below = |path: &str| path.strip_prefix(&prefix).map(str::to_owned);
        let files = self.files.into_iter();
        let files: Option<_> = files
            .map(|(path, bytes)| Some((below(&path)?, bytes)))
            .collect();
        let top = prefix.trim_end_matches('/');
        let folders = self.folders.iter().filter(|&path| path != top);
        Some(Self {
            files: files?,
            folders: folders.map(|path| below(path)).collect::<Option<_>>()?,
        })
    }

    /// Writes everything into an empty folder. When it returns, it is durable.
    pub(in crate::registry) fn write(&self, folder: &Dir) -> io::Result<()> {
        let mut builder = DirBuilder::new();
        builder.mode(FOLDER_MODE);
        // Sorted, a folder comes before what is in it.
        for path in &self.folders {
            folder.create_dir_with(path, &builder)?;
        }
        let mut options = OpenOptions::new();
        options.write(true).create_new(true).mode(FILE_MODE);
        for (path, bytes) in &self.files {
            let mut file = folder.open_with(path, &options)?;
            file.write_all(bytes)?;
            file.sync_all()?;
        }
        for path in &self.folders {
            sync(folder, path)?;
        }
        sync(folder, ".")
    }
}

/// Makes the names in a folder durable. What `cap_std` opens is not open for that.
fn sync(folder: &Dir, path: &str) -> io::Result<()> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let opened = rustix::fs::openat(folder, path, flags, Mode::empty())?;
    Ok(rustix::fs::fsync(opened)?)
}

/// A tree that grows, and that nothing gets into that breaks a rule.
#[derive(Debug, Default)]
pub(super) struct Unpacking {
    tree: Tree,
    /// Folders that had an entry of their own.
    listed: BTreeSet<String>,
    /// Every path in lower case, with the path.
    folded: BTreeMap<String, String>,
    entries: usize,
    bytes: u64,
}

impl Unpacking {
    /// Counts an entry, also one that adds nothing to the tree.
    pub(super) fn count(&mut self, name: &[u8]) -> Result<(), PackageError> {
        self.entries += 1;
        if self.entries > ENTRIES_MAX {
            return Err(PackageError::refused(name, EntryRule::TooManyEntries));
        }
        Ok(())
    }

    /// A folder, by its name in the archive.
    pub(super) fn folder(&mut self, name: &[u8]) -> Result<(), PackageError> {
        self.count(name)?;
        let refuse = |rule| PackageError::refused(name, rule);
        let path = path(name.strip_suffix(b"/").unwrap_or(name)).map_err(refuse)?;
        if path.is_empty() {
            // The folder that was archived.
            return Ok(());
        }
        self.make_folders(&path).map_err(refuse)?;
        if self.listed.insert(path) {
            Ok(())
        } else {
            Err(refuse(EntryRule::Duplicate))
        }
    }

    /// A file, by its name in the archive; it is read to its end. Gives its size.
    pub(super) fn file(&mut self, name: &[u8], content: impl Read) -> Result<u64, PackageError> {
        self.count(name)?;
        let refuse = |rule| PackageError::refused(name, rule);
        let path = path(name).map_err(refuse)?;
        if path.is_empty() {
            return Err(refuse(EntryRule::EmptyPart));
        }
        if let Some((parent, _)) = path.rsplit_once('/') {
            self.make_folders(parent).map_err(refuse)?;
        }
        if self.tree.files.contains_key(&path) {
            return Err(refuse(EntryRule::Duplicate));
        }
        if self.tree.folders.contains(&path) {
            return Err(refuse(EntryRule::FileAndFolder));
        }
        self.fold(&path).map_err(refuse)?;
        let left = UNPACKED_BYTES_MAX.saturating_sub(self.bytes);
        let mut bytes = Vec::new();
        let mut content = content.take(left.saturating_add(1));
        content
            .read_to_end(&mut bytes)
            .map_err(|error| refuse(damaged(&error)))?;
        let length = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        if length > left {
            return Err(refuse(EntryRule::TooManyBytes));
        }
        self.bytes = self.bytes.saturating_add(length);
        self.tree.files.insert(path, bytes);
        Ok(length)
    }

    pub(super) fn finish(self) -> Tree {
        self.tree
    }

    /// Makes a folder and those above it.
    fn make_folders(&mut self, path: &str) -> Result<(), EntryRule> {
        let ends = path.match_indices('/').map(|(end, _)| end);
        for end in ends.chain([path.len()]) {
            let folder = path.get(..end).unwrap_or(path);
            if self.tree.files.contains_key(folder) {
                return Err(EntryRule::FileAndFolder);
            }
            if !self.tree.folders.contains(folder) {
                self.fold(folder)?;
                self.tree.folders.insert(folder.to_owned());
            }
        }
        Ok(())
    }

    /// Notes a new path, unless it is another one's but for the case of letters.
    fn fold(&mut self, path: &str) -> Result<(), EntryRule> {
        match self.folded.insert(path.to_lowercase(), path.to_owned()) {
            Some(other) => Err(EntryRule::CaseClash { other }),
            None => Ok(()),
        }
    }
}

pub(super) fn damaged(error: &io::Error) -> EntryRule {
    EntryRule::Damaged {
        reason: error.to_string(),
    }
}

/// The path that a name in an archive stands for; empty for the folder that was archived. One `./` at
/// the start, which `tar` writes, says nothing.
fn path(name: &[u8]) -> Result<String, EntryRule> {
    let name = std::str::from_utf8(name).map_err(|_| EntryRule::NotUtf8)?;
    if name.starts_with('/') || is_drive(name) {
        return Err(EntryRule::Absolute);
    }
    if name.contains('\\') || name.contains(char::is_control) {
        return Err(EntryRule::Character);
    }
    let path = match name {
        "." => "",
        name => name.strip_prefix("./").unwrap_or(name),
    };
    if path.is_empty() {
        return Ok(String::new());
    }
    let mut depth = 0;
    for part in path.split('/') {
        depth += 1;
        match part {
            ".." => return Err(EntryRule::Upwards),
            "" | "." => return Err(EntryRule::EmptyPart),
            part if part.len() > NAME_BYTES_MAX => {
                return Err(EntryRule::LongName { bytes: part.len() });
            }
            _ => {}
        }
    }
    if depth > DEPTH_MAX {
        return Err(EntryRule::TooDeep { depth });
    }
    Ok(path.to_owned())
}

/// Whether a path begins with a letter and a colon, which means a drive elsewhere.
fn is_drive(name: &str) -> bool {
    let mut start = name.bytes();
    start.next().is_some_and(|byte| byte.is_ascii_alphabetic()) && start.next() == Some(b':')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{EntryRule, PackageError, Unpacking, path};

    #[test]
    fn a_path_stays_inside_and_can_be_read_in_one_way() {
        for (name, expected) in [
            ("SKILL.md", "SKILL.md"),
            ("./SKILL.md", "SKILL.md"),
            ("a/b.c/..d", "a/b.c/..d"),
            ("./", ""),
            (".", ""),
            ("ä b", "ä b"),
        ] {
            assert_eq!(path(name.as_bytes()).as_deref(), Ok(expected), "{name}");
        }
        for (name, rule) in [
            ("/etc/passwd", EntryRule::Absolute),
            ("C:/x", EntryRule::Absolute),
            ("..", EntryRule::Upwards),
            ("a/../../b", EntryRule::Upwards),
            ("./..", EntryRule::Upwards),
            ("a//b", EntryRule::EmptyPart),
            ("a/./b", EntryRule::EmptyPart),
            (".//a", EntryRule::EmptyPart),
            ("././a", EntryRule::EmptyPart),
            ("a/", EntryRule::EmptyPart),
            ("a\\b", EntryRule::Character),
            ("a\0b", EntryRule::Character),
            ("a\nb", EntryRule::Character),
        ] {
            assert_eq!(path(name.as_bytes()), Err(rule), "{name}");
        }
        assert_eq!(path(b"\xff"), Err(EntryRule::NotUtf8));
        assert!(path("a/".repeat(16).trim_end_matches('/').as_bytes()).is_ok());
        let deep = "a/".repeat(17);
        let refused = path(deep.trim_end_matches('/').as_bytes());
        assert_eq!(refused, Err(EntryRule::TooDeep { depth: 17 }));
        let refused = path("n".repeat(256).as_bytes());
        assert_eq!(refused, Err(EntryRule::LongName { bytes: 256 }));
    }

    fn refused(names: &[&str]) -> Option<EntryRule> {
        let mut unpacking = Unpacking::default();
        names.iter().find_map(|name| {
            let added = match name.ends_with('/') {
                true => unpacking.folder(name.as_bytes()),
                false => unpacking.file(name.as_bytes(), &b"x"[..]).map(drop),
            };
            match added {
                Err(PackageError::Refused { rule, .. }) => Some(rule),
                _ => None,
            }
        })
    }

    #[test]
    fn no_two_entries_have_one_place() {
        let clash = |other: &str| EntryRule::CaseClash {
            other: other.to_owned(),
        };
        for (names, rule) in [
            (&["a", "a"][..], EntryRule::Duplicate),
            (&["a", "./a"], EntryRule::Duplicate),
            (&["d/", "d/"], EntryRule::Duplicate),
            (&["a", "a/b"], EntryRule::FileAndFolder),
            (&["a/b", "a"], EntryRule::FileAndFolder),
            (&["a", "a/"], EntryRule::FileAndFolder),
            (&["SKILL.md", "skill.MD"], clash("SKILL.md")),
            (&["Ä/x", "ä/y"], clash("Ä")),
        ] {
            assert_eq!(refused(names), Some(rule), "{names:?}");
        }
        assert_eq!(refused(&["./", "d/", "d/a", "e/a", "e/"]), None);
    }

    #[test]
    fn entries_are_counted() {
        let names: Vec<String> = (0..1001).map(|index| format!("f{index}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        assert_eq!(refused(&names[..1000]), None);
        assert_eq!(refused(&names), Some(EntryRule::TooManyEntries));
    }

    proptest! {
        #[test]
        fn whatever_is_accepted_stays_inside(name in "[a.A:/\\\\ ]{0,12}") {
            if let Ok(path) = path(name.as_bytes()) {
                let parts = std::path::Path::new(&path).components();
                let is_normal = |part| matches!(part, std::path::Component::Normal(_));
                prop_assert!(parts.into_iter().all(is_normal), "{}", path);
            }
        }
    }
}
