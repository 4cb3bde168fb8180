//! The part of the demo with an agent: it is talked with, its daemon is killed, and it goes on where it was.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};

use crate::daemon_demo::Daemon;
use crate::demo::skillrun;
use crate::process::{root, run, run_and_read, say};
use crate::triage_demo::start_model;

/// The agent.
pub(crate) const AGENT: &str = "chat";

/// Talks with the agent in `home`, where it is installed.
pub(crate) fn show(home: &Path) -> Result<()> {
    say("\n== An agent, which lives on between prompts")?;
    let (_model, url) = start_model(&root().join("examples/triage/model.py"))?;
    let config = format!(
        r#"[model_providers.local]
api = "openai"
url = "{url}"
prices."small" = {{ input = 0.5, output = 1.5 }}

[model_aliases]
default = "local/small"

[skills.{AGENT}]
grant = ["llm:local/*"]
"#
    );
    fs::write(home.join("config.toml"), config).context("cannot write config.toml")?;
    let (daemon, _address) = Daemon::start(home)?;
    let id = launched(home, &[])?;
    run(skillrun(home).args(["agent", "prompt", &id, "My name is Ada."]))?;

    say("\n== Its daemon is killed; another one takes the agent up from its ledger")?;
    daemon.kill()?;
    let (_daemon, _address) = Daemon::start(home)?;
    run(skillrun(home).args(["agent", "list"]))?;
    let id = launched(home, &["--prior-session", &id])?;
    let words = ["agent", "prompt", &id, "What did I say?"];
    let answer = run_and_read(skillrun(home).args(words))?;
    ensure!(answer.contains("Ada"), "it has forgotten what was said");
    run(skillrun(home).args(["agent", "stop", &id]))
}

/// Launches the agent, and gives the id of its execution.
fn launched(home: &Path, more: &[&str]) -> Result<String> {
    let words = [&["agent", "launch", AGENT, "--wait"], more].concat();
    let id = run_and_read(skillrun(home).args(words))?;
    Ok(id.trim().to_owned())
}
