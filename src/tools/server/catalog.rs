//! What a server says that it has, as tools that skills may call.

use std::collections::BTreeMap;
use std::sync::Arc;

use rmcp::model::{Tool as Listed, ToolAnnotations};

use crate::call::{Effect, ToolDefinition};
use crate::capability::tool_matches;
use crate::config::McpServer;
use crate::tools::error::check_name;
use crate::tools::{Entry, SEPARATOR};

/// Tools of one server. Protects listings, and whoever compares names.
const TOOLS_MAX: usize = 10_000;
/// Bytes of all definitions of one server. Protects the host's heap.
const DEFINITION_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Bytes of a description. Protects models, which are told it, and the ledger.
const DESCRIPTION_BYTES_MAX: usize = 4 * 1024;
/// Tools of one server that are named in a log because they are left out; the others are counted. Protects
/// the log.
const LEFT_OUT_SHOWN_MAX: usize = 16;
/// Bytes of a name that is shown in a log because it cannot be used. Protects the log.
const NAME_BYTES_SHOWN: usize = 128;

/// The tools of a server, by their names with the server's before it.
pub(super) type Tools = BTreeMap<String, Arc<Entry>>;

/// Tools as they are read, page by page.
pub(super) struct Catalog<'a> {
    server: &'a str,
    settings: &'a McpServer,
    count: usize,
    bytes: usize,
    left_out: usize,
    tools: Tools,
}

impl<'a> Catalog<'a> {
    pub(super) fn new(server: &'a str, settings: &'a McpServer) -> Self {
        Self {
            server,
            settings,
            count: 0,
            bytes: 0,
            left_out: 0,
            tools: Tools::new(),
        }
    }

    /// Adds a page.
    ///
    /// # Errors
    /// There are more tools than a server may have.
    pub(super) fn add(&mut self, page: Vec<Listed>) -> Result<(), String> {
        for listed in page {
            self.count += 1;
            if self.count > TOOLS_MAX {
                return Err(format!("it lists more than {TOOLS_MAX} tools"));
            }
            let schema = serde_json::to_string(&listed.input_schema).unwrap_or_default();
            let description = listed.description.as_deref().unwrap_or_default();
            let name = listed.name.as_ref();
            let bytes = name.len() + description.len() + schema.len();
            self.bytes = self.bytes.saturating_add(bytes);
            if self.bytes > DEFINITION_BYTES_MAX {
                let max = DEFINITION_BYTES_MAX;
                return Err(format!("its tools take more than {max} bytes to define"));
            }
            let effect = self.effect(name, listed.annotations.as_ref());
            self.add_one(name, description, schema, effect);
        }
        Ok(())
    }

    fn add_one(&mut self, own_name: &str, description: &str, input_schema: String, effect: Effect) {
        let server = self.server;
        let allowed = &self.settings.tools;
        if !allowed.iter().any(|one| tool_matches(one, own_name)) {
            return;
        }
        let name = format!("{server}{SEPARATOR}{own_name}");
        if own_name.is_empty() || check_name(&name).is_err() {
            self.leave_out(own_name, "has a name that cannot be granted");
            return;
        }
        if self.tools.contains_key(&name) {
            self.leave_out(own_name, "is listed twice");
            return;
        }
        let definition = ToolDefinition {
            name: name.clone(),
            description: cut(description, DESCRIPTION_BYTES_MAX).to_owned(),
            input_schema,
            effect,
        };
        self.tools.insert(name, Arc::new(Entry::new(definition)));
    }

    fn leave_out(&mut self, own_name: &str, why: &str) {
        self.left_out += 1;
        if self.left_out <= LEFT_OUT_SHOWN_MAX {
            let shown = cut(own_name, NAME_BYTES_SHOWN);
            tracing::warn!(server = self.server, "tool {shown:?} {why}");
        }
    }

    /// What the operator says counts before what the server does.
    fn effect(&self, own_name: &str, annotations: Option<&ToolAnnotations>) -> Effect {
        if let Some(effect) = self.settings.effects.get(own_name) {
            return *effect;
        }
        let is =
            |hint: fn(&ToolAnnotations) -> Option<bool>| annotations.and_then(hint) == Some(true);
        if is(|annotations| annotations.read_only_hint) {
            Effect::Read
        } else if is(|annotations| annotations.idempotent_hint) {
            Effect::Idempotent
        } else {
            Effect::Write
        }
    }

