//! A home folder for runs that are killed: skills, configuration, a tool server that counts, a model.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::record::member;
use super::scenario::{Answers, SKILLS};
use super::wait::Looks;
use crate::guest_toolchains::python;
use crate::guests;
use crate::process::{root, run, succeeds};

/// When in a call the tool server kills the process that started it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Moment {
    Before,
    After,
}

/// Has `strace` delay each write by 2 ms, as the child of what it traces, which so stays ours to kill.
const SLOW: [&str; 9] = [
    "-D",
    "-f",
    "-qq",
    "--seccomp-bpf",
    "-o",
    "/dev/null",
    "--trace=write",
    "--inject=write:delay_exit=2000",
    "--",
];

/// How often each effect happened, by tool and arguments.
pub(super) type Effects = BTreeMap<String, usize>;

/// The home folder, and the file that effects go into.
pub(super) struct Place {
    folder: PathBuf,
    program: PathBuf,
    model_url: String,
    can_be_slow: bool,
}

impl Place {
    /// Makes the home in an empty folder and compiles the skills once.
    pub(super) fn new(folder: &Path, program: &Path, model_url: String) -> Result<Self> {
        let place = Self {
            folder: folder.to_owned(),
            program: program.to_owned(),
            model_url,
            can_be_slow: succeeds("strace", &[&SLOW[..], &["true"]].concat()),
        };
        for (skill, request) in SKILLS {
            let component = guests::build(skill)?;
            place.install(skill, &component, request)?;
        }
        place.configure(Answers::Rule, None)?;
        for (skill, _) in SKILLS {
            run(place
                .skillrun(&["skills", "inspect", skill])
                .stdout(Stdio::null()))?;
        }
        Ok(place)
    }

    fn install(&self, skill: &str, component: &Path, request: Option<&str>) -> Result<()> {
        let source = root().join("guest-skills").join(skill);
        let target = self.folder.join("skills").join(skill);
        fs::create_dir_all(&target).context("cannot make the home")?;
        fs::copy(component, target.join("skill.wasm")).context("cannot copy the component")?;
        fs::copy(source.join("SKILL.md"), target.join("SKILL.md")).context("cannot copy")?;
        let manifest = source.join("skill.toml");
        match request {
            Some(request) => {
                let text =
                    format!("[component]\nworld = \"0.1\"\n[capabilities]\nrequest = {request}\n");
                fs::write(target.join("skill.toml"), text).context("cannot write the manifest")
            }
            None if manifest.exists() => {
                fs::copy(manifest, target.join("skill.toml")).context("cannot copy")?;
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// Writes config.toml; with a moment, the tool server kills whoever starts it in that call of it.
    pub(super) fn configure(
        &self,
        answers: Answers,
        moment: Option<(Moment, usize)>,
    ) -> Result<()> {
        let script = root().join("tests/all/resume/counting.py");
        let (python, effects) = (python(), self.effects_file());
        let moment = moment.map_or(String::new(), |(moment, number)| {
            let moment = match moment {
                Moment::Before => "before",
                Moment::After => "after",
            };
            format!(r#", "{moment}", "{number}""#)
        });
        let url = &self.model_url;
        let text = format!(
            r#"[capabilities]
grant = ["tool:tickets__*", "llm:local/*", "approval", "skill:greet", "skill:fan-out", "skill:handoff"]
[approvals]
{}
[mcp_servers.tickets]
command = [{python:?}, "-I", "-S", {script:?}, {effects:?}{moment}]
[model_providers.local]
api = "openai"
url = "{url}"
prices."small" = {{ input = 0.5, output = 1.5 }}
[model_aliases]
default = "local/small"
"#,
            answers.config()
        );
        fs::write(self.folder.join("config.toml"), text).context("cannot write config.toml")
    }

    /// Forgets all runs and effects.
    pub(super) fn empty(&self) -> Result<()> {
        let runs = self.runs();
        if runs.exists() {
            fs::remove_dir_all(runs).context("cannot remove the ledgers")?;
        }
        File::create(self.effects_file()).context("cannot empty the file of effects")?;
        Ok(())
    }

    pub(super) fn runs(&self) -> PathBuf {
        self.folder.join("runs")
    }

    fn effects_file(&self) -> PathBuf {
        self.folder.join("effects")
    }

    /// A command on this home.
    pub(super) fn skillrun(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command
            .args(arguments)
            .env("SKILLRUN_HOME", &self.folder)
            .env_remove("SKILLRUN_LOG")
            .stdin(Stdio::null());
        command
    }

    /// Starts a command whose output goes into files, so that nobody has to read it while it works. When it
    /// is to be slow, each of its writes takes so long that whoever looks at the files sees every one.
    pub(super) fn start(&self, arguments: &[&str], is_slow: bool) -> Result<Child> {
        let file = |name| File::create(self.folder.join(name)).context("cannot make a file");
        let mut command = self.skillrun(arguments);
        if is_slow && self.can_be_slow {
            let mut slow = Command::new("strace");
            slow.args(SLOW).arg(&self.program).args(arguments);
            slow.env("SKILLRUN_HOME", &self.folder).stdin(Stdio::null());
            command = slow;
        }
        command.stdout(file("stdout")?).stderr(file("stderr")?);
        command.spawn().context("cannot start skillrun")
    }

    /// What the last command that was started wrote to standard output, as JSON.
    pub(super) fn printed(&self) -> Option<Value> {
        let text = fs::read(self.folder.join("stdout")).ok()?;
        serde_json::from_slice(&text).ok()
    }

    /// All that it wrote.
    pub(super) fn said(&self) -> String {
        let read = |name| fs::read(self.folder.join(name)).unwrap_or_default();
        let text = [read("stdout"), read("stderr")].concat();
        String::from_utf8_lossy(&text).trim().to_owned()
    }

    /// Counts the effects, once no tool server is left that could have one more.
    pub(super) fn effects(&self) -> Result<Effects> {
        let path = self.effects_file();
        let file = File::open(&path).context("cannot open the file of effects")?;
        let mut looks = Looks::new("the end of the tool servers");
        while file.try_lock().is_err() {
            looks.again()?;
        }
        let mut effects = Effects::new();
        for line in fs::read_to_string(&path)
            .context("cannot read effects")?
            .lines()
        {
            let effect: Value = serde_json::from_str(line).context("an effect is no JSON")?;
            let (Some(tool), arguments) = (
                member(&effect, "tool").as_str(),
                member(&effect, "arguments"),
            ) else {
                bail!("an effect has no tool: {line}");
            };
            *effects.entry(key(tool, arguments)).or_default() += 1;
        }
        Ok(effects)
    }
}

/// A tool and its arguments, in one spelling.
pub(super) fn key(tool: &str, arguments: &Value) -> String {
    let sorted: BTreeMap<&String, &Value> = arguments.as_object().into_iter().flatten().collect();
    let members: Vec<String> = sorted
        .iter()
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    format!("{tool} {}", members.join(" "))
}
