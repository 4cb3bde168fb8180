//! `skillrun config`.

mod mcp;
mod mcp_servers;
mod runtime;
mod serve;

use std::path::Path;

use serde::Serialize;

use crate::capability::Capability;
use crate::cli::args::ConfigCommand;
use crate::cli::display::{message, shown};
use crate::cli::exit::Exit;
use crate::cli::printer::Printer;
use crate::config::{Approvals, CONFIG_FILE, Config, Secret, SecretSource, Telemetry};
use crate::limits::{LimitKey, LimitOverrides};
use crate::registry::{Registry, RegistryError, Severity};
use crate::telemetry::chain;

pub(crate) fn config(
    command: &ConfigCommand,
    home: &Path,
    printer: Printer,
) -> anyhow::Result<Exit> {
    let config = Config::load(home)?;
    match command {
        ConfigCommand::Show => show(&config, printer),
        ConfigCommand::Check => check(&config, printer),
    }
}

/// One setting as it is in force.
#[derive(Serialize)]
struct Setting {
    key: String,
    value: String,
    source: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    max: Option<u64>,
}

impl Setting {
    fn new(key: impl Into<String>, value: impl Into<String>, source: &'static str) -> Self {
        Self {
            key: key.into(),
            value: value.into(),
            source,
            max: None,
        }
    }

    /// A setting that is not a limit, whose default is known by its value.
    fn of<T: PartialEq + ToString>(key: &str, value: &T, default: &T) -> Self {
        let source = if value == default {
            DEFAULT
        } else {
            CONFIGURED
        };
        Self::new(key, value.to_string(), source)
    }
}

const DEFAULT: &str = "default";
const CONFIGURED: &str = "config";

fn settings(config: &Config) -> Vec<Setting> {
    let mut settings = Vec::new();
    for &key in LimitKey::ALL {
        let limit = config.limits.get(key);
        let source = match limit.source {
            crate::limits::Source::Default => DEFAULT,
            _ => CONFIGURED,
        };
        let value = match limit.value {
            value if key == LimitKey::Fuel && value == key.max_value() => "unlimited".to_owned(),
            value => value.to_string(),
        };
        settings.push(Setting {
            max: Some(key.max_value()),
            ..Setting::new(format!("limits.{}", key.as_str()), value, source)
        });
    }
    let (runs, default_runs) = (config.runs, crate::config::Admission::default());
    let (loading, default_loading) = (config.loading, crate::config::Loading::default());
    settings.extend([
        Setting::of(
            "runs.at_once_max",
            &runs.at_once_max,
            &default_runs.at_once_max,
        ),
        Setting::of(
            "runs.nested_max",
            &runs.nested_max,
            &default_runs.nested_max,
        ),
        Setting::of("runs.queue_max", &runs.queue_max, &default_runs.queue_max),
        Setting::new(
            "runs.on_restart",
            word(&config.recovery.on_restart),
            match config.recovery.on_restart {
                crate::config::OnRestart::Resume => DEFAULT,
                crate::config::OnRestart::Interrupt => CONFIGURED,
            },
        ),
        Setting::of(
            "runs.restarts_max",
            &config.recovery.restarts_max,
            &crate::config::Recovery::default().restarts_max,
        ),
        Setting::of(
            "engine.component_bytes_max",
            &loading.component_bytes_max,
            &default_loading.component_bytes_max,
        ),
        Setting::of(
            "engine.compile_time_ms",
            &loading.compile_time_ms,
            &default_loading.compile_time_ms,
        ),
        Setting::new(
            "ledger.durability",
            word(&config.durability),
            match config.durability {
                crate::config::Durability::Sync => DEFAULT,
                crate::config::Durability::Relaxed => CONFIGURED,
            },
        ),
    ]);
    settings.extend(approvals(config.approvals));
    settings.extend(sections(config));
    settings
}

/// The sections that are shown by themselves.
fn sections(config: &Config) -> Vec<Setting> {
    let mut settings = runtime::settings(&config.runtime);
    settings.extend(serve::settings(&config.serve));
    settings.extend(mcp::settings(&config.mcp));
    settings.extend(telemetry(&config.telemetry));
    settings.extend(grants_and_network(config));
    settings
}

/// How questions are answered.
fn approvals(approvals: Approvals) -> [Setting; 3] {
    let default = Approvals::default();
    let source = |is_default: bool| if is_default { DEFAULT } else { CONFIGURED };
    [
        Setting::new(
            "approvals.policy",
            word(&approvals.policy),
            source(approvals.policy == default.policy),
        ),
        Setting::new(
            "approvals.on_timeout",
            word(&approvals.on_timeout),
            source(approvals.on_timeout == default.on_timeout),
        ),
        Setting::of(
            "approvals.suspend_after_ms",
            &approvals.suspend_after_ms,
            &default.suspend_after_ms,
        ),
    ]
}

