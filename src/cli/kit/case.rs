//! A case of `skillrun test`: an input, what the host answers, and what is expected of the run.
//!
//! Every key is known or refused, with its line: a case whose expectation is misspelled would pass
//! whatever the skill does.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;
use std::path::{Path, PathBuf};

use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{self, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

use crate::call::{Effect, StopReason, ToolAnswer, ToolUse, Usage};
use crate::capability::Capability;
use crate::ledger::{Event, Json, REASON_BYTES_MAX};
use crate::outcome::OutcomeCode;
use crate::runner::JsonObject;
use crate::schema::Schema;

/// Bytes of a file of cases. Protects this process's memory.
pub(super) const FILE_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// Why a file is no cases, with the place.
#[derive(Debug, thiserror::Error)]
#[error("{}:{line}:{column}: {problem}", path.display())]
pub(super) struct CaseError {
    path: PathBuf,
    line: usize,
    column: usize,
    problem: String,
}

/// One case.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Case {
    /// What it shows; the file's name when it is not given.
    pub(super) name: Option<String>,
    /// An empty object when it is not given.
    #[serde(default, deserialize_with = "input")]
    pub(super) input: Option<JsonObject>,
    /// Granted beside what the skill asks for of what is mocked.
    #[serde(default, deserialize_with = "grants")]
    pub(super) grants: Vec<Capability>,
    #[serde(default, deserialize_with = "unique")]
    pub(super) tools: BTreeMap<String, ToolMock>,
    /// What models answer, in the order in which they are asked.
    #[serde(default)]
    pub(super) models: Vec<ModelReply>,
    /// What people answer, in the order in which they are asked.
    #[serde(default)]
    pub(super) approvals: Vec<ApprovalReply>,
    #[serde(default, deserialize_with = "unique")]
    pub(super) skills: BTreeMap<String, SkillMock>,
    #[serde(default)]
    pub(super) expect: Expect,
}

/// What a run has to come to.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Expect {
    /// The result, exactly.
    #[serde(default, deserialize_with = "present")]
    pub(super) output: Option<Value>,
    /// The result, whose objects may have more keys.
    #[serde(default, deserialize_with = "present")]
    pub(super) output_like: Option<Value>,
    /// How the run ends; `ok` when it is not given.
    pub(super) code: Option<OutcomeCode>,
    pub(super) error_contains: Option<String>,
    /// Events that have to be on record in this order, others between them or not.
    #[serde(default)]
    pub(super) events: Vec<EventShape>,
    /// Calls of tools, models, people, other skills and servers.
    pub(super) calls: Option<usize>,
}

/// An event: its type, and members of its payload.
#[derive(Debug)]
pub(super) struct EventShape {
    pub(super) kind: String,
    pub(super) payload: Map<String, Value>,
}

/// A tool that a case brings along.
#[derive(Debug)]
pub(super) struct ToolMock {
    pub(super) replies: Vec<ToolReply>,
    /// Whether the one reply is given again and again.
    pub(super) repeats: bool,
    pub(super) effect: Effect,
    /// JSON Schema of its arguments.
    pub(super) schema: String,
}

/// What a tool answers.
#[derive(Debug, Clone, Deserialize)]
#[serde(try_from = "ReplyFields")]
pub(super) enum ToolReply {
    Answers(ToolAnswer),
    Fails(String),
}

/// What a model answers.
#[derive(Debug, Clone, Deserialize)]
#[serde(try_from = "ModelFields")]
pub(super) enum ModelReply {
    Answers {
        said: Said,
        stop_reason: StopReason,
        usage: Usage,
    },
    Fails(String),
}

/// What is in a model's answer.
#[derive(Debug, Clone)]
pub(super) enum Said {
    Text(String),
    ToolUse(ToolUse),
}

/// What a person answers.
#[derive(Debug, Clone)]
pub(super) struct ApprovalReply {
    pub(super) approved: bool,
    pub(super) reason: String,
}

/// What another skill answers.
#[derive(Debug)]
pub(super) enum SkillMock {
    Answers(Json),
    Fails(String),
}

/// Reads the cases of a file: one, or an array of them.
///
/// # Errors
/// The text is no JSON, or has a key or a value that no case has: where, and what is expected there.
pub(super) fn parse(path: &Path, text: &str) -> Result<Vec<Case>, CaseError> {
    let cases: OneOrMany<Case> = serde_json::from_str(text).map_err(|error| {
        let message = error.to_string();
        let place = format!(" at line {} column {}", error.line(), error.column());
        CaseError {
            path: path.to_owned(),
            line: error.line().max(1),
            column: error.column().max(1),
            problem: message.strip_suffix(&place).unwrap_or(&message).to_owned(),
        }
    })?;
    Ok(match cases {
        OneOrMany::One(case) => vec![case],
        OneOrMany::Many(cases) => cases,
    })
}

