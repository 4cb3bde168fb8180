//! A skill's folder that is written anew for each input, and what must hold of whatever is in it.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use skillrun::registry::{Severity, Skill, validate};
use tempfile::TempDir;

/// What is said to be wrong has a place in the file of `bytes`, and what a validation finds no error in can
/// be loaded, every time alike.
pub fn check(folder: &Path, bytes: &[u8]) {
    let findings = validate(folder);
    let lines = bytes.split(|byte| b"\r\n".contains(byte)).count();
    for finding in &findings {
        if let Some(position) = finding.position {
            assert!((1..=lines + 1).contains(&position.line), "{finding}");
            assert!(position.column >= 1, "{finding}");
        }
    }
    let is_refused = findings
        .iter()
        .any(|finding| finding.severity == Severity::Error);
    match (Skill::from_folder(folder), Skill::from_folder(folder)) {
        (Ok(skill), Ok(again)) => {
            assert!(!is_refused);
            assert_eq!(skill.pin(), again.pin());
        }
        (Err(_), Err(_)) => assert!(is_refused),
        _ => panic!("read in two ways"),
    }
}

/// One folder for all inputs, in memory where there is such a place.
pub fn folder() -> &'static Path {
    static FOLDER: OnceLock<(TempDir, PathBuf)> = OnceLock::new();
    let memory = Path::new("/dev/shm");
    let (_, folder) = FOLDER.get_or_init(|| {
        let made = if memory.is_dir() {
            tempfile::tempdir_in(memory)
        } else {
            tempfile::tempdir()
        };
        let made = made.unwrap();
        let folder = made.path().join("fuzzed");
        fs::create_dir(&folder).unwrap();
        (made, folder)
    });
    folder
}
