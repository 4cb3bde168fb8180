//! A server that is asked over HTTP.

use std::sync::Arc;
use std::time::Duration;

use http::HeaderMap;
use reqwest::redirect;
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::common::client_side_sse::ExponentialBackoff;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;

use super::CALLS_MAX;
use crate::config::Secret;
use crate::tls;

/// Bytes of one answer, or of one event of a stream. Protects the host's heap, where a value of two
/// bytes takes a hundred; less than a line has, since nothing counts the values before they are parsed.
const ANSWER_BYTES_MAX: usize = 8 * 1024 * 1024;
/// Bytes of an error page that are read. Protects the same.
const ERROR_BYTES_MAX: usize = 4 * 1024;
/// How often a stream that broke is taken up again, and how long is waited at most before that.
const RESUMPTIONS_MAX: usize = 3;
const RESUMPTION_TIME_MAX: Duration = Duration::from_secs(5);
/// For how long a connection may be made. Protects callers from an address that does not answer.
const CONNECT_TIME: Duration = Duration::from_secs(10);

/// A connection that is not made before something is sent.
pub(super) async fn transport(
    url: &str,
    secret: Option<&Secret>,
    ca_certificates: &Arc<[Vec<u8>]>,
) -> Result<StreamableHttpClientTransport<reqwest::Client>, String> {
    let tls = if url.starts_with("https:") {
        let extra = Arc::clone(ca_certificates);
        // The system's certificates are files.
        let made = tokio::task::spawn_blocking(move || tls::trusting(&extra)).await;
        made.map_err(|error| error.to_string())?
    } else {
        tls::trusting_nobody()
    };
    let tls = tls.map_err(|error| format!("cannot set up TLS: {error}"))?;
    let mut headers = HeaderMap::new();
    if let Some(secret) = secret {
        headers.insert(secret.header().clone(), secret.field().clone());
    }
    // A redirect would carry the secret and the call to where the operator did not send them.
    let client = reqwest::Client::builder()
        .tls_backend_preconfigured(tls)
        .redirect(redirect::Policy::none())
        .no_proxy()
        .retry(reqwest::retry::never())
        .connect_timeout(CONNECT_TIME)
        .user_agent(concat!("skillrun/", env!("CARGO_PKG_VERSION")))
        .default_headers(headers)
        .build()
        .map_err(|error| format!("cannot set up the client: {}", error.without_url()))?;
    let mut retries = ExponentialBackoff::default();
    retries.max_times = Some(RESUMPTIONS_MAX);
    retries.max_delay = Some(RESUMPTION_TIME_MAX);
    let mut config = StreamableHttpClientTransportConfig::with_uri(url)
        .max_sse_event_size(ANSWER_BYTES_MAX)
        .max_concurrent_requests(CALLS_MAX)
        // It sends calls a second time. A new connection for the next call does without.
        .reinit_on_expired_session(false);
    config.retry_config = Arc::new(retries);
    config.max_json_response_size = ANSWER_BYTES_MAX;
    config.max_error_response_size = ERROR_BYTES_MAX;
    Ok(StreamableHttpClientTransport::with_client(client, config))
}