fn input<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<JsonObject>, D::Error> {
    let json = Json::deserialize(deserializer)?;
    let input = JsonObject::parse(json.as_str()).map_err(de::Error::custom)?;
    Ok(Some(input))
}

fn grants<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Capability>, D::Error> {
    let grants = Vec::<Capability>::deserialize(deserializer)?;
    match grants.iter().find(|grant| !grant.is_grantable()) {
        None => Ok(grants),
        Some(grant) => {
            let problem = format!("{grant} cannot be granted: expected a folder in place of the *");
            Err(de::Error::custom(problem))
        }
    }
}

/// For keys where JSON's `null` is a value and not the absence of one.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

/// A map in which no key comes twice.
fn unique<'de, D, T>(deserializer: D) -> Result<BTreeMap<String, T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    struct Unique<T>(PhantomData<T>);

    impl<'de, T: Deserialize<'de>> Visitor<'de> for Unique<T> {
        type Value = BTreeMap<String, T>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let mut entries = BTreeMap::new();
            while let Some(key) = map.next_key::<String>()? {
                if entries.contains_key(&key) {
                    return Err(de::Error::custom(format!("duplicate key {key:?}")));
                }
                let value = map.next_value()?;
                entries.insert(key, value);
            }
            Ok(entries)
        }
    }

    deserializer.deserialize_map(Unique(PhantomData))
}

/// An object, or an array of other ones.
enum OneOrMany<T, U = T> {
    One(T),
    Many(Vec<U>),
}

impl<'de, T: Deserialize<'de>, U: Deserialize<'de>> Deserialize<'de> for OneOrMany<T, U> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either<T, U>(PhantomData<(T, U)>);

        impl<'de, T: Deserialize<'de>, U: Deserialize<'de>> Visitor<'de> for Either<T, U> {
            type Value = OneOrMany<T, U>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object, or an array of objects")
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
                T::deserialize(MapAccessDeserializer::new(map)).map(OneOrMany::One)
            }

            fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<Self::Value, A::Error> {
                Vec::deserialize(SeqAccessDeserializer::new(seq)).map(OneOrMany::Many)
            }
        }

        deserializer.deserialize_any(Either(PhantomData))
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ReplyFields {
    text: Option<String>,
    content: Option<Vec<Map<String, Value>>>,
    is_error: Option<bool>,
    fails: Option<String>,
}

impl TryFrom<ReplyFields> for ToolReply {
    type Error = &'static str;

