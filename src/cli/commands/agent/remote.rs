//! What the daemon of the home is asked for.

mod launch;
mod prompt;

use std::path::Path;

use http::Method;
use serde_json::{Value, json};
use url::form_urlencoded::Serializer;

pub(super) use self::launch::{LaunchPlan, launched};
use super::document::{ExecutionDocument, PageDocument};
use crate::cli::args::AgentCommand;
use crate::cli::daemon::{DaemonRecord, EventStream};
use crate::cli::display::message;
use crate::cli::exit::{Exit, Refused};
use crate::cli::printer::Printer;
use crate::config::Config;
use crate::id::ExecutionId;
use crate::runtime::ExecutionFilter;

/// Where executions are.
const EXECUTIONS: &str = "/api/agent/executions";

pub(super) async fn remote(
    command: AgentCommand,
    config: &Config,
    printer: Printer,
) -> anyhow::Result<Exit> {
    let daemon = daemon(&config.home)?;
    match command {
        AgentCommand::Launch(args) => launch::launch(args, &daemon, printer).await,
        AgentCommand::Prompt(args) => prompt::prompt(args, &daemon, printer).await,
        AgentCommand::Cancel { id } => cancel(&id, &daemon, printer).await,
        AgentCommand::Stop {
            id,
            reason,
            children: false,
        } => stop(&id, &reason, &daemon, printer).await,
        AgentCommand::Stop { id, reason, .. } => {
            stop_children(&id, &reason, &daemon, printer).await
        }
        AgentCommand::Mode { id, mode } => {
            let mode = mode.mode().as_str();
            let set = set_mode(&id, mode, &daemon).await?;
            let is_changed = set.get("changed") == Some(&Value::Bool(true));
            let word = if is_changed {
                "mode"
            } else {
                "mode, as before,"
            };
            told(&set, &format!("{id}: {word} {mode}"), printer)
        }
        AgentCommand::Chat(_)
        | AgentCommand::List(_)
        | AgentCommand::Show { .. }
        | AgentCommand::Events(_) => Ok(Exit::Ok),
    }
}

/// The daemon of the home.
///
/// # Errors
/// There is none.
fn daemon(home: &Path) -> anyhow::Result<DaemonRecord> {
    DaemonRecord::of(home).ok_or_else(|| {
        let refused = format!("{} has no daemon, which carries agents out", home.display());
        Refused::conflict(refused)
            .with_hint("skillrun serve is one; skillrun agent chat needs none")
            .into()
    })
}

/// Prints an answer.
fn told(answer: &Value, text: &str, printer: Printer) -> anyhow::Result<Exit> {
    match printer.json() {
        true => printer.value(answer)?,
        false => printer.line(&message("", text))?,
    }
    Ok(Exit::Ok)
}

/// Executions of the daemon.
///
/// # Errors
/// It does not answer.
pub(super) async fn page(
    filter: &ExecutionFilter,
    daemon: &DaemonRecord,
) -> anyhow::Result<PageDocument> {
    let mut query = Serializer::new(String::new());
    query.append_pair("limit", &filter.limit.to_string());
    for (key, value) in [
        ("session_id", filter.session_id.clone()),
        ("status", filter.status.map(|status| status.to_string())),
        ("parent", filter.parent.as_ref().map(ToString::to_string)),
        ("cursor", filter.after.as_ref().map(ToString::to_string)),
    ] {
        if let Some(value) = value {
            query.append_pair(key, &value);
        }
    }
    let path = format!("{EXECUTIONS}?{}", query.finish());
    daemon.ask(Method::GET, &path, None).await?.document()
}

/// An execution of the daemon.
///
/// # Errors
/// There is none, or the daemon does not answer.
pub(super) async fn execution(
    id: &ExecutionId,
    daemon: &DaemonRecord,
) -> anyhow::Result<ExecutionDocument> {
    let path = format!("{EXECUTIONS}/{id}");
    daemon.ask(Method::GET, &path, None).await?.document()
}

/// What happens in an execution, from where the query says on.
///
/// # Errors
/// There is no such execution, or the daemon does not answer.
pub(super) async fn events(
    id: &ExecutionId,
    query: &str,
    daemon: &DaemonRecord,
) -> anyhow::Result<EventStream> {
    daemon
        .events(&format!("{EXECUTIONS}/{id}/events{query}"))
        .await
}

