//! From configuration to the parts that commands work with.

use super::exit::Refused;
use crate::clock::Clock;
use crate::config::{Admission, CONFIG_FILE, Config, Secret};
use crate::ledger::{Store, StoreError, StoreOptions};
use crate::models::Models;
use crate::registry::Registry;
use crate::runner::{EngineError, HttpOptions, SkillExecutor, SkillExecutorOptions};
use crate::telemetry::chain;
use crate::tools::Toolbox;

/// Instances that one command needs at once. A pool of this size costs nothing to make.
const INSTANCES_MAX: usize = 16;

pub(crate) fn store(config: &Config, clock: &Clock) -> Result<Store, StoreError> {
    Store::open(StoreOptions {
        runs_dir: config.runs_dir(),
        durability: config.durability,
        clock: clock.clone(),
    })
}

/// The secrets, which stay out of every ledger of `store` from now on.
fn secrets(config: &Config, store: &Store) -> anyhow::Result<Vec<Secret>> {
    let secrets = config.read_secrets()?;
    for secret in &secrets {
        store
            .redact(secret.name(), secret.value())
            .map_err(|error| {
                let section = format!("secrets.{} of {CONFIG_FILE}", secret.name());
                Refused::usage(format!("cannot use {section}: {}", chain(&error)))
            })?;
    }
    Ok(secrets)
}

/// What one command admits: as many runs as there are instances for.
pub(crate) fn admission(config: &Config) -> Admission {
    let at_once_max = 1;
    Admission {
        at_once_max,
        nested_max: config.runs.nested_max.min(INSTANCES_MAX - at_once_max),
        ..config.runs
    }
}

/// Who serves models: with their keys, which stay out of every ledger of `store` from now on.
fn models(config: &Config, store: &Store, clock: &Clock) -> anyhow::Result<Models> {
    let keys = config.read_model_keys()?;
    for (provider, key) in &keys {
        store.redact(key.name(), key.value()).map_err(|error| {
            let section = format!("the key of model_providers.{provider} of {CONFIG_FILE}");
            Refused::usage(format!("cannot use {section}: {}", chain(&error)))
        })?;
    }
    let certificates = config.read_ca_file()?;
    Ok(Models::from_config(config, &keys, certificates, clock))
}

/// What skills can reach outside, if they may; nothing by default.
#[derive(Default)]
pub(crate) struct Outside {
    http: HttpOptions,
    models: Models,
    pub(crate) tools: Toolbox,
}

/// Everything outside that the operator configured.
pub(crate) fn outside(config: &Config, store: &Store, clock: &Clock) -> anyhow::Result<Outside> {
    let http = http(config, store)?;
    let certificates = http.ca_certificates.clone();
    Ok(Outside {
        tools: Toolbox::from_config(config, &http.secrets, certificates),
        models: models(config, store, clock)?,
        http,
    })
}

/// How a run makes requests.
pub(crate) fn http(config: &Config, store: &Store) -> anyhow::Result<HttpOptions> {
    Ok(HttpOptions {
        secrets: secrets(config, store)?,
        ca_certificates: config.read_ca_file()?,
        ..HttpOptions::from(&config.http)
    })
}

/// What carries runs out.
pub(crate) fn executor(
    registry: Registry,
    config: &Config,
    clock: &Clock,
    outside: Outside,
) -> Result<SkillExecutor, EngineError> {
    SkillExecutor::new(SkillExecutorOptions {
        instances_max: INSTANCES_MAX,
        http: outside.http,
        models: outside.models,
        tools: outside.tools,
        ..SkillExecutorOptions::from_config(config, registry, clock.clone())
    })
}
