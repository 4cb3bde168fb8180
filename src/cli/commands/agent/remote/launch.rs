//! `skillrun agent launch`.

use anyhow::Context as _;
use http::Method;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::{EXECUTIONS, prompt};
use crate::cli::args::{LaunchArgs, Prior, ToolMode, WorkspaceArgs};
use crate::cli::commands::agent::event::{AgentEvent, Told};
use crate::cli::daemon::DaemonRecord;
use crate::cli::exit::{Exit, Refused};
use crate::cli::input;
use crate::cli::printer::Printer;
use crate::clock::Timestamp;
use crate::id::ExecutionId;

/// What is launched.
pub(in crate::cli::commands::agent) struct LaunchPlan {
    pub(in crate::cli::commands::agent) skill: String,
    pub(in crate::cli::commands::agent) prompt: String,
    pub(in crate::cli::commands::agent) prior_session: Option<Prior>,
    pub(in crate::cli::commands::agent) mode: Option<ToolMode>,
    pub(in crate::cli::commands::agent) backend: Option<String>,
    pub(in crate::cli::commands::agent) workspace: WorkspaceArgs,
    pub(in crate::cli::commands::agent) metadata: Map<String, Value>,
}

/// An execution that was launched.
#[derive(Debug, Serialize, Deserialize)]
pub(in crate::cli::commands::agent) struct Launched {
    pub(in crate::cli::commands::agent) id: ExecutionId,
    pub(in crate::cli::commands::agent) session_id: String,
    agentctl_url: String,
    started_at: Timestamp,
}

/// Lets the daemon launch an agent.
///
/// # Errors
/// It refuses, or does not answer.
pub(in crate::cli::commands::agent) async fn launched(
    plan: LaunchPlan,
    daemon: &DaemonRecord,
) -> anyhow::Result<Launched> {
    let mut workspace = Map::new();
    workspace.insert("is_ephemeral".to_owned(), json!(plan.workspace.ephemeral));
    if let Some(folder) = &plan.workspace.workspace {
        workspace.insert("path".to_owned(), json!(absolute(folder)?));
    }
    let prior = plan.prior_session.map(|Prior(run_id)| json!(run_id));
    let mode = plan.mode.map(|mode| json!(mode.mode().as_str()));
    let members = [
        ("agent_profile_id", Some(json!(plan.skill))),
        ("workspace", Some(Value::Object(workspace))),
        ("prompt", Some(json!(plan.prompt))),
        ("metadata", Some(Value::Object(plan.metadata))),
        ("prior_session", prior),
        ("mcp_mode", mode),
        ("executor_id", plan.backend.map(|backend| json!(backend))),
    ];
    let members = members.into_iter();
    let body: Map<String, Value> = members
        .filter_map(|(key, value)| Some((key.to_owned(), value?)))
        .collect();
    let body = Value::Object(body);
    let answer = daemon.ask(Method::POST, EXECUTIONS, Some(&body)).await?;
    answer.document()
}

/// The folder as the daemon finds it, which works in another one.
fn absolute(folder: &std::path::Path) -> anyhow::Result<String> {
    let whole = folder.canonicalize();
    let whole = whole.map_err(|error| {
        Refused::usage(format!(
            "cannot use the folder {}: {error}",
            folder.display()
        ))
    })?;
    let text = whole.into_os_string().into_string().ok();
    text.context("the folder's path is no UTF-8")
}

/// Puts a field into the launch request that metadata hold.
///
/// # Errors
/// They hold one that is no object.
fn requested(metadata: &mut Map<String, Value>, key: &str, value: Value) -> anyhow::Result<()> {
    let request = metadata
        .entry("launch_request")
        .or_insert_with(|| json!({}));
    let Value::Object(request) = request else {
        let refused = "--metadata has a launch_request that is no object";
        return Err(Refused::usage(refused).into());
    };
    request.insert(key.to_owned(), value);
    Ok(())
}

pub(super) async fn launch(
    args: LaunchArgs,
    daemon: &DaemonRecord,
    printer: Printer,
) -> anyhow::Result<Exit> {
    let prompt = match &args.prompt {
        Some(prompt) => input::prompt(prompt)?,
        None => String::new(),
    };
    let mut metadata = match &args.metadata {
        Some(metadata) => {
            let object = input::read(metadata)?;
            serde_json::from_str(object.as_str())?
        }
        None => Map::new(),
    };
    if let Some(session) = &args.session {
        requested(&mut metadata, "session_id", json!(session))?;
    }
    if args.retry_ambiguous {
        requested(&mut metadata, "retry_ambiguous", json!(true))?;
    }
    let is_prompted = !prompt.is_empty();
    let plan = LaunchPlan {
        skill: args.skill,
        prompt,
        prior_session: args.prior_session,
        mode: args.mode,
        backend: args.backend,
        workspace: args.workspace,
        metadata,
    };
    let launched = launched(plan, daemon).await?;
    match printer.json() {
        true => printer.value(&launched)?,
        false if args.wait && is_prompted => printer.note(&launched.id.to_string()),
        false => printer.line(&launched.id.to_string())?,
    }
    if !args.wait {
        return Ok(Exit::Ok);
    }
    let path = format!("{EXECUTIONS}/{}/events", launched.id);
    let mut events = daemon.events(&path).await?;
    if is_prompted {
        return prompt::follow(&mut events, printer).await;
    }
    while let Some(frame) = events.next().await? {
        match AgentEvent::parse(&frame.data).map(|event| event.told) {
            Ok(Told::BootReady | Told::Ready) => return Ok(Exit::Ok),
            Ok(Told::Stopped {
                code,
                message,
                reason,
                ..
            }) => {
                return Err(prompt::stopped(&code, message.or(reason)));
            }
            // What the stream says about itself is no event.
            _ => {}
        }
    }
    Err(anyhow::anyhow!(
        "the daemon closed the stream before the agent was ready"
    ))
}
