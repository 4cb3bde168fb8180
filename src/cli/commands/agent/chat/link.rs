//! The way to the execution that is talked with: in this process, or in the daemon.

use serde_json::{Map, json};

#[cfg(feature = "server")]
use super::super::remote::{self, LaunchPlan};
use super::super::{event, list};
use crate::assembly::Skillrun;
use crate::cli::args::{ChatArgs, Prior};
#[cfg(feature = "server")]
use crate::cli::daemon::{DaemonRecord, EventStream};
use crate::cli::exit::Refused;
use crate::cli::{assemble, skill_source};
use crate::clock::Clock;
use crate::config::Config;
use crate::id::ExecutionId;
use crate::ledger::Store;
use crate::runtime::{
    EventKind, EventSubscription, LaunchSpec, Metadata, Runtime as _, WorkspaceRef,
};

/// Executions that one chat has at once: the agent, and those that it launches.
const EXECUTIONS_MAX: usize = 16;
/// Why an execution of the daemon is stopped from here.
const REASON: &str = "stopped in the chat";

/// Who carries the agent out. Cheap to clone.
#[derive(Clone)]
pub(super) enum Link {
    /// This process.
    Here(Skillrun),
    /// The daemon of the home.
    #[cfg(feature = "server")]
    Daemon(Box<DaemonRecord>),
}

/// The execution that is talked with.
pub(super) struct Opened {
    pub(super) id: ExecutionId,
    pub(super) events: Events,
    /// Where answers to its questions are put.
    pub(super) store: Store,
    /// Whether it waits for a prompt already.
    pub(super) is_ready: bool,
}

/// What happens in it.
pub(super) enum Events {
    /// Told by this process's runtime.
    Here(Box<EventSubscription>),
    /// Told by the daemon.
    #[cfg(feature = "server")]
    Daemon(Box<EventStream>),
}

/// An event, and the JSON that it is.
pub(super) struct Told {
    pub(super) event: event::AgentEvent,
    pub(super) json: String,
}

impl Events {
    /// The next event; none after the last.
    ///
    /// # Errors
    /// The ledger, or the stream, cannot be read.
    pub(super) async fn next(&mut self) -> anyhow::Result<Option<Told>> {
        loop {
            let json = match self {
                Self::Here(events) => match events.next().await? {
                    Some(event) if matches!(event.kind, EventKind::Lagged { .. }) => continue,
                    Some(event) => serde_json::to_string(&event)?,
                    None => return Ok(None),
                },
                #[cfg(feature = "server")]
                Self::Daemon(events) => match events.next().await? {
                    // What the stream says about itself is no event.
                    Some(frame)
                        if matches!(frame.name.as_str(), "lagged" | "reset" | "shutdown") =>
                    {
                        continue;
                    }
                    Some(frame) => frame.data,
                    None => return Ok(None),
                },
            };
            let event = event::AgentEvent::parse(&json)?;
            return Ok(Some(Told { event, json }));
        }
    }
}

impl Link {
    /// Launches the agent, or finds the execution that is named.
    ///
    /// # Errors
    /// There is none, or it cannot be launched.
    pub(super) async fn open(args: ChatArgs, config: &Config) -> anyhow::Result<(Self, Opened)> {
        let named = args.agent.parse::<ExecutionId>().ok();
        #[cfg(feature = "server")]
        if let Some(daemon) = DaemonRecord::of(&config.home) {
            return Self::of_daemon(daemon, named, args, config).await;
        }
        if let Some(id) = named {
            list::find(&id, config).await?;
            let refused = format!("{id} is not live: the home has no daemon that carries it out");
            let hint = format!(
                "skillrun agent chat SKILL --prior-session {id} goes on with it, if it was interrupted"
            );
            return Err(Refused::conflict(refused).with_hint(hint).into());
        }
        Self::here(args, config).await
    }

    async fn here(args: ChatArgs, config: &Config) -> anyhow::Result<(Self, Opened)> {
        let source = skill_source::find(&args.agent, &args.grant, config)?;
        let mut config = config.clone();
        config.runs = assemble::admission(&config);
        config.runtime.executions_max = EXECUTIONS_MAX;
        let host = assemble::builder(config).skills(source.registry);
        let host = host.build().map_err(assemble::refused)?;
        let workspace = match &args.workspace.workspace {
            Some(folder) => folder.canonicalize().map_err(|error| {
                Refused::usage(format!(
                    "cannot use the folder {}: {error}",
                    folder.display()
                ))
            })?,
            None => std::path::PathBuf::new(),
        };
        let spec = LaunchSpec {
            agent_profile_id: source.name,
            workspace: WorkspaceRef {
                path: workspace.to_string_lossy().into_owned(),
                is_ephemeral: args.workspace.ephemeral,
                ..WorkspaceRef::default()
            },
            prior_session: args
                .prior_session
                .map(|Prior(run_id)| run_id.to_string())
                .unwrap_or_default(),
            mcp_mode: args
                .mode
                .map(|mode| mode.mode().to_string())
                .unwrap_or_default(),
            metadata: metadata(args.model, args.retry_ambiguous),
            grants: args.grant,
            ..LaunchSpec::default()
        };
        let launched = host.runtime().launch(spec).await?;
        let id = launched.id.to_string();
        let events = host.runtime().subscribe_events(&id, None).await?;
        let opened = Opened {
            events: Events::Here(Box::new(events)),
            id: launched.id,
            store: host.store().clone(),
            is_ready: false,
        };
        Ok((Self::Here(host), opened))
    }