    fn try_from(fields: ReplyFields) -> Result<Self, Self::Error> {
        let content = match (fields.text, fields.content, fields.fails) {
            (None, None, Some(_)) if fields.is_error.is_some() => {
                return Err("is_error is of an answer, and fails says that there is none");
            }
            (None, None, Some(message)) => return Ok(Self::Fails(message)),
            (Some(text), None, None) => serde_json::json!([{ "type": "text", "text": text }]),
            (None, Some(blocks), None) => serde_json::json!(blocks),
            _ => return Err("expected exactly one of text, content and fails"),
        };
        Ok(Self::Answers(ToolAnswer {
            content: content.to_string(),
            is_error: fields.is_error.unwrap_or_default(),
        }))
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ToolFields {
    text: Option<String>,
    content: Option<Vec<Map<String, Value>>>,
    is_error: Option<bool>,
    fails: Option<String>,
    answers: Option<Vec<ToolReply>>,
    #[serde(default)]
    effect: Effect,
    #[serde(default, deserialize_with = "schema")]
    schema: Option<String>,
}

fn schema<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    let text = Json::deserialize(deserializer)?.as_str().to_owned();
    Schema::compile(&text).map_err(de::Error::custom)?;
    Ok(Some(text))
}

/// The schema of a tool that takes any object.
const ANY_OBJECT: &str = r#"{"type":"object"}"#;

impl<'de> Deserialize<'de> for ToolMock {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let fields = match OneOrMany::<ToolFields, ToolReply>::deserialize(deserializer)? {
            OneOrMany::Many(replies) => {
                return Ok(Self {
                    replies,
                    repeats: false,
                    effect: Effect::default(),
                    schema: ANY_OBJECT.to_owned(),
                });
            }
            OneOrMany::One(fields) => fields,
        };
        let single = ReplyFields {
            text: fields.text,
            content: fields.content,
            is_error: fields.is_error,
            fails: fields.fails,
        };
        let is_single = single.text.is_some()
            || single.content.is_some()
            || single.is_error.is_some()
            || single.fails.is_some();
        let (replies, repeats) = match fields.answers {
            Some(_) if is_single => {
                let problem = "answers stands alone: expected no text, content, fails or is_error";
                return Err(de::Error::custom(problem));
            }
            Some(answers) => (answers, false),
            None => {
                let reply = ToolReply::try_from(single).map_err(de::Error::custom)?;
                (vec![reply], true)
            }
        };
        Ok(Self {
            replies,
            repeats,
            effect: fields.effect,
            schema: fields.schema.unwrap_or_else(|| ANY_OBJECT.to_owned()),
        })
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ModelFields {
    text: Option<String>,
    #[serde(default, deserialize_with = "present")]
    json: Option<Value>,
    tool_use: Option<ToolUseFields>,
    fails: Option<String>,
    #[serde(default)]
    usage: UsageFields,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ToolUseFields {
    #[serde(default = "first_use")]
    id: String,
    name: String,
    #[serde(default)]
    arguments: Map<String, Value>,
}

fn first_use() -> String {
    "use-1".to_owned()
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct UsageFields {
    input_tokens: u64,
    output_tokens: u64,
    cache_read_tokens: u64,
    cache_write_tokens: u64,
    cost_usd: f64,
}

impl TryFrom<ModelFields> for ModelReply {
    type Error = &'static str;

    fn try_from(fields: ModelFields) -> Result<Self, Self::Error> {
        let ModelFields {
            text,
            json,
            tool_use,
            fails,
            usage,
        } = fields;
        let (said, stop_reason) = match (text, json, tool_use, fails) {
            (Some(text), None, None, None) => (Said::Text(text), StopReason::EndTurn),
            (None, Some(json), None, None) => (Said::Text(json.to_string()), StopReason::EndTurn),
            (None, None, Some(tool), None) => {
                let asked = ToolUse {
                    id: tool.id,
                    name: tool.name,
                    arguments: Value::from(tool.arguments).to_string(),
                };
                (Said::ToolUse(asked), StopReason::ToolUse)
            }
            (None, None, None, Some(message)) => return Ok(Self::Fails(message)),
            _ => return Err("expected exactly one of text, json, tool_use and fails"),
        };
        if usage.cost_usd < 0.0 {
            return Err("cost_usd is negative");
        }
        Ok(Self::Answers {
            said,
            stop_reason,
            usage: Usage {
                input_tokens: usage.input_tokens,
                output_tokens: usage.output_tokens,
                cache_read_tokens: usage.cache_read_tokens,
                cache_write_tokens: usage.cache_write_tokens,
                cost_usd: usage.cost_usd,
            },
        })
    }
}

impl<'de> Deserialize<'de> for ApprovalReply {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Fields {
            approved: bool,
            #[serde(default)]
            reason: String,
        }

        struct BoolOrFields;

        impl<'de> Visitor<'de> for BoolOrFields {
            type Value = ApprovalReply;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("true, false, or an object with approved and reason")
            }

            fn visit_bool<E: de::Error>(self, approved: bool) -> Result<Self::Value, E> {
                Ok(ApprovalReply {
                    approved,
                    reason: String::new(),
                })
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
                let fields = Fields::deserialize(MapAccessDeserializer::new(map))?;
                if fields.reason.len() > REASON_BYTES_MAX {
                    let problem = format!("reason has more than {REASON_BYTES_MAX} bytes");
                    return Err(de::Error::custom(problem));
                }
                Ok(ApprovalReply {
                    approved: fields.approved,
                    reason: fields.reason,
                })
            }
        }

        deserializer.deserialize_any(BoolOrFields)
    }
}

impl<'de> Deserialize<'de> for SkillMock {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let json = Json::deserialize(deserializer)?;
        let object = serde_json::from_str::<Map<String, Value>>(json.as_str());
        let object = object.unwrap_or_default();
        Ok(match (object.len(), object.get("fails")) {
            (1, Some(Value::String(message))) => Self::Fails(message.clone()),
            _ => Self::Answers(json),
        })
    }
}

impl<'de> Deserialize<'de> for EventShape {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut payload = Map::deserialize(deserializer)?;
        let Some(Value::String(kind)) = payload.shift_remove("type") else {
            return Err(de::Error::missing_field("type"));
        };
        if !Event::KINDS.contains(&kind.as_str()) {
            return Err(de::Error::unknown_variant(&kind, Event::KINDS));
        }
        Ok(Self { kind, payload })
    }
}

#[cfg(test)]
mod tests;
