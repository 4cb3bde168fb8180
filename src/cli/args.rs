//! Raw arguments, as clap reads them. Their help texts are the manual.

mod agent;

use std::path::PathBuf;

use clap::{ArgGroup, Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;

pub(crate) use self::agent::{
    AgentCommand, ChatArgs, EventsArgs, LaunchArgs, ListExecutionsArgs, Prior, PromptArgs,
    ToolMode, WorkspaceArgs,
};
use super::kit::Language;
use crate::capability::{Capability, SkillName};
use crate::config::ApprovalPolicy;
use crate::id::RunId;
use crate::ledger::{Cursor, RunState, RunStatus};

/// Runs other people's skills in a WebAssembly sandbox, with every call on the record.
#[derive(Debug, Parser)]
#[command(
    name = "skillrun",
    version,
    propagate_version = true,
    max_term_width = 100
)]
pub(crate) struct Cli {
    /// Print one JSON document, or one JSON value a line for a stream, instead of text.
    #[arg(long, global = true)]
    pub(crate) json: bool,

    /// The home folder, holding config.toml, skills/ and runs/ [default: $SKILLRUN_HOME, else ~/.skillrun].
    #[arg(long, global = true, value_name = "FOLDER")]
    pub(crate) home: Option<PathBuf>,

    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a skill and print its result.
    Run(RunArgs),
    /// List and read the ledgers of runs.
    #[command(subcommand)]
    Runs(RunsCommand),
    /// Install, list, check and remove skills.
    #[command(subcommand)]
    Skills(SkillsCommand),
    /// Launch, prompt, watch and stop agents, which live on between prompts; or talk with one.
    #[command(subcommand)]
    Agent(AgentCommand),
    /// Take runs over HTTP until told to stop.
    #[cfg(feature = "server")]
    Serve(ServeArgs),
    /// Be an MCP server on standard input and output: the skills are the tools of whoever starts this.
    #[cfg(feature = "mcp")]
    Mcp,
    /// Make a project for a new skill, with an SDK, tests and all that it takes to build it.
    New(NewArgs),
    /// Build the skill of a project into its folder dist, and check it.
    Build(BuildArgs),
    /// Run the cases in a project's folder tests, with mocks for tools, models, people and other skills.
    Test(TestArgs),
    /// Show and check the configuration.
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Carry out one execution of an agent, as told on standard input. A daemon starts this by itself.
    #[command(hide = true)]
    AgentWorker,
    /// Print a completion script for a shell.
    Completions {
        /// The shell.
        shell: Shell,
    },
}

impl Command {
    /// Whether it carries out what others ask for, on more than one thread.
    pub(crate) fn carries_much_out(&self) -> bool {
        match self {
            #[cfg(feature = "server")]
            Self::Serve(_) => true,
            #[cfg(feature = "mcp")]
            Self::Mcp => true,
            Self::AgentWorker => true,
            _ => false,
        }
    }
}

#[cfg(feature = "server")]
#[derive(Debug, Args)]
pub(crate) struct ServeArgs {
    /// The address and port to listen on, instead of that of serve.listen; port 0 is any that is free.
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub(crate) listen: Option<std::net::SocketAddr>,

    /// Be an MCP server too, at /mcp, as mcp.serve in config.toml does.
    #[arg(long)]
    pub(crate) mcp: bool,
}

#[derive(Debug, Args)]
pub(crate) struct NewArgs {
    /// The name of the skill: 1 to 64 of a-z, 0-9 and single hyphens between them.
    pub(crate) name: SkillName,

    /// The language that it is written in.
    #[arg(long)]
    pub(crate) lang: Language,

