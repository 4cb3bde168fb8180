//! What an operator decided about installed skills: which are enabled, and what was accepted of each.
//!
//! It is one file in the folder of skills. It is written whole, beside the old one, and renamed over it,
//! under a lock that all processes take; so a reader needs no lock, and of two writers none is lost. A
//! file that is not as it was written stops whoever needs it: were it taken for an empty one, every
//! change of a skill would be accepted in silence.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, OFlags};
use serde::{Deserialize, Serialize};

use super::finding::Problem;
use super::folder::read_regular;
use super::pin::Pin;
use crate::capability::SkillName;

/// The file, in the folder of skills. Its name begins with a dot, so it is taken for no skill.
pub(super) const STATE_FILE: &str = ".state.json";
/// What is written before it gets that name.
const NEW_FILE: &str = ".state.json.new";
/// The file whose lock a writer holds.
const LOCK_FILE: &str = ".state.lock";
/// The only version of the form of the file.
const VERSION: u32 = 1;
/// Bytes of the file. A skill takes less than a KiB unless its manifest asks for very much; the bound
/// protects memory.
const STATE_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// The state of all skills that somebody decided something about.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct State {
    pub(super) skills: BTreeMap<SkillName, SkillState>,
}

/// The state of one skill.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SkillState {
    /// Whether it may be run.
    pub(super) enabled: bool,
    /// What was accepted of it; none until it is used for the first time.
    pub(super) pin: Option<Pin>,
}

impl Default for SkillState {
    fn default() -> Self {
        Self {
            enabled: true,
            pin: None,
        }
    }
}

/// The file as it is written.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StateFile {
    version: u32,
    skills: BTreeMap<SkillName, SkillState>,
}

/// Why the state of the skills is not known or cannot be changed.
#[derive(Debug, thiserror::Error)]
pub enum StateError {
    /// The file is there and cannot be read.
    #[error("cannot read the state of the skills in {}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: Box<Problem>,
    },
    /// The file is not as this program writes it.
    #[error("damaged state of the skills in {}: {reason}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong, with line and column.
        reason: String,
    },
    /// The file cannot be written.
    #[error("cannot write the state of the skills in {}", path.display())]
    Unwritable {
        /// The file.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
    /// There is no room in the file for what is to be added.
    #[error("state of the skills of {bytes} bytes: expected at most {STATE_BYTES_MAX}")]
    Full {
        /// The size it would have.
        bytes: u64,
    },
}

impl State {
    /// The state as it was last written; nothing is decided in a folder without the file.
    pub(super) fn read(skills_dir: &Path) -> Result<Self, StateError> {
        let path = skills_dir.join(STATE_FILE);
        let bytes = match read_regular(&path, STATE_BYTES_MAX) {
            Err(Problem::Unreadable(error)) if is_absent(&error) => return Ok(Self::default()),
            Err(problem) => {
                return Err(StateError::Unreadable {
                    path,
                    source: Box::new(problem),
                });
            }
            Ok(bytes) => bytes,
        };
        let damaged = |reason| StateError::Damaged {
            path: path.clone(),
            reason,
        };
        let file: StateFile =
            serde_json::from_slice(&bytes).map_err(|error| damaged(error.to_string()))?;
        if file.version == VERSION {
            Ok(Self {
                skills: file.skills,
            })
        } else {
            let version = file.version;
            Err(damaged(format!(
                "version {version}, expected version {VERSION}"
            )))
        }
    }
}

/// Whether a file or the folder that it is to be in is not there.
fn is_absent(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
    )
}

/// The right to change the state, for as long as it lives. Others wait for it, so it is to be held
/// briefly.
#[derive(Debug)]
pub(super) struct StateLock {
    skills_dir: PathBuf,
    /// Held open; the lock ends with it, however the process ends.
    _file: File,
}

impl StateLock {
    /// Waits for the right to change the state. The folder of skills is made if it is not there.
    pub(super) fn acquire(skills_dir: &Path) -> Result<Self, StateError> {
        let unwritable = |source| StateError::Unwritable {
            path: skills_dir.join(STATE_FILE),
            source,
        };
        let mut builder = DirBuilder::new();
        builder.recursive(true).mode(0o700);
        builder.create(skills_dir).map_err(unwritable)?;
        let file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .custom_flags(neither_following_nor_waiting())
            .open(skills_dir.join(LOCK_FILE))
            .map_err(unwritable)?;
        if !file.metadata().map_err(unwritable)?.is_file() {
            return Err(unwritable(io::ErrorKind::InvalidInput.into()));
        }
        rustix::io::retry_on_intr(|| rustix::fs::flock(&file, FlockOperation::LockExclusive))
            .map_err(|error| unwritable(error.into()))?;
        Ok(Self {
            skills_dir: skills_dir.to_owned(),
            _file: file,
        })
    }

    pub(super) fn read(&self) -> Result<State, StateError> {
        State::read(&self.skills_dir)
    }

