//! Sessions of clients of the revisions that have them, over HTTP: as many as there may be.

use std::sync::Arc;
use std::time::Duration;

use futures_util::Stream;
use rmcp::model::{ClientJsonRpcMessage, ServerJsonRpcMessage};
use rmcp::transport::common::server_side_http::{ServerSseMessage, SessionId};
use rmcp::transport::streamable_http_server::session::SessionManager;
use rmcp::transport::streamable_http_server::session::local::{
    LocalSessionManager, LocalSessionManagerError,
};

/// Sessions at once. One that nobody uses ends by itself. Protects the host's memory from clients that begin
/// sessions and leave them.
const SESSIONS_MAX: usize = 1_024;

/// Why there is no session, or none that takes a message.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// There are as many as there may be.
    #[error("{SESSIONS_MAX} sessions are open: expected at most so many")]
    TooMany,
    /// The session cannot do what was asked of it.
    #[error(transparent)]
    Local(#[from] LocalSessionManagerError),
}

/// The sessions of one server.
pub struct Sessions(LocalSessionManager);

impl Sessions {
    /// Sessions that end when nothing passes for `idle_max`: a call for which a person is waited for says nothing all
    /// that time.
    pub(super) fn new(idle_max: Duration) -> Arc<Self> {
        let mut sessions = LocalSessionManager::default();
        sessions.session_config.keep_alive = Some(idle_max);
        Arc::new(Self(sessions))
    }
}

impl SessionManager for Sessions {
    type Error = SessionError;
    type Transport = <LocalSessionManager as SessionManager>::Transport;

    async fn create_session(&self) -> Result<(SessionId, Self::Transport), Self::Error> {
        if self.0.sessions.read().await.len() >= SESSIONS_MAX {
            return Err(SessionError::TooMany);
        }
        Ok(self.0.create_session().await?)
    }

    async fn initialize_session(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<ServerJsonRpcMessage, Self::Error> {
        Ok(self.0.initialize_session(id, message).await?)
    }

    async fn has_session(&self, id: &SessionId) -> Result<bool, Self::Error> {
        Ok(self.0.has_session(id).await?)
    }

    async fn close_session(&self, id: &SessionId) -> Result<(), Self::Error> {
        Ok(self.0.close_session(id).await?)
    }

    async fn create_stream(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Self::Error> {
        Ok(self.0.create_stream(id, message).await?)
    }

    async fn accept_message(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<(), Self::Error> {
        Ok(self.0.accept_message(id, message).await?)
    }

    async fn create_standalone_stream(
        &self,
        id: &SessionId,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Self::Error> {
        Ok(self.0.create_standalone_stream(id).await?)
    }

    async fn resume(
        &self,
        id: &SessionId,
        last_event_id: String,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Self::Error> {
        Ok(self.0.resume(id, last_event_id).await?)
    }
}
