//! Skills and limits of this process, looked after.

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::{Value, json};

use super::settings::{Settings, SettingsRequest};
use super::tool::{Refusal, RefusalCode};
use crate::capability::SkillName;
use crate::config::{Config, EditError, set_skill_limit};
use crate::limits::{LimitKey, LimitOverrides, Limits, Source};
use crate::registry::{Registry, Skill, SkillSet, set_enabled};
use crate::runner::{Runner, Terms};
use crate::runtime::Runtime;

/// Characters of a name that is repeated to whoever asked for it.
const SHOWN_CHARS_MAX: usize = 64;

/// What a process has put together, as the tools of its agents reach it. There is none of it any more when the
/// process comes to its end.
pub trait Host: Send + Sync {
    /// What runs skills.
    fn runner(&self) -> Option<Runner>;

    /// What launches agents.
    fn runtime(&self) -> Option<Arc<dyn Runtime>>;

    /// The skills.
    fn skills(&self) -> Option<SkillSet>;

    /// The configuration that is in use.
    fn config(&self) -> Option<Arc<Config>>;

    /// Takes another configuration over.
    ///
    /// # Errors
    /// It cannot be used, and the one before stays.
    fn reload(&self, config: Config) -> Result<(), Box<dyn std::error::Error + Send + Sync>>;
}

/// Looks after the skills and limits of this process. What blocks is done on threads for it.
pub struct HostSettings(Arc<dyn Host>);

impl HostSettings {
    /// Reaches them through what the process has put together.
    pub fn new(host: Arc<dyn Host>) -> Self {
        Self(host)
    }
}

#[async_trait]
impl Settings for HostSettings {
    async fn carry_out(&self, request: SettingsRequest) -> Result<Value, Refusal> {
        let host = Arc::clone(&self.0);
        // Once begun it is done to its end, so that what is in use and what is on disk do not differ.
        let done = tokio::task::spawn_blocking(move || done(&*host, request)).await;
        done.unwrap_or_else(|_| Err(ending()))
    }
}

fn ending() -> Refusal {
    Refusal::new(RefusalCode::Failed, "the process comes to its end")
}

fn unknown(name: &str) -> Refusal {
    let shown: String = name.chars().take(SHOWN_CHARS_MAX).collect();
    Refusal::new(
        RefusalCode::NotFound,
        format!("there is no skill {shown:?}"),
    )
}

fn skill_name(name: &str) -> Result<SkillName, Refusal> {
    name.parse().map_err(|_| unknown(name))
}

fn done(host: &dyn Host, request: SettingsRequest) -> Result<Value, Refusal> {
    let skills = host.skills().ok_or_else(ending)?;
    match request {
        SettingsRequest::ListSkills => Ok(listed(&skills.current())),
        SettingsRequest::InspectSkill { name } => inspected(host, &skills.current(), &name),
        SettingsRequest::SetEnabled { name, enabled } => switched(host, &skills, &name, enabled),
        SettingsRequest::ReloadSkills => {
            let is_in_use = reloaded(&skills)?;
            let registry = skills.current();
            Ok(json!({
                "skills": registry.skills().len(),
                "disabled": registry.disabled().len(),
                "refused": registry.refused().len(),
                "in_use": is_in_use,
            }))
        }
        SettingsRequest::GetLimits { skill } => {
            let limits = match &skill {
                None => host.config().ok_or_else(ending)?.limits.clone(),
                Some(name) => {
                    let (skill, _) = find(&skills.current(), name)?;
                    limits_of(host, &skill)?
                }
            };
            Ok(json!({ "skill": skill, "limits": shown_limits(&limits) }))
        }
        SettingsRequest::SetLimit { skill, key, value } => {
            let (skill, _) = find(&skills.current(), &skill)?;
            set_limit(host, &skill, &key, value)
        }
    }
}

fn listed(registry: &Registry) -> Value {
    let row = |skill: &Arc<Skill>, enabled: bool| {
        json!({
            "name": skill.name.as_str(),
            "description": skill.description,
            "flavor": skill.flavor,
            "enabled": enabled,
        })
    };
    let enabled = registry.skills().map(|skill| row(skill, true));
    let disabled = registry.disabled().map(|skill| row(skill, false));
    let mut rows: Vec<Value> = enabled.chain(disabled).collect();
    rows.sort_by(|a, b| a["name"].as_str().cmp(&b["name"].as_str()));
    let folder = |path: &std::path::Path| {
        let name = path.file_name().unwrap_or_default();
        name.to_string_lossy().into_owned()
    };
    let refused = registry.refused().iter();
    let refused: Vec<String> = refused.map(|error| folder(&error.path)).collect();
    json!({ "skills": rows, "refused": refused })
}

fn find(registry: &Registry, name: &str) -> Result<(Arc<Skill>, bool), Refusal> {
    let enabled = registry.get(name).map(|skill| (skill, true));
    let disabled = || registry.get_disabled(name).map(|skill| (skill, false));
    enabled.or_else(disabled).ok_or_else(|| unknown(name))
}