/// What others are told of traces; never a secret.
fn telemetry(telemetry: &Telemetry) -> Vec<Setting> {
    let default = Telemetry::default();
    let mut settings = vec![
        Setting::of(
            "telemetry.propagate",
            &telemetry.propagate,
            &default.propagate,
        ),
        Setting::of("telemetry.content", &telemetry.content, &default.content),
        Setting::of(
            "telemetry.otlp_timeout_ms",
            &telemetry.otlp_timeout_ms,
            &default.otlp_timeout_ms,
        ),
    ];
    if let Some(endpoint) = &telemetry.otlp_endpoint {
        let endpoint = endpoint.as_str();
        settings.push(Setting::new(
            "telemetry.otlp_endpoint",
            endpoint,
            CONFIGURED,
        ));
    }
    if let Some(secret) = &telemetry.otlp_secret {
        settings.push(Setting::new("telemetry.otlp_secret", secret, CONFIGURED));
    }
    settings
}

/// What the operator grants, and what goes out: sections that are empty by default.
fn grants_and_network(config: &Config) -> Vec<Setting> {
    let mut settings = Vec::new();
    let list = |key: String, capabilities: &[Capability]| {
        Setting::new(key, joined(capabilities), CONFIGURED)
    };
    if !config.grants.every_skill.is_empty() {
        let grants = &config.grants.every_skill;
        settings.push(list("capabilities.grant".to_owned(), grants));
    }
    for (name, skill) in &config.grants.skills {
        if !skill.grant.is_empty() {
            settings.push(list(format!("skills.{name}.grant"), &skill.grant));
        }
        settings.extend(overridden(name, &skill.limits));
    }
    settings.extend(
        config.secrets.iter().map(|(name, source)| {
            Setting::new(format!("secrets.{name}"), secret(source), CONFIGURED)
        }),
    );
    if let Some(file) = &config.http.ca_file {
        let file = file.display().to_string();
        settings.push(Setting::new("http.ca_file", file, CONFIGURED));
    }
    if !config.http.addresses_allowed.is_empty() {
        let networks = joined(&config.http.addresses_allowed);
        settings.push(Setting::new("http.addresses_allowed", networks, CONFIGURED));
    }
    settings.extend(models(config));
    for (name, server) in &config.mcp_servers {
        settings.extend(mcp_servers::settings(name, server));
    }
    settings
}

/// Who serves models, at what price, and under which names; never a key.
fn models(config: &Config) -> Vec<Setting> {
    let mut settings = Vec::new();
    for (name, provider) in &config.model_providers {
        let key = |key: &str| format!("model_providers.{name}.{key}");
        let number =
            |name: &str, value: u64, default: u64| Setting::of(&key(name), &value, &default);
        let from = match &provider.key {
            Some(source) => format!("from {source}"),
            None => "none".to_owned(),
        };
        settings.extend([
            Setting::new(key("api"), provider.api.as_str(), CONFIGURED),
            Setting::new(key("url"), provider.url.as_str(), CONFIGURED),
            Setting::new(key("key"), from, CONFIGURED),
            number("timeout_ms", provider.timeout_ms, 120_000),
            number("idle_timeout_ms", provider.idle_timeout_ms, 60_000),
            number("retries_max", u64::from(provider.retries_max), 3),
            number("output_tokens_max", provider.output_tokens_max, 8_192),
        ]);
        for (model, prices) in &provider.prices {
            let mut shown = format!("input {}  output {}", prices.input, prices.output);
            for (name, price) in [
                ("cache_read", prices.cache_read),
                ("cache_write", prices.cache_write),
            ] {
                if let Some(price) = price {
                    shown.push_str(&format!("  {name} {price}"));
                }
            }
            settings.push(Setting::new(
                key(&format!("prices.{model}")),
                shown,
                CONFIGURED,
            ));
        }
    }
    for (alias, model) in &config.model_aliases {
        let model = format!("{}/{}", model.provider, model.model);
        settings.push(Setting::new(
            format!("model_aliases.{alias}"),
            model,
            CONFIGURED,
        ));
    }
    settings
}

fn overridden<'a>(
    skill: &'a str,
    limits: &'a LimitOverrides,
) -> impl Iterator<Item = Setting> + 'a {
    limits.iter().map(move |(key, value)| {
        Setting::new(
            format!("skills.{skill}.limits.{key}"),
            value.to_string(),
            CONFIGURED,
        )
    })
}

/// Where a secret comes from and where it goes; never what it is.
fn secret(source: &SecretSource) -> String {
    let from = match (&source.file, &source.env) {
        (Some(file), _) => format!("file {}", file.display()),
        (None, Some(env)) => format!("variable {env}"),
        (None, None) => "nowhere".to_owned(),
    };
    format!("from {from} into {} of {}", source.header, source.url)
}

fn joined<T: ToString>(values: &[T]) -> String {
    values
        .iter()
        .map(T::to_string)
        .collect::<Vec<_>>()
        .join("  ")
}

fn word(value: &impl Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(word)) => word,
        _ => String::new(),
    }
}

