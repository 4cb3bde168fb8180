//! What there is for a client: each skill that is exposed to MCP, under one name, in the order of names.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rmcp::model::{JsonObject, Tool, ToolAnnotations};
use serde_json::{Value, json};

use super::Mcp;
use crate::capability::{Capability, FsAccess, Policy};
use crate::registry::{McpRole, Registry, Skill};
use crate::runner::{Descriptor, OperationDescriptor, Terms};
use crate::telemetry::chain;

/// Bytes of a description. Protects whoever lists tools, which is most often a model.
const DESCRIPTION_BYTES_MAX: usize = 8 * 1024;

/// A skill, or an operation of one, under the name that clients know it by.
#[derive(Clone)]
pub(super) struct Entry {
    /// The name.
    pub(super) name: String,
    /// The skill.
    pub(super) skill: Arc<Skill>,
    /// What the runner is asked for: the skill's name, and perhaps an operation behind a dot.
    pub(super) target: String,
    /// What it says of itself; none for a skill without a component.
    descriptor: Option<Arc<Descriptor>>,
    operation: Option<OperationDescriptor>,
}

/// What a skill is to clients. One without a component can be nothing but a prompt.
pub(super) fn role(skill: &Skill) -> McpRole {
    match skill.component {
        Some(_) => skill.manifest.mcp.role,
        None => McpRole::Prompt,
    }
}

/// The exposed skills of a role, by the name that they are known by.
///
/// A name that a skill chose is its own unless another skill has it or chose it too, or has one that stands before a dot
/// in it, as those of operations do: then each goes by its skill's name, so that none takes the place of another.
pub(super) fn exposed(registry: &Registry, wanted: McpRole) -> BTreeMap<String, Arc<Skill>> {
    let of_role = |skill: &&Arc<Skill>| skill.manifest.expose.mcp && role(skill) == wanted;
    let mut holders: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for skill in registry.skills() {
        let names = [
            Some(skill.name.as_str()),
            skill.manifest.mcp.name.as_deref(),
        ];
        for name in names.into_iter().flatten() {
            holders.entry(name).or_default().insert(skill.name.as_str());
        }
    }
    let is_free = |name: &str, skill: &Skill| {
        prefixes(name).all(|prefix| {
            let others = holders.get(prefix).into_iter().flatten();
            others.copied().all(|other| other == skill.name.as_str())
        })
    };
    let name = |skill: &Arc<Skill>| match skill.manifest.mcp.name.as_deref() {
        Some(name) if is_free(name, skill) => name.to_owned(),
        _ => skill.name.to_string(),
    };
    let exposed = registry.skills().filter(of_role);
    exposed
        .map(|skill| (name(skill), Arc::clone(skill)))
        .collect()
}

/// The name itself, and what stands before each dot in it.
fn prefixes(name: &str) -> impl Iterator<Item = &str> {
    let before = name.match_indices('.').filter_map(|(at, _)| name.get(..at));
    std::iter::once(name).chain(before)
}

/// The skill that has that name in a role, or one of whose operations may have it, and the name that the skill goes
/// by. No other skill can, since none is known by what stands before a dot in the name of another.
fn named(registry: &Registry, wanted: McpRole, name: &str) -> Option<(String, Arc<Skill>)> {
    let mut exposed = exposed(registry, wanted);
    let known = prefixes(name).find(|prefix| exposed.contains_key(*prefix))?;
    exposed.remove_entry(known)
}

impl Mcp {
    /// Everything of a role, in the order of the names. What cannot be asked what it is cannot be called either, and is
    /// left out.
    pub(super) async fn entries(&self, wanted: McpRole) -> BTreeMap<String, Entry> {
        let registry = self.host().skills().current();
        let mut all = BTreeMap::new();
        for (name, skill) in exposed(&registry, wanted) {
            for entry in self.entries_of(name, skill).await {
                all.entry(entry.name.clone()).or_insert(entry);
            }
        }
        all
    }

    /// What of a skill can be called. An agent is launched instead.
    async fn entries_of(&self, name: String, skill: Arc<Skill>) -> Vec<Entry> {
        if skill.component.is_none() {
            return vec![Entry {
                name,
                target: skill.name.to_string(),
                skill,
                descriptor: None,
                operation: None,
            }];
        }
        match self.described(&skill).await {
            Some(descriptor) if !descriptor.is_agent => entries(name, skill, &descriptor).collect(),
            _ => Vec::new(),
        }
    }

    /// What has that name in a role.
    pub(super) async fn entry(&self, wanted: McpRole, name: &str) -> Option<Entry> {
        let registry = self.host().skills().current();
        let (known, skill) = named(&registry, wanted, name)?;
        let entries = self.entries_of(known, skill).await;
        entries.into_iter().find(|entry| entry.name == name)
    }

    /// What is known of the tool of that name without asking anybody: its arguments, and no more.
    pub(super) fn known_tool(&self, name: &str) -> Option<Tool> {
        let registry = self.host().skills().current();
        let (known, skill) = named(&registry, McpRole::Tool, name)?;
        let entry = match self.host().descriptions().known(&skill) {
            Some(said) => entries(known, skill, &said).find(|entry| entry.name == name)?,
            None if known != name => return None,
            None => Entry {
                name: known,
                target: skill.name.to_string(),
                skill,
                descriptor: None,
                operation: None,
            },
        };
        let input = Arc::new(entry.input_schema());
        Some(Tool::new_with_raw(entry.name, None, input))
    }

