//! `[mcp_servers.<name>]`: servers whose tools skills may call.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::RangeInclusive;
use std::path::PathBuf;

use serde::Deserialize;

use super::file::{Number, Place};
use super::{ConfigProblem, SecretSource};
use crate::call::Effect;
use crate::capability::{Capability, Target};

/// Servers at most. Protects the process, which may have to start all of them at once.
const SERVERS_MAX: usize = 64;
/// Bytes of a server's name. It is part of the name of each of its tools, which have 128.
const NAME_BYTES_MAX: usize = 64;
/// What stands before the names of the tools that agents have in their modes, and of those by which skills ask the client
/// of the MCP server. A server of such a name could take the place of one that is not there.
const RESERVED_NAMES: [&str; 2] = ["skillrun", "client"];
/// The largest of either: one hour. Protects callers from a call that is forgotten.
const TIME_MS_MAX: u64 = 3_600_000;

/// A server of the Model Context Protocol, and what of it may be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct McpServer {
    /// Where it is.
    pub endpoint: McpEndpoint,
    /// Patterns of the tools that there are for skills, on the names that the server itself gives them.
    /// A `*` stands for any characters.
    pub tools: Vec<String>,
    /// Milliseconds for one call, 1 to 3,600,000.
    pub timeout_ms: u64,
    /// Milliseconds until it is ready, and as many until it has listed its tools, 1 to 3,600,000.
    pub start_timeout_ms: u64,
    /// What a repetition of a call would do, by the name that the server itself gives the tool, in place
    /// of what the server says.
    pub effects: BTreeMap<String, Effect>,
}

impl McpServer {
    /// `timeout_ms`, if nothing is said.
    pub const CALL_TIME_MS: u64 = 60_000;
    /// `start_timeout_ms`, if nothing is said.
    pub const START_TIME_MS: u64 = 30_000;
}

/// Where a server is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum McpEndpoint {
    /// A program that is started and speaks over its standard input and output.
    Process(McpProcess),
    /// An address that is asked over HTTP.
    Http {
        /// `http://` or `https://`.
        url: String,
        /// The secret that is put into requests.
        secret: Option<String>,
    },
}

/// A program that is started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct McpProcess {
    /// The program, looked up in `PATH`, and its arguments. Never empty.
    pub command: Vec<String>,
    /// Variables of its environment.
    pub env: BTreeMap<String, HiddenText>,
    /// Variables of the host's environment that it gets.
    pub pass_env: Vec<String>,
    /// The folder it works in, else that of the host. A relative one lies in the home folder.
    pub dir: Option<PathBuf>,
    /// Whether it stays in the process group of whoever starts it, and so ends with that when somebody kills the
    /// group. No file says this.
    pub joins_group: bool,
}

/// A text that is shown to nobody.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct HiddenText(String);

impl HiddenText {
    /// Hides a text.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text itself.
    pub fn value(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for HiddenText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[hidden]")
    }
}

/// One section, as it stands in the file.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct McpServerSection {
    command: Vec<toml::Spanned<String>>,
    env: BTreeMap<String, toml::Spanned<HiddenText>>,
    pass_env: Vec<toml::Spanned<String>>,
    dir: Option<PathBuf>,
    url: Option<toml::Spanned<String>>,
    secret: Option<toml::Spanned<String>>,
    tools: Option<Vec<toml::Spanned<String>>>,
    timeout_ms: Number,
    start_timeout_ms: Number,
    effects: BTreeMap<toml::Spanned<String>, Effect>,
}

/// The servers of a file, each checked whole.
pub(super) fn servers(
    place: &Place<'_>,
    sections: BTreeMap<String, toml::Spanned<McpServerSection>>,
    secrets: &BTreeMap<String, SecretSource>,
) -> Result<BTreeMap<String, McpServer>, ConfigProblem> {
    let count = sections.len();
    let mut servers = BTreeMap::new();
    for (name, section) in sections {
        let line = place.line(&section);
        let key = format!("mcp_servers.{name}");
        let invalid = |line, expected: String| ConfigProblem::McpServer {
            line,
            key: key.clone(),
            expected,
        };
        if count > SERVERS_MAX {
            return Err(invalid(line, format!("at most {SERVERS_MAX} servers")));
        }
        if !is_name(&name) {
            let expected = format!(
                "a name of 1 to {NAME_BYTES_MAX} letters, digits, - and single _, none of these at an end"
            );
            return Err(invalid(line, expected));
        }
        if RESERVED_NAMES.contains(&name.as_str()) {
            let expected = format!("another name: tools of {name} are the host's own");
            return Err(invalid(line, expected));
        }
        let checked = Section {
            place,
            key: &key,
            line,
        };
        servers.insert(name, checked.server(section.into_inner(), secrets)?);
    }
    Ok(servers)
}

