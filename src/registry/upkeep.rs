//! What an operator does with installed skills: switch them on and off, accept them, remove them.

use std::io;
use std::path::{Path, PathBuf};

use super::finding::LoadError;
use super::pin::{Change, Pin};
use super::skill::Skill;
use super::staging::Staging;
use super::state::{State, StateError, StateLock, sync_folder};
use crate::capability::SkillName;

/// Why a skill was left as it is.
#[derive(Debug, thiserror::Error)]
pub enum UpkeepError {
    /// The skill is not valid, so there is nothing to accept.
    #[error(transparent)]
    Invalid(#[from] LoadError),
    /// The state of the skills cannot be read or written.
    #[error(transparent)]
    State(#[from] StateError),
    /// The skill's folder cannot be moved away.
    #[error("cannot remove {}", path.display())]
    Unremovable {
        /// The folder.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
}

/// What was accepted of a skill, and what it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PinReport {
    /// What was accepted; none before it is used for the first time.
    pub accepted: Option<Pin>,
    /// What there is now.
    pub present: Pin,
    /// How the two differ.
    pub change: Option<Change>,
}

impl PinReport {
    fn of(accepted: Option<Pin>, skill: &Skill) -> Self {
        let present = skill.pin();
        Self {
            change: accepted
                .as_ref()
                .and_then(|accepted| accepted.change_to(&present)),
            accepted,
            present,
        }
    }
}

/// What was accepted of a skill beside what it is; none when there is no folder of that name.
///
/// # Errors
/// The skill is not valid, or the state is damaged.
pub fn pin_report(skills_dir: &Path, name: &SkillName) -> Result<Option<PinReport>, UpkeepError> {
    let folder = skills_dir.join(name.as_str());
    if folder.symlink_metadata().is_err() {
        return Ok(None);
    }
    let mut state = State::read(skills_dir)?;
    let accepted = state.skills.remove(name).and_then(|state| state.pin);
    Ok(Some(PinReport::of(accepted, &Skill::from_folder(&folder)?)))
}

/// Accepts a skill as it is now, whatever was accepted before, and says how the two differ; none when
/// there is no folder of that name.
///
/// # Errors
/// The skill is not valid, or the state cannot be written.
pub fn accept(skills_dir: &Path, name: &SkillName) -> Result<Option<PinReport>, UpkeepError> {
    let folder = skills_dir.join(name.as_str());
    if folder.symlink_metadata().is_err() {
        return Ok(None);
    }
    let lock = StateLock::acquire(skills_dir)?;
    let mut state = lock.read()?;
    let accepted = state.skills.remove(name).and_then(|state| state.pin);
    let report = PinReport::of(accepted, &Skill::from_folder(&folder)?);
    lock.change(name, |state| state.pin = Some(report.present.clone()))?;
    Ok(Some(report))
}

/// Enables or disables a skill, and gives whether it was enabled before; none when there is no skill
/// of that name. A skill that is refused can be disabled too.
///
/// # Errors
/// The state cannot be read or written.
pub fn set_enabled(
    skills_dir: &Path,
    name: &SkillName,
    enabled: bool,
) -> Result<Option<bool>, StateError> {
    if skills_dir.join(name.as_str()).symlink_metadata().is_err() {
        return Ok(None);
    }
    let lock = StateLock::acquire(skills_dir)?;
    let mut was_enabled = true;
    lock.change(name, |state| {
        was_enabled = state.enabled;
        state.enabled = enabled;
    })?;
    Ok(Some(was_enabled))
}

/// Removes a skill's folder, and what was decided about it; false when there is neither. Whatever is
/// in the folder goes with it; of a link only the link does.
///
/// # Errors
/// The folder cannot be moved away, or the state cannot be written; then everything is as it was.
pub fn remove(skills_dir: &Path, name: &SkillName) -> Result<bool, UpkeepError> {
    let folder = skills_dir.join(name.as_str());
    let is_there = folder.symlink_metadata().is_ok();
    if !is_there && !State::read(skills_dir)?.skills.contains_key(name) {
        return Ok(false);
    }
    let unremovable = |source| UpkeepError::Unremovable {
        path: folder.clone(),
        source,
    };
    let lock = StateLock::acquire(skills_dir)?;
    let mut state = lock.read()?;
    let staging = Staging::make(skills_dir, &lock).map_err(unremovable)?;
    if is_there {
        staging.take(name, &folder).map_err(unremovable)?;
        // While it can still be given back.
        if let Err(error) = sync_folder(skills_dir) {
            let _undone = staging.give_back(name, &folder);
            return Err(unremovable(error));
        }
    }
    let forgotten = match state.skills.remove(name) {
        Some(_) => lock.write(state),
        None => Ok(()),
    };
    if let Err(error) = forgotten {
        if is_there {
            let _undone = staging.give_back(name, &folder);
        }
        return Err(error.into());
    }
    Ok(true)
}