    /// The folder in which the project's is made.
    #[arg(long, value_name = "FOLDER", default_value = ".")]
    pub(crate) dir: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct BuildArgs {
    /// The project.
    #[arg(default_value = ".")]
    pub(crate) dir: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct TestArgs {
    /// The project.
    #[arg(default_value = ".")]
    pub(crate) dir: PathBuf,

    /// Only cases with this text in their name, or in that of their file.
    #[arg(long, value_name = "TEXT")]
    pub(crate) filter: Option<String>,

    /// Test what is in dist as it is.
    #[arg(long)]
    pub(crate) no_build: bool,

    /// Keep the ledgers of the runs, and say where they are.
    #[arg(long)]
    pub(crate) keep: bool,

    /// Instead of the cases, do this run again with what is built: a run, or the path of a ledger or an
    /// export; may be given several times.
    #[arg(long, value_name = "RUN|FILE", conflicts_with_all = ["filter", "keep"])]
    pub(crate) from_run: Vec<String>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Print every setting with its value and where it came from.
    Show,
    /// Check config.toml and what it names: folders, variables, secrets and skills.
    Check,
}

#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// The name of an installed skill, a skill's folder, or a .wasm file.
    pub(crate) skill: String,

    /// The function to call, of a component that follows no world and exports several; NAME.FUNCTION
    /// for an installed skill is the same.
    #[arg(long, value_name = "FUNCTION")]
    pub(crate) function: Option<String>,

    /// The input, a JSON object: as text, as @FILE, or - for standard input.
    #[arg(long, value_name = "JSON|@FILE|-", default_value = "{}")]
    pub(crate) input: String,

    /// The id of the run, instead of a new one.
    #[arg(long, value_name = "ID")]
    pub(crate) run_id: Option<RunId>,

    /// Grant a capability to this run, such as fs:ro:/data=/data; may be given several times.
    #[arg(long, value_name = "CAPABILITY", value_parser = parse_grant)]
    pub(crate) grant: Vec<Capability>,

    /// How questions of the skill are answered [default: as approvals.policy says, else ask].
    #[arg(long, value_name = "POLICY")]
    pub(crate) approve: Option<Approve>,

    /// Print the result and errors only.
    #[arg(long, short)]
    pub(crate) quiet: bool,

    /// End the run after this time, such as 5s or 2m; sets limits.wall_time_ms for this run.
    #[arg(long, value_name = "TIME", value_parser = parse_duration, allow_hyphen_values = true)]
    pub(crate) timeout: Option<std::time::Duration>,
}

/// How questions of a skill are answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Approve {
    /// By a person: here, where there is a terminal, or with skillrun runs approve.
    Ask,
    /// With yes.
    Yes,
    /// With no.
    No,
}

