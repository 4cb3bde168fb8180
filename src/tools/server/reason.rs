//! Why a connection failed, in few words. What the library says of itself names types, repeats its causes
//! and quotes addresses, whose query may hold a key.

use std::error::Error;

use rmcp::service::ClientInitializeError;
use rmcp::transport::DynamicTransportError;
use rmcp::transport::streamable_http_client::StreamableHttpError;

/// Why a server was not ready.
pub(super) fn of_start(error: &ClientInitializeError) -> String {
    match error {
        ClientInitializeError::TransportError { error, .. } => of_transport(error),
        ClientInitializeError::LegacyFallbackFailed { fallback, .. } => of_start(fallback),
        ClientInitializeError::JsonRpcError(error) => {
            format!("it refused to begin: {} ({})", error.message, error.code.0)
        }
        ClientInitializeError::ConnectionClosed(_) => "it closed the connection".to_owned(),
        ClientInitializeError::NoCompatibleProtocolVersion { .. } => {
            "it speaks no version of the protocol that is known here".to_owned()
        }
        _ => "it began with something that is no answer".to_owned(),
    }
}

/// Why nothing could be sent.
pub(super) fn of_transport(error: &DynamicTransportError) -> String {
    let inner: &(dyn Error + 'static) = error.error.as_ref();
    match inner.downcast_ref::<StreamableHttpError<reqwest::Error>>() {
        Some(error) => of_http(error),
        None => deepest(inner),
    }
}

fn of_http(error: &StreamableHttpError<reqwest::Error>) -> String {
    match error {
        StreamableHttpError::Client(error) => of_request(error),
        // The text is a preview of what the server said.
        StreamableHttpError::UnexpectedServerResponse(_) => {
            "it answered with something that is no message".to_owned()
        }
        StreamableHttpError::Deserialize(_) => {
            "it answered with something that is no message".to_owned()
        }
        StreamableHttpError::AuthRequired(_) | StreamableHttpError::InsufficientScope(_) => {
            "it wants to know who asks, and does not accept the secret, if there is one".to_owned()
        }
        StreamableHttpError::SessionExpired => "it ended the session".to_owned(),
        StreamableHttpError::TransportChannelClosed => "the connection was closed".to_owned(),
        other => deepest(other),
    }
}

fn of_request(error: &reqwest::Error) -> String {
    if let Some(status) = error.status() {
        return format!("it answered with status {}", status.as_u16());
    }
    error
        .source()
        .map_or_else(|| "the request cannot be sent".to_owned(), deepest)
}

/// The last cause: what comes before it says the same in more words.
fn deepest(error: &(dyn Error + 'static)) -> String {
    let mut deepest = error;
    while let Some(source) = deepest.source() {
        deepest = source;
    }
    deepest.to_string()
}
