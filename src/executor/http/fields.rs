//! Header fields, bounded, with secrets put in.

use http::header::{CONTENT_LENGTH, HOST};
use http::{HeaderMap, HeaderName, HeaderValue};

use super::error::ExchangeError;
use crate::capability::Target;
use crate::config::Secret;

/// Bytes of the fields that a guest makes, with what they take in memory beside their text. Protects
/// the host's heap: a guest may hold as many of them as it may hold resources.
pub(crate) const FIELDS_BYTES_MAX: usize = 32 * 1024;
/// Fields that a guest makes for a request, and fields of a response. Protects the time that it takes to
/// look at them.
pub(super) const FIELDS_MAX: usize = 100;
/// Bytes of the header of a response, as it came and as it is recorded. Protects the host's heap and the
/// ledger.
pub(super) const RESPONSE_HEADER_BYTES_MAX: usize = 64 * 1024;

/// The fields of one request.
pub(super) struct Fields {
    pub(super) sent: HeaderMap,
    /// As they are sent, but for the secrets.
    pub(super) recorded: Vec<(String, String)>,
    /// As they were before secrets were put in: the same wherever the run is replayed.
    pub(super) own: Vec<(String, String)>,
}

/// The guest's fields with the host's own: `Host` says what was checked, the length is that of the body
/// that was collected, and each secret for this target stands in its field in place of whatever was
/// there. Names in `secrets` come in an order in which the last one counts. Bounded is what the guest
/// made, so that nothing that it is told depends on a secret.
pub(super) fn of_request(
    mut guest: HeaderMap,
    target: &Target,
    body_bytes: usize,
    secrets: &[Secret],
) -> Result<Fields, ExchangeError> {
    check_length(&guest, body_bytes)?;
    let host = HeaderValue::try_from(target.authority());
    let host = host.map_err(|error| ExchangeError::Host {
        reason: error.to_string(),
    })?;
    guest.remove(CONTENT_LENGTH);
    guest.insert(HOST, host);
    let own = texts(&guest);
    let bytes = text_bytes(&own);
    if own.len() > FIELDS_MAX || bytes > FIELDS_BYTES_MAX {
        let fields = own.len();
        return Err(ExchangeError::RequestHeader { fields, bytes });
    }
    let secrets: Vec<&Secret> = secrets
        .iter()
        .filter(|secret| secret.is_for(target))
        .collect();
    for secret in &secrets {
        guest.insert(secret.header().clone(), secret.field().clone());
    }
    let shown = |name: &str| {
        let of_field = |secret: &&&Secret| secret.header().as_str() == name;
        secrets.iter().rfind(of_field).map(|secret| secret.shown())
    };
    let mut recorded = texts(&guest);
    for (name, value) in &mut recorded {
        if let Some(shown) = shown(name) {
            *value = shown;
        }
    }
    Ok(Fields {
        sent: guest,
        recorded,
        own,
    })
}

/// A guest may say how long its body is; it has to be true.
fn check_length(guest: &HeaderMap, body_bytes: usize) -> Result<(), ExchangeError> {
    let Some(said) = guest.get(CONTENT_LENGTH) else {
        return Ok(());
    };
    let bytes = u64::try_from(body_bytes).unwrap_or(u64::MAX);
    let expected = said.to_str().ok().and_then(|text| text.parse().ok());
    let expected = expected.unwrap_or(u64::MAX);
    if expected == bytes {
        Ok(())
    } else {
        Err(ExchangeError::RequestLength { bytes, expected })
    }
}

/// Names and values in their order. Bytes of a value that are no text are shown as such.
pub(super) fn texts(fields: &HeaderMap) -> Vec<(String, String)> {
    let text = |value: &HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    fields
        .iter()
        .map(|(name, value)| (name.as_str().to_owned(), text(value)))
        .collect()
}

/// Fields of a response from their texts. One whose name is none, since something in it was replaced, is
/// left out.
pub(super) fn of_texts(texts: &[(String, String)]) -> HeaderMap {
    let mut fields = HeaderMap::new();
    for (name, value) in texts {
        let name = HeaderName::from_bytes(name.as_bytes());
        if let (Ok(name), Ok(value)) = (name, HeaderValue::from_bytes(value.as_bytes())) {
            // There is room in a map for far more of them than a response may have.
            let _fits = fields.try_append(name, value);
        }
    }
    fields
}

/// Bytes of all names and values.
pub(super) fn text_bytes(fields: &[(String, String)]) -> usize {
    let bytes = fields.iter().map(|(name, value)| name.len() + value.len());
    bytes.sum()
}
