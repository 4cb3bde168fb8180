//! What a skill argument names: an installed skill, a folder or a component file.

use std::path::Path;

use crate::config::Config;
use crate::registry::{LoadError, Registry, Skill};

use super::exit::Refused;

/// A name, and the skills among which it is looked up.
pub(crate) struct SkillSource {
    /// The name under which the skill is run.
    pub(crate) name: String,
    /// The skill alone, or all that are installed when it is not among them.
    pub(crate) registry: Registry,
}

/// Finds what `argument` names. A text with a path separator or the ending `.wasm` is a path, anything
/// else the name of an installed skill, which an operation may follow behind a dot; one that does not
/// exist is found out, and recorded, by the run.
pub(crate) fn find(argument: &str, config: &Config) -> anyhow::Result<SkillSource> {
    if let Some(skill) = at_path(argument)? {
        return Ok(SkillSource {
            name: skill.name.to_string(),
            registry: Registry::of([skill]),
        });
    }
    let skill = argument.split('.').next().unwrap_or(argument);
    Ok(SkillSource {
        name: argument.to_owned(),
        registry: Registry::load_only(&config.skills_dir(), skill)?,
    })
}

/// A name that no skill has, with the one that may have been meant.
pub(crate) fn unknown(argument: &str, config: &Config) -> Refused {
    let refused = Refused::not_found(format!("unknown skill {argument:?}"));
    let known = Registry::load(&config.skills_dir()).unwrap_or_default();
    refused.with_hint(match known.nearest(argument) {
        Some(nearest) => format!("there is a skill {:?}", nearest.as_str()),
        None => "skillrun skills list shows the skills there are".to_owned(),
    })
}

/// Whether an argument is meant as a path and not as a name.
pub(crate) fn is_path(argument: &str) -> bool {
    matches!(argument, "." | "..")
        || argument.contains(std::path::MAIN_SEPARATOR)
        || Path::new(argument)
            .extension()
            .is_some_and(|extension| extension == "wasm")
}

fn at_path(argument: &str) -> anyhow::Result<Option<Skill>> {
    if !is_path(argument) {
        return Ok(None);
    }
    let path = Path::new(argument);
    if !path.exists() {
        return Err(Refused::not_found(format!("no such file or folder: {argument}")).into());
    }
    Ok(Some(read(path)?))
}

/// Reads a skill's folder or a component file.
pub(crate) fn read(path: &Path) -> Result<Skill, LoadError> {
    if path.is_dir() {
        Skill::from_folder(path)
    } else {
        Skill::from_wasm(path)
    }
}
