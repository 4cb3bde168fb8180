//! What of responses the host keeps for a guest, bounded.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue};

use super::error::ExchangeError;
use super::fields::{self, FIELDS_MAX, RESPONSE_HEADER_BYTES_MAX};
use crate::executor::run_host::HttpResponse;
use crate::limits::{Limit, LimitKey};

/// Bytes of the headers of responses that a guest has at once: hundreds of usual ones, and about a
/// hundred of the largest. Protects the host's heap from a guest that lets none of them go.
pub(super) const HEADER_BYTES_HELD_MAX: u64 = 8 * 1024 * 1024;
/// What a field takes in memory beside its text, and a response beside its fields.
const FIELD_OVERHEAD_BYTES: u64 = 256;
const RESPONSE_OVERHEAD_BYTES: u64 = 1024;

/// The responses that a guest has asked for and is not through with. Protects the host's heap from a
/// guest that never reads any.
pub(super) struct Unread {
    body_bytes: AtomicU64,
    body_bytes_max: u64,
    /// What one body may have.
    body_limit: Limit,
    header_bytes: AtomicU64,
}

impl Unread {
    /// Of bodies within `body_limit`, as much as `bodies` of the largest have.
    pub(super) fn new(body_limit: Limit, bodies: u64) -> Arc<Self> {
        Arc::new(Self {
            body_bytes: AtomicU64::new(0),
            body_bytes_max: body_limit.value.saturating_mul(bodies),
            body_limit,
            header_bytes: AtomicU64::new(0),
        })
    }

    /// Takes in the header of a response: `header_bytes` of text in `fields`. Of its body nothing came
    /// yet.
    pub(super) fn hold(
        self: &Arc<Self>,
        header_bytes: usize,
        fields: usize,
    ) -> Result<Hold, ExchangeError> {
        let bytes = held_bytes(header_bytes, fields);
        if !take(&self.header_bytes, bytes, HEADER_BYTES_HELD_MAX) {
            return Err(ExchangeError::HeadersHeld);
        }
        Ok(self.held(bytes))
    }

    /// Takes in a response that is on record. There was room for it when it came, and the guest gets it
    /// again, whatever of others it holds by now. So each is bounded by itself, and all of them together
    /// by what a run may have on record.
    pub(super) fn recall(self: &Arc<Self>, response: &HttpResponse) -> Result<Hold, ExchangeError> {
        let header_bytes = check_header(response)?;
        let bytes = held_bytes(header_bytes, response.headers.len());
        self.header_bytes.fetch_add(bytes, Ordering::Relaxed);
        let mut hold = self.held(bytes);
        let body_bytes = u64::try_from(response.body.len()).unwrap_or(u64::MAX);
        hold.check(body_bytes)?;
        self.body_bytes.fetch_add(body_bytes, Ordering::Relaxed);
        hold.body_bytes = body_bytes;
        Ok(hold)
    }

    fn held(self: &Arc<Self>, header_bytes: u64) -> Hold {
        Hold {
            header: Arc::new(HeaderHold {
                unread: Arc::clone(self),
                bytes: header_bytes,
            }),
            body_bytes: 0,
        }
    }
}

/// What a header of so much text in so many fields takes in memory.
fn held_bytes(header_bytes: usize, fields: usize) -> u64 {
    let [text, fields] =
        [header_bytes, fields].map(|number| u64::try_from(number).unwrap_or(u64::MAX));
    fields
        .saturating_mul(FIELD_OVERHEAD_BYTES)
        .saturating_add(text)
        .saturating_add(RESPONSE_OVERHEAD_BYTES)
}

/// The bytes of a header that is within the bounds.
fn check_header(response: &HttpResponse) -> Result<usize, ExchangeError> {
    let bytes = fields::text_bytes(&response.headers);
    if response.headers.len() > FIELDS_MAX || bytes > RESPONSE_HEADER_BYTES_MAX {
        return Err(ExchangeError::ResponseHeader);
    }
    Ok(bytes)
}

/// Whether there was room for `bytes` more.
fn take(taken: &AtomicU64, bytes: u64, bytes_max: u64) -> bool {
    let more = |all: u64| all.checked_add(bytes).filter(|&all| all <= bytes_max);
    taken
        .fetch_update(Ordering::Relaxed, Ordering::Relaxed, more)
        .is_ok()
}

/// The part of it that one response takes.
pub(super) struct Hold {
    header: Arc<HeaderHold>,
    body_bytes: u64,
}

impl Hold {
    /// Whether `bytes` more of the body can be taken in.
    pub(super) fn check(&self, bytes: u64) -> Result<(), ExchangeError> {
        if self.body_bytes.saturating_add(bytes) > self.unread().body_limit.value {
            return Err(self.full());
        }
        Ok(())
    }

    /// Takes in `bytes` more of the body.
    pub(super) fn add(&mut self, bytes: u64) -> Result<(), ExchangeError> {
        self.check(bytes)?;
        let unread = self.unread();
        if !take(&unread.body_bytes, bytes, unread.body_bytes_max) {
            return Err(self.full());
        }
        self.body_bytes += bytes;
        Ok(())
    }

    /// Counts the response as it is when everything came and secrets were taken out of it, which can make
    /// it longer.
    pub(super) fn fit(&mut self, response: &HttpResponse) -> Result<(), ExchangeError> {
        let unread = Arc::clone(self.unread());
        let header_bytes = check_header(response)?;
        if held_bytes(header_bytes, response.headers.len()) != self.header.bytes {
            let held = unread.hold(header_bytes, response.headers.len())?;
            self.header = Arc::clone(&held.header);
        }
        let body_bytes = u64::try_from(response.body.len()).unwrap_or(u64::MAX);
        match body_bytes.checked_sub(self.body_bytes) {
            Some(more) => self.add(more),
            None => {
                let less = self.body_bytes - body_bytes;
                unread.body_bytes.fetch_sub(less, Ordering::Relaxed);
                self.body_bytes = body_bytes;
                Ok(())
            }
        }
    }

