//! One MCP server: started when it is needed, started again when it died, and asked.

mod answer;
mod catalog;
mod connection;
mod hidden;
mod http;
mod process;
mod reason;
mod stdio;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use rmcp::model::{CallToolRequestParams, RequestParamsMeta as _};
use rmcp::service::ServiceError;
use tokio::sync::{Mutex, Semaphore};
use tokio::time::{Instant, sleep_until, timeout};

use super::{Entry, SEPARATOR, ToolError};
use crate::call::ToolAnswer;
use crate::capability::tool_matches;
use crate::config::{McpEndpoint, McpServer, Secret};
use crate::trace_context;
use connection::{Connection, ListError, Origin, now};
use hidden::Hidden;

pub(in crate::tools) use stdio::{REQUESTS_MAX, parse};

/// Calls at once to one server; further ones wait. Protects the server, and the host's heap.
const CALLS_MAX: usize = 256;
/// How long is waited before a server that died is started again: the first time, and at most.
const BACKOFF_MIN: Duration = Duration::from_millis(100);
const BACKOFF_MAX: Duration = Duration::from_secs(30);

/// One server, whether it runs or not.
pub(super) struct Server {
    name: String,
    settings: McpServer,
    home: PathBuf,
    secret: Option<Secret>,
    ca_certificates: Arc<[Vec<u8>]>,
    hidden: Hidden,
    slot: Mutex<Slot>,
    /// Starts that came to an end, good or bad.
    starts: AtomicU64,
    /// Deaths and failed starts since the last answer of a tool.
    failures: AtomicU32,
    places: Semaphore,
}

#[derive(Default)]
struct Slot {
    connection: Option<Arc<Connection>>,
    /// The last start, if it failed: when, and why.
    failed: Option<(Instant, ToolError)>,
    is_shut_down: bool,
}

