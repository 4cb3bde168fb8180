//! Makes a project: every file in a folder beside, which is named in one step when it is whole.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use anyhow::Context;

use super::language::Language;
use super::sources::{self, File, Tree};
use crate::capability::SkillName;
use crate::cli::exit::Refused;

/// The name that the templates have in place of the skill's.
const TEMPLATE_NAME: &str = "new-skill";
/// The line of the template's manifest that the one with the language follows.
const WORLD_LINE: &str = "world = \"0.1\"\n";
/// The type that `#[skill]` makes of that name.
const TEMPLATE_TYPE: &str = "NewSkill";

/// Makes `<parent>/<name>` and gives its path.
///
/// # Errors
/// It exists, the name cannot be used, or a file cannot be written; nothing is left behind then.
pub(crate) fn make(name: &SkillName, language: Language, parent: &Path) -> anyhow::Result<PathBuf> {
    if language == Language::Rust {
        check_type_name(name)?;
    }
    let project = parent.join(name.as_str());
    let exists = || Refused::usage(format!("{} exists already", project.display()));
    if project.symlink_metadata().is_ok() {
        return Err(exists().into());
    }
    let failed = || format!("cannot make {}", project.display());
    fs::create_dir_all(parent).with_context(failed)?;
    let staging = tempfile::Builder::new()
        .prefix(&format!(".{name}-"))
        .tempdir_in(parent)
        .with_context(failed)?;
    let staged = staging.path().join(name.as_str());
    for (path, text) in files(name, language)? {
        write(&staged.join(path), &text).with_context(failed)?;
    }
    // An empty folder is all that a rename would replace, and one that came in between is not ours.
    rustix::fs::renameat_with(
        rustix::fs::CWD,
        &staged,
        rustix::fs::CWD,
        &project,
        rustix::fs::RenameFlags::NOREPLACE,
    )
    .map_err(|error| match error {
        rustix::io::Errno::EXIST => exists().into(),
        error => anyhow::Error::new(io::Error::from(error)).context(failed()),
    })?;
    Ok(project)
}

fn write(path: &Path, text: &str) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::write(path, text)
}

/// Every file of a project, by its path in it.
fn files(name: &SkillName, language: Language) -> anyhow::Result<Vec<(PathBuf, String)>> {
    let trees = match language {
        Language::Rust => sources::RUST,
        Language::Ts => sources::TS,
        Language::Py => sources::PY,
    };
    let mut files = Vec::new();
    for Tree {
        folder,
        files: tree,
    } in trees
    {
        for File { path, text } in *tree {
            let text = match (folder.is_empty(), path.ends_with("Cargo.toml")) {
                // No tool but Rust's leaves in the component what it was written in.
                (true, _) if *path == "skill.toml" => {
                    let flavor = format!("{WORLD_LINE}flavor = \"{}\"\n", language.flavor());
                    named(text, name).replace(WORLD_LINE, &flavor)
                }
                (true, _) => named(text, name),
                (false, true) => standalone(text, sources::RUST_WORKSPACE)?,
                (false, false) => (*text).to_owned(),
            };
            // In the checkout it would hold for the template itself.
            let path = if *path == "gitignore" {
                ".gitignore"
            } else {
                path
            };
            files.push((Path::new(folder).join(path), text));
        }
    }
    if language == Language::Rust {
        files.push(("Cargo.lock".into(), sources::RUST_LOCK.to_owned()));
    }
    Ok(files)
}

/// A text of a template with the name of the skill in it.
fn named(text: &str, name: &SkillName) -> String {
    text.replace(TEMPLATE_NAME, name)
        .replace(TEMPLATE_TYPE, &type_name(name))
}

/// `fan-out` as `FanOut`, `2d` as `Skill2d`: what `#[skill]` names its type.
fn type_name(name: &str) -> String {
    let words = name.split('-').map(|word| {
        let mut letters = word.chars();
        let first = letters.next().map(|first| first.to_ascii_uppercase());
        first.into_iter().chain(letters).collect::<String>()
    });
    let name: String = words.collect();
    if name.starts_with(|letter: char| letter.is_ascii_digit()) {
        return format!("Skill{name}");
    }
    name
}

