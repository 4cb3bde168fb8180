//! A file that may be anything, read as a manifest.
//!
//! The reader may not panic, what it says is wrong has a place in the file, and what a validation finds no
//! error in can be loaded, every time alike.
#![no_main]

mod skill_folder;

use std::fs;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let folder = skill_folder::folder();
    let text = "---\nname: fuzzed\ndescription: d\n---\n";
    fs::write(folder.join("SKILL.md"), text).unwrap();
    fs::write(folder.join("skill.toml"), bytes).unwrap();
    skill_folder::check(folder, bytes);
});
