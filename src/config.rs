//! From environment and `config.toml` to one validated [`Config`].
//!
//! An unknown key, a wrong type or a value out of range stops the load with file and key, and with the
//! line where it is a matter of TOML; nothing falls back to a default in silence.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::capability::{Capability, CapabilityError, Grant, GrantSource, SkillName};
use crate::limits::{LimitError, LimitOverrides, Limits, Source};

/// The environment variable that names the home folder.
pub const HOME_VARIABLE: &str = "SKILLRUN_HOME";

/// The name of the configuration file inside the home folder.
pub const CONFIG_FILE: &str = "config.toml";

/// Bytes of a configuration file; a larger one is not ours.
const CONFIG_BYTES_MAX: u64 = 1024 * 1024;

/// Runs that may go on at once at most: more pool slots than this exhaust the address space of a
/// process.
const RUNS_AT_ONCE_MAX: usize = 10_000;
/// Runs that may wait for admission at most; each holds its input in memory.
const QUEUE_MAX: usize = 100_000;

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
    /// The home folder; it holds `config.toml`, `skills/` and `runs/`.
    pub home: PathBuf,
    /// The limits of every run, before a manifest lowers or a call replaces them.
    pub limits: Limits,
    /// What a finished append promises.
    pub durability: Durability,
    /// How many runs are admitted.
    pub runs: Admission,
    /// What skills are granted.
    pub grants: Grants,
    /// Values that the host puts into outgoing requests, by name.
    pub secrets: BTreeMap<String, SecretSource>,
    /// Outgoing requests.
    pub http: Http,
}

/// What the operator grants and sets, to every skill and to single ones.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Grants {
    /// `capabilities.grant`: what every skill may do that asks for it.
    pub every_skill: Vec<Capability>,
    /// `[skills.<name>]`
    pub skills: BTreeMap<SkillName, SkillSettings>,
}

/// What the operator sets for one skill.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SkillSettings {
    /// `grant`: what this skill may do if it asks for it.
    pub grant: Vec<Capability>,
    /// `limits`: values in place of those of `[limits]`, valid and within their ranges.
    pub limits: LimitOverrides,
}

impl Grants {
    /// Everything that is granted to the skill of that name.
    pub fn of(&self, skill: &str) -> Vec<Grant> {
        let grants = |list: &[Capability], source| {
            let grant = |capability: &Capability| Grant {
                capability: capability.clone(),
                source,
            };
            list.iter().map(grant).collect::<Vec<_>>()
        };
        let mut all = grants(&self.every_skill, GrantSource::Config);
        if let Some(settings) = self.skills.get(skill) {
            all.extend(grants(&settings.grant, GrantSource::Skill));
        }
        all
    }
}

/// `[secrets.<NAME>]`: where a secret is found, and which requests get it. The guest does not see it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SecretSource {
    /// The file that holds it; a line end at its end does not count. Either this or `env`.
    pub file: Option<PathBuf>,
    /// The environment variable of the host that holds it.
    pub env: Option<String>,
    /// The requests that get it, as in a capability without the methods:
    /// `https://host[:port]/path-prefix`.
    pub url: String,
    /// The header field that it is put into, in place of what the guest may have put there.
    pub header: String,
    /// What stands before it in the field, such as `Bearer `.
    #[serde(default)]
    pub prefix: String,
}

/// `[http]`: outgoing requests.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Http {
    /// Networks that a granted host name may resolve to although they are loopback, link-local, private
    /// or otherwise not public, such as `10.1.0.0/16`. A grant whose host is an address needs no entry.
    pub addresses_allowed: Vec<ipnet::IpNet>,
}

/// Bounds on runs that go on at once, from `[runs]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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

