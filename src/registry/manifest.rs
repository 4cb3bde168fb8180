//! skill.toml: what the author states about a skill and asks for.
//!
//! ```toml
//! [component]
//! sha256 = "64 lower-case hexadecimal digits"  # the component must have it
//! world = "0.1"                                # the version of the WIT package
//! flavor = "rust"                              # the language it was written in
//!
//! [capabilities]
//! request = ["env:LANG", "tool:tickets__*"]
//!
//! [limits]                                     # lowers what the operator allows
//! wall_time_ms = 5_000
//!
//! [schemas]
//! input = "schemas/input.json"                 # a file inside the folder,
//! output = { type = "object" }                 # or the JSON Schema itself
//!
//! [expose]                                     # both are true when they are not given
//! mcp = true
//! api = false
//!
//! [mcp]                                        # what it is to clients of the MCP server
//! name = "greet_somebody"                      # the skill's name when it is not given
//! as = "tool"                                  # or prompt, or resource
//! result = "json"                              # or content: MCP's own form of results
//! task = "auto"                                # or never, always, required
//! requires = ["elicitation"]                   # of the client: elicitation, sampling, roots
//! ```
//!
//! Every key can be left out, and so can the file. A key that is not listed here is an error, because
//! a wish that is misspelled must not be dropped in silence.

mod mcp;

use std::collections::BTreeSet;

use serde_json::Value;
use toml::Spanned;
use toml::de::{DeArray, DeTable, DeValue};

pub use self::mcp::{McpRole, McpSection, ResourceAddress, TaskSupport};
use super::finding::{FileFindings, Position, Problem, excerpt};
use super::folder::Folder;
use super::schema;
use crate::capability::Capability;
use crate::limits::{LimitOverrides, Limits, Source};

/// The name of the file.
pub const MANIFEST_FILE: &str = "skill.toml";

/// The versions of the world that a manifest may name.
pub const WORLD_VERSIONS: &[&str] = &["0.1"];

/// Bytes of a manifest; protects the parser's time.
pub(super) const MANIFEST_BYTES_MAX: u64 = 64 * 1024;
/// Capabilities that a skill may ask for; protects the person who has to read them.
const CAPABILITIES_MAX: usize = 256;
/// Characters of a flavor; protects listings and ledgers.
const FLAVOR_CHARS_MAX: usize = 16;
/// Hexadecimal digits of a SHA-256.
const SHA256_DIGITS: usize = 64;

/// A manifest that was checked.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Manifest {
    /// `[component]`: there is one exactly when the skill states that it has a component.
    pub component: Option<ComponentSection>,
    /// `capabilities.request`, in the order of the file, without duplicates.
    pub capabilities: Vec<Capability>,
    /// `[limits]`: keys that exist and values within their range.
    pub limits: LimitOverrides,
    /// `schemas.input`: a JSON Schema, always an object.
    pub input_schema: Option<Value>,
    /// `schemas.output`, likewise.
    pub output_schema: Option<Value>,
    /// `[expose]`
    pub expose: Expose,
    /// `[mcp]`
    pub mcp: McpSection,
}

/// What a manifest states about the component.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ComponentSection {
    /// The digest that the file must have: 64 lower-case hexadecimal digits.
    pub sha256: Option<String>,
    /// The version of the world it was built for, one of [`WORLD_VERSIONS`].
    pub world: Option<String>,
    /// The language it was written in: 1 to 16 of `a-z 0-9 -`.
    pub flavor: Option<String>,
}

/// On which surfaces a skill may appear.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Expose {
    /// As a tool or a prompt of the MCP server.
    pub mcp: bool,
    /// In the HTTP API.
    pub api: bool,
}

impl Default for Expose {
    fn default() -> Self {
        Self {
            mcp: true,
            api: true,
        }
    }
}

type Entry<'t> = Spanned<DeValue<'t>>;

/// Reads a manifest. What is wrong is added to `findings`; the result is then incomplete.
pub(super) fn parse(text: &str, folder: &Folder, findings: &mut FileFindings<'_>) -> Manifest {
    let (root, errors) = DeTable::parse_recoverable(text);
    let mut reader = Reader {
        text,
        folder,
        findings,
        manifest: Manifest::default(),
    };
    for error in &errors {
        let problem = Problem::Syntax {
            language: "TOML",
            message: error.message().to_owned(),
        };
        reader.error(error.span().map_or(0, |span| span.start), problem);
    }
    // A table that was recovered from broken text would only give errors that follow from the first.
    if errors.is_empty() {
        reader.sections(root.get_ref());
    }
    reader.manifest
}

