//! Tools that skills may call: those of upstream MCP servers and those that the embedding host has.
//!
//! A [`Toolbox`] finds them by name and calls them. It knows no policy and keeps no record: whoever
//! holds it decides who may call what.

mod error;
mod host_tool;

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::call::{ToolAnswer, ToolDefinition};
use crate::schema::Schema;

pub use error::{ToolError, ToolNameError};
pub use host_tool::HostTool;

/// What stands between the name of a server and the name of a tool of it.
pub const SEPARATOR: &str = "__";

/// All tools that there are. Cheap to clone.
#[derive(Clone, Default)]
pub struct Toolbox {
    host: Arc<BTreeMap<String, Tool>>,
}

/// What a search among the tools came to.
#[derive(Debug, Clone, Default)]
pub struct Listing {
    /// Those that fit, in order of their names.
    pub tools: Vec<Tool>,
    /// Servers that may have more, and cannot be asked, each with the reason.
    pub unreachable: Vec<(String, String)>,
}

impl Toolbox {
    /// A toolbox without any tool.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a tool of the host's own.
    ///
    /// # Errors
    /// Its name is none, or taken; or its schema is not one.
    pub fn with_host_tool(mut self, tool: Arc<dyn HostTool>) -> Result<Self, ToolNameError> {
        let definition = tool.definition();
        error::check_name(&definition.name)?;
        let name = definition.name.clone();
        let schema =
            Schema::compile(&definition.input_schema).map_err(|source| ToolNameError::Schema {
                name: name.clone(),
                source,
            })?;
        let added = Tool(Arc::new(Inner {
            definition,
            schema: Some(schema),
            tool,
        }));
        let host = Arc::make_mut(&mut self.host);
        if host.insert(name.clone(), added).is_some() {
            return Err(ToolNameError::Taken { name });
        }
        Ok(self)
    }

    /// The tools whose names fit one of the patterns. Servers that may have such tools are started.
    pub async fn list(&self, patterns: &[&str]) -> Listing {
        let fits = |name: &str| {
            let fits = |pattern: &&str| crate::capability::tool_matches(pattern, name);
            patterns.iter().any(fits)
        };
        let tools = self.host.values();
        Listing {
            tools: tools
                .filter(|tool| fits(&tool.definition().name))
                .cloned()
                .collect(),
            unreachable: Vec::new(),
        }
    }

    /// The tool of exactly that name. Its server is started if need be.
    ///
    /// # Errors
    /// The server that should have it cannot be asked.
    pub async fn find(&self, name: &str) -> Result<Option<Tool>, ToolError> {
        Ok(self.host.get(name).cloned())
    }
}

/// One tool, as it was when it was looked for. Cheap to clone.
#[derive(Clone)]
pub struct Tool(Arc<Inner>);

struct Inner {
    definition: ToolDefinition,
    /// None: its schema cannot be used, and arguments are not checked.
    schema: Option<Schema>,
    tool: Arc<dyn HostTool>,
}

impl std::fmt::Debug for Tool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Tool({})", self.definition().name)
    }
}

impl Tool {
    /// What it is.
    pub fn definition(&self) -> &ToolDefinition {
        &self.0.definition
    }

    /// Checks arguments against its schema.
    ///
    /// # Errors
    /// They are no JSON object, or do not fit: where and why.
    pub fn check(&self, arguments: &str) -> Result<(), ToolError> {
        let parsed: serde_json::Map<String, serde_json::Value> = serde_json::from_str(arguments)
            .map_err(|error| ToolError::Invalid(format!("$: expected a JSON object: {error}")))?;
        let Some(schema) = &self.0.schema else {
            return Ok(());
        };
        let checked = schema.check(&parsed.into());
        checked.map_err(|mismatch| ToolError::Invalid(mismatch.to_string()))
    }

    /// Calls it with arguments that were checked. Dropping the future cancels the call.
    ///
    /// # Errors
    /// There is no answer.
    pub async fn call(&self, arguments: &str) -> Result<ToolAnswer, ToolError> {
        self.0.tool.call(arguments).await
    }
}
