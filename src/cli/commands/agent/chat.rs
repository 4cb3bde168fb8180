//! `skillrun agent chat`: talking with an agent in a terminal.
//!
//! Where the home has a daemon, that carries the agent out; otherwise this process does. Everything that an agent
//! says is indented, so that it never looks like a line of ours.

mod again;
mod conversation;
mod line;
mod link;
mod screen;
mod typed;

use self::again::Again;
use self::conversation::Conversation;
use self::link::Link;
use crate::cli::args::ChatArgs;
use crate::cli::exit::Exit;
use crate::cli::printer::Printer;
use crate::config::Config;

pub(super) async fn chat(
    args: ChatArgs,
    config: &Config,
    printer: Printer,
) -> anyhow::Result<Exit> {
    let again = Again::of(&args);
    let (link, opened) = Link::open(args, config).await?;
    let conversation = Conversation::begin(link.clone(), opened, printer)?;
    let left = conversation.talk().await;
    // However it ended, what goes on in this process has its end on record before the process goes.
    link.close().await;
    let left = left?;
    if let Some(how) = left.taken_up_by(&again, &link) {
        printer.note(&how);
    }
    Ok(left.exit)
}