struct Reader<'a, 'f> {
    text: &'a str,
    folder: &'a Folder,
    findings: &'a mut FileFindings<'f>,
    manifest: Manifest,
}

impl Reader<'_, '_> {
    fn error(&mut self, offset: usize, problem: Problem) {
        self.findings
            .error(Position::of(self.text, offset), problem);
    }

    fn wrong_type(&mut self, key: &str, expected: &'static str, entry: &Entry<'_>) {
        let problem = Problem::WrongType {
            key: excerpt(key),
            expected,
            found: entry.get_ref().type_str(),
        };
        self.error(entry.span().start, problem);
    }

    fn unknown_key(&mut self, key: &Spanned<impl AsRef<str>>, expected: &'static str) {
        let problem = Problem::UnknownKey {
            key: excerpt(key.get_ref().as_ref()),
            expected,
        };
        self.error(key.span().start, problem);
    }

    fn table<'t, 'e>(&mut self, key: &str, entry: &'e Entry<'t>) -> Option<&'e DeTable<'t>> {
        let table = entry.get_ref().as_table();
        if table.is_none() {
            self.wrong_type(key, "a table", entry);
        }
        table
    }

    fn string<'e>(&mut self, key: &str, entry: &'e Entry<'_>) -> Option<&'e str> {
        let string = entry.get_ref().as_str();
        if string.is_none() {
            self.wrong_type(key, "a string", entry);
        }
        string
    }

    fn sections(&mut self, root: &DeTable<'_>) {
        for (key, entry) in root {
            let section = key.get_ref().as_ref();
            let read: fn(&mut Self, &DeTable<'_>) = match section {
                "component" => Self::component,
                "capabilities" => Self::capabilities,
                "limits" => Self::limits,
                "schemas" => Self::schemas,
                "expose" => Self::expose,
                "mcp" => Self::mcp,
                _ => {
                    let known = "component, capabilities, limits, schemas, expose, mcp";
                    self.unknown_key(key, known);
                    continue;
                }
            };
            if let Some(table) = self.table(section, entry) {
                read(self, table);
            }
        }
    }

    fn component(&mut self, table: &DeTable<'_>) {
        let mut section = ComponentSection::default();
        for (key, entry) in table {
            match key.get_ref().as_ref() {
                "sha256" => section.sha256 = self.sha256(entry),
                "world" => section.world = self.world(entry),
                "flavor" => section.flavor = self.flavor(entry),
                _ => self.unknown_key(key, "sha256, world, flavor"),
            }
        }
        self.manifest.component = Some(section);
    }

    fn sha256(&mut self, entry: &Entry<'_>) -> Option<String> {
        let digest = self.string("component.sha256", entry)?;
        let is_digit = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
        if digest.len() == SHA256_DIGITS && digest.bytes().all(is_digit) {
            return Some(digest.to_owned());
        }
        let given = excerpt(digest);
        self.error(entry.span().start, Problem::MalformedDigest { given });
        None
    }

    fn world(&mut self, entry: &Entry<'_>) -> Option<String> {
        let world = self.string("component.world", entry)?;
        if WORLD_VERSIONS.contains(&world) {
            return Some(world.to_owned());
        }
        let problem = Problem::UnknownWorld {
            wanted: excerpt(world),
            known: WORLD_VERSIONS.join(", "),
        };
        self.error(entry.span().start, problem);
        None
    }

    fn flavor(&mut self, entry: &Entry<'_>) -> Option<String> {
        let flavor = self.string("component.flavor", entry)?;
        let is_allowed = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
        if (1..=FLAVOR_CHARS_MAX).contains(&flavor.len()) && flavor.bytes().all(is_allowed) {
            return Some(flavor.to_owned());
        }
        let problem = Problem::MalformedFlavor {
            given: excerpt(flavor),
            max: FLAVOR_CHARS_MAX,
        };
        self.error(entry.span().start, problem);
        None
    }

    fn capabilities(&mut self, table: &DeTable<'_>) {
        for (key, entry) in table {
            match (key.get_ref().as_ref(), entry.get_ref().as_array()) {
                ("request", Some(list)) => self.request(entry.span().start, list),
                ("request", None) => self.wrong_type("capabilities.request", "an array", entry),
                _ => self.unknown_key(key, "request"),
            }
        }
    }