/// Refuses a name whose type would take the place of one that the template uses, such as `Result`.
fn check_type_name(name: &SkillName) -> Result<(), Refused> {
    let wanted = type_name(name);
    let is_used = sources::RUST
        .iter()
        .filter(|tree| tree.folder.is_empty())
        .flat_map(|tree| tree.files)
        .filter(|file| file.path.ends_with(".rs"))
        .flat_map(|file| file.text.split(|c: char| !c.is_ascii_alphanumeric()))
        .any(|word| word == wanted);
    if is_used {
        let message = format!(
            "skill name {:?} cannot be used in Rust: its type would be {wanted}, which the template uses",
            name.as_str()
        );
        return Err(Refused::usage(message).with_hint("choose a name of two words"));
    }
    Ok(())
}

/// A manifest of the SDK's workspace that needs no workspace any more: what it inherits stands in it.
fn standalone(manifest: &str, workspace: &str) -> anyhow::Result<String> {
    let workspace: toml::Table = workspace.parse()?;
    let package = workspace
        .get("workspace")
        .and_then(|workspace| workspace.get("package"))
        .context("the workspace of the SDK has no package")?;
    let mut text = String::new();
    for line in manifest.lines() {
        match line.strip_suffix(".workspace = true") {
            None => text.push_str(line),
            Some(key) => {
                let value = package
                    .get(key)
                    .with_context(|| format!("the workspace of the SDK has no {key}"))?;
                text.push_str(&format!("{key} = {value}"));
            }
        }
        text.push('\n');
    }
    Ok(text.replace("\n[lints]\nworkspace = true\n", ""))
}

#[cfg(test)]
mod tests {
    use super::{Language, SkillName, check_type_name, files, make, standalone, type_name};

    fn name(text: &str) -> SkillName {
        text.parse().unwrap()
    }

    #[test]
    fn a_manifest_stands_alone() {
        let workspace = "[workspace]\nmembers = []\n[workspace.package]\nversion = \"1.2.3\"\nedition = \"2024\"\n";
        let manifest =
            "[package]\nname = \"a\"\nversion.workspace = true\n\n[lints]\nworkspace = true\n";
        assert_eq!(
            standalone(manifest, workspace).unwrap(),
            "[package]\nname = \"a\"\nversion = \"1.2.3\"\n"
        );
        assert!(standalone("license.workspace = true", workspace).is_err());
    }

    #[test]
    fn a_name_that_the_template_uses_as_a_type_is_refused() {
        for taken in ["result", "input", "some", "mock", "json-schema"] {
            assert!(check_type_name(&name(taken)).is_err(), "{taken}");
        }
        for free in ["fan-out", "2d", "serde", "core"] {
            assert!(check_type_name(&name(free)).is_ok(), "{free}");
        }
        assert_eq!(type_name("2d-plot"), "Skill2dPlot");
    }

    #[test]
    fn nothing_of_the_template_and_of_the_workspace_is_left() {
        for language in [Language::Rust, Language::Ts, Language::Py] {
            for (path, text) in files(&name("fan-out"), language).unwrap() {
                for left in ["new-skill", "NewSkill", ".workspace = true"] {
                    assert!(!text.contains(left), "{}: {left}", path.display());
                }
            }
        }
    }

    #[test]
    fn what_exists_is_left_alone_and_nothing_is_left_behind() {
        let parent = tempfile::tempdir().unwrap();
        let taken = parent.path().join("taken");
        std::fs::create_dir(&taken).unwrap();
        assert!(make(&name("taken"), Language::Py, parent.path()).is_err());
        make(&name("free"), Language::Py, parent.path()).unwrap();
        let mut names: Vec<_> = std::fs::read_dir(parent.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        assert_eq!(names, ["free", "taken"]);
        assert_eq!(std::fs::read_dir(&taken).unwrap().count(), 0);
    }
}
