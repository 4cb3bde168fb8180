//! Skills that are not in Rust, built with the SDK of their language by the pinned tools, as an author
//! builds them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{LazyLock, Mutex, PoisonError};

use serde_json::Value;
use sha2::{Digest as _, Sha256};
use skillrun::ledger::Digest;

use super::{root, succeed, tool};
use crate::harness::Home;

/// A language with an SDK.
pub(crate) struct Language {
    /// What the manifest calls it.
    pub(super) flavor: &'static str,
    /// The folder of its SDK, in which `build.sh` builds a skill.
    pub(super) sdk: &'static str,
    /// Where the tools are that it calls, and which these are.
    tools: (&'static str, &'static [&'static str]),
}

pub(super) const TYPESCRIPT: Language = Language {
    flavor: "ts",
    sdk: "guest-skills/sdk-ts",
    tools: (
        "node_modules/.bin",
        &["jco", "tsc", "esbuild", "componentize-qjs"],
    ),
};

pub(super) const PYTHON: Language = Language {
    flavor: "py",
    sdk: "guest-skills/sdk-py",
    tools: ("python/bin", &["componentize-py"]),
};

/// A skill in one of them.
pub(crate) struct ForeignSkill {
    pub(crate) name: &'static str,
    /// Its folder in the checkout.
    pub(super) source: &'static str,
    pub(super) language: &'static Language,
}

/// Two tests that need a skill must not both build it.
static BUILDING: Mutex<()> = Mutex::new(());

/// An interpreter takes long to compile where other tests run at the same time.
pub(crate) const PATIENT: &str = "[engine]\ncompile_time_ms = 600_000";

/// A home that outlives the tests and holds what skills are compiled to.
pub(super) static COMPILED: LazyLock<PathBuf> = LazyLock::new(|| {
    let home = Path::new(env!("CARGO_TARGET_TMPDIR")).join("warm-foreign");
    fs::create_dir_all(&home).unwrap();
    fs::write(home.join("config.toml"), PATIENT).unwrap();
    home
});

impl ForeignSkill {
    /// The skill's folder, built when anything that goes into it has changed. One with a `build.sh` of its
    /// own is built by that.
    #[track_caller]
    pub(super) fn build(&self) -> PathBuf {
        let _one_at_a_time = BUILDING.lock().unwrap_or_else(PoisonError::into_inner);
        let (bin, names) = self.language.tools;
        for name in names {
            tool(&format!("{bin}/{name}"));
        }
        let source = root().join(self.source);
        let skill = root().join("target/guests").join(self.name);
        let stamp = skill.join("inputs.sha256");
        let wanted = digest(&[
            source.clone(),
            root().join(self.language.sdk),
            root().join("wit"),
            root().join("tests/toolchains"),
        ]);
        let is_fresh = fs::read_to_string(&stamp).is_ok_and(|built_from| built_from == wanted);
        if !is_fresh || !skill.join("skill.wasm").exists() {
            let own = source.join("build.sh");
            let mut build = Command::new("bash");
            if own.exists() {
                build.arg(own);
            } else {
                let bin = root().join("target/toolchains").join(bin);
                let path = std::env::var("PATH").unwrap_or_default();
                build
                    .arg(root().join(self.language.sdk).join("build.sh"))
                    .args([&source, &root().join("wit"), &skill])
                    .env("PATH", format!("{}:{path}", bin.display()));
            }
            succeed(&mut build);
            fs::write(&stamp, wanted).unwrap();
        }
        skill
    }

    /// A home in which the skill does not have to be compiled. That was done by the binary itself, in the
    /// home that outlives the tests.
    #[track_caller]
    pub(super) fn home(&self) -> Home {
        let component = self.build().join("skill.wasm");
        let home = Home::new(&[]);
        home.configure(PATIENT);
        let mut inspect = home.command(&["skills", "inspect", component.to_str().unwrap()]);
        succeed(inspect.env("SKILLRUN_HOME", &*COMPILED));
        let digest = Digest::of(&fs::read(component).unwrap());
        home.take_compiled(&COMPILED, &digest.to_string());
        home
    }
}

/// The events of a run, each as who says that it happened, what it is, and what the skill put into it.
pub(super) fn on_record(home: &Home, run_id: &str) -> Vec<String> {
    let word = |value: &Value| {
        value
            .as_str()
            .map_or_else(|| value.to_string(), str::to_owned)
    };
    let line = |event: &Value| {
        let payload = &event["payload"];
        let said: &[&str] = match event["type"].as_str().unwrap() {
            "node_enter" => &["node_id"],
            "node_exit" => &["node_id", "success"],
            "log" => &["level", "message"],
            "custom" => &["name", "data"],
            "denied" => &["capability"],
            "run_completed" => &["code"],
            _ => &[],
        };
        let who_and_what = [&event["source"], &event["type"]].map(word);
        let said = said.iter().map(|field| word(&payload[field]));
        let words: Vec<String> = who_and_what.into_iter().chain(said).collect();
        words.join(" ")
    };
    home.events(run_id).iter().map(line).collect()
}

/// SHA-256 over all files below the folders, with their paths.
fn digest(folders: &[PathBuf]) -> String {
    let mut files = Vec::new();
    for folder in folders {
        list(folder, &mut files);
    }
    files.sort();
    let mut sha256 = Sha256::new();
    for file in files {
        let bytes = fs::read(&file).unwrap();
        sha256.update(file.to_string_lossy().as_bytes());
        sha256.update(bytes.len().to_le_bytes());
        sha256.update(bytes);
    }
    format!("{:x}", sha256.finalize())
}

fn list(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            list(&path, files);
        } else {
            files.push(path);
        }
    }
}

#[test]
fn a_file_that_changes_changes_the_digest() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a");
    let of = |text: &str| {
        fs::write(&file, text).unwrap();
        digest(&[folder.path().to_owned()])
    };
    assert_eq!(of("1"), of("1"));
    assert_ne!(of("1"), of("2"));
}
