//! The files of a skill that are there to be read by whoever follows its text: found and hashed when the skill is
//! loaded, and read only as they were then.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use super::component::COMPONENT_FILE;
use super::finding::{Finding, Findings, Problem, Severity};
use super::folder::Folder;

/// The folders in which, by the rules of agentskills.io, a skill keeps what its text refers to.
const FOLDERS: [&str; 3] = ["assets", "references", "scripts"];
/// Files of one skill. Protects whoever lists them; the skills extension of MCP advises at most 512.
const DOCUMENTS_MAX: usize = 500;
/// Bytes of one file. Protects whoever is sent it, which is in one piece.
const DOCUMENT_BYTES_MAX: u64 = 4 * 1024 * 1024;
/// Bytes of all of them. Protects the time that it takes to load a skill; the skills extension of MCP advises the same.
const ALL_BYTES_MAX: u64 = 16 * 1024 * 1024;
/// Folders within each other. Protects the stack.
const DEPTH_MAX: usize = 8;
/// Entries of one folder. Protects whoever sorts them.
const ENTRIES_MAX: usize = 2_000;

/// A file as it was when its skill was loaded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Document {
    /// SHA-256 of its bytes: 64 lower-case hexadecimal digits.
    pub sha256: String,
    /// Its size.
    pub bytes: u64,
}

/// Why a file of a skill cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum DocumentError {
    /// There was no such file when the skill was loaded.
    #[error("no such file")]
    NotFound,
    /// It is there and cannot be read.
    #[error("cannot be read")]
    Unreadable(#[source] Problem),
    /// It is not the one that it was when the skill was loaded.
    #[error("changed since the skill was loaded")]
    Changed,
}

/// What there is to be read of a skill, of which the folder itself was read. What breaks a bound or cannot be read is
/// left out, with a warning: no run needs it.
pub(super) fn read_all(folder: &Folder, findings: &mut Findings) -> BTreeMap<String, Document> {
    let mut documents = folder.files();
    documents.remove(COMPONENT_FILE);
    documents.retain(|_, document| document.bytes <= DOCUMENT_BYTES_MAX);
    let bytes = documents.values().map(|document| document.bytes).sum();
    let mut reading = Reading {
        folder,
        findings,
        bytes,
        documents,
    };
    for name in FOLDERS {
        if folder.path.join(name).is_dir() {
            reading.walk(name, 1);
        }
    }
    reading.documents
}

/// The bytes of a file, if they are those that it had.
pub(super) fn read(
    folder: &Path,
    path: &str,
    document: &Document,
) -> Result<Vec<u8>, DocumentError> {
    let folder = Folder::open(folder).map_err(DocumentError::Unreadable)?;
    match folder.read(path, document.bytes) {
        Ok(Some(content)) if content.sha256 == document.sha256 => Ok(content.bytes),
        Ok(_) | Err(Problem::TooLarge { .. }) => Err(DocumentError::Changed),
        Err(problem) => Err(DocumentError::Unreadable(problem)),
    }
}

struct Reading<'a> {
    folder: &'a Folder,
    findings: &'a mut Findings,
    bytes: u64,
    documents: BTreeMap<String, Document>,
}

