//! `skillrun skills`: one file for each thing that can be asked for.

mod inspect;
mod install;
mod list;
mod state;
mod validate;

pub(crate) use validate::unloadable;

use serde::Serialize;

use crate::cli::args::SkillsCommand;
use crate::cli::exit::Exit;
use crate::cli::printer::Printer;
use crate::config::Config;
use crate::registry::Skill;

pub(crate) async fn skills(
    command: SkillsCommand,
    config: &Config,
    printer: Printer,
) -> anyhow::Result<Exit> {
    match command {
        SkillsCommand::List => list::list(config, printer),
        SkillsCommand::Inspect { skill } => inspect::inspect(&skill, config, printer).await,
        SkillsCommand::Validate { skill } => validate::validate(&skill, config, printer).await,
        SkillsCommand::Install { source, accept } => {
            install::install(&source, accept, config, printer).await
        }
        SkillsCommand::Pin { skill, accept } => state::pin(&skill, accept, config, printer),
        SkillsCommand::Enable { skill } => state::set_enabled(&skill, true, config, printer),
        SkillsCommand::Disable { skill } => state::set_enabled(&skill, false, config, printer),
        SkillsCommand::Remove { skill } => state::remove(&skill, config, printer),
    }
}

/// A skill in a list.
#[derive(Serialize)]
struct Row<'a> {
    name: &'a str,
    /// `enabled`, `disabled` or `changed`; none for a skill that is not installed.
    state: Option<&'static str>,
    flavor: Option<&'a str>,
    description: &'a str,
    component_digest: Option<&'a str>,
}

impl<'a> Row<'a> {
    fn of(skill: &'a Skill, state: Option<&'static str>) -> Self {
        Self {
            name: skill.name.as_str(),
            state,
            flavor: skill.flavor.as_deref(),
            description: &skill.description,
            component_digest: skill.component.as_ref().map(|c| c.sha256.as_str()),
        }
    }
}
