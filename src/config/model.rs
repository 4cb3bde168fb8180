//! `[model_providers]` and `[model_aliases]`: who serves language models, with which key and at what price.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::file::{Number, Place};
use super::{ConfigProblem, SecretError, SecretSource, secret};
use crate::capability::Capability;

/// Bytes of a provider's or an alias's name; ledgers, which show the name in place of the key, have room
/// for no longer ones.
const NAME_BYTES_MAX: usize = 48;
/// The longest `timeout_ms` and `idle_timeout_ms`: an hour.
const TIMEOUT_MS_MAX: u64 = 3_600_000;
/// The most that `retries_max` may be. Protects a provider that is overloaded already.
const RETRIES_MAX: u64 = 10;
/// The largest `output_tokens_max`; no model writes longer answers.
const OUTPUT_TOKENS_MAX: u64 = 10_000_000;
/// US dollars for a million tokens at most. Keeps what a run costs within what can be counted.
const PRICE_USD_MAX: f64 = 1_000_000.0;

/// `[model_providers.<name>]`: who serves language models.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelProviderSettings {
    /// What it speaks.
    pub api: ModelApi,
    /// Where it is: `http(s)://host[:port]/path`, without the part that the API itself names.
    pub url: url::Url,
    /// Where its key is found; none, if it takes no key.
    pub key: Option<ModelKeySource>,
    /// Milliseconds for one answer, with all attempts at it: 1 to 3,600,000, 120,000 by default.
    pub timeout_ms: u64,
    /// Milliseconds between two pieces of an answer that has begun: 1 to 3,600,000, 60,000 by default.
    pub idle_timeout_ms: u64,
    /// How often a request is sent again: 0 to 10, 3 by default.
    pub retries_max: u32,
    /// Tokens of an answer that are asked for when the skill names no number: 1 to 10,000,000, 8,192 by
    /// default.
    pub output_tokens_max: u64,
    /// What models cost, by their name or a pattern of names.
    pub prices: BTreeMap<String, ModelPrices>,
}

/// The wire format of a provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ModelApi {
    /// Chat completions as OpenAI defined them, which many servers speak.
    Openai,
    /// Messages as Anthropic defined them.
    Anthropic,
}

impl ModelApi {
    /// As it stands in the configuration.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Openai => "openai",
            Self::Anthropic => "anthropic",
        }
    }
}

/// Where the key of a provider is found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ModelKeySource {
    /// `key_env`: a variable of the host's environment.
    Env(String),
    /// `key_file`: the one line of a file. A relative one lies in the home folder.
    File(PathBuf),
    /// `key_secret`: the value of a `[secrets.<NAME>]`.
    Secret(String),
}

impl fmt::Display for ModelKeySource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Env(variable) => write!(f, "variable {variable}"),
            Self::File(file) => write!(f, "file {}", file.display()),
            Self::Secret(name) => write!(f, "secret {name}"),
        }
    }
}

/// What a model costs, in US dollars for a million tokens: 0 to 1,000,000.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelPrices {
    /// Tokens of requests that came from no cache.
    pub input: f64,
    /// Tokens of answers.
    pub output: f64,
    /// Tokens that the provider had in its cache; the price of `input`, if it is left out.
    pub cache_read: Option<f64>,
    /// Tokens that the provider put into its cache; the price of `input`, if it is left out.
    pub cache_write: Option<f64>,
}

/// `[model_aliases]`: what an alias stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelAlias {
    /// The provider, which is configured.
    pub provider: String,
    /// The model, as the provider spells it.
    pub model: String,
}

/// The key of a provider. What it shows when debugged is its name.
#[derive(Clone, PartialEq, Eq)]
pub struct ModelKey {
    name: String,
    value: Box<str>,
}

impl ModelKey {
    /// A key that an embedder has from elsewhere.
    pub fn new(name: impl Into<String>, value: impl Into<Box<str>>) -> Self {
        Self {
            name: name.into(),
            value: value.into(),
        }
    }

