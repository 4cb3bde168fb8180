//! A file that may be anything, read as a manifest.
//!
//! The reader may not panic, what it says is wrong has a place in the file, and what a validation finds no
//! error in can be loaded, every time alike.
#![no_main]

use std::fs;
use std::path::Path;
use std::sync::OnceLock;

use libfuzzer_sys::fuzz_target;
use skillrun::registry::{Severity, Skill, validate};
use tempfile::TempDir;

fuzz_target!(|bytes: &[u8]| {
    let folder = folder();
    fs::write(
        folder.join("SKILL.md"),
        "---\nname: fuzzed\ndescription: d\n---\n",
    )
    .unwrap();
    fs::write(folder.join("skill.toml"), bytes).unwrap();
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
});

/// One folder for all inputs, in memory where there is such a place.
fn folder() -> &'static Path {
    static FOLDER: OnceLock<(TempDir, std::path::PathBuf)> = OnceLock::new();
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
