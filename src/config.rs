//! From environment and `config.toml` to one validated [`Config`].
//!
//! An unknown key, a wrong type or a value out of range stops the load with file and key, and with the
//! line where it is a matter of TOML; nothing falls back to a default in silence.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::limits::{LimitError, LimitOverrides, Limits, Source};

/// The environment variable that names the home folder.
pub const HOME_VARIABLE: &str = "SKILLRUN_HOME";

/// The name of the configuration file inside the home folder.
pub const CONFIG_FILE: &str = "config.toml";

/// Bytes of a configuration file; a larger one is not ours.
const CONFIG_BYTES_MAX: u64 = 1024 * 1024;

/// Runs that may go on at once at most: more pool slots than this exhaust the address space of a
/// process.
const RUNS_AT_ONCE_MAX: u64 = 10_000;
/// Runs that may wait for admission at most; each holds its input in memory.
const QUEUE_MAX: u64 = 100_000;

/// The largest `engine.component_bytes_max`. The largest components in use, a Python interpreter with
/// libraries, have 20 to 40 MiB. Nobody reads more of a file than this, so it protects the memory of
/// whoever looks at a component, too.
pub const COMPONENT_BYTES_MAX: u64 = 256 * 1024 * 1024;
/// The largest `engine.compile_time_ms`: ten minutes.
const COMPILE_TIME_MS_MAX: u64 = 600_000;

/// What a finished append promises.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Durability {
    /// Sync points return only when their bytes would survive a power cut.
    #[default]
    Sync,
    /// Sync points return when the operating system has the bytes: they survive a crash of the
    /// process, not of the machine. `run_started` says so.
    Relaxed,
}

/// Everything that an operator can set, validated.
#[derive(Debug, Clone)]
pub struct Config {
    /// The home folder; it holds `config.toml`, `skills/`, `runs/` and `cache/`.
    pub home: PathBuf,
    /// The limits of every run, before a manifest lowers or a call replaces them.
    pub limits: Limits,
    /// What a finished append promises.
    pub durability: Durability,
    /// How many runs are admitted.
    pub runs: Admission,
    /// Bounds on what is compiled.
    pub loading: Loading,
}

/// Bounds on runs that go on at once, from `[runs]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Admission {
    /// Runs that go on at once, 1 to 10,000. It also sizes the engine's pool of instances.
    pub at_once_max: usize,
    /// Runs that may wait for one of those places, 0 to 100,000; beyond it a start is refused.
    pub queue_max: usize,
}

impl Default for Admission {
    fn default() -> Self {
        Self {
            at_once_max: 256,
            queue_max: 1024,
        }
    }
}

/// Bounds on the loading of a component, from `[engine]`. A component that is loaded has been paid for,
/// so these are no limits of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Loading {
    /// Bytes of a component, 1 to [`COMPONENT_BYTES_MAX`]. Protects the compiler, whose memory and time
    /// grow with them.
    pub component_bytes_max: u64,
    /// Milliseconds for which whoever asks for a component waits for its compilation, 1 to 600,000.
    /// Protects callers from a component that takes for ever.
    pub compile_time_ms: u64,
}

