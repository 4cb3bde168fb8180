//! Skills, as they are shown.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Serialize;
use serde_json::value::RawValue;
use utoipa::ToSchema;

use crate::capability::{GrantSource, Policy};
use crate::limits::{LimitKey, Limits, Source};
use crate::outcome::OutcomeCode;
use crate::registry::{self, LoadError, Skill};
use crate::runner::{self, without_host_dir};
use crate::telemetry::chain;

/// Findings that are shown of one skill. Protects whoever lists skills from a file that is wrong everywhere.
const FINDINGS_MAX: usize = 20;

/// All skills.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Skills {
    /// Those that were read, by name.
    pub(crate) skills: Vec<SkillSummary>,
    /// Those that were refused, by name.
    pub(crate) refused: Vec<RefusedSkill>,
}

/// A skill in a list.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct SkillSummary {
    /// Its name.
    #[schema(example = "greet")]
    pub(crate) name: String,
    /// What it does and when to use it.
    description: String,
    /// The language it was written in, or `prompt` when there is nothing to run.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    flavor: Option<String>,
    /// Whether it may be run.
    enabled: bool,
    /// SHA-256 of its component; absent when there is nothing to run.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    component_digest: Option<String>,
    /// SHA-256 over everything that is read of it.
    digest: String,
    /// Whether it was accepted as it is; otherwise it will be when it is first run.
    pinned: bool,
}

impl SkillSummary {
    pub(crate) fn of(skill: &Skill, enabled: bool) -> Self {
        Self {
            name: skill.name.to_string(),
            description: skill.description.clone(),
            flavor: skill.flavor.clone(),
            enabled,
            component_digest: skill.component.as_ref().map(|c| c.sha256.clone()),
            digest: skill.pin().digest(),
            pinned: skill.is_pinned().unwrap_or(false),
        }
    }
}

/// A skill that was refused when it was read.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct RefusedSkill {
    /// The name of its folder.
    pub(crate) name: String,
    /// What is wrong with it; the first of it, when that is much.
    findings: Vec<Finding>,
    /// How much is wrong with it.
    findings_total: usize,
}

impl RefusedSkill {
    /// None of a folder whose name is no text.
    pub(crate) fn of(refused: &LoadError) -> Option<Self> {
        let findings = refused.findings.iter().take(FINDINGS_MAX);
        Some(Self {
            name: refused.path.file_name()?.to_str()?.to_owned(),
            findings: findings
                .map(|found| Finding::of(found, &refused.path))
                .collect(),
            findings_total: refused.findings.len(),
        })
    }
}

/// Something that is wrong, or odd, about a skill.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = SkillFinding)]
pub(crate) struct Finding {
    /// The file, as it is called in the folder of the skill; absent when the folder as a whole is meant.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    file: Option<String>,
    /// The line, from 1; absent when the file as a whole is meant.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    line: Option<usize>,
    /// The character in the line, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    column: Option<usize>,
    /// What is wrong.
    message: String,
}

impl Finding {
    pub(crate) fn of(found: &registry::Finding, folder: &Path) -> Self {
        let file = found.file.strip_prefix(folder).ok();
        let file = file.map(|file| file.to_string_lossy().into_owned());
        let message = match &found.problem {
            // Where it leads is a path of the machine.
            registry::Problem::LeadsOutside { .. } => {
                "link that leads out of the skill's folder".to_owned()
            }
            problem => chain(problem),
        };
        Self {
            file: file.filter(|file| !file.is_empty()),
            line: found.position.map(|position| position.line),
            column: found.position.map(|position| position.column),
            message,
        }
    }
}

/// A skill, seen closely.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct SkillDetail {
    /// What a list says of it.
    pub(crate) skill: SkillSummary,
    /// The license, when the author named one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub(crate) license: Option<String>,
    /// What it needs around it, when the author said so.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub(crate) compatibility: Option<String>,
    /// What it says of itself; absent when there is nothing to run, when it is disabled, and when it cannot be
    /// asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub(crate) descriptor: Option<Descriptor>,
    /// Why it could not be asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub(crate) failure: Option<DescribeFailure>,
    /// What it asks for and what it gets.
    pub(crate) policy: SkillPolicy,
    /// What each run of it is held to, by key.
    pub(crate) limits: BTreeMap<&'static str, SkillLimit>,
    /// What is odd about it and does not hinder it.
    pub(crate) warnings: Vec<Finding>,
}

