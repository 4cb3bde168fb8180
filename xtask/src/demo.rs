//! The main job, from a fresh checkout to ledgers: of a run that needs nothing, asked for in three ways, of one that
//! calls tools, asks a model and waits for an approval, and of an agent.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::process::{cargo, root, run, run_and_read, say, target_folder};
use crate::{
    agent_demo, daemon_demo, guest_toolchains, guests, mcp_demo, triage_demo, wasm_target,
};

pub(crate) const SKILL: &str = "greet";

/// Builds the binary and the skill, runs the one with the other in a home that nobody has used, and
/// shows what was recorded.
pub(crate) fn show() -> Result<()> {
    say(
        "== The target that skills are built for, and Python for the tool server of the second part",
    )?;
    wasm_target::ensure()?;
    guest_toolchains::ensure_python()?;

    say("\n== Two skills and an agent: WASI components")?;
    let component = guests::build(SKILL)?;
    let agent = guests::build(agent_demo::AGENT)?;
    let triage = guests::build(triage_demo::SKILL)?;

    say("\n== The runner")?;
    build_skillrun()?;

    say("\n== A fresh home with that skill in it")?;
    let home = fresh_home("demo", SKILL, &component)?;
    say(&format!("  SKILLRUN_HOME={}", home.display()))?;

    say("\n== Run it")?;
    run(skillrun(&home).args(["run", SKILL, "--input", r#"{"name":"Ada"}"#]))?;

    say("\n== The runs on record")?;
    let list = run_and_read(skillrun(&home).args(["runs", "list"]))?;
    let run_id = first_run_id(&list).context("the run is not in the list")?;

    say("\n== Its ledger as a timeline")?;
    run(skillrun(&home).args(["runs", "inspect", run_id]))?;

    say("\n== Nobody has edited it since")?;
    run(skillrun(&home).args(["runs", "verify", run_id]))?;

    daemon_demo::show(&home)?;

    mcp_demo::show(&home)?;

    triage_demo::show(&fresh_home("demo-triage", triage_demo::SKILL, &triage)?)?;

    agent_demo::show(&fresh_home("demo-agent", agent_demo::AGENT, &agent)?)
}

fn fresh_home(name: &str, skill_name: &str, component: &Path) -> Result<PathBuf> {
    let home = empty_home(name)?;
    install(&home, skill_name, component)?;
    Ok(home)
}

/// Builds the binary.
pub(crate) fn build_skillrun() -> Result<()> {
    // With an example beside it, the binary is built with the features that the tests use, so that
    // neither has to build the engine a second time.
    run(&mut cargo(&[
        "build",
        "--package",
        "skillrun",
        "--bin",
        "skillrun",
        "--example",
        "embed",
    ]))
}

/// A folder for a home, with nothing in it.
pub(crate) fn empty_home(name: &str) -> Result<PathBuf> {
    let home = target_folder().join(name);
    if home.exists() {
        fs::remove_dir_all(&home).context("cannot empty the home of the last demo")?;
    }
    Ok(home)
}

/// Puts a skill of the checkout into a home.
pub(crate) fn install(home: &Path, skill_name: &str, component: &Path) -> Result<()> {
    let skill = home.join("skills").join(skill_name);
    fs::create_dir_all(&skill).context("cannot make the home")?;
    let source = root().join("guest-skills").join(skill_name);
    copy(&source.join("SKILL.md"), &skill.join("SKILL.md"))?;
    copy(component, &skill.join("skill.wasm"))?;
    let manifest = source.join("skill.toml");
    if manifest.exists() {
        copy(&manifest, &skill.join("skill.toml"))?;
    }
    Ok(())
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::copy(from, to)
        .with_context(|| format!("cannot copy {} to {}", from.display(), to.display()))?;
    Ok(())
}

/// The binary, with that home.
pub(crate) fn skillrun(home: &Path) -> Command {
    let mut command = Command::new(target_folder().join("debug/skillrun"));
    command.env("SKILLRUN_HOME", home);
    command
}

fn first_run_id(list: &str) -> Option<&str> {
    list.split_whitespace()
        .find(|word| word.starts_with("run_"))
}

#[cfg(test)]
mod tests {
    use super::first_run_id;

    #[test]
    fn a_run_id_is_found_in_a_table() {
        let table = "RUN  SKILL\nrun_0198c0ffee  greet  ok\n";
        assert_eq!(first_run_id(table), Some("run_0198c0ffee"));
        assert_eq!(first_run_id("no runs\n"), None);
    }
}
