//! Tools of MCP servers, behind `Toolbox`.

mod hostile;
mod http;
mod listing;
mod peers;
mod settings;

use std::fs;
use std::path::PathBuf;

use serde_json::{Value, json};
use skillrun::config::Config;
use skillrun::tools::{ToolError, Toolbox};

use crate::harness::{Home, eventually};

/// A home with servers, and the toolbox of them.
struct Bench {
    home: Home,
    toolbox: Toolbox,
}

impl Bench {
    /// What the `config.toml` says that is given.
    fn new(config: &str) -> Self {
        Self::of(Home::new(&[]), config)
    }

    fn of(home: Home, config: &str) -> Self {
        home.configure(config);
        let config = Config::load(home.path()).unwrap();
        let secrets = config.read_secrets().unwrap();
        let toolbox = Toolbox::from_config(&config, &secrets, config.read_ca_file().unwrap());
        Self { home, toolbox }
    }

    /// The hostile server under the name `h`, with more keys in its section.
    fn hostile(how: &str, more: &str) -> Self {
        let home = Home::new(&[]);
        let section = hostile(&home, how);
        Self::of(home, &format!("{section}{more}"))
    }

    /// What the hostile server wrote down, without a line that it is about to write.
    fn journal(&self) -> Vec<String> {
        journal(&self.home)
    }

    /// The process ids of all that were started.
    fn started(&self) -> Vec<i32> {
        started(&self.home)
    }

    /// Waits until the hostile server has read a message with that in it.
    #[track_caller]
    fn wait_for(&self, part: &str) {
        eventually(part, || {
            self.journal()
                .iter()
                .any(|line| line.contains(part))
                .then_some(())
        });
    }

    /// Finds and calls a tool.
    async fn call(&self, name: &str, arguments: Value) -> Result<Value, ToolError> {
        let tool = self.toolbox.find(name).await?.unwrap();
        let arguments = arguments.to_string();
        tool.check(&arguments)?;
        let answer = tool.call(&arguments).await?;
        let content: Value = serde_json::from_str(&answer.content).unwrap();
        Ok(json!({"content": content, "is_error": answer.is_error}))
    }

    /// The names of the tools that fit.
    async fn names(&self, pattern: &str) -> Vec<String> {
        let listing = self.toolbox.list(&[pattern]).await;
        assert!(listing.unreachable.is_empty(), "{:?}", listing.unreachable);
        let names = listing.tools.iter();
        names.map(|tool| tool.definition().name.clone()).collect()
    }
}

/// The section of the hostile server under the name `h`, which keeps a journal in this home.
pub(crate) fn hostile(home: &Home, how: &str) -> String {
    let journal = home.path().join("journal");
    let command = json!([python(), script("hostile.py"), how, journal]);
    format!("[mcp_servers.h]\ncommand = {command}\n")
}

fn journal(home: &Home) -> Vec<String> {
    let text = fs::read_to_string(home.path().join("journal")).unwrap_or_default();
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    whole.lines().map(str::to_owned).collect()
}

/// The process ids of all hostile servers that were started in this home.
pub(crate) fn started(home: &Home) -> Vec<i32> {
    let journal = journal(home);
    let ids = journal
        .iter()
        .filter_map(|line| line.strip_prefix("started "));
    ids.map(|id| id.parse().unwrap()).collect()
}

/// The text of an answer of one block.
#[track_caller]
fn text(answer: &Value) -> &str {
    let content = answer["content"].as_array().unwrap();
    assert_eq!(content.len(), 1, "{answer}");
    content[0]["text"].as_str().unwrap()
}

#[track_caller]
fn reason(result: Result<Value, ToolError>) -> String {
    match result.unwrap_err() {
        ToolError::Unavailable { reason, .. } => reason,
        other => panic!("{other:?}"),
    }
}

/// Waits until there is no such process.
#[track_caller]
pub(crate) fn wait_for_end(id: i32) {
    let process = PathBuf::from(format!("/proc/{id}/stat"));
    eventually(&format!("the end of {id}"), || {
        let stat = fs::read_to_string(&process).unwrap_or_default();
        // One that nobody has waited for yet has ended, too.
        (stat.is_empty() || stat.contains(") Z ")).then_some(())
    });
}

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

pub(crate) fn python() -> PathBuf {
    root().join("target/toolchains/python/bin/python")
}

pub(crate) fn script(name: &str) -> PathBuf {
    root().join("tests/all/tools").join(name)
}

fn everything() -> PathBuf {
    let package = "target/toolchains/node_modules/@modelcontextprotocol/server-everything";
    root().join(package).join("dist/index.js")
}
