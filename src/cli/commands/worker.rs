//! `skillrun agent-worker`: one execution of an agent, for the daemon that started this process.

use std::time::Duration;

use rustix::process::{Signal, getpgrp, getpid, kill_process_group};

use crate::cli::assemble::{builder, refused};
use crate::cli::exit::Exit;
use crate::config::{Config, McpEndpoint};
use crate::runtime::{WorkerError, WorkerProgram, work};
use crate::telemetry::chain;

/// How long the execution and its servers have to end when the daemon is gone. Protects the machine from workers that
/// nobody knows of.
const ABANDONED_TIME_MAX: Duration = Duration::from_secs(10);

/// Carries out the execution that standard input tells of. Standard output is for whoever started this.
pub(crate) async fn worker(mut config: Config) -> anyhow::Result<Exit> {
    // The pool has to have room for this one, and for what it hands on.
    config.runtime.executions_max = 1;
    // The daemon kills this process with its group, and no server may live on after that.
    for server in config.mcp_servers.values_mut() {
        if let McpEndpoint::Process(process) = &mut server.endpoint {
            process.joins_group = true;
        }
    }
    let documents_dir = config.documents_dir();
    let host = builder(config).build().map_err(refused)?;
    let (input, output) = (tokio::io::stdin(), tokio::io::stdout());
    let worked = work(host.runner().clone(), documents_dir, input, output).await;
    let ended = tokio::time::timeout(ABANDONED_TIME_MAX, host.shutdown()).await;
    match worked {
        Ok(()) => {}
        Err(error @ (WorkerError::NoLaunch | WorkerError::Tools(_))) => return Err(error.into()),
        Err(error) => {
            let is_in_time = ended.is_ok();
            tracing::error!(
                error = chain(&error),
                is_in_time,
                "the execution is given up"
            );
            end_group();
        }
    }
    Ok(Exit::Ok)
}

/// Ends this process and whatever is left of its servers, if it leads a group: that is of the daemon's making then,
/// which is not there any more to do it.
fn end_group() {
    if getpgrp() == getpid() {
        // It does not return.
        let _gone = kill_process_group(getpgrp(), Signal::KILL);
    }
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
