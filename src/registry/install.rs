//! Installing a skill: all of it or nothing.

use std::io;
use std::path::{Path, PathBuf};

use cap_std::ambient_authority;
use cap_std::fs::Dir;
use serde::Serialize;

use super::finding::{Findings, LoadError};
use super::front_matter::{self, SKILL_FILE};
use super::package::{self, PackageError, Tree};
use super::pin::{Change, Pin};
use super::skill::{Skill, read_folder};
use super::staging::Staging;
use super::state::{StateError, StateLock, sync_folder};
use crate::capability::SkillName;

/// A skill that lies in the folder of skills, whole and valid, and has no name there yet. Dropped, it
/// leaves nothing behind.
#[derive(Debug)]
pub struct Staged {
    skills_dir: PathBuf,
    staging: Staging,
    tree: Tree,
    skill: Skill,
}

/// How an installation went.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InstallOutcome {
    /// The skill.
    pub name: SkillName,
    /// What was done.
    pub status: InstallStatus,
    /// What is accepted of it from now on.
    pub pin: Pin,
    /// How it differs from what was accepted before.
    pub change: Option<Change>,
}

/// What an installation did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum InstallStatus {
    /// There was no such skill.
    Installed,
    /// It took the place of another one.
    Replaced,
    /// It was there already, the same to the byte.
    Unchanged,
}