    /// Makes `state` the state. When it returns, it is durable; if that fails, the old one is put back.
    pub(super) fn write(&self, state: State) -> Result<(), StateError> {
        let file = StateFile {
            version: VERSION,
            skills: state.skills,
        };
        let path = self.skills_dir.join(STATE_FILE);
        let unwritable = |source| StateError::Unwritable {
            path: path.clone(),
            source,
        };
        let mut text =
            serde_json::to_vec_pretty(&file).map_err(|error| unwritable(error.into()))?;
        text.push(b'\n');
        let bytes = u64::try_from(text.len()).unwrap_or(u64::MAX);
        if bytes > STATE_BYTES_MAX {
            return Err(StateError::Full { bytes });
        }
        self.replace(&path, &text).map_err(unwritable)
    }

    fn replace(&self, path: &Path, text: &[u8]) -> io::Result<()> {
        let before = match fs::read(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            before => Some(before?),
        };
        self.write_new(text)?.sync_all()?;
        fs::rename(self.skills_dir.join(NEW_FILE), path)?;
        let synced = sync_folder(&self.skills_dir);
        if synced.is_err() {
            // Whoever asked for the new state undoes what goes with it.
            let _undone = match before {
                None => fs::remove_file(path),
                Some(before) => self
                    .write_new(&before)
                    .and_then(|_| fs::rename(self.skills_dir.join(NEW_FILE), path)),
            };
        }
        synced
    }

    /// Writes the file that is to be renamed. It is not durable yet.
    fn write_new(&self, text: &[u8]) -> io::Result<File> {
        let new = self.skills_dir.join(NEW_FILE);
        match fs::remove_file(&new) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            // What a writer left that was cut off.
            _ => {}
        }
        let mut file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&new)?;
        file.write_all(text)?;
        Ok(file)
    }

    /// Changes the state of one skill.
    pub(super) fn change(
        &self,
        name: &SkillName,
        change: impl FnOnce(&mut SkillState),
    ) -> Result<(), StateError> {
        let mut state = self.read()?;
        let before = state.skills.get(name).cloned();
        let skill = state.skills.entry(name.clone()).or_default();
        change(skill);
        if before.as_ref() == Some(skill) {
            return Ok(());
        }
        self.write(state)
    }
}

/// Makes the names in a folder durable.
pub(super) fn sync_folder(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

/// Refuses a link in the last part of a path.
fn neither_following_nor_waiting() -> i32 {
    i32::try_from((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::{Pin, STATE_FILE, State, StateError, StateLock};
    use crate::capability::SkillName;

    fn name(text: &str) -> SkillName {
        text.parse().unwrap()
    }

    #[test]
    fn what_is_written_is_read_back_and_private() {
        let dir = tempfile::tempdir().unwrap();
        let skills = dir.path().join("home/skills");
        assert_eq!(State::read(&skills).unwrap(), State::default());
        let lock = StateLock::acquire(&skills).unwrap();
        let pin = Pin {
            capabilities: vec!["env:A".parse().unwrap()],
            ..Pin::default()
        };
        lock.change(&name("greet"), |skill| skill.pin = Some(pin.clone()))
            .unwrap();
        lock.change(&name("other"), |skill| skill.enabled = false)
            .unwrap();
        let state = State::read(&skills).unwrap();
        assert_eq!(state.skills["greet"].pin, Some(pin));
        assert!(!state.skills["other"].enabled);
        let mode = |path: &str| {
            fs::metadata(skills.join(path))
                .unwrap()
                .permissions()
                .mode()
        };
        assert_eq!(mode(STATE_FILE) & 0o777, 0o600);
        assert_eq!(mode("") & 0o777, 0o700);
    }

    #[test]
    fn a_writer_that_was_cut_off_is_in_nobodys_way() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join(super::NEW_FILE), "half").unwrap();
        let lock = StateLock::acquire(dir.path()).unwrap();
        lock.change(&name("greet"), |skill| skill.enabled = false)
            .unwrap();
        assert_eq!(State::read(dir.path()).unwrap().skills.len(), 1);
    }

    #[test]
    fn damage_is_never_taken_for_nothing() {
        let dir = tempfile::tempdir().unwrap();
        for (text, part) in [
            ("", "EOF"),
            ("{}", "missing field"),
            ("{\"version\":2,\"skills\":{}}", "version 2"),
            ("{\"version\":1,\"skills\":{},\"x\":1}", "unknown field `x`"),
            (
                "{\"version\":1,\"skills\":{\"a\":{\"enabled\":true,\"pin\":null,\"x\":1}}}",
                "unknown field `x`",
            ),
            (
                "{\"version\":1,\"skills\":{\"../a\":{\"enabled\":true,\"pin\":null}}}",
                "malformed skill name",
            ),
            ("{\"version\":1,\"skills\":{}} x", "trailing"),
        ] {
            fs::write(dir.path().join(STATE_FILE), text).unwrap();
            let error = State::read(dir.path()).unwrap_err();
            assert!(matches!(error, StateError::Damaged { .. }), "{error:?}");
            assert!(error.to_string().contains(part), "{text}: {error}");
        }
        fs::remove_file(dir.path().join(STATE_FILE)).unwrap();
        std::os::unix::fs::symlink("/dev/null", dir.path().join(STATE_FILE)).unwrap();
        let error = State::read(dir.path()).unwrap_err();
        assert!(matches!(error, StateError::Unreadable { .. }), "{error:?}");
    }
}
