//! The text of `config.toml`: what each section may hold, and where a value that is wrong stands.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::path::Path;

use serde::Deserialize;

use super::mcp::{self, McpSection};
use super::mcp_server::{self, McpServerSection};
use super::model::{Aliases, Providers, Reader};
use super::runtime::{self, RuntimeSection};
use super::serve::{self, ServeSection};
use super::telemetry::{self, TelemetrySection};
use super::{
    Admission, ApprovalPolicy, Approvals, COMPONENT_BYTES_MAX, Config, ConfigProblem, Durability,
    Grants, Http, Loading, OnRestart, OnTimeout, Recovery, SecretSource, SkillSettings,
};
use crate::capability::{Capability, SkillName};
use crate::limits::{LimitOverrides, Limits, Source};

/// Runs that may go on at once at most: more pool slots than this exhaust the address space of a
/// process.
const RUNS_AT_ONCE_MAX: u64 = 10_000;
/// Runs inside runs that may go on at once: one for each level of nesting at least, and together with the
/// others no more pool slots than a process has room for.
const NESTED_RANGE: RangeInclusive<u64> = 8..=900;
/// Runs that may wait for admission at most; each holds its input in memory.
const QUEUE_MAX: u64 = 100_000;
/// As long as a person may have to answer.
const SUSPEND_AFTER_MS_MAX: u64 = 30 * 24 * 60 * 60 * 1000;
/// Bounds what a skill that takes its process down with it can cost.
const RESTARTS_MAX: u64 = 1000;
/// The largest `engine.compile_time_ms`: ten minutes.
const COMPILE_TIME_MS_MAX: u64 = 600_000;

