//! From environment and `config.toml` to one validated [`Config`].
//!
//! An unknown key, a wrong type or a value out of range stops the load with file and key, and with the
//! line where it is a matter of TOML; nothing falls back to a default in silence.

mod edit;
mod file;
mod mcp;
mod mcp_server;
mod model;
mod runs;
mod runtime;
mod secret;
mod serve;
mod telemetry;

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use serde::{Deserialize, Serialize};

use crate::capability::{Capability, CapabilityError, Grant, GrantSource, SkillName};
use crate::limits::{LimitError, LimitOverrides, Limits};

pub use edit::{EditError, TakeOver, set_skill_limit};
pub use mcp::McpSettings;
pub use mcp_server::{HiddenText, McpEndpoint, McpProcess, McpServer};
pub use model::{
    ModelAlias, ModelApi, ModelKey, ModelKeySource, ModelPrices, ModelProviderSettings,
};
pub use runs::{Admission, OnRestart, Recovery};
pub use runtime::RuntimeSettings;
pub(crate) use secret::is_shown_secret;
pub use secret::{SECRET_BYTES_MIN, Secret, SecretError};
pub use serve::{Serve, TOKEN_BYTES_MIN, Token, TokenSource};
pub use telemetry::Telemetry;

/// The environment variable that names the home folder.
pub const HOME_VARIABLE: &str = "SKILLRUN_HOME";

/// The name of the configuration file inside the home folder.
pub const CONFIG_FILE: &str = "config.toml";

/// Bytes of a configuration file; a larger one is not ours.
const CONFIG_BYTES_MAX: u64 = 1024 * 1024;
/// Bytes of a file of certificates that are read; the system's own has a quarter of it.
const CA_FILE_BYTES_MAX: u64 = 1024 * 1024;

/// The largest `engine.component_bytes_max`. The largest components in use, a Python interpreter with
/// libraries, have 20 to 40 MiB. Nobody reads more of a file than this, so it protects the memory of
/// whoever looks at a component, too.
pub const COMPONENT_BYTES_MAX: u64 = 256 * 1024 * 1024;

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
    /// The home folder; it holds `config.toml`, `skills/`, `runs/`, `cache/` and `workspaces/`.
    pub home: PathBuf,
    /// The limits of every run, before a manifest lowers or a call replaces them.
    pub limits: Limits,
    /// What a finished append promises.
    pub durability: Durability,
    /// How many runs are admitted.
    pub runs: Admission,
    /// Bounds on what is compiled.
    pub loading: Loading,
    /// What skills are granted.
    pub grants: Grants,
    /// Values that the host puts into outgoing requests, by name.
    pub secrets: BTreeMap<String, SecretSource>,
    /// Outgoing requests.
    pub http: Http,
    /// Servers whose tools skills may call, by name.
    pub mcp_servers: BTreeMap<String, McpServer>,
    /// How questions are answered.
    pub approvals: Approvals,
    /// What becomes of runs whose process is gone.
    pub recovery: Recovery,
    /// Who serves language models, by name.
    pub model_providers: BTreeMap<String, ModelProviderSettings>,
    /// What the operator calls models.
    pub model_aliases: BTreeMap<String, ModelAlias>,
    /// The HTTP surface.
    pub serve: Serve,
    /// Traces.
    pub telemetry: Telemetry,
    /// Executions of agents.
    pub runtime: RuntimeSettings,
    /// The MCP server.
    pub mcp: McpSettings,
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
    /// Everything that is granted to the installed skill of that name.
    pub fn of(&self, skill: &str) -> Vec<Grant> {
        let mut all = self.of_every_skill();
        if let Some(settings) = self.skills.get(skill) {
            all.extend(grants(&settings.grant, GrantSource::Skill));
        }
        all
    }

    /// What is granted whatever the skill is called: all that one gets which is not installed, since its
    /// name is no more than its own claim.
    pub fn of_every_skill(&self) -> Vec<Grant> {
        grants(&self.every_skill, GrantSource::Config)
    }
}

fn grants(list: &[Capability], source: GrantSource) -> Vec<Grant> {
    let grant = |capability: &Capability| Grant {
        capability: capability.clone(),
        source,
    };
    list.iter().map(grant).collect()
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
    /// A file of certificates in PEM form that are trusted beside those of the system. A relative one
    /// lies in the home folder.
    pub ca_file: Option<PathBuf>,
}

/// `[approvals]`: how questions of skills are answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Approvals {
    /// Who answers.
    pub policy: ApprovalPolicy,
    /// What becomes of a question that nobody answers in time.
    pub on_timeout: OnTimeout,
    /// Milliseconds for which a run that waits for an answer keeps its instance and its memory. After that
    /// it is suspended, and done again from its ledger when the answer comes.
    pub suspend_after_ms: u64,
}

