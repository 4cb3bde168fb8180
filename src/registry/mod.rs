//! Skills on disk: `<skills>/<name>/` with SKILL.md, and skill.wasm and skill.toml where there is code.
//!
//! Everything in such a folder was written by somebody else. A skill that breaks a rule is refused
//! whole, with everything that is wrong and its place, and never hides the others. A skill is pinned
//! when it is first used: from then on it is refused when a byte of it changes, until the change is
//! accepted.

mod component;
mod document;
mod finding;
mod folder;
mod front_matter;
mod install;
mod manifest;
mod package;
mod pin;
mod schema;
mod skill;
mod staging;
mod state;
mod upkeep;
mod watcher;
mod yaml;

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use component::{COMPONENT_FILE, Component};
pub use document::{Document, DocumentError};
pub use finding::{Finding, LoadError, Position, Problem, Severity};
pub use front_matter::{SKILL_FILE, skill_name};
pub use install::{InstallError, InstallOutcome, InstallStatus, Staged};
pub use manifest::{
    ComponentSection, Expose, MANIFEST_FILE, Manifest, McpRole, McpSection, ResourceAddress,
    TaskSupport, WORLD_VERSIONS,
};
pub use package::{EntryRule, Format, PackageError, check_archive};
pub use pin::{Change, FileChange, FileChangeKind, LimitChange, Pin};
pub use skill::{PinError, Skill, validate};
pub use state::StateError;
pub use upkeep::{PinReport, UpkeepError, accept, pin_report, remove, set_enabled};
pub use watcher::{SkillSet, WatchError, Watcher};

use crate::capability::SkillName;
use state::{SkillState, State, StateLock};

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
    disabled: BTreeMap<SkillName, Arc<Skill>>,
    refused: Vec<LoadError>,
}

