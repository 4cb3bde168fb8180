//! What a developer of skillrun types: `cargo xtask test`, `cargo xtask demo`.
//!
//! Every step says what it is about to do before it does it, and the first one that fails ends the
//! command with its exit code. Nothing is installed outside `target/`, except the wasm32-wasip2
//! target, which cargo looks for in the toolchain, and Debian packages that are missing.

mod agent_demo;
mod checks;
mod daemon_demo;
mod demo;
mod faults;
mod guest_toolchains;
mod guests;
mod mcp_demo;
mod process;
mod screenshots;
mod triage_demo;
mod wasm_target;

use std::process::ExitCode;

use anyhow::{Context, Result};

use crate::checks::Step;
use crate::faults::Scale;

const USAGE: &str = include_str!("usage.txt");

/// One validated command line.
#[derive(Debug, PartialEq, Eq)]
enum Task {
    Setup,
    Test(Option<Step>),
    Demo,
    Faults(Scale),
    Resume { kills: usize },
    Screenshots,
    Help,
}

impl Task {
    fn parse(arguments: &[&str]) -> Result<Self> {
        match arguments {
            ["setup"] => Ok(Self::Setup),
            ["test"] => Ok(Self::Test(None)),
            ["test", "--only", step] => Ok(Self::Test(Some(Step::parse(step)?))),
            ["demo"] => Ok(Self::Demo),
            ["faults"] => Ok(Self::Faults(Scale::Full)),
            ["faults", "--quick"] => Ok(Self::Faults(Scale::Quick)),
            ["faults", "resume"] => Ok(Self::Resume {
                kills: faults::RESUME_KILLS,
            }),
            ["faults", "resume", kills] => Ok(Self::Resume {
                kills: kills.parse().context("the number of kills is no number")?,
            }),
            ["screenshots"] => Ok(Self::Screenshots),
            ["help" | "--help" | "-h"] | [] => Ok(Self::Help),
            other => anyhow::bail!("unknown command {:?}\n\n{USAGE}", other.join(" ")),
        }
    }

    fn run(self) -> Result<()> {
        match self {
            Self::Setup => checks::setup(),
            Self::Test(Some(step)) => step.run(),
            Self::Test(None) => checks::run_all(),
            Self::Demo => demo::show(),
            Self::Faults(scale) => faults::run_all(scale),
            Self::Resume { kills } => faults::run_resume(kills),
            Self::Screenshots => screenshots::make(),
            Self::Help => process::say(USAGE.trim_end()),
        }
    }
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = Task::parse(&arguments).and_then(|task| {
        std::env::set_current_dir(process::root()).context("cannot enter the checkout")?;
        task.run()
    });
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            process::complain(&format!("error: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Step, Task, USAGE};

    #[test]
    fn every_command_in_the_usage_text_is_accepted() {
        let commands: Vec<&str> = USAGE
            .lines()
            .skip_while(|line| *line != "Commands:")
            .filter_map(|line| line.strip_prefix("  "))
            .filter_map(|line| line.split_once("  ").map(|(command, _)| command))
            .filter(|command| !command.is_empty())
            .collect();
        assert_eq!(
            commands,
            [
                "setup",
                "test",
                "test --only STEP",
                "demo",
                "faults",
                "faults --quick",
                "faults resume",
                "faults resume N",
                "screenshots",
                "help"
            ]
        );
        for command in commands {
            let words: Vec<&str> = command.split(' ').collect();
            let words: Vec<&str> = words
                .iter()
                .map(|&word| match word {
                    "STEP" => "format",
                    "N" => "20",
                    word => word,
                })
                .collect();
            assert!(Task::parse(&words).is_ok(), "{command}");
        }
    }

    #[test]
    fn the_usage_text_names_every_step() {
        for (name, step) in Step::ALL {
            assert!(USAGE.contains(name));
            assert_eq!(
                Task::parse(&["test", "--only", name]).unwrap(),
                Task::Test(Some(step))
            );
        }
    }

    #[test]
    fn anything_else_is_refused() {
        for words in [
            &["tset"][..],
            &["test", "--only"],
            &["test", "--only", "x"],
            &["demo", "x"],
            &["faults", "resume", "x"],
        ] {
            assert!(Task::parse(words).is_err(), "{words:?}");
        }
    }
}