/// Whether names of tools can be told apart from a server's of that name, by the first `__` in them.
fn is_name(name: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    let is_edge = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    let bytes = name.as_bytes();
    name.len() <= NAME_BYTES_MAX
        && name.bytes().all(fits)
        && !name.contains("__")
        && is_edge(bytes.first())
        && is_edge(bytes.last())
}

/// A section that is being checked.
struct Section<'a> {
    place: &'a Place<'a>,
    key: &'a str,
    line: usize,
}

impl Section<'_> {
    fn invalid(&self, line: usize, key: &str, expected: impl Into<String>) -> ConfigProblem {
        ConfigProblem::McpServer {
            line,
            key: format!("{}.{key}", self.key),
            expected: expected.into(),
        }
    }

    fn server(
        &self,
        section: McpServerSection,
        secrets: &BTreeMap<String, SecretSource>,
    ) -> Result<McpServer, ConfigProblem> {
        let timeout_ms = self.time("timeout_ms", &section.timeout_ms, McpServer::CALL_TIME_MS)?;
        let start_timeout_ms = self.time(
            "start_timeout_ms",
            &section.start_timeout_ms,
            McpServer::START_TIME_MS,
        )?;
        let every = || vec![toml::Spanned::new(0..0, "*".to_owned())];
        let is_pattern = |text: &str| !text.is_empty() && is_tool(&text.replace('*', ""));
        let tools = section.tools.clone().unwrap_or_else(every);
        for pattern in &tools {
            if !is_pattern(pattern.get_ref()) {
                let expected = "patterns of letters, digits and _-.*";
                return Err(self.invalid(self.place.line(pattern), "tools", expected));
            }
        }
        for tool in section.effects.keys() {
            if tool.get_ref().is_empty() || !is_tool(tool.get_ref()) {
                let expected = "names of tools, of letters, digits and _-.";
                return Err(self.invalid(self.place.line(tool), "effects", expected));
            }
        }
        let effects = section.effects.iter();
        let effects = effects.map(|(tool, effect)| (tool.get_ref().clone(), *effect));
        Ok(McpServer {
            tools: tools.into_iter().map(toml::Spanned::into_inner).collect(),
            timeout_ms,
            start_timeout_ms,
            effects: effects.collect(),
            endpoint: self.endpoint(section, secrets)?,
        })
    }

    fn time(&self, key: &str, value: &Number, default: u64) -> Result<u64, ConfigProblem> {
        const RANGE: RangeInclusive<u64> = 1..=TIME_MS_MAX;
        match value {
            None => Ok(default),
            Some(value) if RANGE.contains(value.get_ref()) => Ok(*value.get_ref()),
            Some(value) => {
                let expected = format!("1 to {TIME_MS_MAX}, found {}", value.get_ref());
                Err(self.invalid(self.place.line(value), key, expected))
            }
        }
    }

    fn endpoint(
        &self,
        section: McpServerSection,
        secrets: &BTreeMap<String, SecretSource>,
    ) -> Result<McpEndpoint, ConfigProblem> {
        let is_process = !section.command.is_empty();
        let of_process =
            !section.env.is_empty() || !section.pass_env.is_empty() || section.dir.is_some();
        match &section.url {
            Some(_) if is_process || of_process => {
                let expected = "either url and secret, or command, env, pass_env and dir";
                Err(self.invalid(self.line, "url", expected))
            }
            Some(url) => self.http(url, section.secret.as_ref(), secrets),
            None if !is_process => {
                let expected = "a program and its arguments, or a url in its place";
                Err(self.invalid(self.line, "command", expected))
            }
            None => match &section.secret {
                Some(secret) => {
                    let expected = "a url beside it; a process gets env or pass_env";
                    Err(self.invalid(self.place.line(secret), "secret", expected))
                }
                None => self.process(section),
            },
        }
    }

    fn process(&self, section: McpServerSection) -> Result<McpEndpoint, ConfigProblem> {
        for argument in &section.command {
            if argument.get_ref().contains('\0') {
                let line = self.place.line(argument);
                return Err(self.invalid(line, "command", "texts without a NUL"));
            }
        }
        let program = section.command.first();
        if program.is_none_or(|program| program.get_ref().is_empty()) {
            return Err(self.invalid(self.line, "command", "a program that has a name"));
        }
        for (name, value) in &section.env {
            let line = self.place.line(value);
            if !is_variable(name) {
                return Err(self.invalid(line, "env", VARIABLE));
            }
            if value.get_ref().value().contains('\0') {
                return Err(self.invalid(line, &format!("env.{name}"), "a text without a NUL"));
            }
        }
        for name in &section.pass_env {
            if !is_variable(name.get_ref()) {
                return Err(self.invalid(self.place.line(name), "pass_env", VARIABLE));
            }
        }
        let texts = |list: Vec<toml::Spanned<String>>| {
            list.into_iter().map(toml::Spanned::into_inner).collect()
        };
        let env = section.env.into_iter();
        Ok(McpEndpoint::Process(McpProcess {
            command: texts(section.command),
            env: env
                .map(|(name, value)| (name, value.into_inner()))
                .collect(),
            pass_env: texts(section.pass_env),
            dir: section.dir,
            joins_group: false,
        }))
    }

    fn http(
        &self,
        url: &toml::Spanned<String>,
        secret: Option<&toml::Spanned<String>>,
        secrets: &BTreeMap<String, SecretSource>,
    ) -> Result<McpEndpoint, ConfigProblem> {
        let Some(target) = target(url.get_ref()) else {
            let expected = "http(s)://host[:port]/path, without a user and a #";
            return Err(self.invalid(self.place.line(url), "url", expected));
        };
        if let Some(secret) = secret {
            let line = self.place.line(secret);
            let name = secret.get_ref();
            let Some(source) = secrets.get(name) else {
                let expected = format!("the name of a secret, found no [secrets.{name}]");
                return Err(self.invalid(line, "secret", expected));
            };
            let place = format!("net:{}#POST", source.url).parse();
            let covers = match place {
                Ok(Capability::Net(place)) => place.covers(&target),
                _ => false,
            };
            if !covers {
                let expected = format!("a secret for this url; {name} is for {}", source.url);
                return Err(self.invalid(line, "secret", expected));
            }
        }
        Ok(McpEndpoint::Http {
            url: url.get_ref().clone(),
            secret: secret.map(|secret| secret.get_ref().clone()),
        })
    }
}

