//! Tools that skills may call: those of upstream MCP servers and those that the embedding host has.
//!
//! A [`Toolbox`] finds them by name and calls them. It knows no policy and keeps no record: whoever
//! holds it decides who may call what.

mod error;
mod host_tool;
mod server;

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use futures_util::future::join_all;

use crate::call::{ToolAnswer, ToolDefinition};
use crate::config::{Config, Secret};
use crate::schema::{Schema, SchemaError};
use crate::telemetry::chain;
use server::Server;

pub use error::{MessageError, ToolError, ToolNameError};
pub use host_tool::HostTool;

/// What stands between the name of a server and the name of a tool of it.
pub const SEPARATOR: &str = "__";

/// All tools that there are. Cheap to clone. When the last clone is dropped, its servers end.
#[derive(Clone, Default)]
pub struct Toolbox {
    host: Arc<BTreeMap<String, Tool>>,
    servers: Arc<[Arc<Server>]>,
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

    /// A toolbox with the servers of `[mcp_servers]`. None of them is started before it is needed.
    ///
    /// `secrets` are those of [`Config::read_secrets`], `ca_certificates` what
    /// [`Config::read_ca_file`] gave.
    pub fn from_config(config: &Config, secrets: &[Secret], ca_certificates: Vec<Vec<u8>>) -> Self {
        let ca_certificates: Arc<[Vec<u8>]> = ca_certificates.into();
        let server = |(name, settings): (&String, _)| {
            let (home, certificates) = (config.home.clone(), Arc::clone(&ca_certificates));
            Arc::new(Server::new(name, settings, home, secrets, certificates))
        };
        Self {
            host: Arc::default(),
            servers: config.mcp_servers.iter().map(server).collect(),
        }
    }

    /// Ends every server and waits until all have ended: a process is given two seconds after its
    /// standard input was closed, and then killed. Afterwards none is started again.
    pub async fn shutdown(&self) {
        join_all(self.servers.iter().map(|server| server.shut_down())).await;
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
        let entry = Entry::new(definition);
        // It was compiled just now, so that whoever adds a tool is told.
        let _first = entry.schema.set(Some(schema));
        let added = Tool {
            entry: Arc::new(entry),
            callee: Callee::Host(tool),
        };
        let host = Arc::make_mut(&mut self.host);
        if host.insert(name.clone(), added).is_some() {
            return Err(ToolNameError::Taken { name });
        }
        Ok(self)
    }

    /// The same tools and those that another one has of the host's own, which come first.
    #[must_use]
    pub fn with_those_of(&self, other: &Self) -> Self {
        if other.host.is_empty() {
            return self.clone();
        }
        let mut host = (*self.host).clone();
        host.extend(
            other
                .host
                .iter()
                .map(|(name, tool)| (name.clone(), tool.clone())),
        );
        Self {
            host: Arc::new(host),
            servers: Arc::clone(&self.servers),
        }
    }

    /// The tools whose names fit one of the patterns. Servers that may have such tools are started.
    pub async fn list(&self, patterns: &[&str]) -> Listing {
        let fits = |name: &str| {
            let fits = |pattern: &&str| crate::capability::tool_matches(pattern, name);
            patterns.iter().any(fits)
        };
        let mut found: BTreeMap<&str, Tool> = BTreeMap::new();
        let mut unreachable = Vec::new();
        let wanted = |server: &&Arc<Server>| patterns.iter().any(|one| server.may_have(one));
        let asked = self.servers.iter().filter(wanted);
        let answers = join_all(asked.map(async |server| (server, server.tools().await))).await;
        let mut tools = Vec::new();
        for (server, answer) in answers {
            match answer {
                Ok(entries) => tools.extend(entries.into_iter().map(|entry| Tool {
                    entry,
                    callee: Callee::Server(Arc::clone(server)),
                })),
                Err(ToolError::Unavailable { server, reason }) => {
                    unreachable.push((server, reason));
                }
                Err(error) => unreachable.push((server.name().to_owned(), error.to_string())),
            }
        }
        // The host's own come last, and take the place of a server's of the same name.
        for tool in tools.iter().chain(self.host.values()) {
            if fits(&tool.definition().name) {
                found.insert(&tool.definition().name, tool.clone());
            }
        }
        Listing {
            tools: found.into_values().collect(),
            unreachable,
        }
    }

    /// The tool of exactly that name. Its server is started if need be.
    ///
    /// # Errors
    /// The server that should have it cannot be asked.
    pub async fn find(&self, name: &str) -> Result<Option<Tool>, ToolError> {
        if let Some(tool) = self.host.get(name) {
            return Ok(Some(tool.clone()));
        }
        let mut servers = self.servers.iter();
        let Some(server) = servers.find(|server| server.may_have_tool(name)) else {
            return Ok(None);
        };
        let entry = server.find(name).await?;
        Ok(entry.map(|entry| Tool {
            entry,
            callee: Callee::Server(Arc::clone(server)),
        }))
    }
}

/// One tool, as it was when it was looked for. Cheap to clone.
#[derive(Clone)]
pub struct Tool {
    entry: Arc<Entry>,
    callee: Callee,
}

/// Who does the work.
#[derive(Clone)]
enum Callee {
    Host(Arc<dyn HostTool>),
    Server(Arc<Server>),
}

/// What a tool is, and its schema once it was compiled.
struct Entry {
    definition: ToolDefinition,
    /// None inside: it cannot be used, and arguments are not checked.
    schema: OnceLock<Option<Schema>>,
}

impl Entry {
    fn new(definition: ToolDefinition) -> Self {
        Self {
            definition,
            schema: OnceLock::new(),
        }
    }

    /// Compiles the schema when it is first asked for: a server may have a thousand tools.
    fn schema(&self) -> Option<&Schema> {
        let compile = || {
            let compiled = Schema::compile(&self.definition.input_schema);
            let warn = |error: &SchemaError| {
                let (name, reason) = (&self.definition.name, chain(error));
                tracing::warn!("arguments of tool {name} are not checked: {reason}");
            };
            compiled.inspect_err(warn).ok()
        };
        self.schema.get_or_init(compile).as_ref()
    }
}

impl std::fmt::Debug for Tool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Tool({})", self.definition().name)
    }
}

impl Tool {
    /// What it is.
    pub fn definition(&self) -> &ToolDefinition {
        &self.entry.definition
    }

    /// Whether a call that was cut off goes on when it is made again, see [`HostTool::keeps_record`].
    pub fn keeps_record(&self) -> bool {
        match &self.callee {
            Callee::Host(tool) => tool.keeps_record(),
            Callee::Server(_) => false,
        }
    }

    /// Checks arguments against its schema.
    ///
    /// # Errors
    /// They are no JSON object, or do not fit: where and why.
    pub fn check(&self, arguments: &str) -> Result<(), ToolError> {
        let parsed: serde_json::Map<String, serde_json::Value> = serde_json::from_str(arguments)
            .map_err(|error| ToolError::Invalid(format!("$: expected a JSON object: {error}")))?;
        let Some(schema) = self.entry.schema() else {
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
        match &self.callee {
            Callee::Host(tool) => tool.call(arguments).await,
            Callee::Server(server) => server.call(&self.definition().name, arguments).await,
        }
    }
}

/// Whether a line of an MCP server is a message of the protocol, or nothing.
///
/// # Errors
/// It would end the connection.
pub fn check_message(line: &[u8]) -> Result<(), MessageError> {
    server::parse(line).map(drop)
}