impl Default for Approvals {
    fn default() -> Self {
        Self {
            policy: ApprovalPolicy::default(),
            on_timeout: OnTimeout::default(),
            suspend_after_ms: 60_000,
        }
    }
}

impl Approvals {
    /// The same, where a call sets who answers.
    #[must_use]
    pub fn with(self, policy: Option<ApprovalPolicy>) -> Self {
        Self {
            policy: policy.unwrap_or(self.policy),
            ..self
        }
    }
}

/// Who answers the questions of skills.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ApprovalPolicy {
    /// A person.
    #[default]
    Ask,
    /// Nobody is asked: yes.
    Yes,
    /// Nobody is asked: no.
    No,
}

/// What becomes of a question that nobody answers in time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnTimeout {
    /// The answer is no.
    #[default]
    Reject,
    /// It stays open.
    Block,
}

/// Bounds on the loading of a component, from `[engine]`. A component that is loaded has been paid for,
/// so these are no limits of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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

impl Config {
    /// The configuration of the home folder that the environment names: `$SKILLRUN_HOME`, else
    /// `.skillrun` in the user's own home.
    ///
    /// # Errors
    /// No home can be found, or [`Config::load`] fails.
    pub fn from_env() -> Result<Self, ConfigError> {
        Self::load(&Self::home_from_env()?)
    }

    /// The home folder that the environment names.
    ///
    /// # Errors
    /// It names none.
    pub fn home_from_env() -> Result<PathBuf, ConfigError> {
        if let Some(home) = std::env::var_os(HOME_VARIABLE).filter(|value| !value.is_empty()) {
            return Ok(PathBuf::from(home));
        }
        let user = std::env::home_dir().filter(|home| !home.as_os_str().is_empty());
        Ok(user.ok_or(ConfigError::NoHome)?.join(".skillrun"))
    }

    /// The configuration in `home`; every default when there is no file.
    ///
    /// # Errors
    /// The file cannot be read, is too large, is not TOML, or has an unknown key or a bad value.
    pub fn load(home: &Path) -> Result<Self, ConfigError> {
        Self::from_text(home, &read_text(home)?)
    }

    /// The configuration that a text would be as `config.toml` of `home`.
    ///
    /// # Errors
    /// It is too large, is not TOML, or has an unknown key or a bad value.
    pub fn from_text(home: &Path, text: &str) -> Result<Self, ConfigError> {
        let path = home.join(CONFIG_FILE);
        if u64::try_from(text.len()).is_ok_and(|bytes| bytes > CONFIG_BYTES_MAX) {
            return Err(ConfigError::TooLarge { path });
        }
        file::parse(home, text).map_err(|problem| ConfigError::Invalid { path, problem })
    }

    /// The configuration file; it need not exist.
    pub fn config_file(&self) -> PathBuf {
        self.home.join(CONFIG_FILE)
    }

    /// The secrets with their values.
    ///
    /// # Errors
    /// A value is not there or cannot be used.
    pub fn read_secrets(&self) -> Result<Vec<Secret>, ConfigError> {
        let read = |(name, source): (&String, &SecretSource)| {
            Secret::read(&self.home, name, source).map_err(|problem| ConfigError::Secret {
                name: name.clone(),
                problem,
            })
        };
        self.secrets.iter().map(read).collect()
    }

    /// The keys of all providers of models that take one, by the name of the provider.
    ///
    /// # Errors
    /// A key is not there or cannot be used.
    pub fn read_model_keys(&self) -> Result<BTreeMap<String, ModelKey>, ConfigError> {
        let read = |(name, settings): (&String, &ModelProviderSettings)| {
            let source = settings.key.as_ref()?;
            let key = ModelKey::read(&self.home, name, source, &self.secrets);
            Some(match key {
                Ok(key) => Ok((name.clone(), key)),
                Err(problem) => Err(ConfigError::ModelKey {
                    provider: name.clone(),
                    problem,
                }),
            })
        };
        self.model_providers.iter().filter_map(read).collect()
    }