    #[cfg(feature = "server")]
    async fn of_daemon(
        daemon: DaemonRecord,
        named: Option<ExecutionId>,
        args: ChatArgs,
        config: &Config,
    ) -> anyhow::Result<(Self, Opened)> {
        let store = assemble::store(config, &Clock::system())?;
        if let Some(id) = named {
            let events = remote::events(&id, "?after=newest", &daemon).await?;
            let execution = remote::execution(&id, &daemon).await?;
            if execution.status.is_terminal() {
                let refused = format!("{id} is not live: it is {}", execution.status);
                let hint = format!(
                    "skillrun agent chat {} --prior-session {id} goes on with it, if it was interrupted",
                    execution.agent_profile_id
                );
                return Err(Refused::conflict(refused).with_hint(hint).into());
            }
            let opened = Opened {
                id,
                events: Events::Daemon(Box::new(events)),
                store,
                is_ready: execution.status == crate::runtime::ExecutionStatus::Ready,
            };
            return Ok((Self::Daemon(Box::new(daemon)), opened));
        }
        if !args.grant.is_empty() {
            let refused = format!(
                "the daemon, process {}, grants what config.toml says, and nothing beside it",
                daemon.pid
            );
            let hint = "put the grant into config.toml, or end the daemon to chat in this process";
            return Err(Refused::usage(refused).with_hint(hint).into());
        }
        if skill_source::is_path(&args.agent) {
            let refused = format!(
                "{} is a path, and the daemon has installed skills",
                args.agent
            );
            let hint =
                "skillrun skills install installs it; without a daemon, a chat takes it as it is";
            return Err(Refused::usage(refused).with_hint(hint).into());
        }
        let plan = LaunchPlan {
            skill: args.agent,
            prompt: String::new(),
            prior_session: args.prior_session,
            mode: args.mode,
            backend: None,
            workspace: args.workspace,
            metadata: metadata(args.model, args.retry_ambiguous),
        };
        let launched = remote::launched(plan, &daemon).await?;
        let events = remote::events(&launched.id, "", &daemon).await?;
        let opened = Opened {
            id: launched.id,
            events: Events::Daemon(Box::new(events)),
            store,
            is_ready: false,
        };
        Ok((Self::Daemon(Box::new(daemon)), opened))
    }

    /// Sends a prompt. Its turn is seen in the events.
    ///
    /// # Errors
    /// It is refused.
    pub(super) async fn prompt(&self, id: &ExecutionId, text: String) -> anyhow::Result<()> {
        match self {
            Self::Here(host) => {
                let (runtime, id) = (host.runtime().clone(), id.to_string());
                let mut turn = Box::pin(async move { runtime.resume(&id, &text).await });
                // It is queued, or refused, when it is first looked at.
                tokio::select! {
                    biased;
                    ended = &mut turn => ended.map(|_turn| ())?,
                    () = std::future::ready(()) => {
                        tokio::spawn(turn);
                    }
                }
            }
            #[cfg(feature = "server")]
            Self::Daemon(daemon) => {
                remote::send_prompt(id, &text, daemon).await?;
            }
        }
        Ok(())
    }

    /// Cancels the turn that goes on, and waits for its end.
    ///
    /// # Errors
    /// It is not live any more.
    pub(super) async fn cancel_turn(&self, id: &ExecutionId) -> anyhow::Result<()> {
        match self {
            Self::Here(host) => {
                host.runtime().cancel_turn(&id.to_string()).await?;
            }
            #[cfg(feature = "server")]
            Self::Daemon(daemon) => {
                remote::cancel_turn(id, daemon).await?;
            }
        }
        Ok(())
    }

    /// Stops the execution.
    ///
    /// # Errors
    /// It is not live any more.
    pub(super) async fn stop(&self, id: &ExecutionId) -> anyhow::Result<()> {
        match self {
            Self::Here(host) => {
                host.runtime().stop(&id.to_string(), REASON).await?;
            }
            #[cfg(feature = "server")]
            Self::Daemon(daemon) => {
                remote::stop_execution(id, REASON, daemon).await?;
            }
        }
        Ok(())
    }

    /// Gives the execution the tools of another mode.
    ///
    /// # Errors
    /// There is no such mode, or it is not live any more.
    pub(super) async fn set_mode(&self, id: &ExecutionId, mode: &str) -> anyhow::Result<()> {
        match self {
            Self::Here(host) => {
                host.runtime().set_mcp_mode(&id.to_string(), mode).await?;
            }
            #[cfg(feature = "server")]
            Self::Daemon(daemon) => {
                remote::set_mode(id, mode, daemon).await?;
            }
        }
        Ok(())
    }

    /// Whether the execution ends with this process.
    pub(super) fn is_here(&self) -> bool {
        matches!(self, Self::Here(_))
    }

    /// Interrupts what goes on in this process, so that it can be taken up again.
    pub(super) async fn close(&self) {
        if let Self::Here(host) = self {
            host.shutdown().await;
        }
    }
}

fn metadata(model: Option<String>, retry_ambiguous: bool) -> Metadata {
    let mut metadata = Map::new();
    if retry_ambiguous {
        let request = json!({ "retry_ambiguous": true });
        metadata.insert("launch_request".to_owned(), request);
    }
    if let Some(model) = model {
        metadata.insert("model".to_owned(), json!(model));
    }
    metadata
}
