//! Tools for skills and limits: seen, switched on and off, read anew, set.

use std::sync::Arc;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::tool::{Answered, Facts, ModeTool, Nothing, Refusal, answer, object, text};
use crate::call::Effect;
use crate::limits::LimitKey;

/// Characters of the name of a skill.
const SKILL_CHARS_MAX: usize = 64;
/// The largest value of any limit that a TOML file can hold.
const VALUE_MAX: i64 = i64::MAX;

/// What is asked of whoever looks after skills and limits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "request", rename_all = "snake_case")]
pub enum SettingsRequest {
    /// Which skills there are.
    ListSkills,
    /// One of them, closely.
    InspectSkill {
        /// Its name.
        name: String,
    },
    /// Switches one on or off.
    SetEnabled {
        /// Its name.
        name: String,
        /// Whether it may be run.
        enabled: bool,
    },
    /// Reads the folder of skills anew.
    ReloadSkills,
    /// The limits of every run, or of those of one skill.
    GetLimits {
        /// Its name.
        skill: Option<String>,
    },
    /// Sets a limit of one skill, in `config.toml`.
    SetLimit {
        /// Its name.
        skill: String,
        /// The limit.
        key: String,
        /// Its value, in the unit that the key ends in.
        value: u64,
    },
}

/// Looks after skills and limits. What goes in and comes out is plain data, so that it can be asked for from another
/// process.
#[async_trait]
pub trait Settings: Send + Sync {
    /// Does what is asked, and gives the answer that the agent is told, a JSON object.
    ///
    /// # Errors
    /// It was not done, and everything is as it was.
    async fn carry_out(&self, request: SettingsRequest) -> Result<Value, Refusal>;
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Named {
    name: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OfSkill {
    skill: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SetLimit {
    skill: String,
    key: String,
    value: u64,
}

async fn done(settings: Arc<dyn Settings>, request: SettingsRequest) -> Answered {
    answer(&settings.carry_out(request).await?)
}

/// A tool that asks for one thing.
fn tool<A: serde::de::DeserializeOwned + 'static>(
    settings: &Arc<dyn Settings>,
    (name, description): (&'static str, &'static str),
    effect: Effect,
    input: Value,
    request: impl Fn(A) -> SettingsRequest + Send + Sync + 'static,
) -> ModeTool {
    let facts = Facts {
        name,
        description,
        input,
        effect,
        keeps_record: false,
    };
    let settings = Arc::clone(settings);
    ModeTool::new(facts, move |asked: A, _call| {
        done(Arc::clone(&settings), request(asked))
    })
}

fn named() -> Value {
    object(
        &["name"],
        json!({ "name": text("The name of the skill.", SKILL_CHARS_MAX) }),
    )
}

/// All tools of the mode.
pub(super) fn tools(settings: &Arc<dyn Settings>) -> Vec<ModeTool> {
    let skills = tools_of_skills(settings).into_iter();
    skills.chain(tools_of_limits(settings)).collect()
}

fn tools_of_skills(settings: &Arc<dyn Settings>) -> Vec<ModeTool> {
    vec![
        tool(
            settings,
            (
                "skillrun__list_skills",
                "Lists the skills that are installed, those that are disabled, and those that were refused.",
            ),
            Effect::Read,
            object(&[], json!({})),
            |_: Nothing| SettingsRequest::ListSkills,
        ),
        tool(
            settings,
            (
                "skillrun__inspect_skill",
                "Shows a skill closely: what it asks for, what it may do, and its limits.",
            ),
            Effect::Read,
            named(),
            |asked: Named| SettingsRequest::InspectSkill { name: asked.name },
        ),
        tool(
            settings,
            (
                "skillrun__enable_skill",
                "Lets a skill be run that was disabled. It accepts no change of it and grants it nothing.",
            ),
            Effect::Idempotent,
            named(),
            |asked: Named| SettingsRequest::SetEnabled {
                name: asked.name,
                enabled: true,
            },
        ),
        tool(
            settings,
            (
                "skillrun__disable_skill",
                "Lets a skill be run no more. Runs that go on stay.",
            ),
            Effect::Idempotent,
            named(),
            |asked: Named| SettingsRequest::SetEnabled {
                name: asked.name,
                enabled: false,
            },
        ),
        tool(
            settings,
            (
                "skillrun__reload_skills",
                "Reads the folder of skills anew, and tells how many there are.",
            ),
            Effect::Idempotent,
            object(&[], json!({})),
            |_: Nothing| SettingsRequest::ReloadSkills,
        ),
    ]
}

fn tools_of_limits(settings: &Arc<dyn Settings>) -> Vec<ModeTool> {
    let keys: Vec<&str> = LimitKey::ALL.iter().map(|key| key.as_str()).collect();
    let skill = || text("The name of the skill.", SKILL_CHARS_MAX);
    vec![
        tool(
            settings,
            (
                "skillrun__get_limits",
                "Shows the limits of every run or, with skill, of those of one skill: values, who set them, and how \
                 high each may be set.",
            ),
            Effect::Read,
            object(&[], json!({ "skill": skill() })),
            |asked: OfSkill| SettingsRequest::GetLimits { skill: asked.skill },
        ),
        tool(
            settings,
            (
                "skillrun__set_limit",
                "Sets a limit for the runs of one skill that begin from now on. It is written to config.toml.",
            ),
            Effect::Idempotent,
            object(
                &["skill", "key", "value"],
                json!({
                    "skill": skill(),
                    "key": { "type": "string", "description": "The limit.", "enum": keys },
                    "value": {
                        "type": "integer",
                        "description": "Its value, in the unit that the key ends in.",
                        "minimum": 1,
                        "maximum": VALUE_MAX,
                    },
                }),
            ),
            |asked: SetLimit| SettingsRequest::SetLimit {
                skill: asked.skill,
                key: asked.key,
                value: asked.value,
            },
        ),
    ]
}