impl Approve {
    /// The policy as the configuration knows it.
    pub(crate) fn policy(self) -> ApprovalPolicy {
        match self {
            Self::Ask => ApprovalPolicy::Ask,
            Self::Yes => ApprovalPolicy::Yes,
            Self::No => ApprovalPolicy::No,
        }
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum RunsCommand {
    /// List runs, the newest first.
    List(ListArgs),
    /// Show one run: how it began, what it did, how it ended.
    Inspect {
        /// The run.
        run_id: RunId,
    },
    /// Show what took how long in a run and those inside it, as the spans of its trace.
    Trace {
        /// The run.
        run_id: RunId,

        /// Let --json tell what was asked and answered too, each cut at 4 KiB.
        #[arg(long)]
        content: bool,
    },
    /// Print a run's events as they happen, until it ends.
    Tail {
        /// The run.
        run_id: RunId,
    },
    /// Say why a run ended as it did, and which setting would change that.
    Explain {
        /// The run.
        run_id: RunId,
    },
    /// Cancel a run that the daemon of this home carries out.
    Cancel {
        /// The run.
        run_id: RunId,
    },
    /// Answer a question that a run asks and waits for.
    Approve(ApproveArgs),
    /// Show the questions that runs wait for.
    Approvals {
        /// Only those of this run.
        run_id: Option<RunId>,
    },
    /// Check that a ledger is whole: numbering, chain, pairing, one end.
    Verify {
        /// The run, or the path of a ledger file.
        ledger: String,
    },
    /// Print a run's events with every large value in its place, one a line.
    Export {
        /// The run.
        run_id: RunId,

        /// Write them to this file, which must not exist yet.
        #[arg(long, short, value_name = "FILE")]
        output: Option<PathBuf>,
    },
    /// Go on with a run that was cut off, from its ledger; or begin a new one from a step of it.
    Resume(ResumeArgs),
    /// Do a run again from its record alone, and say whether the skill does the same. Nothing is called,
    /// sent or written.
    Replay(ReplayArgs),
    /// Close runs that were cut off, as interrupted; or go on with them.
    Recover {
        /// Go on with every run that was cut off, interrupted or suspended, as runs.on_restart says, and wait
        /// for their ends.
        #[arg(long)]
        resume: bool,
    },
    /// Remove runs that ended, by age, number or size.
    Prune(PruneArgs),
}

#[derive(Debug, Args)]
pub(crate) struct ResumeArgs {
    /// The run.
    pub(crate) run_id: RunId,

    /// Begin a new run, which repeats this one up to this step or call, such as step:draft#2 or tool#3, as
    /// skillrun runs inspect shows them.
    #[arg(long, value_name = "NODE")]
    pub(crate) from_node: Option<String>,

    /// Make calls again that may have done their work before the run was cut off.
    #[arg(long)]
    pub(crate) retry_ambiguous: bool,

    /// Where the skill is, when it is not installed under the name that the run has for it: a name, a
    /// skill's folder, or a .wasm file. The component has to be the same. What config.toml grants to the
    /// installed skill is not granted to one that is named by its path.
    #[arg(long, value_name = "SKILL")]
    pub(crate) skill: Option<String>,

    /// Grant a capability to this part of the run. What the run was granted before has to be granted again;
    /// may be given several times.
    #[arg(long, value_name = "CAPABILITY", value_parser = parse_grant)]
    pub(crate) grant: Vec<Capability>,

    /// How questions of the skill are answered [default: as approvals.policy says, else ask].
    #[arg(long, value_name = "POLICY")]
    pub(crate) approve: Option<Approve>,

    /// Print the result and errors only.
    #[arg(long, short)]
    pub(crate) quiet: bool,

    /// End this part of the run after this time, such as 5s or 2m.
    #[arg(long, value_name = "TIME", value_parser = parse_duration, allow_hyphen_values = true)]
    pub(crate) timeout: Option<std::time::Duration>,
}

#[derive(Debug, Args)]
pub(crate) struct ReplayArgs {
    /// The run, or the path of a ledger or an export.
    #[arg(value_name = "RUN|FILE")]
    pub(crate) record: String,

    /// Where the skill is, when it is not installed under the name that the run has for it: a name, a
    /// skill's folder, or a .wasm file. The component has to be the same.
    #[arg(long, value_name = "SKILL")]
    pub(crate) skill: Option<String>,

    /// Give the skill a folder again that it had, read-only, such as fs:ro:/data=/data; may be given several
    /// times.
    #[arg(long, value_name = "FOLDER", value_parser = parse_grant)]
    pub(crate) grant: Vec<Capability>,
}

#[derive(Debug, Args)]
pub(crate) struct ApproveArgs {
    /// The run.
    pub(crate) run_id: RunId,

    /// The question; need not be named where the run waits for one only.
    #[arg(long, value_name = "ID")]
    pub(crate) approval: Option<String>,

    /// What is decided.
    #[arg(long, value_name = "DECISION")]
    pub(crate) decision: Choice,

    /// Which of the choices, of a question that has some.
    #[arg(long, value_name = "ID")]
    pub(crate) option: Option<String>,

    /// Why, for the skill and for the record.
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: Option<String>,
}

/// What is decided about a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Choice {
    /// Yes.
    Approve,
    /// No.
    Reject,
}

#[derive(Debug, Args)]
#[command(group(ArgGroup::new("rule").args(["older_than", "keep", "max_bytes"]).required(true).multiple(true)))]
pub(crate) struct PruneArgs {
    /// Remove runs that ended longer ago than this, such as 30d or 12h.
    #[arg(long, value_name = "TIME", value_parser = parse_age)]
    pub(crate) older_than: Option<std::time::Duration>,

    /// Remove the oldest runs when there are more than so many.
    #[arg(long, value_name = "N")]
    pub(crate) keep: Option<usize>,

    /// Remove the oldest runs when the files of all are larger than so many bytes.
    #[arg(long, value_name = "N")]
    pub(crate) max_bytes: Option<u64>,

    /// Remove nothing and say what would go.
    #[arg(long)]
    pub(crate) dry_run: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    /// Only runs in this state.
    #[arg(long)]
    pub(crate) status: Option<StatusFilter>,

    /// Only runs of this skill.
    #[arg(long, value_name = "NAME")]
    pub(crate) skill: Option<String>,

    /// Only runs inside this one.
    #[arg(long, value_name = "ID")]
    pub(crate) parent: Option<RunId>,

    /// Only runs that started within this time, such as 1h.
    #[arg(long, value_name = "TIME", value_parser = parse_duration, allow_hyphen_values = true)]
    pub(crate) since: Option<std::time::Duration>,

    /// At most so many runs, and at most 10,000.
    #[arg(
        long,
        value_name = "N",
        default_value_t = 50,
        allow_negative_numbers = true
    )]
    pub(crate) limit: usize,

    /// Only runs after the last one of an earlier list, which named this cursor.
    #[arg(long, value_name = "CURSOR")]
    pub(crate) cursor: Option<Cursor>,
}

/// The states that a list can be filtered by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum StatusFilter {
    /// Going on, or cut off and not closed yet.
    Running,
    /// Ended with a result.
    Ok,
    /// Ended with an error.
    Error,
    /// Cancelled by its caller.
    Cancelled,
    /// Waiting, with its instance given up.
    Suspended,
    /// Stopped by a shutdown; can be resumed.
    Interrupted,
    /// Its ledger is damaged.
    Corrupt,
}

