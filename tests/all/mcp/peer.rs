//! Clients of the SDK, of both eras of the protocol, over both transports.

use std::fs;
use std::process::Stdio;
use std::sync::Arc;

use rmcp::model::{
    ClientCapabilities, ClientConfig, ErrorData, Implementation, ProtocolVersion,
    ResourceUpdatedNotificationParam, ServerNotification,
};
use rmcp::service::{
    ClientLifecycleMode, NotificationContext, RunningService, ServiceError,
    serve_client_with_lifecycle,
};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::{ClientHandler, RoleClient};
use serde_json::Value;
use tokio::process::Child;
use tokio::sync::Mutex;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::api::daemon::Daemon;
use crate::harness::Home;

/// Which revision a client speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Era {
    /// 2025-11-25, with sessions.
    Sessions,
    /// 2026-07-28, without.
    Stateless,
}

pub(super) const ERAS: [Era; 2] = [Era::Sessions, Era::Stateless];

/// A connected client. What it is connected to ends with it.
pub(super) struct Peer {
    pub(super) client: RunningService<RoleClient, Ears>,
    pub(super) era: Era,
    told: Mutex<UnboundedReceiver<String>>,
    _process: Option<Child>,
}

/// Hears what it is told in its session.
pub(super) struct Ears(UnboundedSender<String>);

impl ClientHandler for Ears {
    fn get_info(&self) -> ClientConfig {
        let own = Implementation::new("skillrun-tests", "0");
        ClientConfig::new(ClientCapabilities::default(), own)
    }

    async fn on_resource_updated(
        &self,
        params: ResourceUpdatedNotificationParam,
        _cx: NotificationContext<RoleClient>,
    ) {
        let _over = self.0.send(params.uri);
    }

    async fn on_tool_list_changed(&self, _cx: NotificationContext<RoleClient>) {
        let _over = self.0.send("tools".to_owned());
    }

    async fn on_prompt_list_changed(&self, _cx: NotificationContext<RoleClient>) {
        let _over = self.0.send("prompts".to_owned());
    }

    async fn on_resource_list_changed(&self, _cx: NotificationContext<RoleClient>) {
        let _over = self.0.send("resources".to_owned());
    }
}

/// What a notification is, in a word.
pub(super) fn word(told: &ServerNotification) -> String {
    match told {
        ServerNotification::ResourceUpdatedNotification(told) => told.params.uri.clone(),
        ServerNotification::ToolListChangedNotification(_) => "tools".to_owned(),
        ServerNotification::PromptListChangedNotification(_) => "prompts".to_owned(),
        ServerNotification::ResourceListChangedNotification(_) => "resources".to_owned(),
        other => panic!("{other:?}"),
    }
}

fn lifecycle(era: Era) -> ClientLifecycleMode {
    match era {
        Era::Sessions => ClientLifecycleMode::Initialize,
        Era::Stateless => ClientLifecycleMode::Discover {
            preferred_versions: vec![ProtocolVersion::V_2026_07_28],
        },
    }
}

/// Connects a client with `skillrun mcp`, which ends with what is given beside it.
pub(super) async fn over_stdio<H: ClientHandler>(
    home: &Home,
    era: Era,
    handler: H,
) -> (RunningService<RoleClient, H>, Child) {
    let mut command = home.command(&["mcp"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    command.stderr(fs::File::create(home.path().join("mcp.log")).unwrap());
    let mut command = tokio::process::Command::from(command);
    let mut process = command.kill_on_drop(true).spawn().unwrap();
    let streams = (
        process.stdout.take().unwrap(),
        process.stdin.take().unwrap(),
    );
    let client = serve_client_with_lifecycle(handler, streams, lifecycle(era));
    (client.await.unwrap(), process)
}

/// Connects a client with a daemon that was started with `--mcp`.
pub(super) async fn over_http<H: ClientHandler>(
    daemon: &Daemon,
    era: Era,
    handler: H,
) -> RunningService<RoleClient, H> {
    // Requests are made without TLS, and yet the client is not made without a provider of it.
    let _is_there = rustls::crypto::ring::default_provider().install_default();
    let uri: Arc<str> = format!("http://{}/mcp", daemon.address).into();
    let transport = StreamableHttpClientTransport::from_uri(uri);
    let client = serve_client_with_lifecycle(handler, transport, lifecycle(era));
    client.await.unwrap()
}

impl Peer {
    /// A client of `skillrun mcp`.
    pub(super) async fn stdio(home: &Home, era: Era) -> Self {
        let (tell, told) = unbounded_channel();
        let (client, process) = over_stdio(home, era, Ears(tell)).await;
        Self {
            client,
            era,
            told: Mutex::new(told),
            _process: Some(process),
        }
    }

    /// A client of a daemon that was started with `--mcp`.
    pub(super) async fn http(daemon: &Daemon, era: Era) -> Self {
        let (tell, told) = unbounded_channel();
        Self {
            client: over_http(daemon, era, Ears(tell)).await,
            era,
            told: Mutex::new(told),
            _process: None,
        }
    }

    /// The next thing that it is told in its session.
    pub(super) async fn told(&self) -> String {
        self.told.lock().await.recv().await.unwrap()
    }
}

/// `skillrun serve --mcp` on a port of its own.
pub(super) fn daemon(home: &Home) -> Daemon {
    let arguments = ["serve", "--mcp", "--listen", "127.0.0.1:0"];
    Daemon::of(home, &mut home.command(&arguments))
}

/// A client of each era over each transport. What they are connected to ends with them.
pub(super) async fn all_peers(home: &Home) -> (Daemon, Vec<Peer>) {
    let daemon = daemon(home);
    let mut peers = Vec::new();
    for era in ERAS {
        peers.push(Peer::stdio(home, era).await);
        peers.push(Peer::http(&daemon, era).await);
    }
    (daemon, peers)
}

/// The error that the server answered with.
#[track_caller]
pub(super) fn refused<T: std::fmt::Debug>(answer: Result<T, ServiceError>) -> ErrorData {
    match answer {
        Err(ServiceError::McpError(error)) => error,
        other => panic!("{other:?}"),
    }
}

/// Writes a skill without a component.
pub(super) fn write_prompt(home: &Home, name: &str, body: &str, manifest: &str) {
    let skill = home.skill(name);
    fs::create_dir_all(&skill).unwrap();
    fs::write(skill.join("skill.toml"), manifest).unwrap();
    let text = format!("---\nname: {name}\ndescription: Of {name}.\n---\n{body}");
    fs::write(skill.join("SKILL.md"), text).unwrap();
}

/// A value as an object of arguments.
pub(super) fn object(value: Value) -> rmcp::model::JsonObject {
    match value {
        Value::Object(object) => object,
        other => panic!("{other}"),
    }
}