    /// The certificates of `http.ca_file`, each in DER form.
    ///
    /// # Errors
    /// The file cannot be read, or has none.
    pub fn read_ca_file(&self) -> Result<Vec<Vec<u8>>, ConfigError> {
        let Some(file) = &self.http.ca_file else {
            return Ok(Vec::new());
        };
        let path = self.home.join(file);
        let mut text = Vec::new();
        let read = open_regular(&path)
            .and_then(|file| file.take(CA_FILE_BYTES_MAX).read_to_end(&mut text));
        if let Err(source) = read {
            return Err(ConfigError::Unreadable { path, source });
        }
        let certificates = CertificateDer::pem_slice_iter(&text);
        let certificates: Result<Vec<_>, _> = certificates.collect();
        match certificates {
            Ok(found) if !found.is_empty() => {
                Ok(found.iter().map(|found| found.to_vec()).collect())
            }
            _ => Err(ConfigError::NoCertificates { path }),
        }
    }

    /// Where skills are installed.
    pub fn skills_dir(&self) -> PathBuf {
        self.home.join("skills")
    }

    /// Where ledgers are kept.
    pub fn runs_dir(&self) -> PathBuf {
        self.home.join("runs")
    }

    /// Where folders are made for agents, each of which goes with its execution.
    pub fn workspaces_dir(&self) -> PathBuf {
        self.home.join("workspaces")
    }

    /// Where agents keep their documents.
    pub fn documents_dir(&self) -> PathBuf {
        self.home.join("documents")
    }

    /// Instances that all runs and executions need at once.
    pub fn instances_max(&self) -> usize {
        self.runs
            .instances_max()
            .saturating_add(self.runtime.executions_max)
    }

    /// Where compiled components are kept. It may be deleted at any time.
    pub fn cache_dir(&self) -> PathBuf {
        self.home.join("cache")
    }
}

/// The text of the configuration in `home`; empty when there is no file.
fn read_text(home: &Path) -> Result<String, ConfigError> {
    let path = home.join(CONFIG_FILE);
    let unreadable = |source| ConfigError::Unreadable {
        path: path.clone(),
        source,
    };
    let mut text = String::new();
    match open_regular(&path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
        Err(error) => return Err(unreadable(error)),
        Ok(file) => {
            let read = file.take(CONFIG_BYTES_MAX + 1).read_to_string(&mut text);
            read.map_err(unreadable)?;
        }
    }
    Ok(text)
}

/// Opens a file that an operator named, and nothing that has no end or that would have to be waited for.
fn open_regular(path: &Path) -> std::io::Result<std::fs::File> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = std::fs::File::from(rustix::fs::open(path, flags, Mode::empty())?);
    if !file.metadata()?.is_file() {
        return Err(std::io::Error::new(
            std::io::ErrorKind::InvalidInput,
            "not a regular file",
        ));
    }
    Ok(file)
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
    #[error("{} is too large: expected at most {CONFIG_BYTES_MAX} bytes", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
    },
    /// A secret has no value.
    #[error("cannot use secrets.{name} of {CONFIG_FILE}")]
    Secret {
        /// Its name.
        name: String,
        /// Why not.
        #[source]
        problem: SecretError,
    },
    /// The key of a provider of models has no value.
    #[error("cannot use the key of model_providers.{provider} of {CONFIG_FILE}")]
    ModelKey {
        /// The provider's name.
        provider: String,
        /// Why not.
        #[source]
        problem: SecretError,
    },
    /// The token of the HTTP surface has no value.
    #[error("cannot use the token that serve in {CONFIG_FILE} names")]
    Token {
        /// Why not.
        #[source]
        problem: SecretError,
    },
    /// The token of the HTTP surface is none.
    #[error(
        "malformed token that serve in {CONFIG_FILE} names: expected at least {TOKEN_BYTES_MIN} printable characters without spaces"
    )]
    TokenMalformed,
    /// The file of certificates has none, or something that is none.
    #[error("malformed http.ca_file {}: expected certificates in PEM form", path.display())]
    NoCertificates {
        /// The file.
        path: PathBuf,
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
        value: u64,
        /// The smallest value accepted.
        min: u64,
        /// The largest value accepted.
        max: u64,
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
    /// A provider of models, or an alias, that cannot be used.
    #[error("line {line}: {key}: expected {expected}")]
    Model {
        /// The line of the value, from 1.
        line: usize,
        /// The key.
        key: String,
        /// What should stand there.
        expected: String,
    },
    /// A setting of the HTTP surface, of telemetry or of the runtime that cannot be used.
    #[error("line {line}: {key}: expected {expected}")]
    Setting {
        /// The line of the value, from 1.
        line: usize,
        /// The key.
        key: &'static str,
        /// What should stand there.
        expected: &'static str,
    },
    /// A server that cannot be used.
    #[error("line {line}: {key}: expected {expected}")]
    McpServer {
        /// The line of the value, from 1, or that of its section.
        line: usize,
        /// The key.
        key: String,
        /// What should stand there.
        expected: String,
    },
}
