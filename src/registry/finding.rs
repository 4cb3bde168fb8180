//! What is wrong with a skill, and where.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::pin::Change;
use crate::capability::{CapabilityError, SkillNameError};
use crate::limits::LimitError;

/// Findings of one severity that are kept for one skill. A person mends the first few; the bound
/// protects memory from a file that is wrong everywhere.
const FINDINGS_OF_A_SEVERITY_MAX: usize = 50;

/// A place in a text file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// From 1.
    pub line: usize,
    /// In characters, from 1.
    pub column: usize,
}

impl Position {
    /// The place of the character that begins at byte `offset`.
    pub(super) fn of(text: &str, offset: usize) -> Self {
        let before = text.get(..offset).unwrap_or(text);
        let line_start = before.rfind('\n').map_or(0, |index| index + 1);
        Self {
            line: before.matches('\n').count() + 1,
            column: before
                .get(line_start..)
                .map_or(0, |line| line.chars().count())
                + 1,
        }
    }
}

/// Whether a skill can be used in spite of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// The skill is refused.
    Error,
    /// The skill is loaded.
    Warning,
}

/// One thing that is wrong with a skill.
#[derive(Debug, thiserror::Error)]
pub struct Finding {
    /// Whether the skill is refused.
    pub severity: Severity,
    /// The file, or the folder when no single file is meant.
    pub file: PathBuf,
    /// The place in the file; none when the file as a whole is meant.
    pub position: Option<Position>,
    /// What is wrong.
    #[source]
    pub problem: Problem,
}

impl fmt::Display for Finding {
    /// Only the place: the problem is the source.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.file.display())?;
        match self.position {
            Some(position) => write!(f, ":{}:{}", position.line, position.column),
            None => Ok(()),
        }
    }
}

/// A skill that was refused.
#[derive(Debug)]
pub struct LoadError {
    /// The folder or the component file.
    pub path: PathBuf,
    /// Everything for which it was refused, in the order of the files; never empty. The first is the
    /// source of this error.
    pub findings: Vec<Finding>,
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot load the skill in {}", self.path.display())?;
        match self.findings.len() {
            0 | 1 => Ok(()),
            count => write!(f, " ({count} problems, the first is shown)"),
        }
    }
}

impl LoadError {
    /// How the skill differs from what was accepted, when that is a reason.
    pub fn change(&self) -> Option<&Change> {
        self.findings
            .iter()
            .find_map(|finding| match &finding.problem {
                Problem::Changed(change) => Some(&**change),
                _ => None,
            })
    }

    /// What to do about it, for a skill that is installed.
    pub fn hint(&self) -> String {
        let name = self.path.file_name().unwrap_or_default().to_string_lossy();
        match (self.change(), self.findings.len()) {
            (Some(_), 1) => format!(
                "skillrun skills pin {name} shows what changed, and with --accept it is accepted"
            ),
            _ => format!("skillrun skills validate {name} shows all that is wrong"),
        }
    }
}

impl std::error::Error for LoadError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.findings.first().map(|finding| finding as _)
    }
}

