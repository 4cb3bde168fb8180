//! `skillrun agent list` and `skillrun agent show`.

use super::document::{ExecutionDocument, PageDocument};
use super::recorded;
use crate::cli::args::ListExecutionsArgs;
use crate::cli::display::{message, shown};
use crate::cli::exit::{Exit, Refused};
use crate::cli::printer::Printer;
use crate::config::Config;
use crate::id::ExecutionId;
use crate::runtime::{ExecutionFilter, LIST_EXECUTIONS_MAX, Runtime as _};

pub(super) async fn list(
    args: ListExecutionsArgs,
    config: &Config,
    printer: Printer,
) -> anyhow::Result<Exit> {
    if !(1..=LIST_EXECUTIONS_MAX).contains(&args.limit) {
        let refused = format!(
            "--limit is {}: expected 1 to {LIST_EXECUTIONS_MAX}",
            args.limit
        );
        return Err(Refused::usage(refused).into());
    }
    let filter = ExecutionFilter {
        session_id: args.session,
        status: args.status.map(|status| status.status()),
        parent: args.parent,
        after: args.cursor,
        limit: args.limit,
    };
    let page = page(filter, config).await?;
    if printer.json() {
        printer.value(&page)?;
        return Ok(Exit::Ok);
    }
    let rows: Vec<Vec<String>> = page.executions.iter().map(row).collect();
    if rows.is_empty() {
        printer.note("no such executions");
    } else {
        let header = ["EXECUTION", "STATUS", "AGENT", "STARTED", "SESSION"];
        printer.table(&header, &rows)?;
    }
    if let Some(next) = &page.next_cursor {
        printer.note(&format!("there may be more: --cursor {next}"));
    }
    Ok(Exit::Ok)
}

fn row(execution: &ExecutionDocument) -> Vec<String> {
    vec![
        execution.id.to_string(),
        execution.status.to_string(),
        shown(&execution.agent_profile_id),
        execution.started_at.to_string(),
        shown(&execution.session_id),
    ]
}

async fn page(filter: ExecutionFilter, config: &Config) -> anyhow::Result<PageDocument> {
    #[cfg(feature = "server")]
    if let Some(daemon) = crate::cli::daemon::DaemonRecord::of(&config.home) {
        return super::remote::page(&filter, &daemon).await;
    }
    let page = recorded::runtime(config)?.list_executions(filter).await?;
    Ok(page.into())
}

/// An execution, as the daemon has it, or as its ledger does.
///
/// # Errors
/// There is none, or it cannot be read.
pub(super) async fn find(id: &ExecutionId, config: &Config) -> anyhow::Result<ExecutionDocument> {
    #[cfg(feature = "server")]
    if let Some(daemon) = crate::cli::daemon::DaemonRecord::of(&config.home) {
        return super::remote::execution(id, &daemon).await;
    }
    let runtime = recorded::runtime(config)?;
    let execution = runtime.get_execution(&id.to_string()).await;
    match execution {
        Err(crate::runtime::RuntimeError::NotFound { .. }) => {
            let refused = Refused::not_found(format!("there is no execution {id}"));
            let hint = "skillrun agent list shows the executions there are";
            Err(refused.with_hint(hint).into())
        }
        execution => Ok(execution?.into()),
    }
}

pub(super) async fn show(
    id: &ExecutionId,
    config: &Config,
    printer: Printer,
) -> anyhow::Result<Exit> {
    let execution = find(id, config).await?;
    if printer.json() {
        printer.value(&execution)?;
        return Ok(Exit::Ok);
    }
    let metadata = serde_json::Value::Object(execution.metadata.clone());
    let lines = [
        ("execution", Some(execution.id.to_string())),
        ("status", Some(execution.status.to_string())),
        ("agent", Some(execution.agent_profile_id)),
        ("backend", Some(execution.executor_id)),
        ("session", Some(execution.session_id)),
        ("task", execution.task_id),
        ("mode", Some(execution.mcp_mode)),
        ("workspace", execution.workspace_path),
        ("repository", execution.repository_id),
        (
            "launched by",
            execution.parent_execution_id.map(|id| id.to_string()),
        ),
        ("started", Some(execution.started_at.to_string())),
        ("ended", execution.finished_at.map(|at| at.to_string())),
        ("prompts", Some(execution.prompt_generation.to_string())),
        (
            "waiting",
            Some(execution.prompts_queued.to_string()).filter(|_| execution.prompts_queued > 0),
        ),
        (
            "outcome",
            execution.code.map(|code| code.as_str().to_owned()),
        ),
        (
            "exit code",
            execution.exit_code.map(|code| code.to_string()),
        ),
        ("stopped", execution.stop_reason),
        ("error", execution.error_message),
        ("ledger", Some(execution.prior_session.to_string())),
        (
            "url",
            Some(execution.agentctl_url).filter(|url| !url.is_empty()),
        ),
        (
            "metadata",
            Some(metadata.to_string()).filter(|_| !execution.metadata.is_empty()),
        ),
    ];
    for (label, value) in lines {
        if let Some(value) = value {
            printer.line(&message(&format!("{label:<12} "), &value))?;
        }
    }
    Ok(Exit::Ok)
}
