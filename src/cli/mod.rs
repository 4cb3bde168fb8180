//! The command line: raw arguments, a validated plan, the run, an exit code.
//!
//! Data goes to standard output and everything else to standard error. A reader that goes away is no
//! failure. What went wrong is said once, with its causes and what to do about it.

mod args;
mod assemble;
mod commands;
#[cfg(feature = "server")]
mod daemon;
mod display;
mod exit;
mod input;
mod kit;
mod live;
mod printer;
mod questions;
mod skill_source;
mod table;
mod timeline;
mod tree;

use std::process::ExitCode;

use anyhow::Context;
use clap::Parser;

use self::args::{Cli, Command};
use self::exit::Exit;
use self::printer::Printer;
use crate::config::Config;
use crate::telemetry;

/// Runs the command line of this process and gives its exit code: 0 done, 1 the skill failed, 2 usage,
/// 3 denied, 4 a limit, 5 not found, 130 cancelled or interrupted.
pub fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return exit::refuse(&error, Printer::new(asks_for_json())).into(),
    };
    telemetry::init();
    let printer = Printer::new(cli.json);
    let exit = execute(cli, printer).unwrap_or_else(|error| exit::report(&error, printer));
    exit.into()
}

/// Whether a command line that could not be parsed has `--json` in it.
fn asks_for_json() -> bool {
    let mut options = std::env::args_os().take_while(|argument| argument != "--");
    options.any(|argument| argument == "--json")
}

fn execute(cli: Cli, printer: Printer) -> anyhow::Result<Exit> {
    if let Command::Completions { shell } = cli.command {
        return commands::completions::completions(shell, printer);
    }
    let home = match cli.home {
        Some(home) => home,
        None => Config::home_from_env()?,
    };
    if let Command::Config(command) = cli.command {
        return commands::config::config(&command, &home, printer);
    }
    if let Command::New(args) = &cli.command {
        return commands::kit::new(args, printer);
    }
    let config = Config::load(&home)?;
    // Before there are other threads, since it takes variables out of the environment.
    #[cfg(feature = "server")]
    let inherited = commands::serve::Inherited::from_env();
    let mut runtime = if cli.command.carries_much_out() {
        crate::runner::runtime_builder()
    } else {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        runtime.enable_all();
        runtime
    };
    let runtime = runtime.build().context("cannot start the runtime")?;
    let exit = runtime.block_on(async {
        match cli.command {
            Command::Run(args) => commands::run::run(args, &config, printer).await,
            Command::Runs(command) => commands::runs::runs(command, &config, printer).await,
            Command::Agent(command) => commands::agent::agent(command, &config, printer).await,
            Command::Skills(command) => commands::skills::skills(command, &config, printer).await,
            #[cfg(feature = "server")]
            Command::Serve(args) => commands::serve::serve(args, inherited, config, printer).await,
            #[cfg(feature = "mcp")]
            Command::Mcp => commands::mcp::mcp(config, printer).await,
            Command::New(args) => commands::kit::new(&args, printer),
            Command::Build(args) => commands::kit::build(&args, &config, printer).await,
            Command::Test(args) => commands::kit::test(&args, &config, printer).await,
            Command::Config(command) => commands::config::config(&command, &home, printer),
            Command::AgentWorker => commands::worker::worker(config).await,
            Command::Completions { shell } => commands::completions::completions(shell, printer),
        }
    });
    // What is on record is durable by now. A compilation that nobody waits for any more may still be
    // going on, and it cannot be stopped.
    runtime.shutdown_background();
    exit
}
