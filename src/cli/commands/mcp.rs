//! `skillrun mcp`: an MCP server for whoever started this process.

use tokio::signal::unix::{SignalKind, signal};

use crate::cli::assemble::{builder, refused, tell_of_skills};
use crate::cli::exit::Exit;
use crate::cli::printer::Printer;
use crate::config::Config;
use crate::mcp::Mcp;

/// Serves until standard input ends, or the process is told to. Standard output is for the client alone.
pub(crate) async fn mcp(config: Config, printer: Printer) -> anyhow::Result<Exit> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let host = builder(config).watch_skills().build().map_err(refused)?;
    tell_of_skills(&host, printer);
    let server = Mcp::new(host.clone())?;
    let served = tokio::select! {
        served = server.serve_stdio(tokio::io::stdin(), tokio::io::stdout()) => served,
        _ = terminate.recv() => Ok(()),
        _ = interrupt.recv() => Ok(()),
    };
    host.shutdown().await;
    served?;
    Ok(Exit::Ok)
}
