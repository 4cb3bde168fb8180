//! One connection to a server, from its start to its end.

use std::path::Path;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use rmcp::model::{
    ClientCapabilities, ClientConfig, ClientRequest, Implementation, ListToolsRequest,
    PaginatedRequestParams, ProtocolVersion, ServerResult, SubscriptionFilter,
};
use rmcp::service::{
    ClientInitializeError, ClientLifecycleMode, ClientServiceExt as _, NotificationContext, Peer,
    RoleClient, RunningService, ServiceError,
};
use rmcp::transport::IntoTransport;
use rmcp::{ClientHandler, Service};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{Mutex, watch};
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::catalog::{Catalog, Tools};
use super::hidden::Hidden;
use super::process::{Pipes, Process, status_words};
use super::stdio::{Cause, Lent, Lines};
use super::{http, reason};
use crate::config::{McpEndpoint, McpServer, Secret};

/// For how long a process may go on after its standard input was closed, before it is killed.
const CLOSE_TIME: Duration = Duration::from_secs(2);
/// For how long what a process wrote before it ended is read, and a process may take to end after it
/// closed its standard output. Protects callers, who are not answered before.
const DRAIN_TIME: Duration = Duration::from_millis(500);
/// For how long a call that was cut off waits for the reason. Protects callers; longer than an end takes.
const END_TIME: Duration = Duration::from_secs(5);
/// Pages of a list of tools. Protects whoever asks from a list that never ends.
const PAGES_MAX: usize = 1_000;

/// What is needed to start a server.
pub(super) struct Origin<'a> {
    pub(super) name: &'a str,
    pub(super) settings: &'a McpServer,
    pub(super) home: &'a Path,
    pub(super) secret: Option<&'a Secret>,
    pub(super) ca_certificates: &'a Arc<[Vec<u8>]>,
    pub(super) hidden: &'a Hidden,
}

/// A server that is ready. Dropping it ends the server.
pub(super) struct Connection {
    pub(super) peer: Peer<RoleClient>,
    /// Set when it came to its end.
    ended: watch::Receiver<Option<Instant>>,
    /// Set when it is not to be used again, although it may still answer.
    retired: OnceLock<Instant>,
    cause: Cause,
    stop: CancellationToken,
    _stop_on_drop: DropGuard,
    changes: Arc<AtomicBool>,
    tools: Mutex<Option<Arc<Tools>>>,
}

impl Connection {
    /// Starts the server and agrees with it on a version of the protocol.
    pub(super) async fn start(origin: Origin<'_>) -> Result<Self, String> {
        match &origin.settings.endpoint {
            McpEndpoint::Process(settings) => {
                let started = Process::start(origin.name, settings, origin.home, origin.hidden);
                let (mut process, Pipes { stdin, stdout }) = started?;
                let cause = Cause::default();
                let lines = Lines::new(stdout, stdin, cause.clone());
                match shake_hands_over(lines).await {
                    Ok((service, changes)) => Ok(Self::new(service, changes, Some(process), cause)),
                    Err(error) => {
                        // A process that ended says more than that the connection did.
                        let status = timeout(DRAIN_TIME, process.ended()).await.ok().flatten();
                        let ended = status.map(status_words);
                        let known = cause.get().map(str::to_owned).or(ended);
                        Err(known.unwrap_or_else(|| reason::of_start(&error)))
                    }
                }
            }
            McpEndpoint::Http { url, .. } => {
                let transport = http::transport(url, origin.secret, origin.ca_certificates).await?;
                let (service, changes) = shake_hands(transport, with_or_without_handshake())
                    .await
                    .map_err(|error| reason::of_start(&error))?;
                Ok(Self::new(service, changes, None, Cause::default()))
            }
        }
    }

