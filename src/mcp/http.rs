//! The server over streamable HTTP.

use std::time::Duration;

use rmcp::model::ErrorCode;
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};

use serde_json::json;

use super::Mcp;
use super::server::Server;
use super::sessions::Sessions;
use super::stdio::VALUES_MAX;
use crate::call::json_values;

/// After so long a stream that has nothing to say says that it is there.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// For so long a session may be idle beyond the time that a client has to answer a question. Protects the host's memory
/// from sessions that were left.
const SESSION_IDLE: Duration = Duration::from_secs(60 * 60);

/// What is answered to a message of too many values, before it is parsed; none to any other.
///
/// It is for whoever serves [`Mcp::http_service`]: the library that parses messages does not count.
pub fn refused(body: &[u8]) -> Option<String> {
    (json_values(body) > VALUES_MAX).then(|| {
        let message = format!("the message has too many values: expected at most {VALUES_MAX}");
        let error = json!({ "code": ErrorCode::INVALID_REQUEST.0, "message": message });
        json!({ "jsonrpc": "2.0", "id": null, "error": error }).to_string()
    })
}

impl Mcp {
    /// What answers requests, each of at most so many bytes. Whoever serves it checks `Host`, `Origin` and tokens
    /// before.
    pub fn http_service(&self, body_bytes_max: usize) -> StreamableHttpService<Server, Sessions> {
        let config = StreamableHttpServerConfig::default()
            .disable_allowed_hosts()
            .disable_allowed_origins()
            .with_sse_keep_alive(Some(KEEP_ALIVE))
            .with_max_request_body_bytes(body_bytes_max);
        let idle_max = self.settings().input_timeout().saturating_add(SESSION_IDLE);
        let mcp = self.clone();
        let server = move || Ok(Server::new(mcp.clone()));
        StreamableHttpService::new(server, Sessions::new(idle_max), config)
    }
}
