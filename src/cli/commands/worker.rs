//! `skillrun agent-worker`: one execution of an agent, for the daemon that started this process.

use std::sync::Arc;

use crate::assembly::Skillrun;
use crate::cli::assemble::refused;
use crate::cli::exit::Exit;
use crate::config::Config;
use crate::runtime::{NoModeTools, work};

/// Carries out the execution that standard input tells of. Standard output is for whoever started this.
pub(crate) async fn worker(config: Config) -> anyhow::Result<Exit> {
    let host = Skillrun::builder(config).build().map_err(refused)?;
    let (input, output) = (tokio::io::stdin(), tokio::io::stdout());
    let worked = work(host.runner().clone(), Arc::new(NoModeTools), input, output).await;
    // Nobody is left to whom what goes on could matter: the process ends, and with it all of that.
    worked?;
    host.shutdown().await;
    Ok(Exit::Ok)
}