impl StatusFilter {
    /// The state as the ledger knows it.
    pub(crate) fn state(self) -> RunState {
        match self {
            Self::Running => RunState::Running,
            Self::Corrupt => RunState::Corrupt,
            Self::Ok => RunState::Ended(RunStatus::Ok),
            Self::Error => RunState::Ended(RunStatus::Error),
            Self::Cancelled => RunState::Ended(RunStatus::Cancelled),
            Self::Suspended => RunState::Ended(RunStatus::Suspended),
            Self::Interrupted => RunState::Ended(RunStatus::Interrupted),
        }
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum SkillsCommand {
    /// List the skills that are installed.
    List,
    /// Show one skill: what it says of itself, what it asks for and what it gets.
    Inspect {
        /// The name of an installed skill, a skill's folder, or a .wasm file.
        skill: String,
    },
    /// Check a skill's folder and report everything that is wrong with it.
    Validate {
        /// The name of an installed skill, a skill's folder, or a .wasm file.
        skill: String,
    },
    /// Install a skill, all of it or nothing, and pin it as it is.
    Install {
        /// A skill's folder, a .tar.gz, a .tgz or a .zip.
        source: PathBuf,

        /// Put it in the place of another one of that name that was accepted.
        #[arg(long)]
        accept: bool,
    },
    /// Show what was accepted of a skill, and how it differs now.
    Pin {
        /// The name of an installed skill.
        skill: String,

        /// Accept the skill as it is now.
        #[arg(long)]
        accept: bool,
    },
    /// Let a skill be run again.
    Enable {
        /// The name of an installed skill.
        skill: String,
    },
    /// Keep a skill and let nobody run it.
    Disable {
        /// The name of an installed skill.
        skill: String,
    },
    /// Remove a skill with its folder and all that was decided about it.
    Remove {
        /// The name of an installed skill.
        skill: String,
    },
}

/// A capability that can be given away.
fn parse_grant(text: &str) -> Result<Capability, String> {
    let capability: Capability = text.parse().map_err(|error| format!("{error}"))?;
    if capability.is_grantable() {
        Ok(capability)
    } else {
        Err("expected a folder in place of the *".to_owned())
    }
}

/// A time such as `5s`, `1h 30m` or `250ms`; at least a millisecond.
fn parse_duration(text: &str) -> Result<std::time::Duration, String> {
    let expected = || format!("expected a time of at least 1ms, such as 5s or 2m, got {text:?}");
    let duration: jiff::SignedDuration = text.parse().map_err(|_| expected())?;
    let duration = std::time::Duration::try_from(duration).map_err(|_| expected())?;
    if duration.as_millis() == 0 {
        return Err(expected());
    }
    Ok(duration)
}

/// As [`parse_duration`], and also whole days, such as `30d`.
fn parse_age(text: &str) -> Result<std::time::Duration, String> {
    const HOURS_PER_DAY: u64 = 24;
    let days = text
        .strip_suffix('d')
        .and_then(|days| days.parse::<u64>().ok());
    match days.and_then(|days| days.checked_mul(HOURS_PER_DAY)) {
        Some(hours) => parse_duration(&format!("{hours}h")),
        None => parse_duration(text),
    }
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, Parser};

    use super::{Cli, parse_age, parse_duration};

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn times_have_a_unit_and_are_not_negative() {
        for good in ["5s", "250ms", "1h30m", "2m"] {
            assert!(parse_duration(good).is_ok(), "{good}");
        }
        for bad in ["", "5", "-5s", "0s", "soon", "1ns"] {
            assert!(parse_duration(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn ages_may_be_given_in_days() {
        for (text, hours) in [("30d", 720), ("1d", 24), ("36h", 36)] {
            let expected = std::time::Duration::from_secs(hours * 3600);
            assert_eq!(parse_age(text), Ok(expected));
        }
        for bad in ["d", "-1d", "0d", "1.5d", "99999999999999999999d", "soon"] {
            assert!(parse_age(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn nothing_is_pruned_without_a_rule() {
        let parse =
            |words: &[&str]| Cli::try_parse_from([&["skillrun", "runs", "prune"], words].concat());
        assert!(parse(&[]).is_err());
        assert!(parse(&["--dry-run"]).is_err());
        assert!(parse(&["--keep", "5", "--older-than", "3d", "--dry-run"]).is_ok());
    }
}
