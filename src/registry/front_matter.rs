//! The head of SKILL.md, by the rules of agentskills.io.
//!
//! Every value is taken as the text it is written as, so `version: 1.0` is the text `1.0`. A key that
//! the rules do not know is a warning, because other programs have keys of their own; a known key with
//! a wrong value is an error.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use serde_json::Map;

use super::finding::{FileFindings, Findings, Position, Problem, excerpt};
use super::yaml::{self, Node, Value};
use crate::capability::SkillName;

/// The name of the file.
pub const SKILL_FILE: &str = "SKILL.md";

/// Bytes of a SKILL.md. The rules advise 500 lines; the bound protects memory, because the bodies of
/// all skills are held.
pub(super) const SKILL_FILE_BYTES_MAX: u64 = 256 * 1024;
/// Bytes of front matter; protects the parser's time.
const FRONT_MATTER_BYTES_MAX: usize = 64 * 1024;

const DESCRIPTION_CHARS_MAX: usize = 1024;
const COMPATIBILITY_CHARS_MAX: usize = 500;
/// The rules set no length for a license and for metadata; these bounds protect listings.
const LICENSE_CHARS_MAX: usize = 500;
const METADATA_ENTRIES_MAX: usize = 100;
const ALLOWED_TOOLS_MAX: usize = 100;

const KEYS: &str = "name, description, license, compatibility, metadata, allowed-tools";

/// What stands in the head of a SKILL.md.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FrontMatter {
    /// The skill's name, the same as its folder's.
    pub(super) name: SkillName,
    /// What the skill does and when to use it: 1 to 1024 characters.
    pub(super) description: String,
    /// A license's name, or that of a file with its text.
    pub(super) license: Option<String>,
    /// What the skill needs around it: 1 to 500 characters.
    pub(super) compatibility: Option<String>,
    /// Whatever else the author notes.
    pub(super) metadata: BTreeMap<String, String>,
    /// Tools that the author expects to be allowed. It grants nothing.
    pub(super) allowed_tools: Vec<String>,
    /// All of it as it stands there, keys included that the rules do not know.
    pub(super) whole: Map<String, serde_json::Value>,
}

/// The name of a skill by the text of its SKILL.md; none where that has no valid front matter.
pub fn skill_name(text: &str) -> Option<SkillName> {
    let mut findings = Findings::default();
    let mut in_file = FileFindings {
        findings: &mut findings,
        file: PathBuf::new(),
    };
    parse(text, "", &mut in_file).map(|(front_matter, _)| front_matter.name)
}

/// Reads a SKILL.md: its head and the text below. What is wrong is added to `findings`; there is no
/// result when the name or the description is unusable.
pub(super) fn parse<'t>(
    text: &'t str,
    folder_name: &str,
    findings: &mut FileFindings<'_>,
) -> Option<(FrontMatter, &'t str)> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let (head, body) = match divide(text) {
        Ok(parts) => parts,
        Err(problem) => {
            findings.error(Position { line: 1, column: 1 }, problem);
            return None;
        }
    };
    // The line that begins the head was taken away.
    match yaml::parse(head, 1) {
        Ok(root) => Some((front_matter(root, folder_name, findings)?, body)),
        Err(fault) => {
            findings.error(fault.position, fault.problem);
            None
        }
    }
}

/// Divides at the line `---` that ends the head; the one that begins it is in neither part.
fn divide(text: &str) -> Result<(&str, &str), Problem> {
    let is_fence = |line: &str| line.trim_end() == "---";
    let mut lines = text.split_inclusive('\n');
    let first = lines.next().filter(|line| is_fence(line));
    let start = first.ok_or(Problem::NoFrontMatter)?.len();
    let mut end = start;
    for line in lines {
        if is_fence(line) {
            let head = text.get(start..end).unwrap_or_default();
            return Ok((head, text.get(end + line.len()..).unwrap_or_default()));
        }
        end += line.len();
        if end - start > FRONT_MATTER_BYTES_MAX {
            break;
        }
    }
    Err(Problem::UnendedFrontMatter {
        bytes_max: FRONT_MATTER_BYTES_MAX,
    })
}

