//! The pictures of the inspector, made anew from a daemon in which something has happened.

use std::fs;
use std::process::Command;

use anyhow::{Context, Result};

use crate::daemon_demo::Daemon;
use crate::demo::{SKILL, build_skillrun, empty_home, install};
use crate::process::{root, run, say};
use crate::{guest_toolchains, guests, triage_demo, wasm_target};

/// An agent that does what each prompt says, so that a conversation has everything in it that there can be.
const AGENT: &str = "probe-agent";

/// What the agent may do beside what the skills of the demo may.
const GRANTS: &str = r#"
[skills.probe-agent]
grant = ["skill:greet", "approval"]
"#;

/// Where the pictures are.
const FOLDER: &str = "docs/inspector";

/// Starts a daemon on a home of its own, and lets a browser fill and photograph it.
pub(crate) fn make() -> Result<()> {
    wasm_target::ensure()?;
    guest_toolchains::ensure()?;
    build_skillrun()?;
    let home = empty_home("screenshots")?;
    for skill in [SKILL, triage_demo::SKILL, AGENT] {
        install(&home, skill, &guests::build(skill)?)?;
    }
    let services = root().join("examples").join(triage_demo::SKILL);
    let (_model, url) = triage_demo::start_model(&services.join("model.py"))?;
    let config = triage_demo::config(&services.join("tickets.py"), &home, &url) + GRANTS;
    fs::write(home.join("config.toml"), config).context("cannot write config.toml")?;
    let (_daemon, address) = Daemon::start(&home)?;
    say(&format!("\n== Pictures in {FOLDER}"))?;
    run(Command::new(guest_toolchains::node())
        .arg(root().join("tests/all/api/page/screenshots.mjs"))
        .arg(format!("http://{address}"))
        .arg(root().join(FOLDER)))
}