/// Why nothing was installed.
#[derive(Debug, thiserror::Error)]
pub enum InstallError {
    /// The folder or the archive cannot be read or breaks a rule.
    #[error(transparent)]
    Package(#[from] PackageError),
    /// What it holds is no valid skill.
    #[error(transparent)]
    Invalid(#[from] LoadError),
    /// The state of the skills cannot be read or written.
    #[error(transparent)]
    State(#[from] StateError),
    /// Another skill of that name was accepted.
    #[error("skill {name:?} differs from the one that was accepted: {change}")]
    Changed {
        /// The skill.
        name: SkillName,
        /// How it differs.
        change: Box<Change>,
    },
    /// The files cannot be put in place.
    #[error("cannot write {}", path.display())]
    Unwritable {
        /// Where.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
}

impl Staged {
    /// Reads a folder, a `.tar.gz`, a `.tgz` or a `.zip`, and puts what it holds beside the skills,
    /// under no name that anybody would load. An archive has the skill's files at its top, or in one
    /// folder of any name; a folder has to have the skill's name, and may be a link that has it. What begins
    /// with a dot in a folder is passed over.
    ///
    /// # Errors
    /// An entry breaks a rule, the skill is not valid, or the files cannot be written.
    pub fn open(source: &Path, skills_dir: &Path) -> Result<Self, InstallError> {
        let tree = package::read(source)?;
        let name = if source.is_dir() {
            // Told with the paths that its author knows.
            Skill::from_folder(source)?.name
        } else {
            name_of(&tree, source)
        };
        let unwritable = |source| InstallError::Unwritable {
            path: skills_dir.to_owned(),
            source,
        };
        let staging = {
            let lock = StateLock::acquire(skills_dir)?;
            Staging::make(skills_dir, &lock).map_err(unwritable)?
        };
        write(&tree, &staging, &name)
            .and_then(|()| sync_folder(staging.path()))
            .map_err(unwritable)?;
        let folder = staging.path().join(name.as_str());
        let skill =
            Skill::from_folder(&folder).map_err(|error| told_of(error, staging.path(), source))?;
        Ok(Self {
            skills_dir: skills_dir.to_owned(),
            staging,
            tree,
            skill,
        })
    }

    /// The skill as it will be.
    pub fn skill(&self) -> &Skill {
        &self.skill
    }

    /// Gives the skill its name, in one step, and pins it. A skill that differs from the one of that
    /// name that was accepted, or that is there, is put in its place only with `accept`. When it
    /// returns, all of it is durable.
    ///
    /// # Errors
    /// It differs, or the files or the state cannot be written; then everything is as it was.
    pub fn commit(self, accept: bool) -> Result<InstallOutcome, InstallError> {
        let name = self.skill.name.clone();
        let target = self.skills_dir.join(name.as_str());
        let lock = StateLock::acquire(&self.skills_dir)?;
        let mut state = lock.read()?;
        let accepted = state.skills.remove(&name).and_then(|state| state.pin);
        let is_there = target.symlink_metadata().is_ok();
        let present = is_there.then(|| {
            let read = read_folder(&target, &mut Findings::default());
            read.map(|(_, pin)| pin).unwrap_or_default()
        });
        let pin = self.skill.pin();
        let before = accepted.as_ref().or(present.as_ref());
        let change = before.and_then(|before| before.change_to(&pin));
        if let Some(change) = change.clone().filter(|_| !accept) {
            return Err(InstallError::Changed {
                name,
                change: Box::new(change),
            });
        }
        let is_same = present.is_some_and(|present| present.files == pin.files)
            && package::read_installed(&target).is_ok_and(|tree| tree == self.tree);
        let status = match (is_there, is_same) {
            (false, _) => InstallStatus::Installed,
            (true, false) => InstallStatus::Replaced,
            (true, true) => InstallStatus::Unchanged,
        };
        if status != InstallStatus::Unchanged {
            let unwritable = |source| InstallError::Unwritable {
                path: target.clone(),
                source,
            };
            self.staging.exchange(&name, &target).map_err(unwritable)?;
            if let Err(error) = sync_folder(&self.skills_dir) {
                self.put_back(status, &name, &target);
                return Err(unwritable(error));
            }
        }
        let pinned = lock.change(&name, |state| state.pin = Some(pin.clone()));
        if let Err(error) = pinned {
            self.put_back(status, &name, &target);
            return Err(error.into());
        }
        Ok(InstallOutcome {
            name,
            status,
            pin,
            change,
        })
    }

    /// Takes the skill's name away from it again, and gives it to the one that had it. What the staging
    /// folder then holds goes with it.
    fn put_back(&self, status: InstallStatus, name: &SkillName, target: &Path) {
        let undone = match status {
            InstallStatus::Installed => self.staging.take(name, target),
            InstallStatus::Replaced => self.staging.exchange(name, target),
            InstallStatus::Unchanged => Ok(()),
        };
        if let Err(error) = undone {
            tracing::error!(path = %target.display(), %error, "cannot undo an installation that failed");
        }
    }
}

fn write(tree: &Tree, staging: &Staging, name: &SkillName) -> io::Result<()> {
    let staging = Dir::open_ambient_dir(staging.path(), ambient_authority())?;
    staging.create_dir(name.as_str())?;
    tree.write(&staging.open_dir(name.as_str())?)?;
    Ok(())
}

/// The name in the front matter. Without a valid one the skill is going to be refused, under a name
/// like the archive's.
fn name_of(tree: &Tree, source: &Path) -> SkillName {
    let text = tree.file(SKILL_FILE).unwrap_or_default();
    let text = std::str::from_utf8(text).unwrap_or_default();
    front_matter::skill_name(text).unwrap_or_else(|| {
        let stem = source.file_stem().unwrap_or_default();
        SkillName::sanitised(&stem.to_string_lossy())
    })
}

/// The same error with paths that whoever installs knows, not with the one that is about to go.
fn told_of(mut error: LoadError, staging: &Path, source: &Path) -> LoadError {
    let told = |path: &Path| match path.strip_prefix(staging) {
        // The first part is the skill's name, which the archive need not have anywhere.
        Ok(inside) => source.join(inside.iter().skip(1).collect::<PathBuf>()),
        Err(_) => path.to_owned(),
    };
    for finding in &mut error.findings {
        finding.file = told(&finding.file);
    }
    error.path = source.to_owned();
    error
}
