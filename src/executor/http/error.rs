//! Why a request has no response.

use wasmtime_wasi_http::Error;

use super::unread::HEADER_BYTES_HELD_MAX;
use crate::executor::guest_record::cut;
use crate::executor::run_host::RecordRefused;
use crate::limits::{Limit, LimitKey, LimitReached};

/// Bytes of a message that are recorded, and told. Protects the ledger's readers and the guest, since
/// part of it may come from a server, and all of it from a ledger that was tampered with.
const MESSAGE_BYTES_MAX: usize = 1024;
/// The one code that takes a message along.
const INTERNAL_ERROR: &str = "internal-error";

/// Why a request has no response. The message is for the record and for whoever reads it; the guest gets
/// the code, which can be read from the record again.
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
    /// It is on record, in these words.
    #[error("{0}")]
    Recorded(String),
}

impl ExchangeError {
    /// The name of the code for the guest in `wasi:http`, and the number that comes with it.
    fn code(&self) -> (&'static str, Option<u64>) {
        match self {
            Self::Denied => ("HTTP-request-denied", None),
            Self::Prohibited => ("destination-IP-prohibited", None),
            Self::UrlTooLong => ("HTTP-request-URI-too-long", None),
            Self::Body { key, limit } if *key == LimitKey::HttpRequestBytes => {
                ("HTTP-request-body-size", Some(limit.value))
            }
            Self::Body { limit, .. } => ("HTTP-response-body-size", Some(limit.value)),
            Self::RequestLength { bytes, .. } => ("HTTP-request-body-size", Some(*bytes)),
            Self::RequestTrailers => ("HTTP-request-trailer-section-size", Some(0)),
            Self::RequestAborted | Self::Protocol { .. } => ("HTTP-protocol-error", None),
            Self::RequestHeader { bytes, .. } => {
                let bytes = u32::try_from(*bytes).ok();
                ("HTTP-request-header-section-size", bytes.map(u64::from))
            }
            Self::ResponseHeader | Self::HeadersHeld => ("HTTP-response-header-section-size", None),
            Self::Resolve { .. } => ("DNS-error", None),
            Self::ResolveTime { .. } => ("DNS-timeout", None),
            Self::Connect { .. } => ("connection-refused", None),
            Self::ConnectTime { .. } => ("connection-timeout", None),
            Self::Certificate { .. } => ("TLS-certificate-error", None),
            Self::Tls { .. } => ("TLS-protocol-error", None),
            Self::ReadTime { .. } => ("connection-read-timeout", None),
            Self::Time { .. } => ("HTTP-response-timeout", None),
            Self::Incomplete { .. } => ("HTTP-response-incomplete", None),
            Self::RunEnded | Self::GivenUp => ("connection-terminated", None),
            Self::Unrecorded(_) | Self::RecordFull(_) | Self::Host { .. } | Self::Recorded(_) => {
                (INTERNAL_ERROR, None)
            }
        }
    }

    /// As it stands in a record, with all that the guest is told: the code's name, its number in brackets
    /// where it has one, and the message.
    pub(super) fn recorded(&self) -> String {
        if let Self::Recorded(text) = self {
            return text.clone();
        }
        let (name, number) = self.code();
        let message = self.to_string();
        let message = cut(&message, MESSAGE_BYTES_MAX);
        match number {
            Some(number) => format!("{name}({number}): {message}"),
            None => format!("{name}: {message}"),
        }
    }
}