/// What can be wrong with a skill's files.
#[derive(Debug, thiserror::Error)]
pub enum Problem {
    /// The operating system refused.
    #[error("cannot be read")]
    Unreadable(#[source] io::Error),
    /// A file that must be there is not.
    #[error("no such file: expected {expected}")]
    Missing {
        /// What should be there.
        expected: &'static str,
    },
    /// A folder was expected.
    #[error("not a folder")]
    NotAFolder,
    /// A folder, a device or a pipe stands where a file was expected.
    #[error("not a regular file")]
    NotAFile,
    /// A link leads to a place outside the skill's folder.
    #[error("link that leads out of the skill's folder, to {}", target.display())]
    LeadsOutside {
        /// Where it leads.
        target: PathBuf,
    },
    /// The file is larger than such a file may be.
    #[error("too large: expected at most {bytes_max} bytes")]
    TooLarge {
        /// The bound.
        bytes_max: u64,
    },
    /// The folder has more entries than are read.
    #[error("too many entries: expected at most {max}")]
    TooManyEntries {
        /// The bound.
        max: usize,
    },
    /// The text is not UTF-8.
    #[error("not UTF-8 text")]
    NotUtf8,
    /// The file does not begin with a line `---`.
    #[error("no front matter: expected a line --- at the start")]
    NoFrontMatter,
    /// The line `---` that ends the front matter is missing or too far away.
    #[error("front matter without end: expected a line --- within {bytes_max} bytes")]
    UnendedFrontMatter {
        /// The bound on front matter.
        bytes_max: usize,
    },
    /// Not YAML, TOML or JSON.
    #[error("malformed {language}: {message}")]
    Syntax {
        /// The language of the file.
        language: &'static str,
        /// What its parser said.
        message: String,
    },
    /// YAML that is refused in front matter, although it is YAML.
    #[error("{construct} in front matter: expected plain text, lists and mappings")]
    RefusedYaml {
        /// What was used.
        construct: &'static str,
    },
    /// A key that is required is not there.
    #[error("missing key {key}")]
    MissingKey {
        /// The key.
        key: &'static str,
    },
    /// A key that nobody reads: a misspelling, or a wish that would be ignored.
    #[error("unknown key {key:?}: expected one of {expected}")]
    UnknownKey {
        /// The key as it stands.
        key: String,
        /// The keys that are read here.
        expected: &'static str,
    },
    /// The same thing twice.
    #[error("duplicate {what:?}")]
    Duplicate {
        /// The key or the value.
        what: String,
    },
    /// A value of the wrong type.
    #[error("{key}: expected {expected}, found {found}")]
    WrongType {
        /// The key.
        key: String,
        /// What it takes.
        expected: &'static str,
        /// What it has.
        found: &'static str,
    },
    /// A text that is none of those there may be.
    #[error("{key} is {given:?}: expected {expected}")]
    Unexpected {
        /// The key.
        key: String,
        /// What it may be.
        expected: &'static str,
        /// What it is, shortened.
        given: String,
    },
    /// A text that is empty or too long.
    #[error("{key} has {chars} characters: expected 1 to {max}")]
    WrongLength {
        /// The key.
        key: &'static str,
        /// The length found.
        chars: usize,
        /// The longest that is accepted.
        max: usize,
    },
    /// More entries than a list may have.
    #[error("{key} has {count} entries: expected at most {max}")]
    TooMany {
        /// The key.
        key: &'static str,
        /// The number found.
        count: usize,
        /// The bound.
        max: usize,
    },
    /// The name breaks the rules for names.
    #[error(transparent)]
    Name(#[from] SkillNameError),
    /// The name is not the folder's.
    #[error("name {name:?} differs from the folder's, {folder:?}: expected the same")]
    NameMismatch {
        /// The name in the front matter.
        name: String,
        /// The folder's name.
        folder: String,
    },
    /// The name is the one of another skill, whose folder has it.
    #[error("name {name:?} is the one of another skill: expected the folder's, {folder:?}")]
    NameClash {
        /// The name in the front matter.
        name: String,
        /// The folder's name.
        folder: String,
    },
    /// The skill is not the one that was accepted.
    #[error("changed since it was accepted: {0}")]
    Changed(Box<Change>),
    /// A requested capability that does not parse.
    #[error(transparent)]
    Capability(#[from] CapabilityError),
    /// A limit that does not exist or is out of range.
    #[error(transparent)]
    Limit(#[from] LimitError),
    /// A digest that is none.
    #[error("malformed sha256 {given:?}: expected 64 lower-case hexadecimal digits")]
    MalformedDigest {
        /// The text, cut after 80 characters.
        given: String,
    },
    /// The component is not the one that the manifest names, or not the one that was loaded.
    #[error("component has sha256 {found}: expected {expected}")]
    DigestMismatch {
        /// The digest that was promised.
        expected: String,
        /// The digest of the file.
        found: String,
    },
    /// The skill was built for a version of the world that this program does not have.
    #[error("unknown world version {wanted:?}: expected one of {known}")]
    UnknownWorld {
        /// What the manifest names.
        wanted: String,
        /// The versions there are.
        known: String,
    },
    /// A flavor that is no short word.
    #[error("malformed flavor {given:?}: expected 1 to {max} of a-z, 0-9 and -")]
    MalformedFlavor {
        /// The text, cut after 80 characters.
        given: String,
        /// The bound.
        max: usize,
    },
    /// The file does not begin as a component does.
    #[error("not a WebAssembly component: found {found}")]
    NotAComponent {
        /// What it looks like.
        found: &'static str,
    },
    /// The file begins as a component does and is damaged.
    #[error("damaged component at byte {offset}: {message}")]
    DamagedComponent {
        /// Where, from 0.
        offset: usize,
        /// What its parser said.
        message: String,
    },
    /// Components within components, more than anyone builds.
    #[error("component nests deeper than {max} levels")]
    DeepComponent {
        /// The bound.
        max: usize,
    },
    /// The path of a schema that is no path of a file in the folder.
    #[error("malformed schema path {given:?}: expected a .json file inside the skill's folder")]
    SchemaPath {
        /// The text, cut after 80 characters.
        given: String,
    },
}

/// Gathers what is wrong with one skill.
#[derive(Debug, Default)]
pub(super) struct Findings {
    errors: Vec<Finding>,
    warnings: Vec<Finding>,
}

impl Findings {
    pub(super) fn push(&mut self, finding: Finding) {
        let list = match finding.severity {
            Severity::Error => &mut self.errors,
            Severity::Warning => &mut self.warnings,
        };
        if list.len() < FINDINGS_OF_A_SEVERITY_MAX {
            list.push(finding);
        }
    }

    /// A problem of a whole file or folder.
    pub(super) fn refuse(&mut self, file: &Path, problem: Problem) {
        self.push(Finding {
            severity: Severity::Error,
            file: file.to_owned(),
            position: None,
            problem,
        });
    }

    /// Errors and warnings, each by file and place.
    pub(super) fn into_sorted(self) -> (Vec<Finding>, Vec<Finding>) {
        let sorted = |mut list: Vec<Finding>| {
            list.sort_by(|a, b| (&a.file, a.position).cmp(&(&b.file, b.position)));
            list
        };
        (sorted(self.errors), sorted(self.warnings))
    }
}

/// Adds findings of one text file.
#[derive(Debug)]
pub(super) struct FileFindings<'a> {
    pub(super) findings: &'a mut Findings,
    pub(super) file: PathBuf,
}

impl FileFindings<'_> {
    pub(super) fn error(&mut self, position: Position, problem: Problem) {
        self.add(Severity::Error, position, problem);
    }

    pub(super) fn warning(&mut self, position: Position, problem: Problem) {
        self.add(Severity::Warning, position, problem);
    }

    fn add(&mut self, severity: Severity, position: Position, problem: Problem) {
        self.findings.push(Finding {
            severity,
            file: self.file.clone(),
            position: Some(position),
            problem,
        });
    }
}

/// The start of a hostile text, short enough for a message.
pub(super) fn excerpt(text: &str) -> String {
    text.chars().take(80).collect()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{Finding, Findings, Position, Problem, Severity};

    #[test]
    fn columns_count_characters() {
        let text = "ä\nöü: x\n";
        let offset = text.find('x').unwrap();
        assert_eq!(Position::of(text, offset), Position { line: 2, column: 5 });
        assert_eq!(Position::of(text, 0), Position { line: 1, column: 1 });
        assert_eq!(Position::of(text, 99), Position { line: 3, column: 1 });
    }

    #[test]
    fn a_flood_of_warnings_does_not_hide_an_error() {
        let mut findings = Findings::default();
        for _ in 0..1000 {
            findings.push(Finding {
                severity: Severity::Warning,
                file: "SKILL.md".into(),
                position: None,
                problem: Problem::NotUtf8,
            });
        }
        findings.refuse(Path::new("SKILL.md"), Problem::NotAFile);
        let (errors, warnings) = findings.into_sorted();
        assert_eq!((errors.len(), warnings.len()), (1, 50));
    }
}
