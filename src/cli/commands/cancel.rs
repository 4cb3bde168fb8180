//! `skillrun runs cancel`.

use crate::cli::display::message;
use crate::cli::exit::{Exit, Refused};
use crate::cli::printer::Printer;
use crate::config::Config;
use crate::id::RunId;
use crate::ledger::{RunState, RunStatus, Store, Summary};

/// Asks whoever carries a run out to cancel it.
pub(crate) async fn cancel(
    run_id: &RunId,
    config: &Config,
    store: &Store,
    printer: Printer,
) -> anyhow::Result<Exit> {
    let run = store.summary(run_id)?;
    // A run inside another is carried out by whoever has that one, and a suspended one has no writer.
    #[cfg(feature = "server")]
    if can_be_cancelled(&run)
        && let Some(daemon) = crate::cli::daemon::DaemonRecord::of(&config.home)
        && asked(run_id, &daemon).await?
    {
        if printer.json() {
            printer.value(&serde_json::json!({ "run_id": run_id, "status": "cancelling" }))?;
        } else {
            printer.line(&message("", &format!("{run_id}: cancelling")))?;
        }
        return Ok(Exit::Ok);
    }
    #[cfg(not(feature = "server"))]
    let _ = config;
    Err(refused(&run).into())
}

/// Whether a run may still go on somewhere.
fn can_be_cancelled(run: &Summary) -> bool {
    match run.state {
        RunState::Running => true,
        RunState::Ended(status) => status.is_resumable(),
        RunState::Corrupt => false,
    }
}

/// Whether the daemon has the run, and cancels it.
#[cfg(feature = "server")]
async fn asked(run_id: &RunId, daemon: &crate::cli::daemon::DaemonRecord) -> anyhow::Result<bool> {
    let path = format!("/api/agent/runs/{run_id}/cancel");
    let answer = daemon.post(&path).await?;
    match answer.status {
        202 => Ok(true),
        // It has the run no more, or never had it.
        404 | 409 => Ok(false),
        status => {
            let detail = answer.detail().unwrap_or_default();
            let refused = format!(
                "the daemon, process {}, answers {status}: {detail}",
                daemon.pid
            );
            Err(Refused::conflict(refused).into())
        }
    }
}

/// Why nobody can be asked, and what can be done instead.
fn refused(run: &Summary) -> Refused {
    let run_id = &run.run_id;
    match (run.state, run.writer_pid) {
        (RunState::Running, Some(pid)) => Refused::conflict(format!(
            "process {pid} carries out {run_id}, and is no daemon"
        ))
        .with_hint(format!(
            "Ctrl-C there cancels it, and so does kill -INT {pid}"
        )),
        (RunState::Running, None) => {
            Refused::conflict(format!("{run_id} was cut off, and nobody carries it out"))
                .with_hint("skillrun runs recover closes it as interrupted")
        }
        (RunState::Ended(status @ (RunStatus::Suspended | RunStatus::Interrupted)), _) => {
            let status = status.as_str();
            Refused::conflict(format!("{run_id} is {status}, and no daemon waits for it"))
                .with_hint("it goes on only when it is resumed")
        }
        (RunState::Ended(status), _) => {
            let status = status.as_str();
            Refused::conflict(format!("{run_id} has ended: its status is {status}"))
        }
        (RunState::Corrupt, _) => Refused::conflict(format!("the ledger of {run_id} is damaged"))
            .with_hint(format!("skillrun runs verify {run_id} says where")),
    }
}
