//! Folders that were granted, and everything that a guest may try to get out of them or into them: each
//! call by a real guest through the real binary.

mod confined;
mod granted;
mod limits;
mod network;
mod specials;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt as _, symlink};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use skillrun_test_artifacts::PROBE;
use tempfile::TempDir;

use crate::harness::Home;

/// A folder `/ro` to be read, one `/rw` to be written, and beside them what no guest may reach.
struct Place {
    home: Home,
    folder: TempDir,
}

/// What a guest said and what its run left.
struct Ran {
    /// What the binary printed.
    document: Value,
    /// The answer to each call.
    answers: Vec<Value>,
    /// The payloads of the run's denials.
    denied: Vec<Value>,
}

impl Place {
    fn new() -> Self {
        let home = Home::new(&[PROBE]);
        ask(&home, &["fs:ro:*=/ro", "fs:rw:*=/rw"]);
        // Some guests make thousands of calls, which may take as long as they do.
        home.configure("[limits]\ncpu_time_ms = 3_600_000\nwall_time_ms = 3_600_000\n");
        let folder = tempfile::tempdir().unwrap();
        let place = Self { home, folder };
        for dir in ["ro/sub", "rw/sub", "outside"] {
            fs::create_dir_all(place.path(dir)).unwrap();
        }
        for file in ["ro/kept", "ro/sub/deep", "rw/mine", "outside/secret"] {
            fs::write(place.path(file), file).unwrap();
        }
        for dir in ["ro", "rw"] {
            symlink("../outside/secret", place.path(dir).join("link")).unwrap();
            symlink(place.path("outside/secret"), place.path(dir).join("far")).unwrap();
            symlink("../outside", place.path(dir).join("door")).unwrap();
        }
        place
    }

    fn path(&self, below: &str) -> PathBuf {
        self.folder.path().join(below)
    }

    fn grant(&self, access: &str) -> String {
        let host = self.path(access);
        format!("fs:{access}:{}=/{access}", host.display())
    }

    /// Lets the guest make these calls.
    fn run(&self, calls: &Value) -> Ran {
        let input = json!({ "verb": "files", "calls": calls }).to_string();
        let (ro, rw) = (self.grant("ro"), self.grant("rw"));
        let arguments = [
            "run", "probe", "--json", "--grant", &ro, "--grant", &rw, "--input", "-",
        ];
        let ran = self.home.skillrun_with_stdin(&arguments, input.as_bytes());
        let document = ran.json();
        let run_id = document["run_id"].as_str().unwrap();
        let denied = self.home.events_of(run_id, "denied");
        Ran {
            answers: document["output"].as_array().cloned().unwrap_or_default(),
            denied: denied
                .iter()
                .map(|event| event["payload"].clone())
                .collect(),
            document,
        }
    }

    /// Everything about everything below a folder that a guest could change.
    fn state(&self, below: &str) -> BTreeMap<PathBuf, String> {
        let mut known = BTreeMap::new();
        collect(&self.path(below), &mut known);
        known
    }
}

fn collect(path: &Path, known: &mut BTreeMap<PathBuf, String>) {
    let metadata = path.symlink_metadata().unwrap();
    let content = match fs::read_link(path) {
        Ok(target) => target.display().to_string(),
        Err(_) if metadata.is_file() => String::from_utf8(fs::read(path).unwrap()).unwrap(),
        Err(_) => String::new(),
    };
    let state = (
        metadata.ino(),
        metadata.mode(),
        metadata.nlink(),
        metadata.mtime_nsec(),
        content,
    );
    known.insert(path.to_owned(), format!("{state:?}"));
    if metadata.is_dir() {
        for entry in fs::read_dir(path).unwrap() {
            collect(&entry.unwrap().path(), known);
        }
    }
}

/// Lets the installed probe ask for these capabilities.
fn ask(home: &Home, request: &[&str]) {
    let manifest = format!("[capabilities]\nrequest = {}\n", json!(request));
    fs::write(home.skill("probe").join("skill.toml"), manifest).unwrap();
}