const VARIABLE: &str = "names of variables, of letters, digits and _, no digit first";

fn is_variable(name: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    name.bytes().all(fits) && name.bytes().next().is_some_and(|b| !b.is_ascii_digit())
}

fn is_tool(text: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
    text.bytes().all(fits)
}

/// What a request to the server would be compared as.
pub(super) fn target(url: &str) -> Option<Target> {
    let parsed = url::Url::parse(url).ok()?;
    let (scheme, rest) = url.split_once("://")?;
    if !parsed.username().is_empty() || parsed.password().is_some() || rest.contains('#') {
        return None;
    }
    let (authority, path) = match rest.find(['/', '?']) {
        Some(at) => rest.split_at_checked(at)?,
        None => (rest, ""),
    };
    let path = if path.starts_with('/') {
        path.to_owned()
    } else {
        format!("/{path}")
    };
    Target::parse("POST", scheme, authority, &path).ok()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{Effect, McpEndpoint, McpServer};
    use crate::config::{Config, ConfigProblem};
    use crate::telemetry::chain;

    fn parse(text: &str) -> Result<Config, ConfigProblem> {
        crate::config::file::parse(Path::new("home"), text)
    }

    fn server(section: &str) -> McpServer {
        let config = parse(&format!("[mcp_servers.one]\n{section}")).unwrap();
        config.mcp_servers.get("one").unwrap().clone()
    }

    #[test]
    fn a_server_is_a_program_or_an_address() {
        let program = server("command = [\"srv\", \"--stdio\"]\nenv = { KEY = \"hunter2\" }");
        let McpEndpoint::Process(process) = &program.endpoint else {
            panic!("{program:?}")
        };
        assert_eq!(process.command, ["srv", "--stdio"]);
        assert_eq!(process.env["KEY"].value(), "hunter2");
        assert!(!format!("{program:?}").contains("hunter2"));
        assert_eq!(program.tools, ["*"]);
        assert_eq!(program.timeout_ms, 60_000);
        assert_eq!(program.start_timeout_ms, 30_000);

        let address = server(
            "url = \"http://localhost:3001/mcp?x=1\"\ntools = [\"get_*\"]\neffects = { get_a = \"read\" }",
        );
        assert!(matches!(address.endpoint, McpEndpoint::Http { .. }));
        assert_eq!(address.effects["get_a"], Effect::Read);
    }

    #[test]
    fn a_name_cannot_run_into_that_of_a_tool() {
        for (name, fits) in [
            ("a", true),
            ("a-b_c9", true),
            ("a__b", false),
            ("a_", false),
            ("_a", false),
            ("-a", false),
            ("", false),
            ("a.b", false),
            ("ä", false),
        ] {
            assert_eq!(super::is_name(name), fits, "{name:?}");
        }
        assert!(!super::is_name(&"a".repeat(65)));
    }

    fn assert_refused(cases: &[(&str, &str)]) {
        for (section, part) in cases {
            let text = format!("[mcp_servers.a]\n{section}");
            let problem = chain(&parse(&text).unwrap_err());
            assert!(problem.contains(part), "{text:?}: {problem}");
        }
    }

    #[test]
    fn a_bad_endpoint_is_named_with_its_line() {
        assert_refused(&[
            ("", "mcp_servers.a.command: expected a program"),
            ("command = [\"\"]", "a program that has a name"),
            (
                "command = [\"x\"]\nurl = \"http://a/\"",
                "mcp_servers.a.url: expected either",
            ),
            (
                "url = \"http://a/\"\ndir = \"x\"",
                "mcp_servers.a.url: expected either",
            ),
            (
                "url = \"ftp://a/\"",
                "line 2: mcp_servers.a.url: expected http(s)",
            ),
            (
                "url = \"http://u:p@a/\"",
                "mcp_servers.a.url: expected http(s)",
            ),
            (
                "url = \"http://a/x/../y\"",
                "mcp_servers.a.url: expected http(s)",
            ),
            (
                "url = \"http://a/\"\nsecret = \"K\"",
                "line 3: mcp_servers.a.secret: expected the name",
            ),
            (
                "command = [\"x\"]\nsecret = \"K\"",
                "mcp_servers.a.secret: expected a url",
            ),
            ("command = [\"x\"]\nargs = []", "args"),
        ]);
        let secret = |path| {
            parse(&format!(
                "[secrets.K]\nenv = \"K\"\nurl = \"https://a/v1\"\nheader = \"x\"\n\
                 [mcp_servers.a]\nurl = \"https://a/{path}\"\nsecret = \"K\""
            ))
        };
        assert!(secret("v1/mcp").is_ok());
        let problem = chain(&secret("v2").unwrap_err());
        let part = "line 7: mcp_servers.a.secret: expected a secret for this url";
        assert!(problem.contains(part), "{problem}");
    }

    #[test]
    fn a_bad_value_is_named_with_its_line() {
        assert_refused(&[
            (
                "command = [\"x\"]\nenv = { 1A = \"b\" }",
                "line 3: mcp_servers.a.env: expected names",
            ),
            (
                "command = [\"x\"]\npass_env = [\"A B\"]",
                "mcp_servers.a.pass_env: expected names",
            ),
            (
                "command = [\"x\"]\ntimeout_ms = 0",
                "line 3: mcp_servers.a.timeout_ms: expected 1 to 3600000",
            ),
            (
                "command = [\"x\"]\nstart_timeout_ms = 3600001",
                "mcp_servers.a.start_timeout_ms: expected",
            ),
            (
                "command = [\"x\"]\ntools = [\"a b\"]",
                "line 3: mcp_servers.a.tools: expected patterns",
            ),
            ("command = [\"x\"]\neffects = { a = \"none\" }", "none"),
            (
                "command = [\"x\"]\neffects = { \"a*\" = \"read\" }",
                "mcp_servers.a.effects: expected names",
            ),
        ]);
        let problem = chain(&parse("[mcp_servers.a__b]\ncommand = [\"x\"]").unwrap_err());
        let part = "line 1: mcp_servers.a__b: expected a name";
        assert!(problem.contains(part), "{problem}");
    }
}
