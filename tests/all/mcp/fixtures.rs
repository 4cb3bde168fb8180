//! A home with all that the conformance suite calls.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use skillrun_test_artifacts::CONFORMANCE;

use crate::harness::Home;

/// What the operator allows: to ask clients, and runs that take as long as the suite's longest.
pub(super) const CONFIG: &str = "[capabilities]
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

/// How often it is looked whether one of the tools was called that are signs.
const LOOK_INTERVAL: Duration = Duration::from_millis(20);

/// Whoever changes which skills there are when the suite calls `test_trigger_tool_change` and
/// `test_trigger_prompt_change`: no skill can do that. It ends with the test.
pub(crate) struct Changes {
    end: Option<Sender<()>>,
    looking: Option<JoinHandle<()>>,
}

impl Changes {
    /// Installs one more skill in this home with each call.
    pub(crate) fn on_call(home: &Home) -> Self {
        let (end, ended) = mpsc::channel();
        let home = home.path().to_owned();
        let looking = thread::spawn(move || {
            let mut seen = BTreeSet::new();
            while ended.recv_timeout(LOOK_INTERVAL) == Err(RecvTimeoutError::Timeout) {
                look(&home, &mut seen);
            }
        });
        Self {
            end: Some(end),
            looking: Some(looking),
        }
    }
}

impl Drop for Changes {
    fn drop(&mut self) {
        drop(self.end.take());
        // What went wrong there is told by the suite, which sees no change.
        let _ended = self.looking.take().map(JoinHandle::join);
    }
}

/// Looks at runs that were not seen yet.
fn look(home: &Path, seen: &mut BTreeSet<PathBuf>) {
    let Ok(runs) = fs::read_dir(home.join("runs")) else {
        return;
    };
    let ledgers = runs.map(|entry| entry.unwrap().path());
    for ledger in ledgers.filter(|path| path.extension().is_some_and(|kind| kind == "jsonl")) {
        if seen.contains(&ledger) {
            continue;
        }
        let text = fs::read_to_string(&ledger).unwrap_or_default();
        // The first line may still be on its way.
        let Some((first, _)) = text.split_once('\n') else {
            continue;
        };
        let name = format!("zz-added-{}", seen.len());
        seen.insert(ledger.clone());
        if first.contains("\"test-trigger-tool-change\"") {
            add(
                home,
                &name,
                "[component]\nworld = \"0.1\"\n",
                Some(CONFORMANCE.wasm),
            );
        } else if first.contains("\"test-trigger-prompt-change\"") {
            add(home, &name, "", None);
        }
    }
}

/// Installs a skill as a whole: one that is half there would be another change.
fn add(home: &Path, name: &str, manifest: &str, wasm: Option<&str>) {
    let new = home.join(name);
    fs::create_dir_all(&new).unwrap();
    let head = format!("---\nname: {name}\ndescription: One more.\n---\n\nIt is there.\n");
    fs::write(new.join("SKILL.md"), head).unwrap();
    fs::write(new.join("skill.toml"), manifest).unwrap();
    if let Some(wasm) = wasm {
        fs::copy(wasm, new.join("skill.wasm")).unwrap();
    }
    fs::rename(new, home.join("skills").join(name)).unwrap();
}