fn front_matter(
    root: Node,
    folder_name: &str,
    findings: &mut FileFindings<'_>,
) -> Option<FrontMatter> {
    let start = root.position;
    let whole = match root.to_json() {
        serde_json::Value::Object(whole) => whole,
        _ => Map::new(),
    };
    let Value::Mapping(entries) = root.value else {
        findings.error(start, wrong_type("front matter", "a mapping", &root.value));
        return None;
    };
    let (mut name, mut description) = (None, None);
    let (mut license, mut compatibility) = (None, None);
    let (mut metadata, mut allowed_tools) = (BTreeMap::new(), Vec::new());
    let mut seen = BTreeSet::new();
    for (key, node) in entries {
        let Value::Text { text: key_text, .. } = key.value else {
            findings.error(key.position, wrong_type("key", "a text", &key.value));
            continue;
        };
        match key_text.as_str() {
            "name" => name = read_name(node, folder_name, findings),
            "description" => {
                description = text("description", node, DESCRIPTION_CHARS_MAX, findings);
            }
            "license" => license = text("license", node, LICENSE_CHARS_MAX, findings),
            "compatibility" => {
                compatibility = text("compatibility", node, COMPATIBILITY_CHARS_MAX, findings);
            }
            "metadata" => metadata = read_metadata(node, findings),
            "allowed-tools" => allowed_tools = read_allowed_tools(node, findings),
            _ => findings.warning(
                key.position,
                Problem::UnknownKey {
                    key: excerpt(&key_text),
                    expected: KEYS,
                },
            ),
        }
        if let Some(what) = seen.replace(key_text) {
            findings.error(
                key.position,
                Problem::Duplicate {
                    what: excerpt(&what),
                },
            );
        }
    }
    for key in ["name", "description"] {
        if !seen.contains(key) {
            findings.error(start, Problem::MissingKey { key });
        }
    }
    Some(FrontMatter {
        name: name?,
        description: description?,
        license,
        compatibility,
        metadata,
        allowed_tools,
        whole,
    })
}

fn wrong_type(key: &str, expected: &'static str, found: &Value) -> Problem {
    Problem::WrongType {
        key: excerpt(key),
        expected,
        found: found.kind(),
    }
}

/// A text without white space around it, of 1 to `max` characters.
fn text(
    key: &'static str,
    node: Node,
    max: usize,
    findings: &mut FileFindings<'_>,
) -> Option<String> {
    let Value::Text { text, is_null, .. } = node.value else {
        findings.error(node.position, wrong_type(key, "a text", &node.value));
        return None;
    };
    let text = if is_null { "" } else { text.trim() };
    let chars = text.chars().count();
    if (1..=max).contains(&chars) {
        Some(text.to_owned())
    } else {
        findings.error(node.position, Problem::WrongLength { key, chars, max });
        None
    }
}

fn read_name(node: Node, folder_name: &str, findings: &mut FileFindings<'_>) -> Option<SkillName> {
    let position = node.position;
    // The bound is the rules' own and is checked, with its place, by the name.
    let text = text("name", node, FRONT_MATTER_BYTES_MAX, findings)?;
    match text.parse::<SkillName>() {
        Ok(name) => {
            if name.as_str() != folder_name {
                findings.error(
                    position,
                    Problem::NameMismatch {
                        name: text,
                        folder: excerpt(folder_name),
                    },
                );
            }
            Some(name)
        }
        Err(error) => {
            findings.error(position, error.into());
            None
        }
    }
}

fn read_metadata(node: Node, findings: &mut FileFindings<'_>) -> BTreeMap<String, String> {
    let mut metadata = BTreeMap::new();
    let Value::Mapping(entries) = node.value else {
        findings.error(
            node.position,
            wrong_type("metadata", "a mapping", &node.value),
        );
        return metadata;
    };
    if !is_short(
        "metadata",
        entries.len(),
        METADATA_ENTRIES_MAX,
        node.position,
        findings,
    ) {
        return metadata;
    }
    for (key, value) in entries {
        let Value::Text { text: name, .. } = key.value else {
            findings.error(
                key.position,
                wrong_type("metadata key", "a text", &key.value),
            );
            continue;
        };
        let Value::Text { text, .. } = value.value else {
            let problem = wrong_type(&format!("metadata.{name}"), "a text", &value.value);
            findings.error(value.position, problem);
            continue;
        };
        if metadata.insert(name.clone(), text).is_some() {
            findings.error(
                key.position,
                Problem::Duplicate {
                    what: excerpt(&name),
                },
            );
        }
    }
    metadata
}