    fn request(&mut self, offset: usize, list: &DeArray<'_>) {
        if list.len() > CAPABILITIES_MAX {
            let problem = Problem::TooMany {
                key: "capabilities.request",
                count: list.len(),
                max: CAPABILITIES_MAX,
            };
            self.error(offset, problem);
            return;
        }
        let mut seen = BTreeSet::new();
        for entry in list.iter() {
            let Some(text) = self.string("capabilities.request", entry) else {
                continue;
            };
            match text.parse::<Capability>() {
                Ok(capability) if seen.insert(capability.clone()) => {
                    self.manifest.capabilities.push(capability);
                }
                Ok(capability) => {
                    let what = excerpt(&capability.to_string());
                    self.error(entry.span().start, Problem::Duplicate { what });
                }
                Err(error) => self.error(entry.span().start, error.into()),
            }
        }
    }

    fn limits(&mut self, table: &DeTable<'_>) {
        for (key, entry) in table {
            let name = key.get_ref().as_ref();
            let integer = entry.get_ref().as_integer();
            let value =
                integer.and_then(|value| i64::from_str_radix(value.as_str(), value.radix()).ok());
            let Some(value) = value else {
                self.wrong_type(&format!("limits.{name}"), "a 64-bit integer", entry);
                continue;
            };
            // One at a time, so that each that is wrong is told at its own place.
            let limit = LimitOverrides::from([(name.to_owned(), value)]);
            match Limits::default().with(Source::Manifest, &limit) {
                Ok(_) => self.manifest.limits.extend(limit),
                Err(error) => self.error(key.span().start, error.into()),
            }
        }
    }

    fn schemas(&mut self, table: &DeTable<'_>) {
        for (key, entry) in table {
            match key.get_ref().as_ref() {
                "input" => self.manifest.input_schema = self.schema("schemas.input", entry),
                "output" => self.manifest.output_schema = self.schema("schemas.output", entry),
                _ => self.unknown_key(key, "input, output"),
            }
        }
    }

    fn schema(&mut self, key: &str, entry: &Entry<'_>) -> Option<Value> {
        match entry.get_ref() {
            DeValue::Table(table) => {
                let schema = schema::from_table(table);
                schema
                    .map_err(|fault| {
                        let problem = Problem::WrongType {
                            key: key.to_owned(),
                            expected: "a value that JSON has",
                            found: fault.found,
                        };
                        self.error(fault.offset, problem);
                    })
                    .ok()
            }
            DeValue::String(path) if schema::is_path_inside(path) => {
                schema::from_file(self.folder, path, self.findings.findings)
            }
            DeValue::String(path) => {
                let given = excerpt(path);
                self.error(entry.span().start, Problem::SchemaPath { given });
                None
            }
            _ => {
                self.wrong_type(key, "a table or the path of a .json file", entry);
                None
            }
        }
    }

