//! What a skill argument names: an installed skill, a folder or a component file.

use std::path::Path;

use crate::capability::Capability;
use crate::config::Config;
use crate::registry::{LoadError, Registry, Skill};

use super::exit::Refused;

/// A name, and the skills among which it is looked up.
pub(crate) struct SkillSource {
    /// The name under which the skill is run.
    pub(crate) name: String,
    /// The skill alone, or with it all that are installed, when it is not among them or may hand work to
    /// others.
    pub(crate) registry: Registry,
}

/// Finds what `argument` names. A text with a path separator or the ending `.wasm` is a path, anything
/// else the name of an installed skill, which an operation may follow behind a dot; one that does not
/// exist is found out, and recorded, by the run. `grants` are those of the call, which a component without
/// a manifest asks for.
pub(crate) fn find(
    argument: &str,
    grants: &[Capability],
    config: &Config,
) -> anyhow::Result<SkillSource> {
    let skills_dir = config.skills_dir();
    if let Some(skill) = at_path(argument)? {
        let name = skill.name.to_string();
        let registry = match calls_others(&skill, grants) {
            true => Registry::load_with(&skills_dir, skill)?,
            false => Registry::of([skill]),
        };
        return Ok(SkillSource { name, registry });
    }
    installed(argument, grants, config)
}

/// As [`find`], of a name that a record gives. Whoever wrote that chooses among the installed skills, and
/// names no file of this machine.
pub(crate) fn installed(
    argument: &str,
    grants: &[Capability],
    config: &Config,
) -> anyhow::Result<SkillSource> {
    let skills_dir = config.skills_dir();
    let name = argument.split('.').next().unwrap_or(argument);
    let mut registry = Registry::load_only(&skills_dir, name)?;
    let skill = registry.get(name);
    if skill.is_some_and(|skill| calls_others(&skill, grants)) {
        registry = Registry::load(&skills_dir)?;
    }
    Ok(SkillSource {
        name: argument.to_owned(),
        registry,
    })
}

/// Whether a skill asks to hand work to others.
fn calls_others(skill: &Skill, grants: &[Capability]) -> bool {
    let asked = match skill.is_bare {
        true => grants,
        false => &skill.manifest.capabilities,
    };
    let is_skill = |capability: &Capability| matches!(capability, Capability::Skill { .. });
    asked.iter().any(is_skill)
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
