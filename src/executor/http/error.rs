//! Why a request has no response.

use wasmtime_wasi_http::Error;

use super::unread::HEADER_BYTES_HELD_MAX;
use crate::executor::run_host::RecordRefused;
use crate::limits::{Limit, LimitKey, LimitReached};

/// Why a request has no response. The message is for the record and for whoever reads it; the guest gets
/// the code.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum ExchangeError {
    /// The policy refuses it, and says so in an event of its own.
    #[error("request denied")]
    Denied,
    /// No address of the host may be connected to, and an event of its own says so.
    #[error("no address of the host may be connected to")]
    Prohibited,
    /// The address is longer than any may be.
    #[error("address too long")]
    UrlTooLong,
    /// A size is above its limit.
    #[error("{} is above the limit of {} bytes (set by {})", key.as_str(), limit.value, limit.source)]
    Body {
        /// Which body.
        key: LimitKey,
        /// Its limit.
        limit: Limit,
    },
    /// The body of the request is not what its field `content-length` says.
    #[error("request body of {bytes} bytes: expected {expected} (content-length)")]
    RequestLength {
        /// What was written.
        bytes: u64,
        /// What was announced.
        expected: u64,
    },
    /// Trailers, which no server of today asks for.
    #[error("request with trailers: expected none")]
    RequestTrailers,
    /// The guest did not finish the body.
    #[error("request body was not finished")]
    RequestAborted,
    /// The fields of the request are too many or too large.
    #[error("request header of {bytes} bytes in {fields} fields")]
    RequestHeader {
        /// How many fields there are.
        fields: usize,
        /// Names and values together.
        bytes: usize,
    },
    /// The fields of the response are.
    #[error("response header too large")]
    ResponseHeader,
    /// The guest keeps too many of those that it got.
    #[error(
        "the responses that the guest holds have headers of {HEADER_BYTES_HELD_MAX} bytes: no room for more"
    )]
    HeadersHeld,
    /// Nobody knows the name.
    #[error("cannot resolve the host: {reason}")]
    Resolve {
        /// What the resolver said.
        reason: String,
    },
    /// The resolver took too long.
    #[error("host not resolved within {ms} ms")]
    ResolveTime {
        /// The bound.
        ms: u128,
    },
    /// No address answered.
    #[error("cannot connect: {reason}")]
    Connect {
        /// What the operating system said.
        reason: String,
    },
    /// No address answered in time.
    #[error("no connection within {ms} ms")]
    ConnectTime {
        /// The bound.
        ms: u128,
    },
    /// The certificate is not trusted, or is another host's.
    #[error("certificate refused: {reason}")]
    Certificate {
        /// What is wrong with it.
        reason: String,
    },
    /// TLS failed in another way.
    #[error("TLS failed: {reason}")]
    Tls {
        /// How.
        reason: String,
    },
    /// The time that the guest itself set for a step of the response.
    #[error("nothing received within the {ms} ms that the guest set")]
    ReadTime {
        /// The bound.
        ms: u128,
    },
    /// The time of the request as a whole.
    #[error("no whole response within http_timeout_ms = {} (set by {})", limit.value, limit.source)]
    Time {
        /// The limit.
        limit: Limit,
    },
    /// The connection ended before the response did.
    #[error("response ended early: {reason}")]
    Incomplete {
        /// Where.
        reason: String,
    },
    /// What came is no HTTP.
    #[error("response is no HTTP/1.1: {reason}")]
    Protocol {
        /// In which way.
        reason: String,
    },
    /// The request or the response could not be put on record.
    #[error("not recorded: {0}")]
    Unrecorded(RecordRefused),
    /// The run may put no more on record.
    #[error("not recorded: {0}")]
    RecordFull(LimitReached),
    /// The run ended.
    #[error("the run ended")]
    RunEnded,
    /// The guest let go of the request.
    #[error("the guest gave the request up")]
    GivenUp,
    /// The host failed.
    #[error("host failed: {reason}")]
    Host {
        /// At what.
        reason: String,
    },
}

impl ExchangeError {
    /// The code for the guest, and its name in `wasi:http`, with which a record begins.
    fn code_and_name(&self) -> (Error, &'static str) {
        match self {
            Self::Denied => (Error::HttpRequestDenied, "HTTP-request-denied"),
            Self::Prohibited => (Error::DestinationIpProhibited, "destination-IP-prohibited"),
            Self::UrlTooLong => (Error::HttpRequestUriTooLong, "HTTP-request-URI-too-long"),
            Self::Body { key, limit } if *key == LimitKey::HttpRequestBytes => (
                Error::HttpRequestBodySize(Some(limit.value)),
                "HTTP-request-body-size",
            ),
            Self::Body { limit, .. } => (
                Error::HttpResponseBodySize(Some(limit.value)),
                "HTTP-response-body-size",
            ),
            Self::RequestLength { bytes, .. } => (
                Error::HttpRequestBodySize(Some(*bytes)),
                "HTTP-request-body-size",
            ),
            Self::RequestTrailers => (
                Error::HttpRequestTrailerSectionSize(Some(0)),
                "HTTP-request-trailer-section-size",
            ),
            Self::RequestAborted | Self::Protocol { .. } => {
                (Error::HttpProtocolError, "HTTP-protocol-error")
            }
            Self::RequestHeader { bytes, .. } => (
                Error::HttpRequestHeaderSectionSize(u32::try_from(*bytes).ok()),
                "HTTP-request-header-section-size",
            ),
            Self::ResponseHeader | Self::HeadersHeld => (
                Error::HttpResponseHeaderSectionSize(None),
                "HTTP-response-header-section-size",
            ),
            Self::Resolve { .. } => (
                Error::DnsError {
                    rcode: None,
                    info_code: None,
                },
                "DNS-error",
            ),
            Self::ResolveTime { .. } => (Error::DnsTimeout, "DNS-timeout"),
            Self::Connect { .. } => (Error::ConnectionRefused, "connection-refused"),
            Self::ConnectTime { .. } => (Error::ConnectionTimeout, "connection-timeout"),
            Self::Certificate { .. } => (Error::TlsCertificateError, "TLS-certificate-error"),
            Self::Tls { .. } => (Error::TlsProtocolError, "TLS-protocol-error"),
            Self::ReadTime { .. } => (Error::ConnectionReadTimeout, "connection-read-timeout"),
            Self::Time { .. } => (Error::HttpResponseTimeout, "HTTP-response-timeout"),
            Self::Incomplete { .. } => (Error::HttpResponseIncomplete, "HTTP-response-incomplete"),
            Self::RunEnded | Self::GivenUp => {
                (Error::ConnectionTerminated, "connection-terminated")
            }
            Self::Unrecorded(_) | Self::RecordFull(_) | Self::Host { .. } => (
                Error::InternalError(Some(self.to_string())),
                "internal-error",
            ),
        }
    }

    /// As it stands in a record, from which the code can be read again.
    pub(super) fn recorded(&self) -> String {
        format!("{}: {self}", self.code_and_name().1)
    }
}

impl From<ExchangeError> for Error {
    fn from(error: ExchangeError) -> Self {
        error.code_and_name().0
    }
}