    /// What a skill says of itself.
    pub(super) async fn described(&self, skill: &Skill) -> Option<Arc<Descriptor>> {
        let executor = self.host().runner().executor();
        let described = self.host().descriptions().of(&*executor, skill).await;
        described
            .inspect_err(|error| {
                let (skill, error) = (&skill.name, chain(error));
                tracing::warn!(%skill, error, "a skill is not offered");
            })
            .ok()
    }

    /// The tool as clients are told of it.
    pub(super) fn listed(&self, entry: &Entry) -> Tool {
        let terms = Terms::default();
        let profile = self
            .host()
            .runner()
            .executor()
            .profile(&entry.target, &terms);
        let policy = profile.map(|profile| profile.policy);
        let input = Arc::new(entry.input_schema());
        let mut tool =
            Tool::new_with_raw(entry.name.clone(), Some(entry.description().into()), input);
        // Of one of which that is not known nothing is promised.
        if let Ok(policy) = policy {
            tool = tool.with_annotations(annotations(&policy));
        }
        if let Some(title) = &entry.skill.manifest.mcp.title {
            tool = tool.with_title(title);
        }
        if let Some(output) = entry.output_schema() {
            tool = tool.with_raw_output_schema(Arc::new(output));
        }
        tool
    }
}

/// What of a skill can be called: itself, or each of its operations.
fn entries(
    name: String,
    skill: Arc<Skill>,
    descriptor: &Arc<Descriptor>,
) -> impl Iterator<Item = Entry> {
    let whole = descriptor.operations.is_empty().then(|| Entry {
        name: name.clone(),
        target: skill.name.to_string(),
        skill: Arc::clone(&skill),
        descriptor: Some(Arc::clone(descriptor)),
        operation: None,
    });
    let operations: Vec<Entry> = descriptor
        .operations
        .iter()
        .map(|operation| Entry {
            name: format!("{name}.{}", known_as(&operation.name)),
            target: format!("{}.{}", skill.name, operation.name),
            skill: Arc::clone(&skill),
            descriptor: Some(Arc::clone(descriptor)),
            operation: Some(operation.clone()),
        })
        .collect();
    whole.into_iter().chain(operations)
}

/// The name of an operation, of the characters that MCP lets a tool's name have.
fn known_as(operation: &str) -> String {
    let fits = |c: &char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    let known = |c: char| Some(c).filter(fits).unwrap_or('_');
    operation.chars().map(known).collect()
}

impl Entry {
    pub(super) fn description(&self) -> String {
        let said = self
            .operation
            .as_ref()
            .map(|operation| &operation.description);
        let said = said.filter(|said| !said.is_empty());
        let own = || match self.skill.description.as_str() {
            "" => self
                .descriptor
                .as_ref()
                .map_or("", |said| &said.description),
            own => own,
        };
        let description = said.map_or_else(own, String::as_str);
        match description.get(..description.floor_char_boundary(DESCRIPTION_BYTES_MAX)) {
            None | Some("") => format!("The skill {}.", self.target),
            Some(description) => description.to_owned(),
        }
    }

    /// What arguments have to fit. MCP wants an object that says so.
    pub(super) fn input_schema(&self) -> JsonObject {
        let manifest = self.skill.manifest.input_schema.clone();
        let said = || match (&self.operation, &self.descriptor) {
            (Some(operation), _) => Some(operation.input_schema.clone()),
            (None, Some(said)) => serde_json::from_str(&said.input_schema).ok(),
            (None, None) => None,
        };
        match manifest.or_else(said) {
            Some(Value::Object(mut schema)) => {
                schema.entry("type").or_insert_with(|| json!("object"));
                schema
            }
            _ => JsonObject::from_iter([("type".to_owned(), json!("object"))]),
        }
    }

    /// What structured content fits, where it is always an object and the skill says which.
    pub(super) fn output_schema(&self) -> Option<JsonObject> {
        if self.skill.manifest.mcp.is_content {
            return None;
        }
        let manifest = self.skill.manifest.output_schema.clone();
        let said = || match (&self.operation, &self.descriptor) {
            (Some(operation), _) => Some(operation.output_schema.clone()),
            (None, Some(said)) => serde_json::from_str(&said.output_schema).ok(),
            (None, None) => None,
        };
        match manifest.or_else(said)? {
            Value::Object(schema) if schema.get("type") == Some(&json!("object")) => Some(schema),
            _ => None,
        }
    }
}

/// What can be told of a tool from what it may do. Without any right it changes nothing, and meets nobody.
fn annotations(policy: &Policy) -> ToolAnnotations {
    let reaches_out = |capability: &Capability| {
        matches!(
            capability,
            Capability::Net(_)
                | Capability::Tool { .. }
                | Capability::Llm { .. }
                | Capability::Skill { .. }
        )
    };
    let writes = |capability: &Capability| match capability {
        Capability::Fs { access, .. } => *access == FsAccess::ReadWrite,
        other => reaches_out(other),
    };
    let is_read_only = !policy.effective.iter().any(writes);
    let annotations = ToolAnnotations::new()
        .read_only(is_read_only)
        .open_world(policy.effective.iter().any(reaches_out));
    match is_read_only {
        true => annotations.destructive(false).idempotent(true),
        false => annotations,
    }
}
