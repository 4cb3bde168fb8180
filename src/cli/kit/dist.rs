//! The folder that is shipped: what a skill consists of and nothing else, checked as an installation
//! would be.

use std::collections::BTreeSet;
use std::fs;
use std::io::Read as _;
use std::path::{Component, Path, PathBuf};

use anyhow::Context;

use crate::capability::SkillName;
use crate::cli::exit::Refused;
use crate::registry::{self, COMPONENT_FILE, MANIFEST_FILE, SKILL_FILE, Severity, Skill};
use crate::telemetry::chain;

/// Where skills are put, in a project.
const DIST_FOLDER: &str = "dist";
/// Folders that belong to a skill by the rules of agentskills.io.
const SKILL_FOLDERS: [&str; 3] = ["references", "scripts", "assets"];
/// Files of a skill. Protects the disk from a folder that is not meant.
const FILES_MAX: usize = 1000;
/// Levels of folders in a skill. Protects from links that lead in circles.
const DEPTH_MAX: usize = 16;
/// Bytes of SKILL.md and skill.toml that are read. Protects this process's memory.
const TEXT_BYTES_MAX: u64 = 256 * 1024;

/// The name of the skill in a project, as its SKILL.md has it.
///
/// # Errors
/// There is no SKILL.md, or it has no valid front matter.
pub(super) fn name(project: &Path) -> anyhow::Result<SkillName> {
    let path = project.join(SKILL_FILE);
    let text = read(&path)?;
    registry::skill_name(&text).ok_or_else(|| {
        let message = format!("{} has no valid front matter with a name", path.display());
        let hint = "it begins with: ---, name: …, description: …, ---";
        Refused::invalid(message).with_hint(hint).into()
    })
}

/// Where the skill of that name is put.
pub(super) fn folder(project: &Path, name: &SkillName) -> PathBuf {
    project.join(DIST_FOLDER).join(name.as_str())
}

/// Puts the skill with this component into [`folder`], in the place of what was there, if it is valid.
///
/// # Errors
/// A file is missing, a rule is broken, or a file cannot be written. What was there is left then.
pub(super) fn assemble(
    project: &Path,
    name: &SkillName,
    component: &Path,
) -> anyhow::Result<Skill> {
    let target = folder(project, name);
    let failed = || format!("cannot write {}", target.display());
    let dist = project.join(DIST_FOLDER);
    fs::create_dir_all(&dist).with_context(failed)?;
    let staging = tempfile::Builder::new()
        .prefix(".staged-")
        .tempdir_in(&dist)
        .with_context(failed)?;
    let staged = staging.path().join(name.as_str());
    fs::create_dir(&staged).with_context(failed)?;
    for file in files(project)? {
        copy(&project.join(&file), &staged.join(&file))?;
    }
    copy(component, &staged.join(COMPONENT_FILE))?;
    check(&staged, project)?;
    let old = staging.path().join("old");
    let is_replaced = target.symlink_metadata().is_ok();
    if is_replaced {
        fs::rename(&target, &old).with_context(failed)?;
    }
    if let Err(error) = fs::rename(&staged, &target) {
        if is_replaced {
            fs::rename(&old, &target).with_context(failed)?;
        }
        return Err(error).with_context(failed);
    }
    Ok(Skill::from_folder(&target)?)
}

/// The files of a project that belong to the skill, apart from the component.
fn files(project: &Path) -> anyhow::Result<BTreeSet<PathBuf>> {
    let mut files = BTreeSet::from([PathBuf::from(SKILL_FILE)]);
    let manifest = project.join(MANIFEST_FILE);
    if manifest.is_file() {
        files.insert(MANIFEST_FILE.into());
        files.extend(schemas(&read(&manifest)?));
    }
    for folder in SKILL_FOLDERS {
        if project.join(folder).is_dir() {
            list(project, Path::new(folder), 0, &mut files)?;
        }
    }
    Ok(files)
}

/// The files that a manifest names. A manifest that is broken, and a path that leads out of the folder,
/// are found out when the skill is checked.
fn schemas(manifest: &str) -> Vec<PathBuf> {
    let manifest: toml::Table = manifest.parse().unwrap_or_default();
    let schemas = manifest.get("schemas").and_then(toml::Value::as_table);
    let named = schemas.into_iter().flat_map(toml::Table::values);
    let paths = named.filter_map(|value| Some(PathBuf::from(value.as_str()?)));
    let is_inside = |path: &PathBuf| {
        path.components()
            .all(|part| matches!(part, Component::Normal(_)))
    };
    paths.filter(is_inside).collect()
}

fn list(
    project: &Path,
    folder: &Path,
    depth: usize,
    files: &mut BTreeSet<PathBuf>,
) -> anyhow::Result<()> {
    let unreadable = || format!("cannot read {}", project.join(folder).display());
    for entry in fs::read_dir(project.join(folder)).with_context(unreadable)? {
        let entry = entry.with_context(unreadable)?;
        let path = folder.join(entry.file_name());
        if entry.file_name().as_encoded_bytes().starts_with(b".") {
            continue;
        }
        if entry.path().is_dir() && depth < DEPTH_MAX {
            list(project, &path, depth + 1, files)?;
        } else {
            files.insert(path);
        }
        if files.len() > FILES_MAX {
            let message = format!(
                "{} has too many files: expected at most {FILES_MAX}",
                project.join(folder).display()
            );
            return Err(Refused::invalid(message).into());
        }
    }
    Ok(())
}

fn copy(from: &Path, to: &Path) -> anyhow::Result<()> {
    let failed = || format!("cannot copy {}", from.display());
    if let Some(folder) = to.parent() {
        fs::create_dir_all(folder).with_context(failed)?;
    }
    if !from.is_file() {
        let message = format!("{} is missing", from.display());
        return Err(Refused::invalid(message).into());
    }
    fs::copy(from, to).with_context(failed)?;
    Ok(())
}

/// Everything that is wrong with what was put together, told with the paths that the author knows.
fn check(staged: &Path, project: &Path) -> anyhow::Result<()> {
    let findings = registry::validate(staged);
    let errors = findings
        .iter()
        .filter(|finding| finding.severity == Severity::Error);
    let told = |finding: &registry::Finding| {
        let file = finding.file.strip_prefix(staged).unwrap_or(&finding.file);
        let file = project.join(file);
        let place = finding.position.map_or_else(String::new, |position| {
            format!(":{}:{}", position.line, position.column)
        });
        format!("{}{place}: {}", file.display(), chain(&finding.problem))
    };
    let errors: Vec<String> = errors.map(told).collect();
    if errors.is_empty() {
        return Ok(());
    }
    let message = format!("not a valid skill:\n{}", errors.join("\n"));
    Err(Refused::invalid(message).into())
}

fn read(path: &Path) -> anyhow::Result<String> {
    let failed = || format!("cannot read {}", path.display());
    let file = match fs::File::open(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let message = format!("{} is missing", path.display());
            return Err(Refused::invalid(message)
                .with_hint(super::NO_PROJECT_HINT)
                .into());
        }
        file => file.with_context(failed)?,
    };
    let mut text = String::new();
    file.take(TEXT_BYTES_MAX)
        .read_to_string(&mut text)
        .with_context(failed)?;
    Ok(text)
}