/// What a skill says of itself.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = SkillDescriptor)]
pub(crate) struct Descriptor {
    /// Its version; may be empty.
    version: String,
    /// Whether it is an agent, which is launched and not run.
    agent: bool,
    /// JSON Schema of the input; `null`: any object.
    #[schema(value_type = serde_json::Value)]
    input_schema: Option<Box<RawValue>>,
    /// JSON Schema of the result; `null`: any JSON.
    #[schema(value_type = serde_json::Value)]
    output_schema: Option<Box<RawValue>>,
    /// What can be called, of a component that follows no world; `skill_name` is then `NAME.OPERATION`.
    operations: Vec<Operation>,
    /// What such a component exports beside that and cannot be called.
    refused_functions: Vec<RefusedFunction>,
}

/// One function that can be called.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = SkillOperation)]
pub(crate) struct Operation {
    /// Its shortest name.
    name: String,
    /// What the component calls it: interface and function.
    full_name: String,
    /// What its author says of it; mostly nothing.
    description: String,
    /// JSON Schema of the arguments, an object by parameter name.
    #[schema(value_type = serde_json::Value)]
    input_schema: serde_json::Value,
    /// JSON Schema of the answer.
    #[schema(value_type = serde_json::Value)]
    output_schema: serde_json::Value,
}

/// One function that cannot be called.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct RefusedFunction {
    /// What the component calls it: interface and function.
    name: String,
    /// Why not.
    reason: String,
}

impl Descriptor {
    /// What the skill says, and its manifest, which goes before it.
    pub(crate) fn of(said: &runner::Descriptor, manifest: &registry::Manifest) -> Self {
        let schema = |stated: Option<&serde_json::Value>, said: &str| match stated {
            Some(stated) => RawValue::from_string(stated.to_string()).ok(),
            None => RawValue::from_string(said.to_owned()).ok(),
        };
        let operations = said.operations.iter().map(|operation| Operation {
            name: operation.name.clone(),
            full_name: operation.full_name.clone(),
            description: operation.description.clone(),
            input_schema: operation.input_schema.clone(),
            output_schema: operation.output_schema.clone(),
        });
        let refused = said.refused.iter().map(|function| RefusedFunction {
            name: function.name.clone(),
            reason: function.reason.clone(),
        });
        Self {
            agent: said.is_agent,
            version: said.version.clone(),
            input_schema: schema(manifest.input_schema.as_ref(), &said.input_schema),
            output_schema: schema(manifest.output_schema.as_ref(), &said.output_schema),
            operations: operations.collect(),
            refused_functions: refused.collect(),
        }
    }
}

/// Why a skill could not be asked what it is.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = SkillFailure)]
pub(crate) struct DescribeFailure {
    /// The outcome code of a run that failed so.
    pub(crate) code: OutcomeCode,
    /// What failed.
    pub(crate) detail: String,
}

/// What a skill asks for and what it gets, in the grammar of capabilities. Folders of the host are left out.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct SkillPolicy {
    /// What it asks for.
    requested: Vec<String>,
    /// What the operator granted, whether it asks for it or not.
    granted: Vec<SkillGrant>,
    /// What it may do.
    effective: Vec<String>,
    /// What it asks for and does not get.
    missing: Vec<String>,
}

/// A capability that the operator granted.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct SkillGrant {
    /// What is granted.
    capability: String,
    /// Where: `config` to every skill, `skill` to this one.
    #[schema(value_type = String)]
    source: GrantSource,
}

impl From<&Policy> for SkillPolicy {
    fn from(policy: &Policy) -> Self {
        let granted = policy.granted.iter().map(|grant| SkillGrant {
            capability: without_host_dir(&grant.capability),
            source: grant.source,
        });
        Self {
            requested: policy.requested.iter().map(without_host_dir).collect(),
            granted: granted.collect(),
            effective: policy.effective.iter().map(without_host_dir).collect(),
            missing: policy.missing().map(without_host_dir).collect(),
        }
    }
}

/// The value of a limit.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct SkillLimit {
    /// The value, in the unit with which the key ends.
    value: u64,
    /// Who set it: `default`, `config`, `skill` or `manifest`.
    #[schema(value_type = String)]
    source: Source,
}

/// Every limit, by its key in the configuration.
pub(crate) fn limits(limits: &Limits) -> BTreeMap<&'static str, SkillLimit> {
    let each = LimitKey::ALL.iter().map(|&key| {
        let limit = limits.get(key);
        let shown = SkillLimit {
            value: limit.value,
            source: limit.source,
        };
        (key.as_str(), shown)
    });
    each.collect()
}
