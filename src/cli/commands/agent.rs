//! `skillrun agent`: executions of agents.
//!
//! The daemon of the home carries them out, and is asked for whatever changes one. What is only shown comes from
//! the ledgers as well, without a daemon. A chat needs none either: it carries its agent out itself.

mod chat;
mod document;
mod event;
mod events;
mod list;
mod recorded;
#[cfg(feature = "server")]
mod remote;

use super::super::args::AgentCommand;
use crate::cli::exit::Exit;
use crate::cli::printer::Printer;
use crate::config::Config;

pub(crate) async fn agent(
    command: AgentCommand,
    config: &Config,
    printer: Printer,
) -> anyhow::Result<Exit> {
    match command {
        AgentCommand::Chat(args) => chat::chat(args, config, printer).await,
        AgentCommand::List(args) => list::list(args, config, printer).await,
        AgentCommand::Show { id } => list::show(&id, config, printer).await,
        AgentCommand::Events(args) => events::events(args, config, printer).await,
        #[cfg(feature = "server")]
        command => remote::remote(command, config, printer).await,
        #[cfg(not(feature = "server"))]
        _ => {
            let refused = "there is no daemon that could carry agents out: this program has none";
            let refused = crate::cli::exit::Refused::conflict(refused);
            Err(refused.with_hint("skillrun agent chat needs none").into())
        }
    }
}