    /// Lets the header count for as long as there is a value of it, since a guest can keep the fields
    /// without the body.
    pub(super) fn keep_with(&self, fields: &mut HeaderMap) -> Result<(), ExchangeError> {
        for value in fields.values_mut() {
            let held = HeldValue {
                bytes: value.as_bytes().into(),
                _header: Arc::clone(&self.header),
            };
            let copied = HeaderValue::from_maybe_shared(Bytes::from_owner(held));
            *value = copied.map_err(|error| ExchangeError::Host {
                reason: error.to_string(),
            })?;
        }
        Ok(())
    }

    fn unread(&self) -> &Arc<Unread> {
        &self.header.unread
    }

    fn full(&self) -> ExchangeError {
        ExchangeError::Body {
            key: LimitKey::HttpResponseBytes,
            limit: self.unread().body_limit,
        }
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        let taken = &self.unread().body_bytes;
        taken.fetch_sub(self.body_bytes, Ordering::Relaxed);
    }
}

/// The header of one response.
struct HeaderHold {
    unread: Arc<Unread>,
    bytes: u64,
}

impl Drop for HeaderHold {
    fn drop(&mut self) {
        let taken = &self.unread.header_bytes;
        taken.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// One value of it.
struct HeldValue {
    bytes: Box<[u8]>,
    _header: Arc<HeaderHold>,
}

impl AsRef<[u8]> for HeldValue {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use http::{HeaderMap, HeaderValue};

    use super::{ExchangeError, HEADER_BYTES_HELD_MAX, Unread};
    use crate::executor::run_host::HttpResponse;
    use crate::limits::{LimitKey, LimitOverrides, Limits, Source};

    #[test]
    fn a_header_counts_while_a_field_of_it_is_kept() {
        for value in ["text", ""] {
            let unread = Unread::new(Limits::default().get(LimitKey::HttpResponseBytes), 1);
            let mut fields = HeaderMap::new();
            fields.insert("a", HeaderValue::from_static(value));
            fields.append("a", HeaderValue::from_bytes(b"\xe4").unwrap());
            let before = fields.clone();
            let hold = unread.hold(10, 2).unwrap();
            hold.keep_with(&mut fields).unwrap();
            assert_eq!(fields, before);
            let held = || unread.header_bytes.load(Ordering::Relaxed);
            assert_eq!(held(), 10 + 2 * 256 + 1024);
            drop(hold);
            let kept = fields.get("a").cloned();
            drop(fields);
            assert_eq!(held(), 10 + 2 * 256 + 1024);
            drop(kept);
            assert_eq!(held(), 0);
        }
    }

    #[test]
    fn headers_have_room_of_their_own() {
        let unread = Unread::new(Limits::default().get(LimitKey::HttpResponseBytes), 1);
        let most = usize::try_from(HEADER_BYTES_HELD_MAX).unwrap() - 1024;
        let mut hold = unread.hold(most, 0).unwrap();
        hold.add(8 * 1024 * 1024).unwrap();
        assert_eq!(unread.hold(0, 0).err(), Some(ExchangeError::HeadersHeld));
        drop(hold);
        assert!(unread.hold(most, 0).is_ok());
        assert_eq!(unread.hold(most, 1).err(), Some(ExchangeError::HeadersHeld));
    }

    fn response(body_bytes: usize, value: &str) -> HttpResponse {
        HttpResponse {
            status: 200,
            headers: vec![("a".to_owned(), value.to_owned())],
            body: vec![b'x'; body_bytes].into(),
        }
    }

    #[test]
    fn a_response_counts_as_it_is_recorded() {
        let limits = LimitOverrides::from([("http_response_bytes".to_owned(), 100)]);
        let limits = Limits::default().with(Source::Config, &limits).unwrap();
        let unread = Unread::new(limits.get(LimitKey::HttpResponseBytes), 2);
        let counted = |unread: &Unread| {
            let [header, body] = [&unread.header_bytes, &unread.body_bytes];
            [header, body].map(|bytes| bytes.load(Ordering::Relaxed))
        };
        let mut hold = unread.hold(5, 1).unwrap();
        hold.add(50).unwrap();
        assert_eq!(counted(&unread), [5 + 256 + 1024, 50]);
        hold.fit(&response(80, "longer")).unwrap();
        assert_eq!(counted(&unread), [7 + 256 + 1024, 80]);
        hold.fit(&response(20, "")).unwrap();
        assert_eq!(counted(&unread), [1 + 256 + 1024, 20]);
        assert!(hold.fit(&response(101, "")).is_err());
        drop(hold);
        assert_eq!(counted(&unread), [0, 0]);
        // From the record they come whether there is room or not, and are in the way of those that do not.
        let held: Vec<_> = (0..3)
            .map(|_| unread.recall(&response(100, "")).unwrap())
            .collect();
        assert_eq!(counted(&unread)[1], 300);
        assert!(unread.hold(0, 0).unwrap().add(1).is_err());
        drop(held);
        assert_eq!(counted(&unread), [0, 0]);
        // None is larger than one may be, whatever a record says.
        assert!(unread.recall(&response(101, "")).is_err());
        assert!(unread.recall(&response(1, &"x".repeat(65_536))).is_err());
        assert_eq!(counted(&unread), [0, 0]);
    }
}
