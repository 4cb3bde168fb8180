//! The server over streamable HTTP.

use std::time::Duration;

use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};

use super::Mcp;
use super::server::Server;
use super::sessions::Sessions;

/// After so long a stream that has nothing to say says that it is there.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

impl Mcp {
    /// What answers requests, each of at most so many bytes. Whoever serves it checks `Host`, `Origin` and tokens
    /// before.
    pub fn http_service(&self, body_bytes_max: usize) -> StreamableHttpService<Server, Sessions> {
        let config = StreamableHttpServerConfig::default()
            .disable_allowed_hosts()
            .disable_allowed_origins()
            .with_sse_keep_alive(Some(KEEP_ALIVE))
            .with_max_request_body_bytes(body_bytes_max);
        let mcp = self.clone();
        let server = move || Ok(Server::new(mcp.clone()));
        StreamableHttpService::new(server, Sessions::new(), config)
    }
}
