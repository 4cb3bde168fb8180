//! The server on standard input and output.

use rmcp::ServiceExt as _;
use tokio::io::{AsyncRead, AsyncWrite};

use super::Mcp;
use super::server::Server;

/// Why a connection did not come about or ended too soon.
#[derive(Debug, thiserror::Error)]
#[error("the connection failed: {0}")]
pub struct StdioError(String);

impl Mcp {
    /// Serves one client, until its input ends.
    ///
    /// # Errors
    /// It did not begin as MCP says.
    pub async fn serve_stdio(
        &self,
        input: impl AsyncRead + Unpin + Send + 'static,
        output: impl AsyncWrite + Unpin + Send + 'static,
    ) -> Result<(), StdioError> {
        let failed = |error: String| StdioError(error);
        let server = Server::new(self.clone()).serve((input, output)).await;
        let server = server.map_err(|error| failed(error.to_string()))?;
        server
            .waiting()
            .await
            .map_err(|error| failed(error.to_string()))?;
        Ok(())
    }
}
