//! The arguments of `skillrun agent`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use super::parse_grant;
use crate::capability::Capability;
use crate::id::{ExecutionId, RunId};
use crate::ledger::Cursor;
use crate::runtime::{ExecutionStatus, Mode};

#[derive(Debug, Subcommand)]
pub(crate) enum AgentCommand {
    /// Talk with an agent, in this terminal.
    Chat(ChatArgs),
    /// Launch an agent in the daemon of this home, and print the id of its execution.
    Launch(LaunchArgs),
    /// Send a prompt to an execution, and print the answer as it comes.
    Prompt(PromptArgs),
    /// Cancel the turn of an execution that goes on; it takes the next prompt.
    Cancel {
        /// The execution.
        id: ExecutionId,
    },
    /// Stop an execution, and those that it launched.
    Stop {
        /// The execution.
        id: ExecutionId,

        /// Why, for the record.
        #[arg(
            long,
            value_name = "TEXT",
            default_value = "stopped at the command line"
        )]
        reason: String,

        /// Stop those that it launched, and let it go on itself.
        #[arg(long)]
        children: bool,
    },
    /// List executions, those of the newest session first.
    List(ListExecutionsArgs),
    /// Show one execution: what it does, or how it ended.
    Show {
        /// The execution.
        id: ExecutionId,
    },
    /// Print what happens in an execution.
    Events(EventsArgs),
    /// Give an execution the tools of another mode.
    Mode {
        /// The execution.
        id: ExecutionId,

        /// The mode.
        mode: ToolMode,
    },
}

/// Which tools an agent has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ToolMode {
    /// Running skills, and children of its own.
    Task,
    /// Looking after skills and limits.
    Config,
    /// Plans, documents and decisions.
    Office,
}

impl ToolMode {
    /// The mode as the runtime knows it.
    pub(crate) fn mode(self) -> Mode {
        match self {
            Self::Task => Mode::Task,
            Self::Config => Mode::Config,
            Self::Office => Mode::Office,
        }
    }
}

/// The ledger that an execution goes on with: a run, or any execution that it was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Prior(pub(crate) RunId);

fn parse_prior(text: &str) -> Result<Prior, String> {
    if let Ok(id) = text.parse::<ExecutionId>() {
        return Ok(Prior(id.run_id().clone()));
    }
    let run_id = text.parse();
    run_id.map(Prior).map_err(|_| {
        "expected run_ and 32 hexadecimal digits, or the id of an execution".to_owned()
    })
}

/// Which folder an agent works in.
#[derive(Debug, Args)]
pub(crate) struct WorkspaceArgs {
    /// The folder that the agent works in, if its manifest asks for one; it finds it at /workspace. Of a daemon
    /// it has to be below one of runtime.workspaces.
    #[arg(long, value_name = "FOLDER", conflicts_with = "ephemeral")]
    pub(crate) workspace: Option<PathBuf>,