/// Either one text, divided at spaces, or a list of texts.
fn read_allowed_tools(node: Node, findings: &mut FileFindings<'_>) -> Vec<String> {
    let tools: Vec<String> = match node.value {
        Value::Text { is_null: true, .. } => Vec::new(),
        Value::Text { text, .. } => text.split_whitespace().map(str::to_owned).collect(),
        Value::List(items) => items
            .into_iter()
            .filter_map(|item| text("allowed-tools", item, FRONT_MATTER_BYTES_MAX, findings))
            .collect(),
        Value::Mapping(_) => {
            let problem = wrong_type("allowed-tools", "a text or a list", &node.value);
            findings.error(node.position, problem);
            Vec::new()
        }
    };
    is_short(
        "allowed-tools",
        tools.len(),
        ALLOWED_TOOLS_MAX,
        node.position,
        findings,
    );
    tools
}

fn is_short(
    key: &'static str,
    count: usize,
    max: usize,
    position: Position,
    findings: &mut FileFindings<'_>,
) -> bool {
    if count > max {
        findings.error(position, Problem::TooMany { key, count, max });
    }
    count <= max
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use proptest::prelude::*;

    use super::{FrontMatter, parse};
    use crate::registry::finding::{FileFindings, Finding, Findings};

    fn read(text: &str) -> (Option<(FrontMatter, String)>, Vec<Finding>, Vec<Finding>) {
        let mut findings = Findings::default();
        let mut in_file = FileFindings {
            findings: &mut findings,
            file: PathBuf::from("SKILL.md"),
        };
        let parsed = parse(text, "greet", &mut in_file);
        let parsed = parsed.map(|(front_matter, body)| (front_matter, body.to_owned()));
        let (errors, warnings) = findings.into_sorted();
        (parsed, errors, warnings)
    }

    fn head(lines: &str) -> String {
        format!("---\nname: greet\ndescription: d\n{lines}\n---\nbody\n")
    }

    #[test]
    fn every_field_is_read_and_the_body_is_kept_as_it_is() {
        let text = "\u{feff}---\r\nname: greet\r\ndescription: >\r\n  Says\r\n  hello.\r\nlicense: MIT\r\n\
            compatibility: none\r\nmetadata:\r\n  version: 1.0\r\n  author: 'me'\r\n\
            allowed-tools: Bash(git:*) Read\r\n---\r\n\n# Body\n---\nend";
        let (parsed, errors, warnings) = read(text);
        assert!(
            errors.is_empty() && warnings.is_empty(),
            "{errors:?} {warnings:?}"
        );
        let (front_matter, body) = parsed.unwrap();
        assert_eq!(front_matter.name.as_str(), "greet");
        assert_eq!(front_matter.description, "Says hello.");
        assert_eq!(front_matter.license.as_deref(), Some("MIT"));
        assert_eq!(front_matter.compatibility.as_deref(), Some("none"));
        assert_eq!(front_matter.metadata["version"], "1.0");
        assert_eq!(front_matter.allowed_tools, ["Bash(git:*)", "Read"]);
        assert_eq!(body, "\n# Body\n---\nend");
    }

    #[test]
    fn tools_may_be_a_list() {
        let (parsed, errors, _) = read(&head("allowed-tools:\n- Read\n- Bash(jq:*)"));
        assert!(errors.is_empty(), "{errors:?}");
        assert_eq!(parsed.unwrap().0.allowed_tools, ["Read", "Bash(jq:*)"]);
    }

    #[test]
    fn an_unknown_key_is_a_warning_whatever_it_holds() {
        let (parsed, errors, warnings) = read(&head("triggers: {a: [b, {c: d}]}"));
        assert!(parsed.is_some() && errors.is_empty(), "{errors:?}");
        assert_eq!(warnings.len(), 1);
        assert_eq!(warnings[0].to_string(), "SKILL.md:4:1");
        assert!(warnings[0].problem.to_string().contains("triggers"));
    }

    /// Fails unless one of the errors stands at `place` and speaks of `part`.
    fn assert_told(text: &str, place: &str, part: &str) {
        let (_, errors, _) = read(text);
        let is_it = |error: &Finding| {
            error.to_string() == format!("SKILL.md:{place}")
                && error.problem.to_string().contains(part)
        };
        assert!(
            errors.iter().any(is_it),
            "{text:.200?} at {place}: {errors:?}"
        );
    }

    #[test]
    fn a_head_that_is_missing_or_incomplete_is_told_with_its_place() {
        for (text, place, part) in [
            ("", "1:1", "expected a line ---"),
            ("# Title\n", "1:1", "expected a line ---"),
            ("---\nname: greet\n", "1:1", "without end"),
            ("---\n---\n", "2:1", "missing key name"),
            ("---\n- a\n---\n", "2:1", "expected a mapping"),
            ("---\nname: greet\n---\n", "2:1", "missing key description"),
            ("---\nname: Greet\n---\n", "2:7", "a-z"),
            ("---\nname: greet-2\n---\n", "2:7", "differs"),
            ("---\nname: [greet]\n---\n", "2:7", "found a list"),
            ("---\ndescription:\n---\n", "2:12", "0 characters"),
            ("---\ndescription: ~\n---\n", "2:14", "0 characters"),
            ("---\ndescription: ' '\n---\n", "2:14", "0 characters"),
        ] {
            assert_told(text, place, part);
        }
        let long = format!("---\n# {}\n---\n", "x".repeat(70_000));
        assert_told(&long, "1:1", "without end");
        let long = format!("---\ndescription: {}\n---\n", "x".repeat(1025));
        assert_told(&long, "2:14", "1025 characters");
    }

    #[test]
    fn a_wrong_value_is_told_with_its_place() {
        for (line, place, part) in [
            ("license: {}", "4:10", "found a mapping"),
            ("metadata: text", "4:11", "found a text"),
            ("metadata:\n  a: [b]", "5:6", "metadata.a"),
            ("metadata:\n  a: b\n  a: c", "6:3", "duplicate"),
            ("allowed-tools: {a: b}", "4:16", "a text or a list"),
            ("name: greet", "4:1", "duplicate"),
            ("license: *l", "4:10", "YAML"),
            ("license: &l MIT", "4:10", "an anchor"),
            ("compatibility: [&l a, *l]", "4:17", "an anchor"),
            ("license: !!str MIT", "4:10", "a tag"),
            ("license: \"MIT", "4:10", "YAML"),
            ("x: y: z", "4:5", "YAML"),
            ("...\nlicense: MIT", "5:1", "second document"),
            ("k: [[[[[[[[[]]]]]]]]]", "4:12", "nesting"),
        ] {
            assert_told(&head(line), place, part);
        }
        let long = format!("compatibility: {}", "x".repeat(501));
        assert_told(&head(&long), "4:16", "501 characters");
    }

    #[test]
    fn all_problems_are_told_not_only_the_first() {
        let (_, errors, _) = read("---\nname: A\ndescription: ''\nlicense: []\n---\n");
        let places: Vec<String> = errors.iter().map(ToString::to_string).collect();
        assert_eq!(places, ["SKILL.md:2:7", "SKILL.md:3:14", "SKILL.md:4:10"]);
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(lines in "([a-z\\[\\]{}&*!|>'\"%@`#,?:~ \\t-]{0,12}\n){0,12}") {
            read(&format!("---\n{lines}---\n"));
        }

        #[test]
        fn a_valid_head_is_read_back(
            description in "[a-zA-Z0-9äöü ,.]{0,200}[a-z]",
            metadata in proptest::collection::btree_map("[a-z]{1,8}", ".{0,20}", 0..5),
        ) {
            let quoted = |text: &str| serde_json::to_string(text).unwrap();
            let entries: Vec<String> =
                metadata.iter().map(|(key, value)| format!("{}: {}", quoted(key), quoted(value))).collect();
            let text = format!(
                "---\nname: greet\ndescription: {}\nmetadata: {{{}}}\n---\n",
                quoted(&description),
                entries.join(", "),
            );
            let (parsed, errors, _) = read(&text);
            prop_assert!(errors.is_empty(), "{errors:?}");
            let (front_matter, _) = parsed.unwrap();
            prop_assert_eq!(front_matter.description, description.trim());
            prop_assert_eq!(front_matter.metadata, metadata);
        }
    }
}