impl Server {
    pub(super) fn new(
        name: &str,
        settings: &McpServer,
        home: PathBuf,
        secrets: &[Secret],
        ca_certificates: Arc<[Vec<u8>]>,
    ) -> Self {
        let secret = match &settings.endpoint {
            McpEndpoint::Http { secret, .. } => secret.as_deref(),
            McpEndpoint::Process(_) => None,
        };
        let secret = secrets.iter().find(|one| Some(one.name()) == secret);
        Self {
            name: name.to_owned(),
            hidden: Hidden::of(settings, secret),
            settings: settings.clone(),
            home,
            secret: secret.cloned(),
            ca_certificates,
            slot: Mutex::default(),
            starts: AtomicU64::new(0),
            failures: AtomicU32::new(0),
            places: Semaphore::new(CALLS_MAX),
        }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Whether a tool of it could have a name that fits the pattern.
    pub(super) fn may_have(&self, pattern: &str) -> bool {
        let prefix = format!("{}{SEPARATOR}", self.name);
        match pattern.split_once('*') {
            None => self.may_have_tool(pattern),
            Some((start, _)) => start.starts_with(&prefix) || prefix.starts_with(start),
        }
    }

    /// Whether a tool of exactly that name could be one of it.
    pub(super) fn may_have_tool(&self, name: &str) -> bool {
        let own_name = own_name(name, &self.name);
        let allowed = |own_name| {
            let fits = |pattern: &String| tool_matches(pattern, own_name);
            self.settings.tools.iter().any(fits)
        };
        own_name.is_some_and(allowed)
    }

    /// What it has, in order of the names.
    pub(super) async fn tools(&self) -> Result<Vec<Arc<Entry>>, ToolError> {
        let connection = self.connect().await?;
        Ok(self.list(&connection).await?.values().cloned().collect())
    }

    /// The tool of that name, which has the server's before it.
    pub(super) async fn find(&self, name: &str) -> Result<Option<Arc<Entry>>, ToolError> {
        let connection = self.connect().await?;
        Ok(self.list(&connection).await?.get(name).cloned())
    }

    async fn list(&self, connection: &Arc<Connection>) -> Result<Arc<catalog::Tools>, ToolError> {
        let time = Duration::from_millis(self.settings.start_timeout_ms);
        match timeout(time, connection.tools(&self.name, &self.settings)).await {
            Ok(Ok(tools)) => Ok(tools),
            Ok(Err(ListError::Asked(error))) => Err(self.failure(connection, error, "list").await),
            Ok(Err(ListError::Unusable(reason))) => Err(self.unavailable(reason)),
            Err(_elapsed) => Err(self.unavailable(format!(
                "it did not list its tools within {} ms",
                self.settings.start_timeout_ms
            ))),
        }
    }

    /// Calls a tool once, whatever becomes of it: a call whose answer is lost may have had its effect.
    pub(super) async fn call(&self, name: &str, arguments: &str) -> Result<ToolAnswer, ToolError> {
        let invalid = |error: serde_json::Error| {
            ToolError::Invalid(format!("$: expected a JSON object: {error}"))
        };
        let arguments = serde_json::from_str(arguments).map_err(invalid)?;
        let own_name = own_name(name, &self.name).unwrap_or(name).to_owned();
        let mut params = CallToolRequestParams::new(own_name).with_arguments(arguments);
        // Several messages share a connection, so that a header field would belong to none of them.
        if let Some(trace) = trace_context::current()
            && let Some(parent) = trace.traceparent()
        {
            params.set_traceparent(&parent);
            if let Some(state) = trace.tracestate() {
                params.set_tracestate(state);
            }
        }
        let connection = self.connect().await?;
        let timeout_ms = self.settings.timeout_ms;
        let asked = timeout(Duration::from_millis(timeout_ms), async {
            let _place = self.places.acquire().await;
            // When this is dropped, the server is told that nobody waits any more.
            connection.peer.call_tool_once(params).await
        });
        match asked.await {
            Ok(Ok(response)) => {
                self.failures.store(0, Ordering::Release);
                answer::answer(response).map_err(|problem| {
                    ToolError::Failed(format!("MCP server {:?} {problem}", self.name))
                })
            }
            Ok(Err(error)) => Err(self.failure(&connection, error, "call").await),
            Err(_elapsed) => Err(ToolError::TimedOut { timeout_ms }),
        }
    }

    /// The connection there is, or a new one. Whoever waited for a start that failed is told so, and
    /// does not try it once more.
    async fn connect(&self) -> Result<Arc<Connection>, ToolError> {
        let starts = self.starts.load(Ordering::Acquire);
        let mut slot = self.slot.lock().await;
        if slot.is_shut_down {
            return Err(self.unavailable("it was shut down".to_owned()));
        }
        if let Some(connection) = slot.connection.as_ref().filter(|one| one.is_alive()) {
            return Ok(Arc::clone(connection));
        }
        if let Some((_, error)) = &slot.failed
            && self.starts.load(Ordering::Acquire) != starts
        {
            return Err(error.clone());
        }
        let gone = slot.connection.take().map(|dead| {
            self.failures.fetch_add(1, Ordering::AcqRel);
            dead.gone_since().unwrap_or_else(now)
        });
        let gone = gone.or_else(|| slot.failed.take().map(|(at, _)| at));
        if let Some(again) = gone.and_then(|at| at.checked_add(self.backoff())) {
            // Whoever is dropped while waiting leaves it to the next one to wait for the rest.
            slot.failed = gone.map(|at| (at, self.unavailable("it died".to_owned())));
            sleep_until(again).await;
        }
        let started = self.start().await;
        self.starts.fetch_add(1, Ordering::AcqRel);
        match started {
            Ok(connection) => {
                let connection = Arc::new(connection);
                slot.failed = None;
                slot.connection = Some(Arc::clone(&connection));
                Ok(connection)
            }
            Err(reason) => {
                self.failures.fetch_add(1, Ordering::AcqRel);
                let error = self.unavailable(self.hidden.clean(&reason));
                slot.failed = Some((now(), error.clone()));
                Err(error)
            }
        }
    }

    async fn start(&self) -> Result<Connection, String> {
        if let McpEndpoint::Http {
            secret: Some(name), ..
        } = &self.settings.endpoint
            && self.secret.is_none()
        {
            return Err(format!("its secret {name} was not read"));
        }
        let starting = Connection::start(Origin {
            name: &self.name,
            settings: &self.settings,
            home: &self.home,
            secret: self.secret.as_ref(),
            ca_certificates: &self.ca_certificates,
            hidden: &self.hidden,
        });
        let limit_ms = self.settings.start_timeout_ms;
        let started = timeout(Duration::from_millis(limit_ms), starting).await;
        started.unwrap_or_else(|_elapsed| Err(format!("it was not ready within {limit_ms} ms")))
    }

    fn backoff(&self) -> Duration {
        match self.failures.load(Ordering::Acquire) {
            0 => Duration::ZERO,
            failures => BACKOFF_MIN
                .saturating_mul(2_u32.saturating_pow(failures.saturating_sub(1)))
                .min(BACKOFF_MAX),
        }
    }

    async fn failure(&self, connection: &Connection, error: ServiceError, what: &str) -> ToolError {
        let name = &self.name;
        match error {
            ServiceError::McpError(error) => {
                let message = self.hidden.clean(&error.message);
                let code = error.code.0;
                ToolError::Failed(format!("MCP server {name:?}: {message} (error {code})"))
            }
            ServiceError::TransportClosed => self.lost(self.end_cause(connection).await, what),
            ServiceError::TransportSend(error) => {
                let cause = self.end_cause(connection).await;
                let reason = match &self.settings.endpoint {
                    McpEndpoint::Process(_) => cause,
                    McpEndpoint::Http { .. } => reason::of_transport(&error),
                };
                self.lost(reason, what)
            }
            ServiceError::UnexpectedResponse => ToolError::Failed(format!(
                "MCP server {name:?} answered the {what} with something else"
            )),
            other => {
                let message = self.hidden.clean(&other.to_string());
                ToolError::Failed(format!("MCP server {name:?}: {message}"))
            }
        }
    }

    /// A process ends when its connection does. A connection over HTTP goes on, for the calls that wait.
    async fn end_cause(&self, connection: &Connection) -> String {
        match &self.settings.endpoint {
            McpEndpoint::Process(_) => connection.end_cause().await,
            McpEndpoint::Http { .. } => {
                connection.retire();
                "it ended the stream before its answer".to_owned()
            }
        }
    }

    fn lost(&self, cause: String, what: &str) -> ToolError {
        let cause = self.hidden.clean(&cause);
        self.unavailable(format!("the {what} was cut off: {cause}"))
    }

    fn unavailable(&self, reason: String) -> ToolError {
        ToolError::Unavailable {
            server: self.name.clone(),
            reason,
        }
    }

    /// Ends it for good, and waits until it has ended.
    pub(super) async fn shut_down(&self) {
        let mut slot = self.slot.lock().await;
        slot.is_shut_down = true;
        let connection = slot.connection.take();
        drop(slot);
        if let Some(connection) = connection {
            connection.close().await;
        }
    }
}

/// The name that a server itself gives to a tool.
fn own_name<'a>(name: &'a str, server: &str) -> Option<&'a str> {
    let rest = name.strip_prefix(server)?;
    rest.strip_prefix(SEPARATOR).filter(|own| !own.is_empty())
}
