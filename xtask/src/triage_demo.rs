//! The second half of the demo: a skill that calls tools of an MCP server, asks a model, and waits until
//! another process approves what it is about to do; and the same skill, killed while it waits.

use std::fs;
use std::io::{BufRead as _, BufReader, Lines};
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::demo::skillrun;
use crate::guest_toolchains::python;
use crate::process::{root, run, say};

/// The skill.
pub(crate) const SKILL: &str = "triage";

const TICKET: &str = r#"{"id":"T-1","text":"Checkout is down for all customers"}"#;

/// With this the runner begins the line that says what it waits for: a command to type elsewhere.
const WAITING: &str = "waiting for: skillrun ";

/// A model that ends with this.
pub(crate) struct Model(Child);

impl Drop for Model {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _killed = self.0.kill();
        let _reaped = self.0.wait();
    }
}

/// Runs the skill in `home`, where it is installed.
pub(crate) fn show(home: &Path) -> Result<()> {
    let services = root().join("examples").join(SKILL);
    say("\n== Now with tools, a model and a person: a stand-in for a model, on this machine")?;
    let (_model, url) = start_model(&services.join("model.py"))?;
    say(&format!("  {url}"))?;

    say("\n== What the operator configures and grants")?;
    let config = config(&services.join("tickets.py"), home, &url);
    say(&config)?;
    fs::write(home.join("config.toml"), config).context("cannot write config.toml")?;

    say("\n== One process runs the skill, another approves what it asks for")?;
    let run_id = run_and_approve(home)?;

    say("\n== The ledger as a tree: what each step called, how long it took, what it cost")?;
    run(skillrun(home).args(["runs", "inspect", &run_id]))?;
    run(skillrun(home).args(["runs", "verify", &run_id]))?;

    say("\n== Another run is killed while it waits, and goes on from its ledger in a new process")?;
    kill_and_resume(home)
}

/// Starts the stand-in for a model and says where it listens.
pub(crate) fn start_model(script: &Path) -> Result<(Model, String)> {
    let mut process = Command::new(python())
        .arg(script)
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot start the model")?;
    let stdout = process.stdout.take();
    let model = Model(process);
    let mut url = String::new();
    let stdout = stdout.context("the model has no output")?;
    let mut stdout = BufReader::new(stdout);
    stdout
        .read_line(&mut url)
        .context("the model says nothing")?;
    Ok((model, url.trim().to_owned()))
}

/// What the operator configures for the skill.
pub(crate) fn config(tickets: &Path, home: &Path, url: &str) -> String {
    let python = python();
    let file = home.join("tickets.jsonl");
    format!(
        r#"[mcp_servers.tickets]
command = [{python:?}, {tickets:?}, {file:?}]

[model_providers.local]
api = "openai"
url = "{url}"
prices."small" = {{ input = 0.5, output = 1.5 }}

[model_aliases]
default = "local/small"

[skills.{SKILL}]
grant = ["tool:tickets__*", "llm:local/*", "approval"]
"#
    )
}

/// A run, and what it says.
struct Running {
    process: Child,
    said: Lines<BufReader<ChildStderr>>,
}

fn start(home: &Path) -> Result<Running> {
    let mut command = skillrun(home);
    command.args(["run", SKILL, "--input", TICKET]);
    say(&format!("$ skillrun run {SKILL} --input '{TICKET}' &"))?;
    let mut process = command
        .stdin(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .context("cannot start skillrun")?;
    let stderr = process.stderr.take().context("skillrun says nothing")?;
    Ok(Running {
        process,
        said: BufReader::new(stderr).lines(),
    })
}

impl Running {
    /// Waits until the run asks for an approval, and gives the command that answers.
    fn asked(&mut self) -> Result<Vec<String>> {
        for line in &mut self.said {
            let line = line.context("cannot read what skillrun says")?;
            say(&line)?;
            if let Some(asked) = line.strip_prefix(WAITING) {
                return Ok(asked.split_whitespace().map(str::to_owned).collect());
            }
        }
        bail!("the run asked for no approval")
    }
}

fn approve(home: &Path, words: &[String]) -> Result<String> {
    let reason = ["--reason", "it is really down"];
    run(skillrun(home).args(words).args(reason))?;
    let run_id = words.get(2).context("the run says not which it is")?;
    Ok(run_id.clone())
}

/// Starts the run, reads what it says, and does what it waits for. Gives the id of the run.
fn run_and_approve(home: &Path) -> Result<String> {
    let mut running = start(home)?;
    let words = running.asked()?;
    let run_id = approve(home, &words)?;
    for line in running.said {
        say(&line.context("cannot read what skillrun says")?)?;
    }
    let status = running.process.wait();
    let status = status.context("cannot wait for skillrun")?;
    if !status.success() {
        bail!("the run ended with {status}");
    }
    Ok(run_id)
}

/// Kills the process of a run while it waits, approves it all the same, and goes on with it from its
/// ledger.
fn kill_and_resume(home: &Path) -> Result<()> {
    let mut running = start(home)?;
    let words = running.asked()?;
    say("$ kill -9 %1")?;
    running.process.kill().context("cannot kill skillrun")?;
    running.process.wait().context("cannot wait for skillrun")?;
    let run_id = approve(home, &words)?;
    run(skillrun(home).args(["runs", "resume", &run_id]))?;
    run(skillrun(home).args(["runs", "tail", &run_id]))?;

    say("\n== Done once more from its record alone: the same, and nothing is called")?;
    run(skillrun(home).args(["runs", "replay", &run_id]))
}