    pub(super) fn into_tools(self) -> Tools {
        let unnamed = self.left_out.saturating_sub(LEFT_OUT_SHOWN_MAX);
        if unnamed > 0 {
            tracing::warn!(server = self.server, "{unnamed} more tools are left out");
        }
        self.tools
    }
}

fn cut(text: &str, bytes_max: usize) -> &str {
    text.get(..text.floor_char_boundary(bytes_max))
        .unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::config::McpEndpoint;

    fn settings() -> McpServer {
        McpServer {
            endpoint: McpEndpoint::Http {
                url: "http://a/".to_owned(),
                secret: None,
            },
            tools: vec!["*".to_owned()],
            timeout_ms: 1,
            start_timeout_ms: 1,
            effects: BTreeMap::new(),
        }
    }

    fn listed(name: &str, more: Value) -> Listed {
        let mut tool = json!({"name": name, "inputSchema": {"type": "object"}});
        let Value::Object(more) = more else { panic!() };
        tool.as_object_mut().unwrap().extend(more);
        serde_json::from_value(tool).unwrap()
    }

    fn tools(settings: &McpServer, listed: Vec<Listed>) -> Tools {
        let mut catalog = Catalog::new("srv", settings);
        catalog.add(listed).unwrap();
        catalog.into_tools()
    }

    #[test]
    fn hints_are_effects_and_the_operator_has_the_last_word() {
        use Effect::{Idempotent, Read, Write};
        let mut settings = settings();
        settings.effects.insert("d".to_owned(), Idempotent);
        let tools = tools(
            &settings,
            vec![
                listed("a", json!({"annotations": {"readOnlyHint": true}})),
                listed(
                    "b",
                    json!({"annotations": {"idempotentHint": true, "readOnlyHint": false}}),
                ),
                listed("c", json!({"annotations": {"readOnlyHint": false}})),
                listed("d", json!({"annotations": {"readOnlyHint": true}})),
                listed("e", json!({})),
            ],
        );
        let effects: Vec<_> = tools.values().map(|one| one.definition.effect).collect();
        assert_eq!(effects, [Read, Idempotent, Write, Idempotent, Write]);
    }

    #[test]
    fn what_has_no_usable_name_or_is_there_twice_is_left_out() {
        let mut settings = settings();
        settings.tools = vec!["get_*".to_owned(), "*b*".to_owned(), "".to_owned()];
        let long = "b".repeat(200);
        let tools = tools(
            &settings,
            vec![
                listed("get_a", json!({"description": "first"})),
                listed("get_a", json!({"description": "second"})),
                listed("set_a", json!({})),
                listed("b*", json!({})),
                listed("b c", json!({})),
                listed("bä", json!({})),
                listed(&long, json!({})),
                listed("", json!({})),
                listed("b__c", json!({})),
            ],
        );
        let names: Vec<_> = tools.keys().map(String::as_str).collect();
        assert_eq!(names, ["srv__b__c", "srv__get_a"]);
        assert_eq!(tools["srv__get_a"].definition.description, "first");
    }

    #[test]
    fn descriptions_are_cut_and_lists_have_an_end() {
        let settings = settings();
        let long = json!({"description": "ä".repeat(DESCRIPTION_BYTES_MAX)});
        let tools = tools(&settings, vec![listed("a", long)]);
        let description = &tools["srv__a"].definition.description;
        assert_eq!(description.len(), DESCRIPTION_BYTES_MAX);

        let mut catalog = Catalog::new("srv", &settings);
        let page = |_| vec![listed("a", json!({})); 1000];
        assert!((0..10).map(page).all(|page| catalog.add(page).is_ok()));
        let refused = catalog.add(vec![listed("a", json!({}))]).unwrap_err();
        assert!(refused.contains("10000"), "{refused}");

        let mut catalog = Catalog::new("srv", &settings);
        let large = json!({"description": "a".repeat(DEFINITION_BYTES_MAX)});
        let refused = catalog.add(vec![listed("a", large)]).unwrap_err();
        assert!(refused.contains("16777216"), "{refused}");
    }
}