    fn new(
        service: RunningService<RoleClient, Client>,
        changes: Arc<AtomicBool>,
        process: Option<Process>,
        cause: Cause,
    ) -> Self {
        let peer = service.peer().clone();
        let stop = CancellationToken::new();
        let (sender, ended) = watch::channel(None);
        let following = follow_changes(peer.clone(), Arc::clone(&changes), stop.clone());
        tokio::spawn(following);
        tokio::spawn(drive(service, process, stop.clone(), cause.clone(), sender));
        Self {
            peer,
            ended,
            retired: OnceLock::new(),
            cause,
            _stop_on_drop: stop.clone().drop_guard(),
            stop,
            changes,
            tools: Mutex::new(None),
        }
    }

    /// Whether it can be asked.
    pub(super) fn is_alive(&self) -> bool {
        self.gone_since().is_none() && !self.peer.is_transport_closed()
    }

    /// Since when it cannot.
    pub(super) fn gone_since(&self) -> Option<Instant> {
        self.retired.get().copied().or(*self.ended.borrow())
    }

    /// Makes the next call start another connection. Calls that wait for this one may still be answered.
    pub(super) fn retire(&self) {
        let _since_before = self.retired.set(now());
    }

    /// Closes it and waits for its end.
    pub(super) async fn close(&self) {
        self.stop.cancel();
        self.wait_for_end().await;
    }

    /// Why it ended. To be asked when it has, or is about to; it is not used again either way.
    pub(super) async fn end_cause(&self) -> String {
        self.retire();
        // A server can also say that it ended, and go on.
        let _late = timeout(END_TIME, self.wait_for_end()).await;
        let cause = self.cause.get();
        cause.unwrap_or("it closed the connection").to_owned()
    }

    async fn wait_for_end(&self) {
        // The other side says it once, or is gone with its runtime.
        let mut ended = self.ended.clone();
        let _ended = ended.wait_for(Option::is_some).await;
    }

    /// What the server has. It is asked again only if it said that something changed.
    pub(super) async fn tools(
        &self,
        server: &str,
        settings: &McpServer,
    ) -> Result<Arc<Tools>, ListError> {
        let mut known = self.tools.lock().await;
        let is_changed = self.changes.swap(false, Ordering::AcqRel);
        if let Some(tools) = known.as_ref().filter(|_| !is_changed) {
            return Ok(Arc::clone(tools));
        }
        *known = None;
        let tools = Arc::new(self.list(Catalog::new(server, settings)).await?);
        *known = Some(Arc::clone(&tools));
        Ok(tools)
    }

    async fn list(&self, mut catalog: Catalog<'_>) -> Result<Tools, ListError> {
        let mut cursor = None;
        for _ in 0..PAGES_MAX {
            let params = PaginatedRequestParams::default().with_cursor(cursor);
            let request = ClientRequest::ListToolsRequest(ListToolsRequest::with_param(params));
            // Not by the library's own function, which may answer from a store of its own.
            let answer = self.peer.send_request(request).await;
            let ServerResult::ListToolsResult(page) = answer.map_err(ListError::Asked)? else {
                return Err(ListError::Unusable("its list of tools is none".to_owned()));
            };
            catalog.add(page.tools).map_err(ListError::Unusable)?;
            match page.next_cursor {
                Some(next) => cursor = Some(next),
                None => return Ok(catalog.into_tools()),
            }
        }
        let endless = format!("its list of tools has more than {PAGES_MAX} pages");
        Err(ListError::Unusable(endless))
    }
}

/// Why it is not known what a server has.
pub(super) enum ListError {
    Asked(ServiceError),
    Unusable(String),
}

/// The moment, by the clock of timers, which a test can stop.
pub(super) fn now() -> Instant {
    sleep(Duration::ZERO).deadline()
}

/// This side of every connection: it offers nothing, and hears when tools change.
pub(super) struct Client {
    changes: Arc<AtomicBool>,
}