    fn expose(&mut self, table: &DeTable<'_>) {
        for (key, entry) in table {
            let name = key.get_ref().as_ref();
            match (name, entry.get_ref().as_bool()) {
                ("mcp", Some(value)) => self.manifest.expose.mcp = value,
                ("api", Some(value)) => self.manifest.expose.api = value,
                ("mcp" | "api", None) => {
                    self.wrong_type(&format!("expose.{name}"), "a boolean", entry);
                }
                _ => self.unknown_key(key, "mcp, api"),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::PathBuf;

    use proptest::prelude::*;
    use serde_json::json;
    use tempfile::TempDir;

    use super::{Expose, Manifest, parse};
    use crate::registry::finding::{FileFindings, Finding, Findings};
    use crate::registry::folder::Folder;

    fn read_in(dir: &TempDir, text: &str) -> (Manifest, Vec<Finding>) {
        let folder = Folder::open(dir.path()).unwrap();
        let mut findings = Findings::default();
        let mut in_file = FileFindings {
            findings: &mut findings,
            file: PathBuf::from("skill.toml"),
        };
        let manifest = parse(text, &folder, &mut in_file);
        (manifest, findings.into_sorted().0)
    }

    fn read(text: &str) -> (Manifest, Vec<Finding>) {
        read_in(&tempfile::tempdir().unwrap(), text)
    }

    #[test]
    fn every_key_is_read() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("in.json"), r#"{"type": "string"}"#).unwrap();
        let digest = "0123456789abcdef".repeat(4);
        let text = format!(
            r#"
            component = {{ sha256 = "{digest}", world = "0.1", flavor = "ts" }}
            capabilities.request = ["env:LANG", "approval"]
            limits = {{ wall_time_ms = 5_000, fuel = 0xff }}
            expose.api = false
            [schemas]
            input = "in.json"
            output = {{ type = "object", minProperties = 1, x = [1.5, true, {{}}] }}
            "#
        );
        let (manifest, errors) = read_in(&dir, &text);
        assert!(errors.is_empty(), "{errors:?}");
        let component = manifest.component.unwrap();
        assert_eq!(component.sha256, Some(digest));
        assert_eq!(component.world.as_deref(), Some("0.1"));
        assert_eq!(component.flavor.as_deref(), Some("ts"));
        let request: Vec<String> = manifest
            .capabilities
            .iter()
            .map(ToString::to_string)
            .collect();
        assert_eq!(request, ["env:LANG", "approval"]);
        assert_eq!(manifest.limits["wall_time_ms"], 5_000);
        assert_eq!(manifest.limits["fuel"], 255);
        assert_eq!(
            manifest.expose,
            Expose {
                mcp: true,
                api: false
            }
        );
        assert_eq!(manifest.input_schema, Some(json!({"type": "string"})));
        let output = json!({"type": "object", "minProperties": 1, "x": [1.5, true, {}]});
        assert_eq!(manifest.output_schema, Some(output));
    }

    #[test]
    fn an_empty_manifest_is_the_default() {
        let (manifest, errors) = read("");
        assert!(errors.is_empty());
        assert_eq!(manifest, Manifest::default());
    }

    #[test]
    fn what_is_wrong_is_told_with_its_place() {
        for (text, place, part) in [
            ("a = ", "1:5", "TOML"),
            ("[component]\nsha256 = 1\n[component]", "3:2", "TOML"),
            ("[limit]\n", "1:2", "unknown key \"limit\""),
            ("\ncomponents = 1", "2:1", "components"),
            ("component = 1", "1:13", "expected a table"),
            ("[component]\nsha265 = ''", "2:1", "sha265"),
            ("[component]\nsha256 = 'ABC'", "2:10", "64 lower-case"),
            ("[component]\nworld = '0.2'", "2:9", "expected one of 0.1"),
            ("[component]\nworld = 0.1", "2:9", "found float"),
            ("[component]\nflavor = 'Rust'", "2:10", "flavor"),
            ("[capabilities]\nrequests = []", "2:1", "requests"),
            ("[capabilities]\nrequest = 'approval'", "2:11", "an array"),
            (
                "[capabilities]\nrequest = [\n  'approval',\n  7]",
                "4:3",
                "a string",
            ),
            (
                "[capabilities]\nrequest = ['env:A', 'fs:/']",
                "2:21",
                "ro: or rw:",
            ),
            (
                "[capabilities]\nrequest = ['env:A', 'env:A']",
                "2:21",
                "duplicate",
            ),
            ("[limits]\nfuell = 1", "2:1", "fuell"),
            ("[limits]\nfuel = 0", "2:1", "expected 1 to"),
            ("[limits]\nfuel = '1'", "2:8", "integer"),
            ("[limits]\nfuel = 9223372036854775808", "2:8", "64-bit"),
            ("[schemas]\ninputs = {}", "2:1", "inputs"),
            ("[schemas]\ninput = true", "2:9", "path of a .json"),
            ("[schemas]\ninput = '../a.json'", "2:9", "inside"),
            ("[schemas]\ninput = '/a.json'", "2:9", "inside"),
            ("[schemas]\ninput = '{}'", "2:9", "inside"),
            ("[schemas]\ninput = { a = 1979-05-27 }", "2:15", "datetime"),
            ("[schemas]\ninput = { a = [nan] }", "2:16", "finite"),
            ("[expose]\nmcp = 1", "2:7", "a boolean"),
            ("[expose]\ncli = true", "2:1", "cli"),
        ] {
            let (_, errors) = read(text);
            let is_it = |error: &Finding| {
                error.to_string() == format!("skill.toml:{place}")
                    && error.problem.to_string().contains(part)
            };
            assert!(errors.iter().any(is_it), "{text:?} at {place}: {errors:?}");
        }
    }

    #[test]
    fn all_problems_are_told_in_the_order_of_the_file() {
        let (_, errors) = read("[zzz]\n[limits]\nfuel = 0\nx = 1\n[component]\nworld = '9'");
        let places: Vec<String> = errors.iter().map(ToString::to_string).collect();
        let expected = [
            "skill.toml:1:2",
            "skill.toml:3:1",
            "skill.toml:4:1",
            "skill.toml:6:9",
        ];
        assert_eq!(places, expected);
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(
            lines in "((\\[?\\[?(component|limits|schemas|expose)\\.?(x|fuel|input)?\\]?\\]?|x|fuel|input|request)( = )?([0-9'\"{}\\[\\],.=a-z:-]{0,12})\n){0,8}",
        ) {
            read(&lines);
        }
    }
}
