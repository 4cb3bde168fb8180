//! Whether the newest component was built from the sources as they are. Of a package in Rust that is never
//! said: Cargo alone knows what it depends on, and does nothing where nothing changed.

use std::fs;
use std::path::Path;

use super::build::WORK_FOLDER;
use crate::ledger::Digest;

/// Files of a project. A project that has more is built each time.
const FILES_MAX: usize = 5000;
/// Bytes of one of them that are looked at; likewise.
const FILE_BYTES_MAX: u64 = 16 * 1024 * 1024;
/// Levels of folders.
const DEPTH_MAX: usize = 32;
/// Folders that hold no sources.
const SKIPPED: [&str; 5] = ["target", "dist", "node_modules", "tests", "__pycache__"];

/// The digest of a project's sources.
pub(super) fn of(project: &Path) -> Option<String> {
    if project.join("Cargo.toml").exists() {
        return None;
    }
    let mut lines = Vec::new();
    walk(project, Path::new(""), 0, &mut lines)?;
    lines.sort();
    Some(Digest::of(lines.concat().as_bytes()).to_string())
}

/// Notes what the newest component was built from.
pub(super) fn note(project: &Path, digest: Option<&str>) {
    let path = project.join(WORK_FOLDER).join("sources.sha256");
    // Without it the skill is built again, which is only slower.
    let _unwritten = match digest {
        Some(digest) => fs::write(path, digest),
        None => fs::remove_file(path),
    };
}

/// Whether the newest component was built from that.
pub(super) fn is(project: &Path, digest: Option<&str>) -> bool {
    let path = project.join(WORK_FOLDER).join("sources.sha256");
    let noted = fs::read_to_string(path).ok();
    noted.is_some() && noted.as_deref() == digest
}

fn walk(project: &Path, folder: &Path, depth: usize, lines: &mut Vec<String>) -> Option<()> {
    for entry in fs::read_dir(project.join(folder)).ok()? {
        let entry = entry.ok()?;
        let name = entry.file_name();
        let is_skipped = SKIPPED.iter().any(|skipped| name == *skipped);
        if is_skipped || name.as_encoded_bytes().starts_with(b".") {
            continue;
        }
        let path = folder.join(&name);
        let metadata = fs::metadata(entry.path()).ok()?;
        if metadata.is_dir() {
            (depth < DEPTH_MAX).then_some(())?;
            walk(project, &path, depth + 1, lines)?;
            continue;
        }
        (lines.len() < FILES_MAX && metadata.len() <= FILE_BYTES_MAX).then_some(())?;
        let digest = Digest::of(&fs::read(entry.path()).ok()?);
        lines.push(format!("{digest} {}\n", path.display()));
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::{is, note, of};

    #[test]
    fn sources_that_change_are_seen_and_nothing_else_is() {
        let project = tempfile::tempdir().unwrap();
        let write = |path: &str| {
            let path = project.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, path.to_string_lossy().as_bytes()).unwrap();
        };
        write("app.py");
        write("target/skillrun/x");
        let first = of(project.path());
        assert!(first.is_some() && !is(project.path(), first.as_deref()));
        note(project.path(), first.as_deref());
        assert!(is(project.path(), first.as_deref()));
        for path in ["dist/a/b", "tests/a.json", ".venv/c", "node_modules/d"] {
            write(path);
            assert_eq!(of(project.path()), first, "{path}");
        }
        write("vendor/sdk-py/e.py");
        let second = of(project.path());
        assert_ne!(second, first);
        assert!(!is(project.path(), second.as_deref()));
        write("Cargo.toml");
        assert_eq!(of(project.path()), None);
        assert!(!is(project.path(), None));
    }
}