/// Why there is no registry of a folder at all.
#[derive(Debug, thiserror::Error)]
pub enum RegistryError {
    /// The folder is there and cannot be read.
    #[error("{}: cannot be read", path.display())]
    Unreadable {
        /// The folder.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
    /// The folder has more entries than are read.
    #[error("{}: too many entries: expected at most {max}", path.display())]
    TooManyEntries {
        /// The folder.
        path: PathBuf,
        /// The bound.
        max: usize,
    },
    /// What was decided about the skills is not known.
    #[error(transparent)]
    State(#[from] StateError),
}

impl Registry {
    /// Loads every folder in `skills_dir`, in the order of their names. Files, and folders whose name
    /// begins with a dot, are passed over. There is nothing in a folder that does not exist.
    ///
    /// It reads and digests every component; to run one skill, [`Registry::load_only`] is enough.
    ///
    /// # Errors
    /// The folder cannot be read, or the state of its skills is damaged. A skill that is refused is no
    /// error: it is in [`Registry::refused`].
    pub fn load(skills_dir: &Path) -> Result<Self, RegistryError> {
        Ok(Self(Arc::new(Snapshot::load(skills_dir)?)))
    }

    /// As [`Registry::load`], with a skill that is not installed. It takes the place of one of its name.
    ///
    /// # Errors
    /// As for [`Registry::load`].
    pub fn load_with(skills_dir: &Path, skill: Skill) -> Result<Self, RegistryError> {
        let mut snapshot = Snapshot::load(skills_dir)?;
        snapshot.disabled.remove(&skill.name);
        snapshot.skills.insert(skill.name.clone(), Arc::new(skill));
        Ok(Self(Arc::new(snapshot)))
    }

    /// Loads the one skill of that name, and every other only when there is no folder for it: then
    /// [`Registry::nearest`] has something to choose from.
    ///
    /// # Errors
    /// As for [`Registry::load`].
    pub fn load_only(skills_dir: &Path, name: &str) -> Result<Self, RegistryError> {
        let name = name.parse::<SkillName>().ok();
        let Some(name) = name.filter(|name| skills_dir.join(name.as_str()).is_dir()) else {
            return Self::load(skills_dir);
        };
        let state = State::read(skills_dir)?;
        let mut snapshot = Snapshot::default();
        let skill = load_skill(skills_dir, OsStr::new(name.as_str()), &state);
        snapshot.add(skill, &state);
        Ok(Self(Arc::new(snapshot)))
    }

    /// A registry of these skills alone, all of them enabled; of two with one name the later stays.
    pub fn of<S: Into<Arc<Skill>>>(skills: impl IntoIterator<Item = S>) -> Self {
        let named = skills
            .into_iter()
            .map(Into::into)
            .map(|skill| (skill.name.clone(), skill));
        Self(Arc::new(Snapshot {
            skills: named.collect(),
            ..Snapshot::default()
        }))
    }

    /// The skill of that name, if it is enabled.
    pub fn get(&self, name: &str) -> Option<Arc<Skill>> {
        self.0.skills.get(name).cloned()
    }

    /// The skill of that name, if it is disabled.
    pub fn get_disabled(&self, name: &str) -> Option<Arc<Skill>> {
        self.0.disabled.get(name).cloned()
    }

    /// Every skill that is enabled, by name.
    pub fn skills(&self) -> impl ExactSizeIterator<Item = &Arc<Skill>> {
        self.0.skills.values()
    }

    /// Every skill that is disabled, by name.
    pub fn disabled(&self) -> impl ExactSizeIterator<Item = &Arc<Skill>> {
        self.0.disabled.values()
    }

    /// What was refused, by folder name.
    pub fn refused(&self) -> &[LoadError] {
        &self.0.refused
    }

    /// Why the folder of that name was refused, if it was.
    pub fn refusal(&self, name: &str) -> Option<&LoadError> {
        let mut refused = self.0.refused.iter();
        refused.find(|error| error.path.file_name() == Some(OsStr::new(name)))
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

impl Snapshot {
    fn load(skills_dir: &Path) -> Result<Self, RegistryError> {
        let state = State::read(skills_dir)?;
        let mut snapshot = Self::default();
        for name in folder_names(skills_dir)? {
            snapshot.add(load_skill(skills_dir, &name, &state), &state);
        }
        snapshot.tell_clashes();
        Ok(snapshot)
    }

    fn add(&mut self, loaded: Result<Skill, LoadError>, state: &State) {
        match loaded {
            Ok(skill) => {
                let decided = state.skills.get(&skill.name);
                let skills = match decided.is_none_or(|decided| decided.enabled) {
                    true => &mut self.skills,
                    false => &mut self.disabled,
                };
                skills.insert(skill.name.clone(), Arc::new(skill));
            }
            Err(error) => self.refused.push(error),
        }
    }

    /// A name is its folder's, so two skills cannot have the same. When a folder claims the name of
    /// another, as a copy does, that is what its author has to be told.
    fn tell_clashes(&mut self) {
        let is_taken =
            |name: &str| self.skills.contains_key(name) || self.disabled.contains_key(name);
        let findings = self
            .refused
            .iter_mut()
            .flat_map(|error| &mut error.findings);
        for finding in findings {
            if let Problem::NameMismatch { name, folder } = &finding.problem
                && is_taken(name)
            {
                finding.problem = Problem::NameClash {
                    name: name.clone(),
                    folder: folder.clone(),
                };
            }
        }
    }
}

/// Loads one installed skill. What looks like a change may be an installation of which the folder was
/// seen and the state was not; so it is looked at again under the lock that installations hold.
fn load_skill(skills_dir: &Path, name: &OsStr, state: &State) -> Result<Skill, LoadError> {
    let load = |state: &State| {
        let decided = name.to_str().and_then(|name| state.skills.get(name));
        let undecided = SkillState::default();
        Skill::installed(skills_dir, name, decided.unwrap_or(&undecided))
    };
    let loaded = load(state);
    let is_changed = |error: &LoadError| error.change().is_some();
    if !loaded.as_ref().is_err_and(is_changed) {
        return loaded;
    }
    // Where nothing can be written, nothing is being installed either.
    let Ok(lock) = StateLock::acquire(skills_dir) else {
        return loaded;
    };
    match lock.read() {
        Ok(state) => load(&state),
        Err(_) => loaded,
    }
}

/// The folders in `skills_dir`, sorted, and every entry of which it cannot be told what it is.
fn folder_names(skills_dir: &Path) -> Result<Vec<OsString>, RegistryError> {
    let unreadable = |source| RegistryError::Unreadable {
        path: skills_dir.to_owned(),
        source,
    };
    let entries = match fs::read_dir(skills_dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(unreadable)?,
    };
    let mut names = Vec::new();
    for (index, entry) in entries.enumerate() {
        if index == ENTRIES_MAX {
            return Err(RegistryError::TooManyEntries {
                path: skills_dir.to_owned(),
                max: ENTRIES_MAX,
            });
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