    /// The key of the provider of that name.
    pub(super) fn read(
        home: &Path,
        provider: &str,
        source: &ModelKeySource,
        secrets: &BTreeMap<String, SecretSource>,
    ) -> Result<Self, SecretError> {
        let (file, variable) = match source {
            ModelKeySource::Env(variable) => (None, Some(variable)),
            ModelKeySource::File(file) => (Some(file), None),
            ModelKeySource::Secret(name) => {
                let secret = secrets.get(name).ok_or(SecretError::Malformed)?;
                (secret.file.as_ref(), secret.env.as_ref())
            }
        };
        let value = secret::read_value(home, file, variable)?;
        Ok(Self::new(format!("model_providers.{provider}"), value))
    }

    /// What stands for it in records.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The key itself, for whoever sends it and whoever keeps it out of records.
    pub fn value(&self) -> &str {
        &self.value
    }
}

impl fmt::Debug for ModelKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ModelKey({})", self.name)
    }
}

/// A section as it stands in the file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ProviderSection {
    api: ModelApi,
    url: toml::Spanned<String>,
    key_env: Option<toml::Spanned<String>>,
    key_file: Option<toml::Spanned<PathBuf>>,
    key_secret: Option<toml::Spanned<String>>,
    timeout_ms: Number,
    idle_timeout_ms: Number,
    retries_max: Number,
    output_tokens_max: Number,
    #[serde(default)]
    prices: BTreeMap<toml::Spanned<String>, toml::Spanned<ModelPrices>>,
}

pub(super) type Providers = BTreeMap<toml::Spanned<String>, ProviderSection>;
pub(super) type Aliases = BTreeMap<toml::Spanned<String>, toml::Spanned<String>>;

/// Sections with the text that they stand in.
pub(super) struct Reader<'t> {
    pub(super) place: Place<'t>,
    pub(super) secrets: &'t BTreeMap<String, SecretSource>,
}

