//! Which requests are on record without a result, so that each gets one.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use http::header::CONTENT_LENGTH;

use super::error::ExchangeError;
use super::wire::Answer;
use crate::clock::Stopwatch;
use crate::executor::guest_record::GuestRecord;
use crate::executor::run_host::{HttpCallId, HttpRequest, HttpResponse, RecordRefused};
use crate::limits::LimitKey;

/// Bytes from which on the record keeps the fields of a message or a body beside its lines, where they
/// are bounded in another way.
const INLINE_BYTES_MAX: u64 = 64 * 1024;
/// What stands in a line for one of those: where it is, and how it begins.
const REFERENCE_BYTES: u64 = 1024;
/// What the two lines of a request take beside that, the reason why there is no response included, so
/// that a flood of empty ones ends too.
const LINES_OVERHEAD_BYTES: u64 = 2 * 256;
/// What the name of a secret takes, with the field that it stands in. The operator chose both.
const SECRET_FIELD_BYTES: u64 = 128;
/// Quotes, brackets and commas of a header field.
const FIELD_OVERHEAD_BYTES: u64 = 8;

/// The requests of one run that are on record without a result. When the call of the guest ends they get
/// one, before the run is seen to end, and no more is taken. When it is cut off in its middle they get
/// none.
pub(super) struct Calls {
    record: Arc<GuestRecord>,
    open: Mutex<Open>,
}

#[derive(Default)]
struct Open {
    ended: bool,
    calls: BTreeMap<String, (HttpCallId, Stopwatch)>,
}

impl Calls {
    pub(super) fn new(record: Arc<GuestRecord>) -> Self {
        Self {
            record,
            open: Mutex::default(),
        }
    }

