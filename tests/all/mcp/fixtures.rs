//! A home with all that the conformance suite calls.

use std::fs;
use std::path::{Path, PathBuf};

use skillrun_test_artifacts::CONFORMANCE;

use crate::harness::Home;

/// What the operator allows: to ask clients, and runs that take as long as the suite's longest.
const CONFIG: &str = "[capabilities]
grant = [\"tool:client__*\"]
";

/// The names of all fixtures, in their order.
pub(crate) fn names() -> Vec<String> {
    let folders = fs::read_dir(folder()).unwrap();
    let name = |entry: fs::DirEntry| entry.file_name().into_string().unwrap();
    let mut names: Vec<String> = folders.map(|entry| name(entry.unwrap())).collect();
    names.sort();
    names
}

/// A home in which all of them are installed and granted.
pub(crate) fn home() -> Home {
    let home = Home::new(&[]);
    home.configure(CONFIG);
    for name in names() {
        let from = folder().join(&name);
        home.install_as(&CONFORMANCE, &name, &from);
        for inner in ["references", "schemas"] {
            copy(&from.join(inner), &home.skill(&name).join(inner));
        }
    }
    home
}

fn folder() -> PathBuf {
    Path::new(CONFORMANCE.folder).join("skills")
}

/// Copies the files of a folder, if there is one.
fn copy(from: &Path, to: &Path) {
    let Ok(files) = fs::read_dir(from) else {
        return;
    };
    fs::create_dir_all(to).unwrap();
    for file in files {
        let file = file.unwrap();
        fs::copy(file.path(), to.join(file.file_name())).unwrap();
    }
}
