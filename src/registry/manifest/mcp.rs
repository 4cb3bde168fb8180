//! `[mcp]`: what a skill is to the clients of the MCP server.

use toml::de::{DeTable, DeValue};

use super::{Entry, Reader};
use crate::call::ClientFeature;
use crate::registry::finding::{Problem, excerpt};

/// Characters of the name of a tool or prompt, by the rules of MCP.
const NAME_CHARS_MAX: usize = 128;
/// Bytes of a title, an address or a media type. Protects whoever lists them.
const TEXT_BYTES_MAX: usize = 256;
/// Variables of an address. Protects the same.
const VARIABLES_MAX: usize = 8;

/// What a skill is to the clients of the MCP server. All of it can be left out.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct McpSection {
    /// What it is called by: 1 to 128 of `A-Z a-z 0-9 _ - .`; none: the skill's name.
    pub name: Option<String>,
    /// How it is shown to people.
    pub title: Option<String>,
    /// What it is. A skill without a component is always a prompt.
    pub role: McpRole,
    /// Whether its result is already what MCP has for results: an object with `content`, and perhaps with
    /// `structuredContent` and `isError`.
    pub is_content: bool,
    /// When a call of it is answered before it is done.
    pub task: TaskSupport,
    /// What its client has to be able to do; others are refused at once.
    pub requires: Vec<ClientFeature>,
    /// Where it is, as a resource.
    pub address: Option<ResourceAddress>,
    /// The media type of what it gives, as a resource.
    pub mime_type: Option<String>,
}

/// What a skill is to a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum McpRole {
    /// A tool: called with arguments, it gives a result.
    #[default]
    Tool,
    /// A prompt: called with arguments, it gives messages.
    Prompt,
    /// A resource: called with its address, it gives what is there.
    Resource,
}

/// When a call is answered with a task, which its client asks after, and not with its result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TaskSupport {
    /// Never.
    Never,
    /// When it takes longer than the operator's `mcp.task_after_ms`, and the client knows tasks.
    #[default]
    Auto,
    /// Always, if the client knows tasks.
    Always,
    /// Always; a client that does not know tasks is refused.
    Required,
}

/// The address of a resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ResourceAddress {
    /// One URI.
    Uri(String),
    /// Many: a URI with variables in braces, each of which stands for one part of it without `/`.
    Template(String),
}

impl Reader<'_, '_> {
    pub(super) fn mcp(&mut self, table: &DeTable<'_>) {
        for (key, entry) in table {
            let mut mcp = std::mem::take(&mut self.manifest.mcp);
            match key.get_ref().as_ref() {
                "name" => mcp.name = self.mcp_name(entry),
                "title" => mcp.title = self.text("mcp.title", entry),
                "mime_type" => mcp.mime_type = self.text("mcp.mime_type", entry),
                "as" => {
                    let roles = [
                        ("tool", McpRole::Tool),
                        ("prompt", McpRole::Prompt),
                        ("resource", McpRole::Resource),
                    ];
                    mcp.role = self.one_of("mcp.as", "tool, prompt, resource", &roles, entry);
                }
                "result" => {
                    let results = [("json", false), ("content", true)];
                    mcp.is_content = self.one_of("mcp.result", "json, content", &results, entry);
                }
                "task" => {
                    let support = [
                        ("never", TaskSupport::Never),
                        ("auto", TaskSupport::Auto),
                        ("always", TaskSupport::Always),
                        ("required", TaskSupport::Required),
                    ];
                    let expected = "never, auto, always, required";
                    mcp.task = self.one_of("mcp.task", expected, &support, entry);
                }
                "requires" => mcp.requires = self.requires(entry),
                "uri" => mcp.address = self.uri(entry).map(ResourceAddress::Uri),
                "uri_template" => {
                    mcp.address = self.uri_template(entry).map(ResourceAddress::Template);
                }
                _ => self.unknown_key(
                    key,
                    "name, title, as, result, task, requires, uri, uri_template, mime_type",
                ),
            }
            self.manifest.mcp = mcp;
        }
        self.check_role(table);
    }

