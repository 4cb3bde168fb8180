//! Sessions of clients of the revisions that have them, over HTTP: as many as there may be, each for the client that
//! began it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::Stream;
use http::request::Parts;
use rmcp::model::{ClientJsonRpcMessage, GetExtensions as _, ServerJsonRpcMessage};
use rmcp::transport::common::server_side_http::{ServerSseMessage, SessionId};
use rmcp::transport::streamable_http_server::session::SessionManager;
use rmcp::transport::streamable_http_server::session::local::{
    LocalSessionManager, LocalSessionManagerError,
};

use super::Mcp;
use super::client::id_of;

/// Sessions at once. One that nobody uses ends by itself. Protects the host's memory from clients that begin
/// sessions and leave them.
const SESSIONS_MAX: usize = 1_024;

/// Why there is no session, or none that takes a message.
#[derive(Debug, thiserror::Error)]
pub(super) enum SessionError {
    /// There are as many as there may be.
    #[error("{SESSIONS_MAX} sessions are open: expected at most so many")]
    TooMany,
    /// The session cannot do what was asked of it.
    #[error(transparent)]
    Local(#[from] LocalSessionManagerError),
}

/// The sessions of one server.
pub(super) struct Sessions {
    mcp: Mcp,
    local: LocalSessionManager,
    /// The client that began a session.
    owners: Mutex<HashMap<SessionId, String>>,
}

impl Sessions {
    /// Sessions that end when nothing passes for `idle_max`: a call for which a person is waited for says nothing all
    /// that time.
    pub(super) fn new(mcp: Mcp, idle_max: Duration) -> Arc<Self> {
        let mut local = LocalSessionManager::default();
        local.session_config.keep_alive = Some(idle_max);
        let owners = Mutex::default();
        Arc::new(Self { mcp, local, owners })
    }

    /// Whether there are as many as there may be.
    pub(super) async fn is_full(&self) -> bool {
        self.local.sessions.read().await.len() >= SESSIONS_MAX
    }

    /// Whether a session is of another client than this one. What is no session is nobody's.
    pub(super) fn is_of_another(&self, id: &str, client_id: &str) -> bool {
        let owners = self.owners();
        owners.get(id).is_some_and(|owner| owner != client_id)
    }

    fn owners(&self) -> MutexGuard<'_, HashMap<SessionId, String>> {
        self.owners.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whose a session is, by the request that begins it.
    async fn own(&self, id: &SessionId, message: &ClientJsonRpcMessage) {
        let ClientJsonRpcMessage::Request(request) = message else {
            return;
        };
        let head = request.request.extensions().get::<Parts>();
        let Some(owner) = head.map(|head| id_of(&self.mcp, &head.headers)) else {
            return;
        };
        let sessions = self.local.sessions.read().await;
        let mut owners = self.owners();
        // A session that ended before it had begun has left its owner.
        if owners.len() >= SESSIONS_MAX {
            owners.retain(|id, _| sessions.contains_key(id));
        }
        owners.insert(id.clone(), owner);
    }
}

impl SessionManager for Sessions {
    type Error = SessionError;
    type Transport = <LocalSessionManager as SessionManager>::Transport;

    async fn create_session(&self) -> Result<(SessionId, Self::Transport), Self::Error> {
        if self.is_full().await {
            return Err(SessionError::TooMany);
        }
        Ok(self.local.create_session().await?)
    }

    async fn initialize_session(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<ServerJsonRpcMessage, Self::Error> {
        self.own(id, &message).await;
        Ok(self.local.initialize_session(id, message).await?)
    }

    async fn has_session(&self, id: &SessionId) -> Result<bool, Self::Error> {
        Ok(self.local.has_session(id).await?)
    }

    async fn close_session(&self, id: &SessionId) -> Result<(), Self::Error> {
        self.owners().remove(id);
        Ok(self.local.close_session(id).await?)
    }

    async fn create_stream(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Self::Error> {
        Ok(self.local.create_stream(id, message).await?)
    }

    async fn accept_message(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<(), Self::Error> {
        Ok(self.local.accept_message(id, message).await?)
    }

    async fn create_standalone_stream(
        &self,
        id: &SessionId,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Self::Error> {
        Ok(self.local.create_standalone_stream(id).await?)
    }

    async fn resume(
        &self,
        id: &SessionId,
        last_event_id: String,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Self::Error> {
        Ok(self.local.resume(id, last_event_id).await?)
    }
}
