//! `completion/complete`: what an argument can be, as far as its schema says.

use rmcp::RoleServer;
use rmcp::model::{
    CompleteRequestParams, CompleteResult, CompletionInfo, ErrorData, JsonObject, Reference,
};
use rmcp::service::RequestContext;
use serde_json::Value;

use super::Mcp;
use super::call::no_such;
use super::client::Client;
use super::run_resource;
use crate::registry::{McpRole, ResourceAddress};

impl Mcp {
    pub(super) async fn complete(
        &self,
        request: CompleteRequestParams,
        cx: &RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        let argument = &request.argument;
        let known = match &request.r#ref {
            Reference::Prompt(prompt) => {
                let entry = self.entry(McpRole::Prompt, &prompt.name).await;
                let entry = entry.ok_or_else(|| no_such("prompt", &prompt.name))?;
                choices(&entry.input_schema(), &argument.name)
            }
            Reference::Resource(template) if run_resource::is_template(&template.uri) => {
                match argument.name.as_str() {
                    run_resource::ID => {
                        let runs = self.own_runs(&Client::of(self, cx)).await?;
                        Some(runs.iter().map(|run| run.run_id.to_string()).collect())
                    }
                    run_resource::AFTER => Some(Vec::new()),
                    _ => None,
                }
            }
            Reference::Resource(template) => {
                let all = self.entries(McpRole::Resource).await;
                let named = ResourceAddress::Template(template.uri.clone());
                let entry = all
                    .values()
                    .find(|entry| entry.skill.manifest.mcp.address.as_ref() == Some(&named));
                let entry = entry.ok_or_else(|| no_such("resource template", &template.uri))?;
                // A variable that the schema does not speak of can be anything.
                let is_variable = template.uri.contains(&format!("{{{}}}", argument.name));
                let known = choices(&entry.input_schema(), &argument.name);
                known.or_else(|| is_variable.then(Vec::new))
            }
            _ => {
                return Err(ErrorData::invalid_params(
                    "ref: expected a prompt or a resource",
                    None,
                ));
            }
        };
        let known = known.ok_or_else(|| no_such("argument", &argument.name))?;
        Ok(CompleteResult::new(completed(known, &argument.value)))
    }
}

/// The values that a property of a schema can have, as far as it names them; none when there is no such property.
fn choices(schema: &JsonObject, name: &str) -> Option<Vec<String>> {
    let property = schema.get("properties")?.get(name)?;
    let mut values = Vec::new();
    named(property, &mut values);
    for keyword in ["oneOf", "anyOf"] {
        let among = property.get(keyword).and_then(Value::as_array);
        for one in among.into_iter().flatten() {
            named(one, &mut values);
        }
    }
    Some(values)
}

fn named(schema: &Value, values: &mut Vec<String>) {
    let several = schema.get("enum").and_then(Value::as_array);
    for value in several.into_iter().flatten().chain(schema.get("const")) {
        let text = match value {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        if !values.contains(&text) {
            values.push(text);
        }
    }
}

/// Those that begin with what was typed, as many as an answer may have.
fn completed(mut known: Vec<String>, typed: &str) -> CompletionInfo {
    known.retain(|value| value.starts_with(typed));
    let total = u32::try_from(known.len()).unwrap_or(u32::MAX);
    let has_more = known.len() > CompletionInfo::MAX_VALUES;
    known.truncate(CompletionInfo::MAX_VALUES);
    let mut info = CompletionInfo::default();
    info.values = known;
    info.total = Some(total);
    info.has_more = Some(has_more);
    info
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{choices, completed};

    #[test]
    fn an_argument_can_be_what_its_schema_names() {
        let Value::Object(schema) = json!({ "properties": {
            "tone": { "enum": ["warm", "wry", "cold"] },
            "size": { "oneOf": [{ "const": "s", "title": "Small" }, { "const": 2 }] },
            "one": { "const": "only" },
            "any": { "type": "string" },
        }}) else {
            panic!("an object");
        };
        let of = |name: &str, typed: &str| Some(completed(choices(&schema, name)?, typed).values);
        assert_eq!(of("tone", "w").unwrap(), ["warm", "wry"]);
        assert_eq!(of("size", "").unwrap(), ["s", "2"]);
        assert_eq!(of("one", "on").unwrap(), ["only"]);
        assert_eq!(of("any", "a").unwrap(), Vec::<String>::new());
        assert_eq!(of("none", ""), None);
    }

    #[test]
    fn an_answer_has_a_hundred_values_and_says_how_many_there_are() {
        let known: Vec<String> = (0..250).map(|number| format!("v{number}")).collect();
        let info = completed(known, "v");
        assert_eq!(info.values.len(), 100);
        assert_eq!((info.total, info.has_more), (Some(250), Some(true)));
    }
}
