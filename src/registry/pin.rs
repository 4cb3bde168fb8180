//! What a skill was when it was accepted, and how it differs from that now.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use super::component::COMPONENT_FILE;
use super::folder::sha256;
use crate::capability::Capability;
use crate::limits::LimitOverrides;

/// Parts of a change that its one line of text names. A manifest can ask for much; the bound protects
/// ledgers and screens, and [`Change::lines`] has everything.
const TOLD_PARTS_MAX: usize = 12;

/// A skill as it is or was: what it consists of and what it asks for.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pin {
    /// SHA-256 of every file that is read of the skill, by its path in the folder. Prose and schemas
    /// are among them, because they steer code too.
    pub files: BTreeMap<String, String>,
    /// What the manifest asks for, in its order.
    pub capabilities: Vec<Capability>,
    /// The limits that the manifest sets.
    pub limits: LimitOverrides,
}

impl Pin {
    /// SHA-256 over the names and digests of all files: 64 lower-case hexadecimal digits.
    pub fn digest(&self) -> String {
        let mut listing = String::new();
        for (name, digest) in &self.files {
            // Neither a name nor a digest can have a NUL in it, so no two listings are the same text.
            listing.push_str(name);
            listing.push('\0');
            listing.push_str(digest);
            listing.push('\0');
        }
        sha256(listing.as_bytes())
    }

    /// SHA-256 of the component; none for a skill that is only a prompt.
    pub fn component_digest(&self) -> Option<&str> {
        self.files.get(COMPONENT_FILE).map(String::as_str)
    }

    /// How `now` differs from this; none when not a byte does.
    pub fn change_to(&self, now: &Self) -> Option<Change> {
        if self.files == now.files {
            return None;
        }
        let missing_in = |list: &[Capability], capability: &&Capability| !list.contains(capability);
        Some(Change {
            files: differences(&self.files, &now.files)
                .map(|(path, before, after)| FileChange {
                    path: path.to_owned(),
                    what: match (before, after) {
                        (None, _) => FileChangeKind::Added,
                        (_, None) => FileChangeKind::Removed,
                        _ => FileChangeKind::Changed,
                    },
                })
                .collect(),
            asks_more: now
                .capabilities
                .iter()
                .filter(|capability| missing_in(&self.capabilities, capability))
                .cloned()
                .collect(),
            asks_less: self
                .capabilities
                .iter()
                .filter(|capability| missing_in(&now.capabilities, capability))
                .cloned()
                .collect(),
            limits: differences(&self.limits, &now.limits)
                .map(|(key, before, after)| LimitChange {
                    key: key.to_owned(),
                    before: before.copied(),
                    after: after.copied(),
                })
                .collect(),
        })
    }
}

/// The keys at which two maps differ, with both values.
fn differences<'a, V: PartialEq>(
    before: &'a BTreeMap<String, V>,
    after: &'a BTreeMap<String, V>,
) -> impl Iterator<Item = (&'a str, Option<&'a V>, Option<&'a V>)> {
    let new = after.keys().filter(|&key| !before.contains_key(key));
    let mut keys: Vec<&String> = before.keys().chain(new).collect();
    keys.sort();
    keys.into_iter()
        .map(|key| (key.as_str(), before.get(key), after.get(key)))
        .filter(|(_, before, after)| before != after)
}

/// How a skill differs from what was accepted: its files, and what it asks for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Change {
    /// The files that differ, by path.
    pub files: Vec<FileChange>,
    /// Capabilities that it asks for and did not ask for before.
    pub asks_more: Vec<Capability>,
    /// Capabilities that it asked for and no longer does.
    pub asks_less: Vec<Capability>,
    /// Limits that the manifest sets otherwise than before.
    pub limits: Vec<LimitChange>,
}

/// One file that differs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FileChange {
    /// Its path in the skill's folder.
    pub path: String,
    /// In which way.
    pub what: FileChangeKind,
}

/// In which way a file differs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FileChangeKind {
    /// It was not there.
    Added,
    /// It is no longer there, or no longer read.
    Removed,
    /// Its content differs.
    Changed,
}

/// One limit that is set otherwise.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LimitChange {
    /// The key, as it stands in `[limits]`.
    pub key: String,
    /// The value before; none when the manifest did not set it.
    pub before: Option<i64>,
    /// The value now; none when the manifest does not set it.
    pub after: Option<i64>,
}