fn show(config: &Config, printer: Printer) -> anyhow::Result<Exit> {
    let settings = settings(config);
    if printer.json() {
        printer.value(&serde_json::json!({ "home": config.home, "settings": settings }))?;
        return Ok(Exit::Ok);
    }
    printer.note(&format!(
        "home: {}",
        shown(&config.home.display().to_string())
    ));
    let cells: Vec<Vec<String>> = settings
        .iter()
        .map(|setting| {
            let max = setting.max.map(|max| max.to_string()).unwrap_or_default();
            vec![
                setting.key.clone(),
                shown(&setting.value),
                setting.source.to_owned(),
                max,
            ]
        })
        .collect();
    printer.table(&["SETTING", "VALUE", "SOURCE", "MAX"], &cells)?;
    Ok(Exit::Ok)
}

/// Something in the configuration that cannot work, or that does nothing.
#[derive(Serialize)]
struct Finding {
    severity: Severity,
    key: String,
    problem: String,
}

fn check(config: &Config, printer: Printer) -> anyhow::Result<Exit> {
    let findings = findings(config)?;
    let is_error = |finding: &Finding| finding.severity == Severity::Error;
    let is_valid = !findings.iter().any(is_error);
    if printer.json() {
        printer.value(&serde_json::json!({ "valid": is_valid, "findings": findings }))?;
    } else {
        for finding in &findings {
            let word = match finding.severity {
                Severity::Error => "error: ",
                Severity::Warning => "warning: ",
            };
            printer.line(&message(
                word,
                &format!("{}: {}", finding.key, finding.problem),
            ))?;
        }
        let file = config.home.join(CONFIG_FILE);
        let file = shown(&file.display().to_string());
        printer.note(&if is_valid {
            format!("{file}: valid")
        } else {
            message("error: ", &format!("{file} cannot work as it is"))
        });
    }
    Ok(if is_valid { Exit::Ok } else { Exit::Failed })
}

fn findings(config: &Config) -> Result<Vec<Finding>, RegistryError> {
    let registry = Registry::load(&config.skills_dir())?;
    let mut findings = serve::findings(config);
    let mut grants = vec![(
        "capabilities.grant".to_owned(),
        None,
        &config.grants.every_skill,
    )];
    for (name, skill) in &config.grants.skills {
        let key = format!("skills.{name}");
        if registry.get(name).is_none() {
            findings.push(Finding {
                severity: Severity::Warning,
                key: key.clone(),
                problem: "no such skill is installed".to_owned(),
            });
        }
        grants.push((format!("{key}.grant"), Some(name), &skill.grant));
    }
    for (key, skill, capabilities) in grants {
        for capability in capabilities {
            let problem = unusable(capability, config).map(|problem| (Severity::Error, problem));
            let unasked = || {
                let mut asking = registry.skills().filter(|known| {
                    skill.is_none_or(|skill| *skill == known.name)
                        && known
                            .manifest
                            .capabilities
                            .iter()
                            .any(|wish| wish.intersection(capability).is_some())
                });
                let problem = "no installed skill asks for it, so it has no effect".to_owned();
                asking
                    .next()
                    .is_none()
                    .then_some((Severity::Warning, problem))
            };
            if let Some((severity, problem)) = problem.or_else(unasked) {
                findings.push(Finding {
                    severity,
                    key: key.clone(),
                    problem: format!("{capability}: {problem}"),
                });
            }
        }
    }
    findings.extend(unreadable(config));
    Ok(findings)
}

/// Values and files that are named and cannot be used.
fn unreadable(config: &Config) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (name, source) in &config.secrets {
        if let Err(error) = Secret::read(&config.home, name, source) {
            findings.push(Finding {
                severity: Severity::Error,
                key: format!("secrets.{name}"),
                problem: chain(&error),
            });
        }
    }
    for (name, provider) in &config.model_providers {
        let alone = Config {
            model_providers: [(name.clone(), provider.clone())].into(),
            ..config.clone()
        };
        if let Err(error) = alone.read_model_keys() {
            findings.push(Finding {
                severity: Severity::Error,
                key: format!("model_providers.{name}"),
                problem: chain(&error),
            });
        }
    }
    if let Err(error) = config.read_ca_file() {
        findings.push(Finding {
            severity: Severity::Error,
            key: "http.ca_file".to_owned(),
            problem: chain(&error),
        });
    }
    for (name, server) in &config.mcp_servers {
        findings.extend(mcp_servers::findings(&config.home, name, server));
    }
    findings
}

/// Why a grant cannot be carried out on this machine.
fn unusable(capability: &Capability, config: &Config) -> Option<String> {
    match capability {
        Capability::Fs { host_dir, .. } => {
            let metadata = std::fs::metadata(host_dir);
            match metadata {
                Ok(metadata) if metadata.is_dir() => None,
                Ok(_) => Some(format!("{host_dir} is no folder")),
                Err(error) => Some(format!("{host_dir}: {error}")),
            }
        }
        Capability::Env { name } if std::env::var_os(name).is_none() => {
            Some(format!("the variable {name} is not set"))
        }
        Capability::Secret { name } if !config.secrets.contains_key(name) => {
            Some(format!("there is no [secrets.{name}]"))
        }
        Capability::Llm { provider, .. }
            if !provider.contains('*') && !config.model_providers.contains_key(provider) =>
        {
            Some(format!("there is no [model_providers.{provider}]"))
        }
        _ => None,
    }
}