    /// A resource has an address, and nothing else has one.
    fn check_role(&mut self, table: &DeTable<'_>) {
        let is_resource = self.manifest.mcp.role == McpRole::Resource;
        let addresses = ["uri", "uri_template"].map(|key| table.get_key_value(key));
        let mut addresses = addresses.into_iter().flatten();
        match (is_resource, addresses.next(), addresses.next()) {
            (true, Some(_), None) | (false, None, _) => {}
            (true, None, _) => {
                let at = table.get("as").map_or(0, |entry| entry.span().start);
                self.error(at, Problem::MissingKey { key: "mcp.uri" });
            }
            (_, Some((key, _)), _) => {
                let problem = Problem::Unexpected {
                    key: format!("mcp.{}", key.get_ref()),
                    expected: "one of uri and uri_template, and as = \"resource\" with it",
                    given: key.get_ref().to_string(),
                };
                self.error(key.span().start, problem);
            }
        }
    }

    fn unexpected(&mut self, key: &str, expected: &'static str, entry: &Entry<'_>, given: &str) {
        let problem = Problem::Unexpected {
            key: key.to_owned(),
            expected,
            given: excerpt(given),
        };
        self.error(entry.span().start, problem);
    }

    /// The value that a word stands for; the default one when it is none of them.
    fn one_of<T: Copy + Default>(
        &mut self,
        key: &str,
        expected: &'static str,
        words: &[(&str, T)],
        entry: &Entry<'_>,
    ) -> T {
        let Some(given) = self.string(key, entry) else {
            return T::default();
        };
        let found = words.iter().find(|(word, _)| *word == given);
        if found.is_none() {
            self.unexpected(key, expected, entry, given);
        }
        found.map(|(_, value)| *value).unwrap_or_default()
    }

    fn text(&mut self, key: &str, entry: &Entry<'_>) -> Option<String> {
        let text = self.string(key, entry)?;
        if (1..=TEXT_BYTES_MAX).contains(&text.len()) && !text.chars().any(char::is_control) {
            return Some(text.to_owned());
        }
        self.unexpected(
            key,
            "1 to 256 bytes without control characters",
            entry,
            text,
        );
        None
    }

    fn mcp_name(&mut self, entry: &Entry<'_>) -> Option<String> {
        let name = self.string("mcp.name", entry)?;
        let is_allowed = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.');
        if (1..=NAME_CHARS_MAX).contains(&name.len()) && name.bytes().all(is_allowed) {
            return Some(name.to_owned());
        }
        let expected = "1 to 128 of A-Z, a-z, 0-9, _, - and .";
        self.unexpected("mcp.name", expected, entry, name);
        None
    }

    fn requires(&mut self, entry: &Entry<'_>) -> Vec<ClientFeature> {
        let DeValue::Array(list) = entry.get_ref() else {
            self.wrong_type("mcp.requires", "an array", entry);
            return Vec::new();
        };
        let mut features = Vec::new();
        for entry in list.iter() {
            let Some(word) = self.string("mcp.requires", entry) else {
                continue;
            };
            let known = ClientFeature::ALL.into_iter();
            match known.into_iter().find(|feature| feature.as_str() == word) {
                Some(feature) if !features.contains(&feature) => features.push(feature),
                Some(_) => {
                    let what = excerpt(word);
                    self.error(entry.span().start, Problem::Duplicate { what });
                }
                None => {
                    let expected = "elicitation, sampling, roots";
                    self.unexpected("mcp.requires", expected, entry, word);
                }
            }
        }
        features
    }

    fn uri(&mut self, entry: &Entry<'_>) -> Option<String> {
        let uri = self.text("mcp.uri", entry)?;
        if is_uri(&uri) {
            return Some(uri);
        }
        self.unexpected("mcp.uri", URI_EXPECTED, entry, &uri);
        None
    }

    fn uri_template(&mut self, entry: &Entry<'_>) -> Option<String> {
        let template = self.text("mcp.uri_template", entry)?;
        if variables(&template).is_some() {
            return Some(template);
        }
        let expected = "a URI with 1 to 8 variables like {id}, each once";
        self.unexpected("mcp.uri_template", expected, entry, &template);
        None
    }
}