    /// Let it work in a folder of its own, which goes when it ends.
    #[arg(long)]
    pub(crate) ephemeral: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ChatArgs {
    /// The agent: the name of an installed skill, a skill's folder or a .wasm file; or the id of an execution
    /// that the daemon has, to talk with it again.
    #[arg(value_name = "SKILL|EXECUTION")]
    pub(crate) agent: String,

    /// Go on with what was said before, of a chat that was left or cut off.
    #[arg(long, value_name = "RUN|EXECUTION", value_parser = parse_prior)]
    pub(crate) prior_session: Option<Prior>,

    /// Make calls again whose answers are not on record, although they may have done their work. An answer of a
    /// model that broke off is not asked for again: its turn ends with what there is of it.
    #[arg(long, requires = "prior_session")]
    pub(crate) retry_ambiguous: bool,

    /// The tools that it has at the start [default: task].
    #[arg(long)]
    pub(crate) mode: Option<ToolMode>,

    #[command(flatten)]
    pub(crate) workspace: WorkspaceArgs,

    /// Grant a capability to this execution, such as llm:local/small; may be given several times. Not with a daemon,
    /// whose grants are those of config.toml.
    #[arg(long, value_name = "CAPABILITY", value_parser = parse_grant)]
    pub(crate) grant: Vec<Capability>,

    /// The model to talk with, for an agent that asks which, such as chat.
    #[arg(long, value_name = "MODEL")]
    pub(crate) model: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct LaunchArgs {
    /// The agent: the name of an installed skill.
    pub(crate) skill: String,

    /// The first prompt: as text, as @FILE, or - for standard input.
    #[arg(long, value_name = "TEXT|@FILE|-")]
    pub(crate) prompt: Option<String>,

    /// The session that it serves; a session has one execution at a time [default: one of its own].
    #[arg(long, value_name = "ID")]
    pub(crate) session: Option<String>,

    /// Go on with what was said before, of an execution that was interrupted.
    #[arg(long, value_name = "RUN|EXECUTION", value_parser = parse_prior)]
    pub(crate) prior_session: Option<Prior>,

    /// Make calls again whose answers are not on record, although they may have done their work.
    #[arg(long, requires = "prior_session")]
    pub(crate) retry_ambiguous: bool,

    /// The tools that it has at the start [default: task].
    #[arg(long)]
    pub(crate) mode: Option<ToolMode>,

    /// Who carries it out [default: as runtime.default_backend says].
    #[arg(long, value_name = "NAME")]
    pub(crate) backend: Option<String>,

    #[command(flatten)]
    pub(crate) workspace: WorkspaceArgs,

    /// What the agent is told about the launch: a JSON object, as text, as @FILE, or - for standard input.
    #[arg(long, value_name = "JSON|@FILE|-")]
    pub(crate) metadata: Option<String>,

    /// Wait until the agent has started and, with --prompt, print its answer as it comes.
    #[arg(long)]
    pub(crate) wait: bool,
}

#[derive(Debug, Args)]
pub(crate) struct PromptArgs {
    /// The execution.
    pub(crate) id: ExecutionId,

    /// The prompt: as text, as @FILE, or - for standard input.
    #[arg(value_name = "TEXT|@FILE|-")]
    pub(crate) prompt: String,

    /// Do not wait for the answer.
    #[arg(long)]
    pub(crate) no_wait: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ListExecutionsArgs {
    /// Only executions in this state.
    #[arg(long)]
    pub(crate) status: Option<ExecutionState>,

    /// Only executions of this session.
    #[arg(long, value_name = "ID")]
    pub(crate) session: Option<String>,

    /// Only executions that this one launched.
    #[arg(long, value_name = "ID")]
    pub(crate) parent: Option<ExecutionId>,

    /// How many are looked at, at most 200; of these those are shown that the other conditions let pass.
    #[arg(
        long,
        value_name = "N",
        default_value_t = 50,
        allow_negative_numbers = true
    )]
    pub(crate) limit: usize,

    /// Only executions after the last one of an earlier list, which named this cursor.
    #[arg(long, value_name = "CURSOR")]
    pub(crate) cursor: Option<Cursor>,
}

/// What an execution does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ExecutionState {
    /// Its agent starts.
    Starting,
    /// Its agent waits for a prompt.
    Ready,
    /// A turn goes on.
    Running,
    /// Its agent ended by itself.
    Completed,
    /// Its agent trapped, met a limit, or the host failed.
    Failed,
    /// Somebody stopped it, or its process came to an end.
    Stopped,
}

impl ExecutionState {
    /// The state as the runtime knows it.
    pub(crate) fn status(self) -> ExecutionStatus {
        match self {
            Self::Starting => ExecutionStatus::Starting,
            Self::Ready => ExecutionStatus::Ready,
            Self::Running => ExecutionStatus::Running,
            Self::Completed => ExecutionStatus::Completed,
            Self::Failed => ExecutionStatus::Failed,
            Self::Stopped => ExecutionStatus::Stopped,
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct EventsArgs {
    /// The execution.
    pub(crate) id: ExecutionId,

    /// Only events behind the one of this number.
    #[arg(long, value_name = "N")]
    pub(crate) after: Option<u64>,

    /// Go on with what happens from now on, until the execution ends.
    #[arg(long)]
    pub(crate) follow: bool,
}

#[cfg(test)]
mod tests {
    use super::parse_prior;

    #[test]
    fn a_ledger_is_named_by_its_run_or_by_any_execution_that_it_was() {
        let digits = "0190a0a0a0a07000800000000000abcd";
        for good in [format!("run_{digits}"), format!("exec_{digits}_3")] {
            let prior = parse_prior(&good).unwrap();
            assert_eq!(prior.0.as_str(), format!("run_{digits}"));
        }
        for bad in ["", "chat", "exec_", "run_1"] {
            assert!(parse_prior(bad).is_err(), "{bad}");
        }
    }
}