impl Reading<'_> {
    fn leave_out(&mut self, name: &str, problem: Problem) {
        self.findings.push(Finding {
            severity: Severity::Warning,
            file: self.folder.path.join(name),
            position: None,
            problem,
        });
    }

    /// Reads what is in a folder of the folder, in the order of the names, so that it is always the same that is left
    /// out.
    fn walk(&mut self, name: &str, depth: usize) {
        let mut entries = Vec::new();
        match fs::read_dir(self.folder.path.join(name)) {
            Err(error) => return self.leave_out(name, Problem::Unreadable(error)),
            Ok(found) => entries.extend(found.flatten().take(ENTRIES_MAX + 1)),
        }
        if entries.len() > ENTRIES_MAX {
            return self.leave_out(name, Problem::TooManyEntries { max: ENTRIES_MAX });
        }
        if depth > DEPTH_MAX {
            let problem = Problem::TooMany {
                key: "path",
                count: depth,
                max: DEPTH_MAX,
            };
            return self.leave_out(name, problem);
        }
        entries.sort_by_key(fs::DirEntry::file_name);
        for entry in entries {
            // What has no name in UTF-8 has no address either, and what is hidden is nobody's to read.
            let Ok(file) = entry.file_name().into_string() else {
                continue;
            };
            let path = format!("{name}/{file}");
            match entry.file_type() {
                _ if file.starts_with('.') => {}
                Ok(kind) if kind.is_dir() => self.walk(&path, depth + 1),
                // A link is followed where it leads to a file of the skill.
                Ok(_) if self.folder.path.join(&path).is_file() => self.take(path),
                _ => {}
            }
        }
    }

    fn take(&mut self, path: String) {
        if self.documents.contains_key(&path) {
            return;
        }
        if self.documents.len() >= DOCUMENTS_MAX {
            return self.leave_out(&path, Problem::TooManyEntries { max: DOCUMENTS_MAX });
        }
        let bytes_max = DOCUMENT_BYTES_MAX.min(ALL_BYTES_MAX.saturating_sub(self.bytes));
        match self.folder.read(&path, bytes_max) {
            Ok(Some(content)) => {
                let bytes = u64::try_from(content.bytes.len()).unwrap_or(u64::MAX);
                self.bytes = self.bytes.saturating_add(bytes);
                let sha256 = content.sha256;
                self.documents.insert(path, Document { sha256, bytes });
            }
            Ok(None) => {}
            Err(problem) => self.leave_out(&path, problem),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::{DOCUMENT_BYTES_MAX, DocumentError};
    use crate::registry::Skill;

    fn skill(folder: &std::path::Path) -> Skill {
        Skill::from_folder(folder).unwrap()
    }

    #[test]
    fn what_is_to_be_read_is_found_and_is_read_as_it_was() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("notes");
        fs::create_dir_all(folder.join("references/deep")).unwrap();
        fs::create_dir(folder.join("node_modules")).unwrap();
        let text = "---\nname: notes\ndescription: d\n---\n";
        for (path, content) in [
            ("SKILL.md", text),
            ("references/a.md", "a"),
            ("references/deep/b é.txt", "b"),
            ("references/.hidden", "h"),
            ("node_modules/x.js", "x"),
            ("other.md", "o"),
        ] {
            fs::write(folder.join(path), content).unwrap();
        }
        fs::write(dir.path().join("secret"), "s").unwrap();
        symlink("../../secret", folder.join("references/out")).unwrap();
        symlink("a.md", folder.join("references/in.md")).unwrap();
        let large = fs::File::create(folder.join("references/large")).unwrap();
        large.set_len(DOCUMENT_BYTES_MAX + 1).unwrap();

        let loaded = skill(&folder);
        let paths: Vec<&str> = loaded.documents.keys().map(String::as_str).collect();
        let expected = [
            "SKILL.md",
            "references/a.md",
            "references/deep/b é.txt",
            "references/in.md",
        ];
        assert_eq!(paths, expected);
        assert_eq!(loaded.files.len(), 1, "{:?}", loaded.files);
        assert_eq!(loaded.warnings.len(), 2, "{:?}", loaded.warnings);
        assert_eq!(loaded.read_document("references/a.md").unwrap(), b"a");

        for content in ["b", "aa", ""] {
            fs::write(folder.join("references/a.md"), content).unwrap();
            let changed = loaded.read_document("references/a.md");
            assert!(
                matches!(changed, Err(DocumentError::Changed)),
                "{changed:?}"
            );
        }
        for path in ["other.md", "../secret", "references/out", ""] {
            let absent = loaded.read_document(path);
            assert!(matches!(absent, Err(DocumentError::NotFound)), "{absent:?}");
        }
    }
}
