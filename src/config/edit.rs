//! Changing one value of `config.toml` while it is in use. Whatever else stands there stays as it is, comments
//! included.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, OFlags};
use toml_edit::{DocumentMut, Item, Table, TableLike, Value};

use super::{CONFIG_FILE, Config, ConfigError, read_text};
use crate::capability::SkillName;
use crate::limits::LimitKey;

/// The file whose lock a writer holds, in the home folder.
const LOCK_FILE: &str = ".config.lock";
/// What is appended to the name of what is written before it takes the place of the old file.
const NEW_SUFFIX: &str = ".new";
/// A new file is its owner's alone: it may come to name what others need not know of.
const MODE_NEW: u32 = 0o600;

/// Why `config.toml` was left as it is.
#[derive(Debug, thiserror::Error)]
pub enum EditError {
    /// What is there cannot be read, or what would be there is no configuration.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A table has to be where something else is.
    #[error("{key} in {CONFIG_FILE} is not a table that can be added to")]
    NoTable {
        /// The key.
        key: String,
    },
    /// The file cannot be written.
    #[error("cannot write {}", path.display())]
    Unwritable {
        /// The file.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
    /// Whoever uses the configuration does not take this one.
    #[error("the changed configuration is not taken over")]
    NotTakenOver(#[source] Box<dyn std::error::Error + Send + Sync>),
}

/// Takes a configuration over into use.
pub type TakeOver<'a> =
    dyn FnMut(Config) -> Result<(), Box<dyn std::error::Error + Send + Sync>> + 'a;

/// Sets one limit of a skill, in `[skills.<name>.limits]` of `config.toml` in `home`, and gives what stood there.
/// The file as it then is has to be valid as a whole and is taken over by `take_over` before it gets its name, so
/// that what is in use and what is on disk are the same; also what somebody else changed in it and did not take
/// over yet. Writers wait for each other. It blocks.
///
/// # Errors
/// The value, or something else in the file, is refused, or it cannot be written; then file and use are as they were.
pub fn set_skill_limit(
    home: &Path,
    skill: &SkillName,
    key: LimitKey,
    value: u64,
    take_over: &mut TakeOver<'_>,
) -> Result<Option<i64>, EditError> {
    let _lock = lock(home)?;
    let before = read_text(home)?;
    let config_before = Config::from_text(home, &before)?;
    let value = i64::try_from(value).unwrap_or(i64::MAX);
    let after = with_limit(&before, skill, key, value)?;
    let config = Config::from_text(home, &after)?;
    let limit_of = |config: &Config| {
        let settings = config.grants.skills.get(skill)?;
        settings.limits.get(key.as_str()).copied()
    };
    if limit_of(&config) != Some(value) {
        let key = format!("skills.{skill}.limits");
        return Err(EditError::NoTable { key });
    }
    let limit_before = limit_of(&config_before);
    let new = New::write(home, &after)?;
    take_over(config).map_err(EditError::NotTakenOver)?;
    if let Err(error) = new.name() {
        take_over(config_before).map_err(EditError::NotTakenOver)?;
        return Err(error);
    }
    Ok(limit_before)
}

/// The text with that limit in it.
fn with_limit(
    text: &str,
    skill: &SkillName,
    key: LimitKey,
    value: i64,
) -> Result<String, EditError> {
    // It was read as a configuration before, so it is TOML.
    let no_table = |key: &str| EditError::NoTable {
        key: key.to_owned(),
    };
    let mut document: DocumentMut = text.parse().map_err(|_| no_table(CONFIG_FILE))?;
    if document.get("skills").is_none() {
        // After all that is there: a comment at the end is nobody's, and would come after it otherwise.
        let (before, key) = (text.trim_end_matches('\n'), key.as_str());
        let gap = if before.is_empty() { "" } else { "\n\n" };
        return Ok(format!(
            "{before}{gap}[skills.{skill}.limits]\n{key} = {value}\n"
        ));
    }
    let skills = table(document.as_table_mut(), "skills").ok_or_else(|| no_table("skills"))?;
    let own = table(skills, skill).ok_or_else(|| no_table(&format!("skills.{skill}")))?;
    let limits = table(own, "limits").ok_or_else(|| no_table(&format!("skills.{skill}.limits")))?;
    match limits.get_mut(key.as_str()).and_then(Item::as_value_mut) {
        Some(there) => {
            let decor = there.decor().clone();
            *there = Value::from(value);
            *there.decor_mut() = decor;
        }
        None => {
            limits.insert(key.as_str(), toml_edit::value(value));
        }
    }
    Ok(document.to_string())
}

/// The table of that name in another one, made if it is not there.
fn table<'t>(parent: &'t mut dyn TableLike, name: &str) -> Option<&'t mut dyn TableLike> {
    let new = || {
        let mut table = Table::new();
        // It is named by the tables in it.
        table.set_implicit(true);
        Item::Table(table)
    };
    let item = parent.entry(name).or_insert_with(new);
    item.as_table_like_mut()
}

