//! The languages that a skill can be written in, and how a project is told to be in one.

use std::path::Path;

use clap::ValueEnum;

use crate::cli::exit::Refused;

/// A language with an SDK.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Language {
    /// Rust, built by Cargo.
    Rust,
    /// TypeScript, built by esbuild and componentize-qjs.
    Ts,
    /// Python, built by componentize-py.
    Py,
}

impl Language {
    const ALL: [Self; 3] = [Self::Rust, Self::Ts, Self::Py];

    /// The file that makes a folder a project in this language.
    pub(crate) fn marker(self) -> &'static str {
        match self {
            Self::Rust => "Cargo.toml",
            Self::Ts => "src/main.ts",
            Self::Py => "app.py",
        }
    }

    /// How a manifest names it.
    pub(crate) fn flavor(self) -> &'static str {
        match self {
            Self::Rust => "rust",
            Self::Ts => "ts",
            Self::Py => "py",
        }
    }

    /// The language of a project.
    ///
    /// # Errors
    /// The folder has the marker of no language, or of several.
    pub(crate) fn of(project: &Path) -> Result<Self, Refused> {
        let fits = |language: &Self| project.join(language.marker()).is_file();
        let fitting: Vec<Self> = Self::ALL.into_iter().filter(fits).collect();
        match fitting.as_slice() {
            [language] => Ok(*language),
            several => {
                let found: Vec<&str> = several.iter().map(|l| l.marker()).collect();
                let found = match found.as_slice() {
                    [] => "none of them".to_owned(),
                    found => found.join(" and "),
                };
                let message = format!(
                    "cannot tell the language of {}: expected one of {}, found {found}",
                    project.display(),
                    Self::ALL.map(Self::marker).join(", "),
                );
                Err(Refused::usage(message).with_hint("skillrun new makes a project"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::Language;

    #[test]
    fn a_project_is_in_exactly_one_language() {
        for language in Language::ALL {
            let folder = tempfile::tempdir().unwrap();
            assert!(Language::of(folder.path()).is_err());
            let marker = folder.path().join(language.marker());
            fs::create_dir_all(marker.parent().unwrap()).unwrap();
            fs::write(marker, "").unwrap();
            assert_eq!(Language::of(folder.path()).unwrap(), language);
            let other = match language {
                Language::Py => "Cargo.toml",
                _ => "app.py",
            };
            fs::write(folder.path().join(other), "").unwrap();
            let refused = Language::of(folder.path()).unwrap_err().to_string();
            assert!(
                refused.contains(other) && refused.contains(" and "),
                "{refused}"
            );
        }
    }
}