/// Values of limits as they stand in the file, each with its place.
type LimitsSection = BTreeMap<toml::Spanned<String>, i64>;

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct File {
    limits: LimitsSection,
    ledger: LedgerSection,
    runs: RunsSection,
    capabilities: CapabilitiesSection,
    skills: BTreeMap<SkillName, SkillSection>,
    secrets: BTreeMap<String, toml::Spanned<SecretSource>>,
    http: Http,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct RunsSection {
    at_once_max: Option<toml::Spanned<usize>>,
    queue_max: Option<toml::Spanned<usize>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct CapabilitiesSection {
    grant: Vec<toml::Spanned<String>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct SkillSection {
    grant: Vec<toml::Spanned<String>>,
    limits: LimitsSection,
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
        let place = Place(text);
        let defaults = Admission::default();
        let runs = Admission {
            at_once_max: match &file.runs.at_once_max {
                Some(value) => place.within("runs.at_once_max", value, 1, RUNS_AT_ONCE_MAX)?,
                None => defaults.at_once_max,
            },
            queue_max: match &file.runs.queue_max {
                Some(value) => place.within("runs.queue_max", value, 0, QUEUE_MAX)?,
                None => defaults.queue_max,
            },
        };
        let overrides = place.limits(file.limits)?;
        let limits = Limits::default()
            .with(Source::Config, &overrides)
            .map_err(|problem| ConfigProblem::Limit { line: 1, problem })?;
        let mut skills = BTreeMap::new();
        for (name, section) in file.skills {
            let settings = SkillSettings {
                grant: place.grants(section.grant)?,
                limits: place.limits(section.limits)?,
            };
            skills.insert(name, settings);
        }
        let mut secrets = BTreeMap::new();
        for (name, source) in file.secrets {
            place.secret(&name, &source)?;
            secrets.insert(name, source.into_inner());
        }
        Ok(Self {
            home: home.to_owned(),
            limits,
            durability: file.ledger.durability,
            runs,
            grants: Grants {
                every_skill: place.grants(file.capabilities.grant)?,
                skills,
            },
            secrets,
            http: file.http,
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
}

/// The text of a configuration, in which values have their place.
struct Place<'t>(&'t str);

impl Place<'_> {
    fn line<T>(&self, spanned: &toml::Spanned<T>) -> usize {
        let before = self.0.get(..spanned.span().start).unwrap_or_default();
        before.matches('\n').count() + 1
    }

    fn within(
        &self,
        key: &'static str,
        value: &toml::Spanned<usize>,
        min: usize,
        max: usize,
    ) -> Result<usize, ConfigProblem> {
        let line = self.line(value);
        let value = *value.get_ref();
        if (min..=max).contains(&value) {
            return Ok(value);
        }
        Err(ConfigProblem::OutOfRange {
            line,
            key,
            value,
            min,
            max,
        })
    }

    fn limits(&self, section: LimitsSection) -> Result<LimitOverrides, ConfigProblem> {
        let mut overrides = LimitOverrides::new();
        for (key, value) in section {
            let line = self.line(&key);
            let one = LimitOverrides::from([(key.into_inner(), value)]);
            Limits::default()
                .with(Source::Config, &one)
                .map_err(|problem| ConfigProblem::Limit { line, problem })?;
            overrides.extend(one);
        }
        Ok(overrides)
    }

    fn grants(
        &self,
        section: Vec<toml::Spanned<String>>,
    ) -> Result<Vec<Capability>, ConfigProblem> {
        let grant = |entry: toml::Spanned<String>| {
            let line = self.line(&entry);
            let parsed = entry.into_inner().parse::<Capability>();
            let capability =
                parsed.map_err(|problem| ConfigProblem::Capability { line, problem })?;
            if capability.is_grantable() {
                Ok(capability)
            } else {
                let capability = capability.to_string();
                Err(ConfigProblem::NotGrantable { line, capability })
            }
        };
        section.into_iter().map(grant).collect()
    }

    fn secret(
        &self,
        name: &str,
        source: &toml::Spanned<SecretSource>,
    ) -> Result<(), ConfigProblem> {
        let line = self.line(source);
        let key = format!("secrets.{name}");
        let invalid = |expected| ConfigProblem::Secret {
            line,
            key: key.clone(),
            expected,
        };
        let is_name = format!("secret:{name}").parse::<Capability>().is_ok();
        let source = source.get_ref();
        let is_url = format!("net:{}#GET", source.url)
            .parse::<Capability>()
            .is_ok();
        let is_text = |text: &str| text.chars().all(|c| c == ' ' || c.is_ascii_graphic());
        if !is_name {
            Err(invalid("a name of letters, digits and _"))
        } else if source.file.is_some() == source.env.is_some() {
            Err(invalid("either file or env"))
        } else if !is_url {
            Err(invalid("url = \"https://host[:port]/path-prefix\""))
        } else if http::HeaderName::from_bytes(source.header.as_bytes()).is_err() {
            Err(invalid("header = the name of a header field"))
        } else if !is_text(&source.prefix) {
            Err(invalid("a prefix of printable ASCII"))
        } else {
            Ok(())
        }
    }
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
    #[error("line {line}")]
    Limit {
        /// The line of the key, from 1.
        line: usize,
        /// What is wrong.
        #[source]
        problem: LimitError,
    },
    /// Another number that is out of range.
    #[error("line {line}: {key} = {value} is out of range: expected {min} to {max}")]
    OutOfRange {
        /// The line of the value, from 1.
        line: usize,
        /// The key.
        key: &'static str,
        /// The value as given.
        value: usize,
        /// The smallest value accepted.
        min: usize,
        /// The largest value accepted.
        max: usize,
    },
    /// A grant that is no capability.
    #[error("line {line}")]
    Capability {
        /// The line of the grant, from 1.
        line: usize,
        /// What is wrong.
        #[source]
        problem: CapabilityError,
    },
    /// A grant that leaves open what is granted.
    #[error("line {line}: {capability} cannot be granted: expected a folder in place of the *")]
    NotGrantable {
        /// The line of the grant, from 1.
        line: usize,
        /// The grant as given.
        capability: String,
    },
    /// A secret that cannot be used.
    #[error("line {line}: {key}: expected {expected}")]
    Secret {
        /// The line of the section, from 1.
        line: usize,
        /// The section.
        key: String,
        /// What should stand there.
        expected: &'static str,
    },
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{Config, ConfigProblem, Durability};
    use crate::capability::GrantSource;
    use crate::limits::{LimitKey, Source};
    use crate::telemetry::chain;

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
    fn grants_are_for_every_skill_or_for_one() {
        let text = "[capabilities]\ngrant = [\"env:A\"]\n[skills.b]\ngrant = [\"approval\"]";
        let grants = parse(text).unwrap().grants;
        let sources = |name| {
            let grants = grants.of(name).into_iter();
            grants.map(|grant| grant.source).collect::<Vec<_>>()
        };
        assert_eq!(sources("a"), [GrantSource::Config]);
        assert_eq!(sources("b"), [GrantSource::Config, GrantSource::Skill]);
    }

    #[test]
    fn unknown_keys_wrong_types_and_bad_values_are_refused_by_name() {
        for (text, part) in [
            ("[limit]\nfuel = 7", "limit"),
            ("[limits]\nfuell = 7", "fuell"),
            ("[limits]\nfuel = \"7\"", "line 2"),
            ("[limits]\nfuel = 0", "fuel"),
            ("[runs]\nat_once_max = 0", "runs.at_once_max"),
            (
                "[runs]\n\nqueue_max = 100_001",
                "line 3: runs.queue_max = 100001",
            ),
            ("\n[skills.a.limits]\nfuel = 0", "line 3"),
            ("[skills.A]", "line 1"),
            ("[skills.a]\ngrants = []", "grants"),
            ("[capabilities]\ngrant = [\n\"env:1\"]", "line 3"),
            (
                "[capabilities]\ngrant = [\n\"fs:ro:*=/a\"]",
                "line 3: fs:ro:*=/a cannot",
            ),
            (
                "[secrets.A]\nurl = \"https://a/\"\nheader = \"a\"",
                "secrets.A: expected either",
            ),
            (
                "[secrets.A]\nenv = \"A\"\nurl = \"a\"\nheader = \"a\"",
                "secrets.A: expected url",
            ),
            (
                "[secrets.A]\nenv = \"A\"\nurl = \"https://a/\"\nheader = \"a b\"",
                "secrets.A: expected header",
            ),
            ("[http]\naddresses_allowed = [\"10.0.0.0\"]", "line 2"),
            ("[ledger]\ndurability = \"none\"", "durability"),
        ] {
            let problem = chain(&parse(text).unwrap_err());
            assert!(problem.contains(part), "{text:?}: {problem}");
        }
    }
}