impl Reader<'_> {
    pub(super) fn providers(
        &self,
        sections: Providers,
    ) -> Result<BTreeMap<String, ModelProviderSettings>, ConfigProblem> {
        let read = |(name, section): (toml::Spanned<String>, ProviderSection)| {
            let key = format!("model_providers.{}", name.get_ref());
            let is_name = format!("llm:{}/x", name.get_ref())
                .parse::<Capability>()
                .is_ok();
            if !is_name
                || name.get_ref().contains(['*', '/'])
                || name.get_ref().len() > NAME_BYTES_MAX
            {
                let expected =
                    format!("a name of 1 to {NAME_BYTES_MAX} lower-case letters, digits and -._");
                return Err(self.wrong(&name, key, expected));
            }
            Ok((name.into_inner(), self.provider(&key, section)?))
        };
        sections.into_iter().map(read).collect()
    }

    pub(super) fn aliases(
        &self,
        section: Aliases,
        providers: &BTreeMap<String, ModelProviderSettings>,
    ) -> Result<BTreeMap<String, ModelAlias>, ConfigProblem> {
        let read = |(alias, model): (toml::Spanned<String>, toml::Spanned<String>)| {
            let key = format!("model_aliases.{}", alias.get_ref());
            let is_word = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
            let is_alias = (1..=NAME_BYTES_MAX).contains(&alias.get_ref().len())
                && alias.get_ref().chars().all(is_word);
            if !is_alias {
                let expected = format!("a name of 1 to {NAME_BYTES_MAX} letters, digits and -._");
                return Err(self.wrong(&alias, key, expected));
            }
            let is_model = format!("llm:{}", model.get_ref())
                .parse::<Capability>()
                .is_ok()
                && !model.get_ref().contains('*');
            let (provider, name) = model.get_ref().split_once('/').unwrap_or_default();
            if !is_model || !providers.contains_key(provider) {
                let expected = "provider/model, where [model_providers.<provider>] is there";
                return Err(self.wrong(&model, key, expected));
            }
            let stands_for = ModelAlias {
                provider: provider.to_owned(),
                model: name.to_owned(),
            };
            Ok((alias.into_inner(), stands_for))
        };
        section.into_iter().map(read).collect()
    }

    fn provider(
        &self,
        key: &str,
        section: ProviderSection,
    ) -> Result<ModelProviderSettings, ConfigProblem> {
        let number = |name: &str, value: &Number, default, range: RangeInclusive<u64>| match value {
            None => Ok(default),
            Some(value) if range.contains(value.get_ref()) => Ok(*value.get_ref()),
            Some(value) => {
                let expected = format!(
                    "{} to {}, not {}",
                    range.start(),
                    range.end(),
                    value.get_ref()
                );
                Err(self.wrong(value, format!("{key}.{name}"), expected))
            }
        };
        let retries_max = number("retries_max", &section.retries_max, 3, 0..=RETRIES_MAX)?;
        Ok(ModelProviderSettings {
            api: section.api,
            url: self.url(key, &section.url)?,
            timeout_ms: number(
                "timeout_ms",
                &section.timeout_ms,
                120_000,
                1..=TIMEOUT_MS_MAX,
            )?,
            idle_timeout_ms: number(
                "idle_timeout_ms",
                &section.idle_timeout_ms,
                60_000,
                1..=TIMEOUT_MS_MAX,
            )?,
            retries_max: u32::try_from(retries_max).unwrap_or(u32::MAX),
            output_tokens_max: number(
                "output_tokens_max",
                &section.output_tokens_max,
                8_192,
                1..=OUTPUT_TOKENS_MAX,
            )?,
            key: self.key(key, section.key_env, section.key_file, section.key_secret)?,
            prices: self.prices(key, section.prices)?,
        })
    }

    fn url(&self, key: &str, text: &toml::Spanned<String>) -> Result<url::Url, ConfigProblem> {
        let url = text.get_ref().parse::<url::Url>().ok().filter(|url| {
            // A user name and a query may hold a key, and would be shown with the address.
            matches!(url.scheme(), "http" | "https")
                && url.has_host()
                && url.username().is_empty()
                && url.password().is_none()
                && url.query().is_none()
                && url.fragment().is_none()
        });
        url.ok_or_else(|| {
            let expected = "\"https://host[:port]/path\", without user, query and fragment";
            self.wrong(text, format!("{key}.url"), expected)
        })
    }

    fn key(
        &self,
        key: &str,
        env: Option<toml::Spanned<String>>,
        file: Option<toml::Spanned<PathBuf>>,
        secret: Option<toml::Spanned<String>>,
    ) -> Result<Option<ModelKeySource>, ConfigProblem> {
        let expected = "at most one of key_env, key_file and key_secret";
        match (env, file, secret) {
            (None, None, None) => Ok(None),
            (Some(env), None, None) => Ok(Some(ModelKeySource::Env(env.into_inner()))),
            (None, Some(file), None) => Ok(Some(ModelKeySource::File(file.into_inner()))),
            (None, None, Some(name)) => {
                if !self.secrets.contains_key(name.get_ref()) {
                    let expected = "the NAME of a [secrets.NAME]";
                    return Err(self.wrong(&name, format!("{key}.key_secret"), expected));
                }
                Ok(Some(ModelKeySource::Secret(name.into_inner())))
            }
            (Some(env), ..) => Err(self.wrong(&env, format!("{key}.key_env"), expected)),
            (_, Some(file), _) => Err(self.wrong(&file, format!("{key}.key_file"), expected)),
        }
    }

    fn prices(
        &self,
        key: &str,
        section: BTreeMap<toml::Spanned<String>, toml::Spanned<ModelPrices>>,
    ) -> Result<BTreeMap<String, ModelPrices>, ConfigProblem> {
        let read = |(model, prices): (toml::Spanned<String>, toml::Spanned<ModelPrices>)| {
            let key = format!("{key}.prices.{:?}", model.get_ref());
            if format!("llm:x/{}", model.get_ref())
                .parse::<Capability>()
                .is_err()
            {
                return Err(self.wrong(&model, key, "a model, or a pattern of models with *"));
            }
            let given = *prices.get_ref();
            let both = [Some(given.input), Some(given.output)];
            let caches = [given.cache_read, given.cache_write];
            let mut all = both.into_iter().chain(caches).flatten();
            if !all.all(|price| (0.0..=PRICE_USD_MAX).contains(&price)) {
                let expected = format!("prices of 0 to {PRICE_USD_MAX}");
                return Err(self.wrong(&prices, key, expected));
            }
            Ok((model.into_inner(), given))
        };
        section.into_iter().map(read).collect()
    }

    fn wrong<T>(
        &self,
        at: &toml::Spanned<T>,
        key: String,
        expected: impl Into<String>,
    ) -> ConfigProblem {
        ConfigProblem::Model {
            line: self.place.line(at),
            key,
            expected: expected.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use crate::config::{Config, ConfigProblem, file};
    use crate::telemetry::chain;

    fn parse(text: &str) -> Result<Config, ConfigProblem> {
        file::parse(Path::new("home"), text)
    }

    /// A provider with one more line, and what is said of that line.
    #[test]
    fn every_key_of_a_provider_is_checked() {
        let section = "[secrets.S]\nenv = \"S\"\nurl = \"https://a/\"\nheader = \"a\"\n\
                       [model_providers.acme]\napi = \"openai\"\nurl = \"https://a/v1\"\n";
        let provider = parse(section).unwrap().model_providers["acme"].clone();
        assert_eq!(
            (
                provider.timeout_ms,
                provider.idle_timeout_ms,
                provider.retries_max,
                provider.output_tokens_max
            ),
            (120_000, 60_000, 3, 8_192)
        );
        for line in [
            "key_env = \"A\"",
            "key_secret = \"S\"",
            "prices.\"gpt-*\" = { input = 1, output = 2.5, cache_read = 0 }",
        ] {
            parse(&format!("{section}{line}")).unwrap();
        }
        for (line, problem) in [
            ("timeout_ms = 0", "timeout_ms: expected 1 to 3600000, not 0"),
            ("timeout_ms = 3600001", "not 3600001"),
            ("idle_timeout_ms = 0", "idle_timeout_ms: expected 1 to"),
            ("retries_max = 11", "retries_max: expected 0 to 10, not 11"),
            ("output_tokens_max = 0", "output_tokens_max: expected 1 to"),
            (
                "key_env = \"A\"\nkey_file = \"b\"",
                "expected at most one of",
            ),
            (
                "key_file = \"b\"\nkey_secret = \"S\"",
                "expected at most one of",
            ),
            ("key_secret = \"ABSENT\"", "key_secret: expected the NAME"),
            (
                "prices.\"a b\" = { input = 1, output = 1 }",
                "expected a model, or a pattern",
            ),
            (
                "prices.a = { input = -1, output = 1 }",
                "expected prices of 0 to 1000000",
            ),
            (
                "prices.a = { input = nan, output = 1 }",
                "expected prices of 0 to 1000000",
            ),
            ("prices.a = { input = 1 }", "output"),
            ("prices.a = { input = 1, output = 1, cached = 1 }", "cached"),
            ("key = \"k\"", "key"),
        ] {
            let problem_found = chain(&parse(&format!("{section}{line}")).unwrap_err());
            assert!(
                problem_found.contains("line 8") && problem_found.contains(problem),
                "{line}: {problem_found}"
            );
        }
    }

    #[test]
    fn an_address_holds_no_key_and_a_name_no_pattern() {
        for url in [
            "a",
            "ftp://a/v1",
            "https://user:word@a/v1",
            "https://a/v1?key=x",
            "https://a/v1#x",
        ] {
            let text = format!("[model_providers.acme]\napi = \"openai\"\nurl = {url:?}");
            let problem = chain(&parse(&text).unwrap_err());
            let expected = "line 3: model_providers.acme.url: expected \"https://";
            assert!(problem.contains(expected), "{problem}");
        }
        for name in ["A", "a*", "\"a/b\"", &"a".repeat(49)] {
            let name = if name == "a*" { "\"a*\"" } else { name };
            let text = format!("[model_providers.{name}]\napi = \"openai\"\nurl = \"http://a\"");
            let problem = chain(&parse(&text).unwrap_err());
            assert!(problem.contains("line 1: model_providers."), "{problem}");
        }
    }
}