/// Header fields that are the host's own, and no place for a secret.
const RESERVED_HEADERS: [&str; 9] = [
    "connection",
    "content-length",
    "expect",
    "host",
    "keep-alive",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// Values of limits as they stand in the file, each with its place.
type LimitsSection = BTreeMap<toml::Spanned<String>, i64>;

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct File {
    limits: LimitsSection,
    ledger: LedgerSection,
    runs: RunsSection,
    engine: EngineSection,
    capabilities: CapabilitiesSection,
    skills: BTreeMap<SkillName, SkillSection>,
    secrets: BTreeMap<String, toml::Spanned<SecretSource>>,
    http: Http,
    mcp_servers: BTreeMap<String, toml::Spanned<McpServerSection>>,
    approvals: ApprovalsSection,
    model_providers: Providers,
    model_aliases: Aliases,
    serve: ServeSection,
    telemetry: TelemetrySection,
    runtime: RuntimeSection,
    mcp: McpSection,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct ApprovalsSection {
    policy: ApprovalPolicy,
    on_timeout: OnTimeout,
    suspend_after_ms: Number,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct RunsSection {
    on_restart: OnRestart,
    restarts_max: Number,
    at_once_max: Number,
    nested_max: Number,
    queue_max: Number,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct EngineSection {
    component_bytes_max: Number,
    compile_time_ms: Number,
}

/// A number that may be left out, with its place.
pub(super) type Number = Option<toml::Spanned<u64>>;

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

/// The configuration that a text is.
pub(super) fn parse(home: &Path, text: &str) -> Result<Config, ConfigProblem> {
    let file: File =
        toml::from_str(text).map_err(|error| ConfigProblem::Syntax(Box::new(error)))?;
    let place = Place(text);
    let runs = place.runs(&file.runs)?;
    let loading = place.loading(&file.engine)?;
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
    let models = Reader {
        place: Place(text),
        secrets: &secrets,
    };
    let model_providers = models.providers(file.model_providers)?;
    let model_aliases = models.aliases(file.model_aliases, &model_providers)?;
    let mcp_servers = mcp_server::servers(&place, file.mcp_servers, &secrets)?;
    let telemetry = telemetry::settings(&place, file.telemetry, &secrets)?;
    Ok(Config {
        home: home.to_owned(),
        limits,
        durability: file.ledger.durability,
        runs,
        loading,
        grants: Grants {
            every_skill: place.grants(file.capabilities.grant)?,
            skills,
        },
        secrets,
        http: file.http,
        mcp_servers,
        approvals: place.approvals(&file.approvals)?,
        recovery: place.recovery(&file.runs)?,
        model_providers,
        model_aliases,
        serve: serve::settings(&place, file.serve)?,
        runtime: runtime::settings(&place, file.runtime)?,
        mcp: mcp::settings(&place, &file.mcp)?,
        telemetry,
    })
}

/// The text of a configuration, in which values have their place.
pub(super) struct Place<'t>(&'t str);

impl Place<'_> {
    /// The line of a value, from 1.
    pub(super) fn line<T>(&self, spanned: &toml::Spanned<T>) -> usize {
        let before = self.0.get(..spanned.span().start).unwrap_or_default();
        before.matches('\n').count() + 1
    }

    /// A number, or its default when it is not there.
    pub(super) fn number(
        &self,
        key: &'static str,
        value: &Number,
        default: u64,
        range: RangeInclusive<u64>,
    ) -> Result<u64, ConfigProblem> {
        match value {
            None => Ok(default),
            Some(value) if range.contains(value.get_ref()) => Ok(*value.get_ref()),
            Some(value) => Err(ConfigProblem::OutOfRange {
                line: self.line(value),
                key,
                value: *value.get_ref(),
                min: *range.start(),
                max: *range.end(),
            }),
        }
    }

    fn runs(&self, section: &RunsSection) -> Result<Admission, ConfigProblem> {
        let number = |key, value, default: usize, range| {
            let default = u64::try_from(default).unwrap_or(u64::MAX);
            let number = self.number(key, value, default, range)?;
            Ok(usize::try_from(number).unwrap_or(usize::MAX))
        };
        let default = Admission::default();
        Ok(Admission {
            at_once_max: number(
                "runs.at_once_max",
                &section.at_once_max,
                default.at_once_max,
                1..=RUNS_AT_ONCE_MAX,
            )?,
            nested_max: number(
                "runs.nested_max",
                &section.nested_max,
                default.nested_max,
                NESTED_RANGE,
            )?,
            queue_max: number(
                "runs.queue_max",
                &section.queue_max,
                default.queue_max,
                0..=QUEUE_MAX,
            )?,
        })
    }

    fn approvals(&self, section: &ApprovalsSection) -> Result<Approvals, ConfigProblem> {
        Ok(Approvals {
            policy: section.policy,
            on_timeout: section.on_timeout,
            suspend_after_ms: self.number(
                "approvals.suspend_after_ms",
                &section.suspend_after_ms,
                Approvals::default().suspend_after_ms,
                1..=SUSPEND_AFTER_MS_MAX,
            )?,
        })
    }

    fn recovery(&self, section: &RunsSection) -> Result<Recovery, ConfigProblem> {
        Ok(Recovery {
            on_restart: section.on_restart,
            restarts_max: self.number(
                "runs.restarts_max",
                &section.restarts_max,
                Recovery::default().restarts_max,
                1..=RESTARTS_MAX,
            )?,
        })
    }

    fn loading(&self, section: &EngineSection) -> Result<Loading, ConfigProblem> {
        let default = Loading::default();
        Ok(Loading {
            component_bytes_max: self.number(
                "engine.component_bytes_max",
                &section.component_bytes_max,
                default.component_bytes_max,
                1..=COMPONENT_BYTES_MAX,
            )?,
            compile_time_ms: self.number(
                "engine.compile_time_ms",
                &section.compile_time_ms,
                default.compile_time_ms,
                1..=COMPILE_TIME_MS_MAX,
            )?,
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
        } else if !is_free(&source.header) {
            Err(invalid("header = the name of a header field"))
        } else if !is_text(&source.prefix) {
            Err(invalid("a prefix of printable ASCII"))
        } else {
            Ok(())
        }
    }
}

/// Whether a header field has that name and is not one by which requests are told apart and delivered.
fn is_free(header: &str) -> bool {
    let header = header.to_ascii_lowercase();
    http::HeaderName::from_bytes(header.as_bytes()).is_ok()
        && !RESERVED_HEADERS.contains(&header.as_str())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{Config, ConfigProblem, Durability};
    use crate::capability::GrantSource;
    use crate::limits::{LimitKey, Source};
    use crate::telemetry::chain;

    fn parse(text: &str) -> Result<Config, ConfigProblem> {
        super::parse(Path::new("home"), text)
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
            (
                "[secrets.A]\nenv = \"A\"\nurl = \"https://a/\"\nheader = \"Host\"",
                "secrets.A: expected header",
            ),
            ("[http]\naddresses_allowed = [\"10.0.0.0\"]", "line 2"),
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
            (
                "[model_providers.a]\napi = \"soap\"\nurl = \"http://a\"",
                "line 2",
            ),
            ("[model_providers.a]\napi = \"openai\"", "url"),
            (
                "[model_aliases]\n\"a/b\" = \"c/d\"",
                "line 2: model_aliases.a/b",
            ),
            (
                "[model_aliases]\na = \"c/d\"",
                "line 2: model_aliases.a: expected provider/model",
            ),
        ] {
            let problem = chain(&parse(text).unwrap_err());
            assert!(problem.contains(part), "{text:?}: {problem}");
        }
    }
}
