//! Skills on disk: `<skills>/<name>/` with SKILL.md, and skill.wasm and skill.toml where there is code.
//!
//! Everything in such a folder was written by somebody else. A skill that breaks a rule is refused
//! whole, with everything that is wrong and its place, and never hides the others.

mod component;
mod finding;
mod folder;
mod front_matter;
mod manifest;
mod schema;
mod skill;
mod yaml;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;

pub use component::{COMPONENT_FILE, Component};
pub use finding::{Finding, LoadError, Position, Problem, Severity};
pub use front_matter::SKILL_FILE;
pub use manifest::{ComponentSection, Expose, MANIFEST_FILE, Manifest, WORLD_VERSIONS};
pub use skill::{Skill, validate};

use crate::capability::SkillName;
use finding::Findings;

/// Entries of the skills folder. The text of every skill is held, so this bounds the host's memory.
const ENTRIES_MAX: usize = 1000;
/// How alike two names are, from 0 to 1, for one to be taken for a misspelling of the other.
const LIKENESS_MIN: f64 = 0.8;

/// The skills of one folder as they were when it was loaded. It never changes; clones share it.
#[derive(Debug, Clone, Default)]
pub struct Registry(Arc<Snapshot>);

#[derive(Debug, Default)]
struct Snapshot {
    skills: BTreeMap<SkillName, Arc<Skill>>,
    refused: Vec<LoadError>,
}

impl Registry {
    /// Loads every folder in `skills_dir`, in the order of their names. Files, and folders whose name
    /// begins with a dot, are passed over. There is nothing in a folder that does not exist.
    ///
    /// It reads and digests every component; to run one skill, [`Skill::from_folder`] is enough.
    pub fn load(skills_dir: &Path) -> Self {
        let mut snapshot = Snapshot::default();
        let names = match folder_names(skills_dir) {
            Ok(names) => names,
            Err(error) => {
                snapshot.refused.push(error);
                return Self(Arc::new(snapshot));
            }
        };
        for name in names {
            // A name is its folder's, so two skills cannot have the same.
            match Skill::from_folder(&skills_dir.join(name)) {
                Ok(skill) => {
                    snapshot.skills.insert(skill.name.clone(), Arc::new(skill));
                }
                Err(error) => snapshot.refused.push(error),
            }
        }
        Self(Arc::new(snapshot))
    }

    /// A registry of these skills alone; of two with one name the later stays.
    pub fn of(skills: impl IntoIterator<Item = Skill>) -> Self {
        let named = skills
            .into_iter()
            .map(|skill| (skill.name.clone(), Arc::new(skill)));
        Self(Arc::new(Snapshot {
            skills: named.collect(),
            refused: Vec::new(),
        }))
    }

    /// The skill of that name.
    pub fn get(&self, name: &str) -> Option<Arc<Skill>> {
        self.0.skills.get(name).cloned()
    }

    /// Every skill, by name.
    pub fn skills(&self) -> impl ExactSizeIterator<Item = &Arc<Skill>> {
        self.0.skills.values()
    }

    /// What was refused, by folder name; or the one reason why the folder of skills itself was.
    pub fn refused(&self) -> &[LoadError] {
        &self.0.refused
    }

    /// The skill whose name is most like `name`, when one is like enough to have been meant.
    pub fn nearest(&self, name: &str) -> Option<&SkillName> {
        let wanted: String = name.chars().take(64).collect();
        self.0
            .skills
            .keys()
            .map(|known| (strsim::jaro_winkler(&wanted, known), known))
            .filter(|&(likeness, _)| likeness >= LIKENESS_MIN)
            .max_by(|(a, _), (b, _)| a.total_cmp(b))
            .map(|(_, known)| known)
    }
}

/// The folders in `skills_dir`, sorted, and every entry of which it cannot be told what it is.
fn folder_names(skills_dir: &Path) -> Result<Vec<OsString>, LoadError> {
    let refuse = |problem| {
        let mut findings = Findings::default();
        findings.refuse(skills_dir, problem);
        LoadError {
            path: skills_dir.to_owned(),
            findings: findings.into_sorted().0,
        }
    };
    let unreadable = |error| refuse(Problem::Unreadable(error));
    let entries = match fs::read_dir(skills_dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(unreadable)?,
    };
    let mut names = Vec::new();
    for (index, entry) in entries.enumerate() {
        if index == ENTRIES_MAX {
            return Err(refuse(Problem::TooManyEntries { max: ENTRIES_MAX }));
        }
        let entry = entry.map_err(unreadable)?;
        let name = entry.file_name();
        let is_hidden = name.as_encoded_bytes().starts_with(b".");
        let is_file = fs::metadata(entry.path()).is_ok_and(|metadata| !metadata.is_dir());
        if !is_hidden && !is_file {
            names.push(name);
        }
    }
    names.sort();
    Ok(names)
}