fn inspected(host: &dyn Host, registry: &Registry, name: &str) -> Result<Value, Refusal> {
    let (skill, enabled) = find(registry, name)?;
    let requested: Vec<String> = skill
        .manifest
        .capabilities
        .iter()
        .map(ToString::to_string)
        .collect();
    let granted = match enabled {
        true => {
            let runner = host.runner().ok_or_else(ending)?;
            let profile = runner.executor().profile(&skill.name, &Terms::default());
            let profile = profile.map_err(|_| unusable(name))?;
            let effective = profile.policy.effective.iter();
            effective.map(ToString::to_string).collect()
        }
        false => Vec::new(),
    };
    Ok(json!({
        "name": skill.name.as_str(),
        "description": skill.description,
        "license": skill.license,
        "flavor": skill.flavor,
        "enabled": enabled,
        "digest": skill.pin().digest(),
        "pinned": skill.is_pinned(),
        "requests": requested,
        "may": granted,
        "limits": shown_limits(&limits_of(host, &skill)?),
    }))
}

fn unusable(name: &str) -> Refusal {
    Refusal::new(
        RefusalCode::Failed,
        format!("skill {name:?} cannot be used"),
    )
}

/// The limits of the runs of a skill, enabled or not.
fn limits_of(host: &dyn Host, skill: &Skill) -> Result<Limits, Refusal> {
    let config = host.config().ok_or_else(ending)?;
    let own = config.grants.skills.get(&skill.name);
    let own = own.map(|settings| settings.limits.clone());
    let limits = config.limits.clone();
    let limits = limits.with(Source::Skill, &own.unwrap_or_default());
    let limits = limits.and_then(|limits| limits.with(Source::Manifest, &skill.manifest.limits));
    limits.map_err(|_| unusable(&skill.name))
}

fn shown_limits(limits: &Limits) -> Value {
    let shown = |key: LimitKey| {
        let limit = limits.get(key);
        let shown = json!({
            "value": limit.value,
            "source": limit.source,
            "max": key.max_value(),
        });
        (key.as_str().to_owned(), shown)
    };
    Value::Object(LimitKey::ALL.iter().copied().map(shown).collect())
}

/// Reads the folder anew; false where skills stay as they are.
fn reloaded(skills: &SkillSet) -> Result<bool, Refusal> {
    let refused = |error: Arc<crate::registry::RegistryError>| {
        Refusal::internal(
            "the folder of skills cannot be read, and they stay as they were",
            &*error,
        )
    };
    skills.reload().map_err(refused)
}

fn switched(
    host: &dyn Host,
    skills: &SkillSet,
    name: &str,
    enabled: bool,
) -> Result<Value, Refusal> {
    let name = skill_name(name)?;
    let config = host.config().ok_or_else(ending)?;
    let was_enabled = set_enabled(&config.skills_dir(), &name, enabled);
    let was_enabled = was_enabled
        .map_err(|error| Refusal::internal("the state of the skills cannot be changed", &error))?;
    let was_enabled = was_enabled.ok_or_else(|| unknown(&name))?;
    let is_in_use = reloaded(skills)?;
    Ok(json!({
        "name": name.as_str(),
        "enabled": enabled,
        "was_enabled": was_enabled,
        "in_use": is_in_use,
    }))
}

fn set_limit(host: &dyn Host, skill: &Skill, key: &str, value: u64) -> Result<Value, Refusal> {
    let invalid = |problem: String| Refusal::new(RefusalCode::Invalid, problem);
    let wanted = i64::try_from(value).unwrap_or(i64::MAX);
    let overrides = LimitOverrides::from([(key.to_owned(), wanted)]);
    let checked = Limits::default().with(Source::Skill, &overrides);
    checked.map_err(|error| invalid(error.to_string()))?;
    let named = LimitKey::ALL
        .iter()
        .copied()
        .find(|one| one.as_str() == key);
    let key = named.ok_or_else(|| invalid(format!("unknown limit {key:?}")))?;
    let config = host.config().ok_or_else(ending)?;
    let mut take_over = |config| host.reload(config);
    let before = set_skill_limit(&config.home, &skill.name, key, value, &mut take_over);
    let before = before.map_err(|error| not_set(&error))?;
    let limit = limits_of(host, skill)?.get(key);
    Ok(json!({
        "skill": skill.name.as_str(),
        "key": key.as_str(),
        "before": before,
        "value": value,
        // A manifest may ask for less, and what the engine is sized by is not raised.
        "in_force": { "value": limit.value, "source": limit.source },
    }))
}

fn not_set(error: &EditError) -> Refusal {
    let what = match error {
        EditError::Config(_) => "config.toml would not be valid, and is as it was",
        EditError::NoTable { .. } => "config.toml has no room for the limit, and is as it was",
        EditError::Unwritable { .. } => "config.toml cannot be written, and is as it was",
        EditError::NotTakenOver(_) => {
            "the limit cannot be taken over, and config.toml is as it was"
        }
    };
    Refusal::internal(what, error)
}