    fn open(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether an event is being written.
    #[cfg(test)]
    pub(super) fn is_locked(&self) -> bool {
        self.open.try_lock().is_err()
    }

    /// Takes the room that a request has in the record, with the end of it if that is no response. It is
    /// the same wherever the run is replayed: what secrets take has a fixed size.
    pub(super) fn charge_request(
        &self,
        url: &str,
        own: &[(String, String)],
        body: &[u8],
        secrets: u64,
    ) -> Result<(), ExchangeError> {
        let bytes = LINES_OVERHEAD_BYTES
            .saturating_add(secrets.saturating_mul(SECRET_FIELD_BYTES))
            .saturating_add(text_bytes(url))
            .saturating_add(message_bytes(own, body));
        let taken = self.record.budget().take(LimitKey::GuestEventBytes, bytes);
        taken.map_err(ExchangeError::RecordFull)
    }

    /// Takes the room of a response that has it already.
    pub(super) fn charge_recalled(&self, response: &HttpResponse) {
        let bytes = message_bytes(&response.headers, &response.body);
        // There was room for it when it came.
        let _had_room = self.record.budget().spend(LimitKey::GuestEventBytes, bytes);
    }

    /// Writes something else to the record, unless the run ended.
    pub(super) fn write(&self, write: impl FnOnce(&GuestRecord)) {
        let open = self.open();
        if !open.ended {
            write(&self.record);
        }
    }

    /// Puts a request on record. Nothing of it may be sent before this returns.
    pub(super) async fn begin(
        self: &Arc<Self>,
        id: HttpCallId,
        request: HttpRequest<'_>,
    ) -> Result<OpenCall, ExchangeError> {
        let call = OpenCall {
            calls: Arc::clone(self),
            call_id: id.call_id.clone(),
        };
        let recorded = {
            // The lock is held while the event is written, so that the end of the run, which ends what is
            // open, comes before it or after it.
            let mut open = self.open();
            if open.ended {
                return Err(ExchangeError::RunEnded);
            }
            let since = self.record.stopwatch();
            open.calls.insert(id.call_id.clone(), (id.clone(), since));
            self.record.host().http_call(&id, request)
        };
        if let Err(refused) = recorded.await {
            self.open().calls.remove(&id.call_id);
            return Err(ExchangeError::Unrecorded(refused));
        }
        Ok(call)
    }

    /// What came as it will be on record, if there is room for that.
    fn redacted(&self, answer: Answer) -> Result<Answer, ExchangeError> {
        let Answer { response, mut hold } = answer;
        let body_bytes = response.body.len();
        let mut response = self
            .record
            .host()
            .redact_http(Ok(response))
            .map_err(ExchangeError::Unrecorded)?
            .map_err(|reason| ExchangeError::Host { reason })?;
        if response.body.len() != body_bytes {
            // It would tell the length of what nobody gets.
            let is_length = |name: &str| name.eq_ignore_ascii_case(CONTENT_LENGTH.as_str());
            response.headers.retain(|(name, _)| !is_length(name));
        }
        hold.fit(&response)?;
        let bytes = message_bytes(&response.headers, &response.body);
        let taken = self.record.budget().take(LimitKey::GuestEventBytes, bytes);
        taken.map_err(ExchangeError::RecordFull)?;
        Ok(Answer { response, hold })
    }

    /// Why there is no response, as it will be on record.
    fn reason(&self, error: &ExchangeError) -> Result<String, RecordRefused> {
        let redacted = self.record.host().redact_http(Err(error.recorded()))?;
        Ok(redacted.err().unwrap_or_default())
    }

    /// Puts the end of a request on record, unless that was done, and gives what is recorded.
    fn end(
        &self,
        call_id: &str,
        end: Result<Answer, ExchangeError>,
    ) -> Result<Answer, ExchangeError> {
        let end = end.and_then(|answer| self.redacted(answer));
        // The lock is held while the event is written, so that none comes after the run's end.
        let mut open = self.open();
        let Some((id, since)) = open.calls.remove(call_id) else {
            return Err(ExchangeError::RunEnded);
        };
        let host = self.record.host();
        let error = match end {
            Ok(answer) => {
                let response = Ok(&answer.response);
                match host.http_result(&id, response, since.elapsed_micros()) {
                    Ok(()) => return Ok(answer),
                    Err(refused) => ExchangeError::Unrecorded(refused),
                }
            }
            Err(error) => error,
        };
        // Where there was no room for a response, that it came is worth a line.
        let recorded = self.reason(&error).and_then(|reason| {
            host.http_result(&id, Err(&reason), since.elapsed_micros())?;
            Ok(reason)
        });
        Err(match recorded {
            Ok(reason) => ExchangeError::Recorded(reason),
            Err(refused) => ExchangeError::Unrecorded(refused),
        })
    }

    /// Records what became of the requests that are not over when the run is, and takes no more.
    pub(super) fn finish(&self) {
        let reason = ExchangeError::RunEnded.recorded();
        let mut open = self.open();
        open.ended = true;
        for (id, since) in std::mem::take(&mut open.calls).into_values() {
            let host = self.record.host();
            let _kept_by_the_recorder = host.http_result(&id, Err(&reason), since.elapsed_micros());
        }
    }

    /// Takes no more, and records nothing: a run that was cut off in its middle may go on, and nothing is
    /// known of the requests that it left.
    pub(super) fn abandon(&self) {
        let mut open = self.open();
        open.ended = true;
        open.calls.clear();
    }
}

/// A request that is on record and goes on. Dropped without an end, the guest gave it up.
pub(super) struct OpenCall {
    calls: Arc<Calls>,
    call_id: String,
}

impl OpenCall {
    /// Puts the end on record and gives it as it is there, which the guest may see.
    pub(super) fn end(self, end: Result<Answer, ExchangeError>) -> Result<Answer, ExchangeError> {
        self.calls.end(&self.call_id, end)
    }
}

impl Drop for OpenCall {
    fn drop(&mut self) {
        // It was recorded already, unless the guest let go of it.
        let _recorded = self.calls.end(&self.call_id, Err(ExchangeError::GivenUp));
    }
}

/// Bytes that a message takes in the lines of the record.
fn message_bytes(headers: &[(String, String)], body: &[u8]) -> u64 {
    let fields = headers.iter().map(|(name, value)| {
        text_bytes(name)
            .saturating_add(text_bytes(value))
            .saturating_add(FIELD_OVERHEAD_BYTES)
    });
    let body = match std::str::from_utf8(body) {
        // Nobody has to look through one that is large as it is.
        _ if len(body) > INLINE_BYTES_MAX => len(body),
        Ok(text) => text_bytes(text),
        // In base64, four characters stand for three bytes.
        Err(_not_text) => len(body).div_ceil(3).saturating_mul(4),
    };
    let fields = fields.fold(0, u64::saturating_add);
    inline_bytes(fields).saturating_add(inline_bytes(body))
}

fn inline_bytes(bytes: u64) -> u64 {
    if bytes > INLINE_BYTES_MAX {
        REFERENCE_BYTES
    } else {
        bytes
    }
}

/// Bytes of a text as JSON, without its quotes.
fn text_bytes(text: &str) -> u64 {
    let escapes = text.bytes().map(|byte| match byte {
        b'"' | b'\\' | 0x08 | b'\t' | b'\n' | 0x0c | b'\r' => 1,
        0..=0x1f => 5,
        _ => 0,
    });
    len(text.as_bytes()).saturating_add(escapes.sum())
}

fn len(bytes: &[u8]) -> u64 {
    u64::try_from(bytes.len()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::text_bytes;

    #[test]
    fn a_text_is_as_long_as_it_is_in_json() {
        let all: String = ('\0'..='\u{2ff}').collect();
        for text in ["", "plain", &all] {
            let json = serde_json::to_string(text).unwrap();
            assert_eq!(text_bytes(text), json.len() as u64 - 2, "{text:?}");
        }
    }
}