/// The code for the guest. A message goes with one of them only.
fn told(name: &str, number: Option<u64>, message: &str) -> Option<Error> {
    let small = |number| u32::try_from(number).ok();
    Some(match (name, number) {
        ("HTTP-request-body-size", Some(bytes)) => Error::HttpRequestBodySize(Some(bytes)),
        ("HTTP-response-body-size", Some(bytes)) => Error::HttpResponseBodySize(Some(bytes)),
        ("HTTP-request-trailer-section-size", Some(bytes)) => {
            Error::HttpRequestTrailerSectionSize(Some(small(bytes)?))
        }
        ("HTTP-request-header-section-size", Some(bytes)) => {
            Error::HttpRequestHeaderSectionSize(Some(small(bytes)?))
        }
        (_, Some(_)) => return None,
        ("HTTP-request-header-section-size", None) => Error::HttpRequestHeaderSectionSize(None),
        ("HTTP-response-header-section-size", None) => Error::HttpResponseHeaderSectionSize(None),
        ("HTTP-request-denied", None) => Error::HttpRequestDenied,
        ("destination-IP-prohibited", None) => Error::DestinationIpProhibited,
        ("HTTP-request-URI-too-long", None) => Error::HttpRequestUriTooLong,
        ("HTTP-protocol-error", None) => Error::HttpProtocolError,
        ("DNS-error", None) => Error::DnsError {
            rcode: None,
            info_code: None,
        },
        ("DNS-timeout", None) => Error::DnsTimeout,
        ("connection-refused", None) => Error::ConnectionRefused,
        ("connection-timeout", None) => Error::ConnectionTimeout,
        ("connection-read-timeout", None) => Error::ConnectionReadTimeout,
        ("connection-terminated", None) => Error::ConnectionTerminated,
        ("TLS-certificate-error", None) => Error::TlsCertificateError,
        ("TLS-protocol-error", None) => Error::TlsProtocolError,
        ("HTTP-response-timeout", None) => Error::HttpResponseTimeout,
        ("HTTP-response-incomplete", None) => Error::HttpResponseIncomplete,
        (INTERNAL_ERROR, None) => internal(message),
        _ => return None,
    })
}

fn internal(message: &str) -> Error {
    Error::InternalError(Some(cut(message, MESSAGE_BYTES_MAX).to_owned()))
}

/// What a text of [`ExchangeError::recorded`] tells the guest. Any other is an internal error that says
/// this text.
fn read(text: &str) -> Error {
    let known = || {
        let (code, message) = text.split_once(": ")?;
        match code.strip_suffix(')').and_then(|code| code.split_once('(')) {
            Some((name, number)) => told(name, Some(written(number)?), message),
            None => told(code, None, message),
        }
    };
    known().unwrap_or_else(|| internal(text))
}

/// A number as it is written by us, and in no other way.
fn written(text: &str) -> Option<u64> {
    let number: u64 = text.parse().ok()?;
    (number.to_string() == text).then_some(number)
}