impl Change {
    /// Everything that differs, a line each: files first, then capabilities with `+` or `-`, then
    /// limits.
    pub fn lines(&self) -> Vec<String> {
        let files = self.files.iter().map(ToString::to_string);
        let more = self.asks_more.iter().map(|asked| format!("+ {asked}"));
        let less = self.asks_less.iter().map(|asked| format!("- {asked}"));
        let limits = self.limits.iter().map(ToString::to_string);
        files.chain(more).chain(less).chain(limits).collect()
    }

    /// Whether it asks for the same as before, and only its files differ.
    pub fn asks_the_same(&self) -> bool {
        self.asks_more.is_empty() && self.asks_less.is_empty() && self.limits.is_empty()
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines = self.lines();
        for (index, line) in lines.iter().take(TOLD_PARTS_MAX).enumerate() {
            let separator = if index == 0 { "" } else { ", " };
            write!(f, "{separator}{line}")?;
        }
        if lines.len() > TOLD_PARTS_MAX {
            write!(f, " and {} more", lines.len() - TOLD_PARTS_MAX)?;
        }
        if self.asks_the_same() {
            f.write_str("; it asks for the same as before")?;
        }
        Ok(())
    }
}

impl fmt::Display for FileChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.what {
            FileChangeKind::Added => "added",
            FileChangeKind::Removed => "removed",
            FileChangeKind::Changed => "changed",
        };
        write!(f, "{} {what}", self.path)
    }
}

impl fmt::Display for LimitChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value =
            |value: Option<i64>| value.map_or("unset".to_owned(), |value| value.to_string());
        let (before, after) = (value(self.before), value(self.after));
        write!(f, "limits.{} {before} -> {after}", self.key)
    }
}

#[cfg(test)]
mod tests {
    use super::Pin;

    fn pin(files: &[(&str, &str)], capabilities: &[&str], limits: &[(&str, i64)]) -> Pin {
        let texts = |&(key, value): &(&str, &str)| (key.to_owned(), value.to_owned());
        Pin {
            files: files.iter().map(texts).collect(),
            capabilities: capabilities.iter().map(|c| c.parse().unwrap()).collect(),
            limits: limits.iter().map(|&(key, v)| (key.to_owned(), v)).collect(),
        }
    }

    #[test]
    fn a_change_tells_files_capabilities_and_limits() {
        let before = pin(
            &[("SKILL.md", "1"), ("in.json", "2"), ("skill.toml", "3")],
            &["env:A", "approval"],
            &[("fuel", 7), ("log_bytes", 1)],
        );
        let after = pin(
            &[("SKILL.md", "1"), ("skill.toml", "4"), ("skill.wasm", "5")],
            &["approval", "net:https://example.org/#GET"],
            &[("fuel", 9)],
        );
        let change = before.change_to(&after).unwrap();
        assert_eq!(
            change.lines(),
            [
                "in.json removed",
                "skill.toml changed",
                "skill.wasm added",
                "+ net:https://example.org/#GET",
                "- env:A",
                "limits.fuel 7 -> 9",
                "limits.log_bytes 1 -> unset",
            ]
        );
        assert_eq!(before.change_to(&before), None);
        assert_ne!(before.digest(), after.digest());
    }

    #[test]
    fn a_change_of_content_alone_says_so() {
        let before = pin(&[("SKILL.md", "1")], &["env:A"], &[]);
        let after = pin(&[("SKILL.md", "2")], &["env:A"], &[]);
        let change = before.change_to(&after).unwrap();
        assert_eq!(
            change.to_string(),
            "SKILL.md changed; it asks for the same as before"
        );
    }

    #[test]
    fn a_long_change_is_cut_in_its_one_line() {
        let asked: Vec<String> = (0..200).map(|index| format!("env:V{index}")).collect();
        let asked: Vec<&str> = asked.iter().map(String::as_str).collect();
        let before = pin(&[("skill.toml", "1")], &[], &[]);
        let change = before.change_to(&pin(&[("skill.toml", "2")], &asked, &[]));
        let change = change.unwrap();
        assert_eq!(change.lines().len(), 201);
        assert!(change.to_string().ends_with("+ env:V10 and 189 more"));
    }
}
