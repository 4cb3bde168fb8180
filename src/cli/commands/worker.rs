//! `skillrun agent-worker`: one execution of an agent, for the daemon that started this process.

use crate::cli::assemble::{builder, refused};
use crate::cli::exit::Exit;
use crate::config::Config;
use crate::runtime::{WorkerProgram, work};

/// Carries out the execution that standard input tells of. Standard output is for whoever started this.
pub(crate) async fn worker(mut config: Config) -> anyhow::Result<Exit> {
    // The pool has to have room for this one, and for what it hands on.
    config.runtime.executions_max = 1;
    let documents_dir = config.documents_dir();
    let host = builder(config).build().map_err(refused)?;
    let (input, output) = (tokio::io::stdin(), tokio::io::stdout());
    let worked = work(host.runner().clone(), documents_dir, input, output).await;
    // Nobody is left to whom what goes on could matter: the process ends, and with it all of that.
    worked?;
    host.shutdown().await;
    Ok(Exit::Ok)
}

/// This program as a worker on the same home.
pub(crate) fn program(config: &Config) -> std::io::Result<WorkerProgram> {
    Ok(WorkerProgram {
        program: std::env::current_exe()?,
        arguments: vec![
            "--home".into(),
            config.home.clone().into(),
            "agent-worker".into(),
        ],
        environment: Vec::new(),
    })
}
