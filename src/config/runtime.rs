//! `[runtime]`: executions of agents.

use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;

use super::ConfigProblem;
use super::file::{Number, Place};

/// Executions at most: with the largest numbers of runs, as many instances as a process has addresses for.
const EXECUTIONS_MAX: u64 = 4_000;
/// Ten minutes: nobody waits longer for an agent to end a turn.
const GRACE_MS_MAX: u64 = 600_000;
/// A day: after that the ledger is as good.
const RETENTION_MS_MAX: u64 = 24 * 60 * 60 * 1000;
/// Folders that are opened at most. Protects each launch, which looks at all of them.
const WORKSPACES_MAX: usize = 64;

/// `[runtime]`: how executions of agents are carried out, and within which bounds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuntimeSettings {
    /// Executions that may be live at once, 1 to 4,000. With `[runs]` it sizes the engine's pool of instances.
    pub executions_max: usize,
    /// Milliseconds that a cancelled turn has to end by itself, and a stopped execution to finish, 1 to 600,000.
    pub grace_ms: u64,
    /// Milliseconds for which an execution that ended is kept at hand, 0 to 86,400,000. After that it is read from
    /// its ledger.
    pub retention_ms: u64,
    /// The backend of launches that name none.
    pub default_backend: String,
    /// Absolute paths of folders below which a client of the HTTP or MCP interface may name one for an agent to
    /// work in.
    pub workspaces: Vec<PathBuf>,
}

impl Default for RuntimeSettings {
    fn default() -> Self {
        Self {
            executions_max: 64,
            grace_ms: 2_000,
            retention_ms: 300_000,
            default_backend: "in-process".to_owned(),
            workspaces: Vec::new(),
        }
    }
}

impl RuntimeSettings {
    /// `grace_ms` as a time.
    pub fn grace(&self) -> Duration {
        Duration::from_millis(self.grace_ms)
    }

    /// `retention_ms` as a time.
    pub fn retention(&self) -> Duration {
        Duration::from_millis(self.retention_ms)
    }
}

/// The section as it stands in the file.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct RuntimeSection {
    executions_max: Number,
    grace_ms: Number,
    retention_ms: Number,
    default_backend: Option<toml::Spanned<String>>,
    workspaces: Vec<toml::Spanned<PathBuf>>,
}

/// The settings that a section is.
pub(super) fn settings(
    place: &Place<'_>,
    section: RuntimeSection,
) -> Result<RuntimeSettings, ConfigProblem> {
    let default = RuntimeSettings::default();
    let executions_max = place.number(
        "runtime.executions_max",
        &section.executions_max,
        u64::try_from(default.executions_max).unwrap_or(u64::MAX),
        1..=EXECUTIONS_MAX,
    )?;
    Ok(RuntimeSettings {
        executions_max: usize::try_from(executions_max).unwrap_or(usize::MAX),
        grace_ms: place.number(
            "runtime.grace_ms",
            &section.grace_ms,
            default.grace_ms,
            1..=GRACE_MS_MAX,
        )?,
        retention_ms: place.number(
            "runtime.retention_ms",
            &section.retention_ms,
            default.retention_ms,
            0..=RETENTION_MS_MAX,
        )?,
        default_backend: backend(place, section.default_backend)?
            .unwrap_or(default.default_backend),
        workspaces: workspaces(place, section.workspaces)?,
    })
}

fn backend(
    place: &Place<'_>,
    name: Option<toml::Spanned<String>>,
) -> Result<Option<String>, ConfigProblem> {
    match name {
        Some(name) if name.get_ref().is_empty() => Err(ConfigProblem::Setting {
            line: place.line(&name),
            key: "runtime.default_backend",
            expected: "the name of a backend",
        }),
        name => Ok(name.map(toml::Spanned::into_inner)),
    }
}

fn workspaces(
    place: &Place<'_>,
    folders: Vec<toml::Spanned<PathBuf>>,
) -> Result<Vec<PathBuf>, ConfigProblem> {
    let invalid = |folder: &toml::Spanned<PathBuf>, expected| ConfigProblem::Setting {
        line: place.line(folder),
        key: "runtime.workspaces",
        expected,
    };
    if let Some(folder) = folders.get(WORKSPACES_MAX) {
        return Err(invalid(folder, "at most 64 folders"));
    }
    let checked = |folder: toml::Spanned<PathBuf>| match folder.get_ref().is_absolute() {
        true => Ok(folder.into_inner()),
        false => Err(invalid(&folder, "absolute paths of folders")),
    };
    folders.into_iter().map(checked).collect()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use crate::telemetry::chain;

    #[test]
    fn values_are_taken_and_what_is_none_is_refused_with_its_place() {
        let parse = |text: &str| super::super::file::parse(Path::new("home"), text);
        let set = "[runtime]\nexecutions_max = 4000\ngrace_ms = 1\nretention_ms = 0\nworkspaces = [\"/srv/a\"]";
        let runtime = parse(set).unwrap().runtime;
        assert_eq!((runtime.executions_max, runtime.grace_ms), (4000, 1));
        assert_eq!(runtime.workspaces, [Path::new("/srv/a")]);
        assert_eq!(runtime.default_backend, "in-process");
        for (text, part) in [
            (
                "executions_max = 4001",
                "line 2: runtime.executions_max = 4001",
            ),
            ("executions_max = 0", "runtime.executions_max"),
            ("grace_ms = 0", "runtime.grace_ms"),
            ("retention_ms = 86400001", "runtime.retention_ms"),
            ("default_backend = \"\"", "line 2: runtime.default_backend"),
            (
                "workspaces = [\n\"srv\"]",
                "line 3: runtime.workspaces: expected absolute",
            ),
            ("backends = 1", "backends"),
        ] {
            let problem = chain(&parse(&format!("[runtime]\n{text}")).unwrap_err());
            assert!(problem.contains(part), "{text:?}: {problem}");
        }
    }
}