const URI_EXPECTED: &str = "an absolute URI that is neither skill: nor skillrun:";

/// Whether a text is a URI that a skill may have. Those of the host's own schemes belong to the host.
fn is_uri(text: &str) -> bool {
    let is_own = |uri: &url::Url| ["skill", "skillrun"].contains(&uri.scheme());
    url::Url::parse(text).is_ok_and(|uri| !is_own(&uri))
}

/// The names of the variables of a template, in its order; none when it is no template.
fn variables(template: &str) -> Option<Vec<&str>> {
    let mut names = Vec::new();
    let mut filled = String::new();
    let mut rest = template;
    while let Some((before, behind)) = rest.split_once('{') {
        let (name, after) = behind.split_once('}')?;
        let is_name = |name: &str| {
            name.starts_with(|c: char| c.is_ascii_lowercase())
                && name
                    .bytes()
                    .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
        };
        // Between two variables there has to be something that tells where the first one ends.
        let is_apart = !before.is_empty() && !before.contains('}');
        if !is_name(name) || names.contains(&name) || !is_apart {
            return None;
        }
        names.push(name);
        filled.extend([before, "x"]);
        rest = after;
    }
    filled.push_str(rest);
    let fits = (1..=VARIABLES_MAX).contains(&names.len()) && !rest.contains('}');
    (fits && is_uri(&filled)).then_some(names)
}

impl ResourceAddress {
    /// What the variables stand for in `uri`, if this is its address.
    pub fn matched(&self, uri: &str) -> Option<Vec<(String, String)>> {
        let template = match self {
            Self::Uri(own) => return (own == uri).then(Vec::new),
            Self::Template(template) => template,
        };
        let mut values = Vec::new();
        let (mut template, mut uri) = (template.as_str(), uri);
        while let Some((before, behind)) = template.split_once('{') {
            let (name, after) = behind.split_once('}')?;
            uri = uri.strip_prefix(before)?;
            let literal = after.split('{').next().unwrap_or_default();
            let end = match literal {
                "" => uri.len(),
                literal => uri.find(literal)?,
            };
            let (value, rest) = uri.split_at_checked(end)?;
            if value.is_empty() || value.contains('/') {
                return None;
            }
            values.push((name.to_owned(), value.to_owned()));
            (template, uri) = (after, rest);
        }
        (uri == template).then_some(values)
    }
}

#[cfg(test)]
mod tests {
    use super::{ResourceAddress, variables};

    #[test]
    fn a_template_says_where_each_of_its_variables_ends() {
        assert_eq!(variables("test://a/{id}/data"), Some(vec!["id"]));
        assert_eq!(variables("test://a/{id}-{no_2}"), Some(vec!["id", "no_2"]));
        for bad in [
            "test://a",
            "test://a/{id",
            "test://a/{}",
            "test://a/{Id}",
            "test://{a}{b}",
            "{a}",
            "test://a/{id}/{id}",
            "skillrun://a/{id}",
            "test://a/}{id}",
        ] {
            assert_eq!(variables(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_variable_stands_for_one_part_of_an_address() {
        let template = ResourceAddress::Template("test://a/{id}/data-{no}".to_owned());
        let of = |id: &str, no: &str| {
            let value = |name: &str, value: &str| (name.to_owned(), value.to_owned());
            Some(vec![value("id", id), value("no", no)])
        };
        assert_eq!(template.matched("test://a/1/data-x%20y"), of("1", "x%20y"));
        for other in [
            "test://a/1/data-",
            "test://a//data-1",
            "test://a/1/2/data-1",
            "test://a/1/data-1/",
            "test://b/1/data-1",
            "",
        ] {
            assert_eq!(template.matched(other), None, "{other}");
        }
        let one = ResourceAddress::Uri("test://a".to_owned());
        assert_eq!(one.matched("test://a"), Some(Vec::new()));
        assert_eq!(one.matched("test://ab"), None);
    }
}