impl ClientHandler for Client {
    fn get_info(&self) -> ClientConfig {
        let client = Implementation::new("skillrun", env!("CARGO_PKG_VERSION"));
        ClientConfig::new(ClientCapabilities::default(), client)
            .with_protocol_version(ProtocolVersion::LATEST_WITH_INITIALIZE)
    }

    async fn on_tool_list_changed(&self, _context: NotificationContext<RoleClient>) {
        self.changes.store(true, Ordering::Release);
    }
}

/// A server that is agreed with, and whether its tools changed since.
type Agreed = (RunningService<RoleClient, Client>, Arc<AtomicBool>);

const WITHOUT_HANDSHAKE: ProtocolVersion = ProtocolVersion::V_2026_07_28;

/// Asks for the version without a handshake first, since a server of that version knows no other.
fn with_or_without_handshake() -> ClientLifecycleMode {
    ClientLifecycleMode::Auto {
        preferred_versions: vec![WITHOUT_HANDSHAKE],
        legacy_version: Some(ProtocolVersion::LATEST_WITH_INITIALIZE),
    }
}

/// Agrees with a process, which may take as long to start as the caller waits. The library tries the handshake
/// when the first question is not answered after a while. A server that does without and has started by then
/// answers the question, refuses the handshake, and is asked again.
async fn shake_hands_over<R, W>(lines: Lines<R, W>) -> Result<Agreed, ClientInitializeError>
where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    let (lent, returned) = Lent::new(lines);
    let refused = match shake_hands(lent, with_or_without_handshake()).await {
        Ok(agreed) => return Ok(agreed),
        Err(refused) => refused,
    };
    match returned.take().filter(Lines::does_without_handshake) {
        Some(lines) => {
            let preferred_versions = vec![WITHOUT_HANDSHAKE];
            shake_hands(lines, ClientLifecycleMode::Discover { preferred_versions }).await
        }
        None => Err(refused),
    }
}

async fn shake_hands<T, E, A>(
    transport: T,
    lifecycle: ClientLifecycleMode,
) -> Result<Agreed, ClientInitializeError>
where
    T: IntoTransport<RoleClient, E, A>,
    E: std::error::Error + Send + Sync + 'static,
{
    let changes = Arc::new(AtomicBool::new(false));
    let client = Client {
        changes: Arc::clone(&changes),
    };
    let service = client.serve_with_lifecycle(transport, lifecycle).await?;
    Ok((service, changes))
}

/// Hears of changes from a server that only tells those who listen.
async fn follow_changes(peer: Peer<RoleClient>, changes: Arc<AtomicBool>, stop: CancellationToken) {
    let tells_changes = peer.peer_info().is_some_and(|info| {
        let tools = info.capabilities.tools.as_ref();
        !info.protocol_version.has_initialize()
            && tools.is_some_and(|tools| tools.list_changed == Some(true))
    });
    if !tells_changes {
        return;
    }
    let filter = SubscriptionFilter::builder().tools_list_changed().build();
    let listening = async {
        let Ok(mut subscription) = peer.listen(filter).await else {
            return;
        };
        while let Ok(Some(_)) = subscription.next().await {
            changes.store(true, Ordering::Release);
        }
    };
    tokio::select! {
        () = stop.cancelled() => {}
        () = listening => changes.store(true, Ordering::Release),
    }
}

/// Waits for the end of a connection, whoever brings it about, and sees to it that nothing is left.
async fn drive<S: Service<RoleClient>>(
    service: RunningService<RoleClient, S>,
    mut process: Option<Process>,
    stop: CancellationToken,
    cause: Cause,
    ended: watch::Sender<Option<Instant>>,
) {
    let cancellation = service.cancellation_token();
    let mut service = pin!(service.waiting());
    let is_closed = tokio::select! {
        () = stop.cancelled() => {
            cause.set("it was shut down");
            false
        }
        _ = &mut service => true,
        status = exit(&mut process) => {
            if let Some(status) = status {
                cause.set(status_words(status));
            }
            // Whoever else holds its standard output would keep the connection open.
            if let Some(process) = &mut process {
                process.kill();
            }
            timeout(DRAIN_TIME, &mut service).await.is_ok()
        }
    };
    cancellation.cancel();
    if !is_closed {
        // It waits for what is being written; a process that takes nothing is killed below.
        let _late = timeout(CLOSE_TIME, &mut service).await;
    }
    if let Some(process) = process {
        let time = if is_closed { DRAIN_TIME } else { CLOSE_TIME };
        if let Some(status) = process.end(time).await {
            cause.set(status_words(status));
        }
    }
    ended.send_replace(Some(now()));
}