/// Waits for the right to change the file; it ends with what this gives, however the process ends.
fn lock(home: &Path) -> Result<File, EditError> {
    let path = home.join(LOCK_FILE);
    let unwritable = |source| EditError::Unwritable {
        path: path.clone(),
        source,
    };
    let no_follow = i32::try_from((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits()).unwrap_or_default();
    let file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .mode(MODE_NEW)
        .custom_flags(no_follow)
        .open(&path)
        .map_err(unwritable)?;
    rustix::io::retry_on_intr(|| rustix::fs::flock(&file, FlockOperation::LockExclusive))
        .map_err(|error| unwritable(error.into()))?;
    Ok(file)
}

/// A file that is written and has no name yet. Dropped, it is gone.
struct New {
    path: PathBuf,
    target: PathBuf,
    is_named: bool,
}

impl New {
    /// Writes what is to take the place of the configuration, durably. Where that is a link, it stays one.
    fn write(home: &Path, text: &str) -> Result<Self, EditError> {
        let path = home.join(CONFIG_FILE);
        let target = fs::canonicalize(&path).unwrap_or(path);
        let mut name = target.clone().into_os_string();
        name.push(NEW_SUFFIX);
        let new = Self {
            path: name.into(),
            target,
            is_named: false,
        };
        let written = new.fill(text);
        written.map_err(|source| EditError::Unwritable {
            path: new.path.clone(),
            source,
        })?;
        Ok(new)
    }

    fn fill(&self, text: &str) -> io::Result<()> {
        match fs::remove_file(&self.path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            // What a writer left that was cut off.
            _ => {}
        }
        let mut file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(MODE_NEW)
            .open(&self.path)?;
        if let Ok(there) = fs::metadata(&self.target) {
            let mode = there.permissions().mode() & 0o777;
            file.set_permissions(Permissions::from_mode(mode))?;
        }
        file.write_all(text.as_bytes())?;
        file.sync_all()
    }

    /// Lets it take the place of the old file.
    fn name(mut self) -> Result<(), EditError> {
        let unwritable = |source| EditError::Unwritable {
            path: self.target.clone(),
            source,
        };
        fs::rename(&self.path, &self.target).map_err(unwritable)?;
        self.is_named = true;
        // From here on it is what a reader finds. That the name outlives a power cut is as good as can be had.
        if let Some(folder) = self.target.parent() {
            let synced = File::open(folder).and_then(|folder| folder.sync_all());
            if let Err(error) = synced {
                tracing::warn!(%error, "the name of a file may not outlive a power cut");
            }
        }
        Ok(())
    }
}

impl Drop for New {
    fn drop(&mut self) {
        if !self.is_named {
            let _gone_or_in_nobodys_way = fs::remove_file(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::{EditError, set_skill_limit, with_limit};
    use crate::config::{CONFIG_FILE, Config};
    use crate::limits::LimitKey;

    const HOST_CALLS: LimitKey = LimitKey::HostCalls;

    fn edited(text: &str) -> String {
        with_limit(text, &"greet".parse().unwrap(), HOST_CALLS, 7).unwrap()
    }

    #[test]
    fn what_is_not_changed_stays_byte_for_byte() {
        for (before, after) in [
            ("", "[skills.greet.limits]\nhost_calls = 7\n"),
            (
                "# mine",
                "# mine\n\n[skills.greet.limits]\nhost_calls = 7\n",
            ),
            (
                "# mine\n[limits]\nfuel = 5 # little\n",
                "# mine\n[limits]\nfuel = 5 # little\n\n[skills.greet.limits]\nhost_calls = 7\n",
            ),
            (
                "[skills.greet.limits]\n# few\nhost_calls  =  3   # why\nfuel = 1\n[runs]\n",
                "[skills.greet.limits]\n# few\nhost_calls  =  7   # why\nfuel = 1\n[runs]\n",
            ),
            (
                "[skills]\ngreet = { limits = { fuel = 1 } } # short\n",
                "[skills]\ngreet = { limits = { fuel = 1 , host_calls = 7 } } # short\n",
            ),
        ] {
            let text = edited(before);
            assert_eq!(text, after);
            assert_eq!(edited(&text), text);
        }
    }

    /// Whatever form the sections had, the result is the configuration that was meant.
    #[test]
    fn a_limit_is_set_in_every_form_of_the_sections() {
        let home = tempfile::tempdir().unwrap();
        for text in [
            "skills.greet.limits.host_calls = 1\n",
            "[skills]\ngreet.grant = []\n",
            "[skills.greet]\nlimits = {}\n[skills.other]\n",
            "skills = { greet = { grant = [] } }\n",
            "[skills.\"greet\"]\n[ledger]\n",
        ] {
            let config = Config::from_text(home.path(), &edited(text)).unwrap();
            let limits = &config.grants.skills["greet"].limits;
            assert_eq!(limits["host_calls"], 7, "{text}");
        }
    }

    #[test]
    fn what_is_refused_leaves_the_file_as_it_was() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join(CONFIG_FILE);
        let set = |value, refuses: bool| {
            let mut taken = 0;
            let edited = set_skill_limit(
                home.path(),
                &"greet".parse().unwrap(),
                HOST_CALLS,
                value,
                &mut |_| {
                    taken += 1;
                    match refuses {
                        true => Err("no".into()),
                        false => Ok(()),
                    }
                },
            );
            (edited, taken)
        };
        fs::write(&path, "# first\n").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        for value in [0, HOST_CALLS.max_value() + 1, u64::MAX] {
            let (refused, taken) = set(value, false);
            assert!(matches!(refused, Err(EditError::Config(_))), "{refused:?}");
            assert_eq!(taken, 0);
        }
        let (refused, _) = set(5, true);
        assert!(
            matches!(refused, Err(EditError::NotTakenOver(_))),
            "{refused:?}"
        );
        assert_eq!(fs::read_to_string(&path).unwrap(), "# first\n");
        fs::write(&path, "no = \"section\"\n").unwrap();
        assert!(matches!(set(5, false).0, Err(EditError::Config(_))));
        assert_eq!(fs::read_to_string(&path).unwrap(), "no = \"section\"\n");
        fs::write(&path, "# first\n").unwrap();
        assert_eq!(set(5, false).0.unwrap(), None);
        assert_eq!(set(6, false).0.unwrap(), Some(5));
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o640);
        let names = fs::read_dir(home.path()).unwrap();
        let names = names.map(|entry| entry.unwrap().file_name());
        assert!(names.into_iter().all(|name| name != "config.toml.new"));
    }

    #[test]
    fn a_link_stays_one() {
        let (home, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let file = elsewhere.path().join("kept.toml");
        fs::write(&file, "# kept\n").unwrap();
        symlink(&file, home.path().join(CONFIG_FILE)).unwrap();
        let skill = "greet".parse().unwrap();
        set_skill_limit(home.path(), &skill, HOST_CALLS, 5, &mut |_| Ok(())).unwrap();
        let text = fs::read_to_string(&file).unwrap();
        assert!(
            text.starts_with("# kept") && text.contains("host_calls = 5"),
            "{text}"
        );
        assert!(home.path().join(CONFIG_FILE).is_symlink());
    }
}