/// Cancels the turn that goes on, and gives what became of it.
///
/// # Errors
/// There is no such live execution, or the daemon does not answer.
pub(super) async fn cancel_turn(id: &ExecutionId, daemon: &DaemonRecord) -> anyhow::Result<Value> {
    let path = format!("{EXECUTIONS}/{id}/cancel");
    daemon.post_and_wait(&path, None).await?.document()
}

/// Stops an execution.
///
/// # Errors
/// There is no such live execution, or the daemon does not answer.
pub(super) async fn stop_execution(
    id: &ExecutionId,
    reason: &str,
    daemon: &DaemonRecord,
) -> anyhow::Result<Value> {
    let path = format!("{EXECUTIONS}/{id}/stop");
    let body = json!({ "reason": reason });
    daemon.post_and_wait(&path, Some(&body)).await?.document()
}

/// Gives an execution the tools of another mode.
///
/// # Errors
/// There is no such live execution, or the daemon does not answer.
pub(super) async fn set_mode(
    id: &ExecutionId,
    mode: &str,
    daemon: &DaemonRecord,
) -> anyhow::Result<Value> {
    let path = format!("{EXECUTIONS}/{id}/mode");
    let body = json!({ "mode": mode });
    daemon
        .ask(Method::POST, &path, Some(&body))
        .await?
        .document()
}

/// Sends a prompt, and does not wait for its turn.
///
/// # Errors
/// There is no such live execution, or the daemon does not answer.
pub(super) async fn send_prompt(
    id: &ExecutionId,
    prompt: &str,
    daemon: &DaemonRecord,
) -> anyhow::Result<Value> {
    let path = format!("{EXECUTIONS}/{id}/prompt");
    let body = json!({ "prompt": prompt });
    daemon
        .ask(Method::POST, &path, Some(&body))
        .await?
        .document()
}

async fn cancel(id: &ExecutionId, daemon: &DaemonRecord, printer: Printer) -> anyhow::Result<Exit> {
    let cancelled = cancel_turn(id, daemon).await?;
    let text = match cancelled.get("turn") {
        Some(turn) => {
            let generation = turn.get("prompt_generation").and_then(Value::as_u64);
            format!("{id}: turn {} is over", generation.unwrap_or_default())
        }
        None => format!("{id}: no turn goes on"),
    };
    told(&cancelled, &text, printer)
}

async fn stop(
    id: &ExecutionId,
    reason: &str,
    daemon: &DaemonRecord,
    printer: Printer,
) -> anyhow::Result<Exit> {
    let stopped = stop_execution(id, reason, daemon).await?;
    told(&stopped, &stopped_line(&stopped), printer)
}

fn stopped_line(stopped: &Value) -> String {
    let text = |key: &str| stopped.get(key).and_then(Value::as_str).unwrap_or_default();
    let forced = match stopped.get("forced") == Some(&Value::Bool(true)) {
        true => ", by force",
        false => "",
    };
    let teardown = match text("teardown_error") {
        "" => String::new(),
        error => format!("; it did not end cleanly: {error}"),
    };
    format!("{}: {}{forced}{teardown}", text("id"), text("status"))
}

async fn stop_children(
    id: &ExecutionId,
    reason: &str,
    daemon: &DaemonRecord,
    printer: Printer,
) -> anyhow::Result<Exit> {
    let path = format!("{EXECUTIONS}/{id}/stop-children");
    let body = json!({ "reason": reason });
    let answer: Value = daemon.post_and_wait(&path, Some(&body)).await?.document()?;
    if printer.json() {
        printer.value(&answer)?;
        return Ok(Exit::Ok);
    }
    let stopped = answer.get("stopped").and_then(Value::as_array);
    let stopped = stopped.map(Vec::as_slice).unwrap_or_default();
    for one in stopped {
        printer.line(&message("", &stopped_line(one)))?;
    }
    if stopped.is_empty() {
        printer.note("it has launched nothing that is live");
    }
    Ok(Exit::Ok)
}
