//! A file that may be anything, read as the text of a skill.
//!
//! The reader may not panic, what it says is wrong has a place in the file, and what a validation finds no
//! error in can be loaded, every time alike.
#![no_main]

mod skill_folder;

use std::fs;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let folder = skill_folder::folder();
    fs::write(folder.join("SKILL.md"), bytes).unwrap();
    skill_folder::check(folder, bytes);
});