impl Default for Loading {
    fn default() -> Self {
        Self {
            component_bytes_max: 64 * 1024 * 1024,
            compile_time_ms: 60_000,
        }
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct File {
    limits: LimitOverrides,
    ledger: LedgerSection,
    runs: Admission,
    engine: Loading,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct LedgerSection {
    durability: Durability,
}

impl Config {
    /// The configuration of the home folder that the environment names: `$SKILLRUN_HOME`, else
    /// `.skillrun` in the user's own home.
    ///
    /// # Errors
    /// No home can be found, or [`Config::load`] fails.
    pub fn from_env() -> Result<Self, ConfigError> {
        let home = match std::env::var_os(HOME_VARIABLE).filter(|value| !value.is_empty()) {
            Some(home) => PathBuf::from(home),
            None => std::env::home_dir()
                .filter(|home| !home.as_os_str().is_empty())
                .ok_or(ConfigError::NoHome)?
                .join(".skillrun"),
        };
        Self::load(&home)
    }

    /// The configuration in `home`; every default when there is no file.
    ///
    /// # Errors
    /// The file cannot be read, is too large, is not TOML, or has an unknown key or a bad value.
    pub fn load(home: &Path) -> Result<Self, ConfigError> {
        let path = home.join(CONFIG_FILE);
        let unreadable = |source| ConfigError::Unreadable {
            path: path.clone(),
            source,
        };
        let text = match std::fs::metadata(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
            Err(error) => return Err(unreadable(error)),
            Ok(metadata) if metadata.len() > CONFIG_BYTES_MAX => {
                return Err(ConfigError::TooLarge {
                    path,
                    bytes: metadata.len(),
                });
            }
            Ok(_) => std::fs::read_to_string(&path).map_err(unreadable)?,
        };
        Self::parse(home, &text).map_err(|problem| ConfigError::Invalid { path, problem })
    }

    fn parse(home: &Path, text: &str) -> Result<Self, ConfigProblem> {
        let file: File =
            toml::from_str(text).map_err(|error| ConfigProblem::Syntax(Box::new(error)))?;
        let limits = Limits::default().with(Source::Config, &file.limits)?;
        check(
            "runs.at_once_max",
            u64_of(file.runs.at_once_max),
            1,
            RUNS_AT_ONCE_MAX,
        )?;
        check("runs.queue_max", u64_of(file.runs.queue_max), 0, QUEUE_MAX)?;
        check(
            "engine.component_bytes_max",
            file.engine.component_bytes_max,
            1,
            COMPONENT_BYTES_MAX,
        )?;
        check(
            "engine.compile_time_ms",
            file.engine.compile_time_ms,
            1,
            COMPILE_TIME_MS_MAX,
        )?;
        Ok(Self {
            home: home.to_owned(),
            limits,
            durability: file.ledger.durability,
            runs: file.runs,
            loading: file.engine,
        })
    }

    /// Where skills are installed.
    pub fn skills_dir(&self) -> PathBuf {
        self.home.join("skills")
    }

    /// Where ledgers are kept.
    pub fn runs_dir(&self) -> PathBuf {
        self.home.join("runs")
    }

    /// Where compiled components are kept. It may be deleted at any time.
    pub fn cache_dir(&self) -> PathBuf {
        self.home.join("cache")
    }
}

fn check(key: &'static str, value: u64, min: u64, max: u64) -> Result<(), ConfigProblem> {
    if (min..=max).contains(&value) {
        Ok(())
    } else {
        Err(ConfigProblem::OutOfRange {
            key,
            value,
            min,
            max,
        })
    }
}

fn u64_of(value: usize) -> u64 {
    u64::try_from(value).unwrap_or(u64::MAX)
}

/// Why there is no configuration.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// Neither variable nor user names a home folder.
    #[error("no home folder: neither SKILLRUN_HOME nor HOME is set")]
    NoHome,
    /// The file is there and cannot be read.
    #[error("cannot read {}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the operating system said.
        source: std::io::Error,
    },
    /// The file is larger than any configuration.
    #[error("{} has {bytes} bytes: expected at most {CONFIG_BYTES_MAX}", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// Its size.
        bytes: u64,
    },
    /// The file's content is refused.
    #[error("invalid configuration in {}", path.display())]
    Invalid {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        #[source]
        problem: ConfigProblem,
    },
}

/// What is wrong inside a configuration file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConfigProblem {
    /// Not TOML, an unknown key or a wrong type; the message carries line and column.
    #[error(transparent)]
    Syntax(Box<toml::de::Error>),
    /// A limit that does not exist or is out of range.
    #[error(transparent)]
    Limit(#[from] LimitError),
    /// Another number that is out of range.
    #[error("{key} = {value} is out of range: expected {min} to {max}")]
    OutOfRange {
        /// The key.
        key: &'static str,
        /// The value as given.
        value: u64,
        /// The smallest value accepted.
        min: u64,
        /// The largest value accepted.
        max: u64,
    },
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{Config, ConfigProblem, Durability};
    use crate::limits::{LimitKey, Source};

    fn parse(text: &str) -> Result<Config, ConfigProblem> {
        Config::parse(Path::new("home"), text)
    }

    #[test]
    fn an_empty_file_is_every_default() {
        let config = parse("").unwrap();
        assert_eq!(config.durability, Durability::Sync);
        assert_eq!(config.limits, crate::limits::Limits::default());
    }

    #[test]
    fn values_are_taken_with_their_source() {
        let config = parse("[limits]\nfuel = 7\n[ledger]\ndurability = \"relaxed\"").unwrap();
        let fuel = config.limits.get(LimitKey::Fuel);
        assert_eq!((fuel.value, fuel.source), (7, Source::Config));
        assert_eq!(config.durability, Durability::Relaxed);
    }

    #[test]
    fn unknown_keys_wrong_types_and_bad_values_are_refused_by_name() {
        for (text, part) in [
            ("[limit]\nfuel = 7", "limit"),
            ("[limits]\nfuell = 7", "fuell"),
            ("[limits]\nfuel = \"7\"", "line 2"),
            ("[limits]\nfuel = 0", "fuel"),
            ("[runs]\nat_once_max = 0", "runs.at_once_max"),
            ("[ledger]\ndurability = \"none\"", "durability"),
            (
                "[engine]\ncomponent_bytes_max = 268435457",
                "engine.component_bytes_max",
            ),
            ("[engine]\ncomponent_bytes_max = 0", "expected 1 to"),
            (
                "[engine]\ncompile_time_ms = 600001",
                "engine.compile_time_ms = 600001 is out of range: expected 1 to 600000",
            ),
            ("[engine]\ncompile_time = 1", "compile_time"),
        ] {
            let problem = parse(text).unwrap_err().to_string();
            assert!(problem.contains(part), "{text:?}: {problem}");
        }
    }
}