impl From<ExchangeError> for Error {
    fn from(error: ExchangeError) -> Self {
        if let ExchangeError::Recorded(text) = &error {
            return read(text);
        }
        let (name, number) = error.code();
        let message = error.to_string();
        told(name, number, &message).unwrap_or_else(|| internal(&message))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proptest::prelude::*;

    use super::{Error, ExchangeError, read};
    use crate::executor::run_host::RecordRefused;
    use crate::limits::{Budget, Limit, LimitKey, LimitOverrides, Limits, Source};

    fn limited(key: LimitKey) -> impl Strategy<Value = Limit> {
        (1..10_000_i64).prop_map(move |value| {
            let set = LimitOverrides::from([(key.as_str().to_owned(), value)]);
            let limits = Limits::default().with(Source::Config, &set);
            limits.unwrap().get(key)
        })
    }

    /// Errors with a text, most of it from elsewhere.
    fn with_a_reason(reason: String) -> Vec<ExchangeError> {
        let invalid = RecordRefused::Invalid {
            reason: reason.clone(),
        };
        let kinds: [fn(String) -> ExchangeError; 7] = [
            |reason| ExchangeError::Resolve { reason },
            |reason| ExchangeError::Connect { reason },
            |reason| ExchangeError::Certificate { reason },
            |reason| ExchangeError::Tls { reason },
            |reason| ExchangeError::Incomplete { reason },
            |reason| ExchangeError::Protocol { reason },
            |reason| ExchangeError::Host { reason },
        ];
        let errors = kinds.into_iter().map(|kind| kind(reason.clone()));
        errors.chain([ExchangeError::Unrecorded(invalid)]).collect()
    }

    fn with_a_time(ms: u64) -> Vec<ExchangeError> {
        let ms = u128::from(ms);
        vec![
            ExchangeError::ResolveTime { ms },
            ExchangeError::ConnectTime { ms },
            ExchangeError::ReadTime { ms },
        ]
    }

    fn plain() -> Vec<ExchangeError> {
        let budget = Budget::new(Arc::default(), None);
        vec![
            ExchangeError::Denied,
            ExchangeError::Prohibited,
            ExchangeError::UrlTooLong,
            ExchangeError::RequestTrailers,
            ExchangeError::RequestAborted,
            ExchangeError::ResponseHeader,
            ExchangeError::HeadersHeld,
            ExchangeError::Unrecorded(RecordRefused::Unavailable),
            ExchangeError::RecordFull(budget.reached(LimitKey::GuestEventBytes)),
            ExchangeError::RunEnded,
            ExchangeError::GivenUp,
        ]
    }

    /// Every error there is.
    fn errors() -> impl Strategy<Value = ExchangeError> {
        let body = |key| limited(key).prop_map(move |limit| ExchangeError::Body { key, limit });
        let numbers = (any::<u64>(), any::<u64>());
        let sizes = (any::<usize>(), any::<usize>());
        prop_oneof![
            prop::sample::select(plain()),
            "(?s).{0,40}|(?s).{2000}"
                .prop_flat_map(|text| prop::sample::select(with_a_reason(text))),
            any::<u64>().prop_flat_map(|ms| prop::sample::select(with_a_time(ms))),
            body(LimitKey::HttpRequestBytes),
            body(LimitKey::HttpResponseBytes),
            limited(LimitKey::HttpTimeoutMs).prop_map(|limit| ExchangeError::Time { limit }),
            numbers.prop_map(|(bytes, expected)| ExchangeError::RequestLength { bytes, expected }),
            sizes.prop_map(|(fields, bytes)| ExchangeError::RequestHeader { fields, bytes }),
        ]
    }

    proptest! {
        #[test]
        fn the_record_tells_the_guest_what_it_was_told(error in errors()) {
            let recorded = error.recorded();
            let told = format!("{:?}", Error::from(error.clone()));
            prop_assert_eq!(&format!("{:?}", read(&recorded)), &told);
            let again = Error::from(ExchangeError::Recorded(recorded.clone()));
            prop_assert_eq!(&format!("{again:?}"), &told);
            prop_assert_eq!(ExchangeError::Recorded(recorded.clone()).recorded(), recorded);
            if !matches!(
                error,
                ExchangeError::Host { .. } | ExchangeError::RecordFull(_) | ExchangeError::Unrecorded(_)
            ) {
                prop_assert!(!told.starts_with("InternalError"), "{}", told);
            }
        }

        #[test]
        fn any_other_text_is_an_internal_error(text in any::<String>()) {
            prop_assert!(matches!(read(&text), Error::InternalError(Some(_))));
        }

        #[test]
        fn a_forged_number_is_none(
            name in "HTTP-request-body-size|connection-refused|internal-error|HTTP-request-header-section-size",
            // More than any number of 64 bits, or a sign that none of ours has.
            number in "[2-9][0-9]{19,29}|[+-][0-9]{1,30}|x|",
        ) {
            let told = read(&format!("{name}({number}): message"));
            prop_assert!(matches!(told, Error::InternalError(Some(_))), "{:?}", told);
        }
    }

    /// Before it held all that the guest is told, a record had the code's name alone.
    #[test]
    fn a_text_of_older_ledgers_is_read_as_far_as_it_says_enough() {
        let told = read("HTTP-response-body-size: http_response_bytes is above the limit");
        assert!(matches!(told, Error::InternalError(Some(_))), "{told:?}");
        let told = read("connection-refused: cannot connect: 127.0.0.1:1: refused");
        assert!(matches!(told, Error::ConnectionRefused), "{told:?}");
        let Error::InternalError(Some(message)) = read(&"x".repeat(100_000)) else {
            panic!("another code");
        };
        assert_eq!(message.len(), super::MESSAGE_BYTES_MAX);
    }
}