/// Waits for the end of a process; for ever, if there is none.
async fn exit(process: &mut Option<Process>) -> Option<std::process::ExitStatus> {
    match process {
        Some(process) => process.ended().await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream};

    use super::*;

    /// A server that says nothing until it was asked twice; the first question is given up by then.
    struct Late {
        does_without: bool,
        answers_to: fn(&Value) -> Option<Value>,
    }

    impl Late {
        fn answer(&self, asked: &Value) -> Value {
            let refusal = json!({ "code": -32601, "message": "no such method" });
            let handshake = json!({
                "protocolVersion": asked["params"]["protocolVersion"],
                "capabilities": {},
                "serverInfo": { "name": "late", "version": "0" },
            });
            let discovered = json!({
                "supportedVersions": ["2026-07-28"],
                "capabilities": {},
                "resultType": "complete",
                "ttlMs": 0,
                "cacheScope": "private",
                "_meta": { "io.modelcontextprotocol/serverInfo": { "name": "late", "version": "0" } },
            });
            let (key, value) = match (asked["method"].as_str(), self.does_without) {
                (Some("server/discover"), true) => ("result", discovered),
                (Some("initialize"), false) => ("result", handshake),
                _ => ("error", refusal),
            };
            let mut answer = json!({ "jsonrpc": "2.0", key: value });
            if let Some(id) = (self.answers_to)(&asked["id"]).filter(|_| key == "error") {
                answer["id"] = id;
            } else if key == "result" {
                answer["id"] = asked["id"].clone();
            }
            answer
        }

        async fn serve(self, stream: DuplexStream) {
            let (read, mut write) = tokio::io::split(stream);
            let mut lines = BufReader::new(read).lines();
            let mut unanswered = Vec::new();
            let mut is_up = false;
            while let Ok(Some(line)) = lines.next_line().await {
                let asked: Value = serde_json::from_str(&line).unwrap();
                if asked["id"].is_null() {
                    continue;
                }
                unanswered.push(asked);
                is_up = is_up || unanswered.len() == 2;
                if !is_up {
                    continue;
                }
                for asked in unanswered.drain(..) {
                    let answer = format!("{}\n", self.answer(&asked));
                    write.write_all(answer.as_bytes()).await.unwrap();
                }
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_takes_long_to_start_is_heard_when_it_has() {
        let by_number: fn(&Value) -> Option<Value> = |id| Some(id.clone());
        let by_text: fn(&Value) -> Option<Value> = |id| Some(json!(id.to_string()));
        let by_nothing: fn(&Value) -> Option<Value> = |_| None;
        for (does_without, answers_to) in [
            (false, by_number),
            (false, by_text),
            (false, by_nothing),
            (true, by_number),
        ] {
            let (ours, theirs) = tokio::io::duplex(64 * 1024);
            let late = Late {
                does_without,
                answers_to,
            };
            tokio::spawn(late.serve(theirs));
            let (read, write) = tokio::io::split(ours);
            let lines = Lines::new(read, write, Cause::default());
            let (service, _) = shake_hands_over(lines).await.unwrap();
            let info = service.peer().peer_info().unwrap();
            assert_eq!(info.server_info.as_ref().unwrap().name, "late");
            assert_eq!(info.protocol_version.has_initialize(), !does_without);
        }
    }
}
