//! Outgoing requests: both halves of the record, and what is found there.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::future::Future;
use std::sync::{Mutex, MutexGuard, PoisonError};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;

use super::flight::InFlight;
use super::{Effect, Event, Journal, Json, Origin, RecordRefused, Text, ledger};
use crate::config::is_shown_secret;
use crate::executor::{HttpCallId, HttpEnd, HttpRequest, HttpResponse, RecalledHttp};
use crate::runner::replay::Halt;

/// The requests that go on, by their ids.
#[derive(Default)]
pub(super) struct Requests(Mutex<BTreeMap<String, InFlight>>);

impl Requests {
    fn open(&self) -> MutexGuard<'_, BTreeMap<String, InFlight>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Journal {
    pub(super) fn next_request(&self) -> HttpCallId {
        let call = self.next_call("http");
        HttpCallId {
            call_id: call.call_id,
            node_id: call.node_id,
        }
    }

    /// A body as the ledger has it, and whether that is base64. Secrets are taken out first: in base64
    /// nobody finds them.
    fn body(&self, body: &[u8]) -> (Option<Text>, bool) {
        let body: Cow<'_, [u8]> = match self.recorder.redact_bytes(body) {
            Some(redacted) => redacted.into(),
            None => body.into(),
        };
        match std::str::from_utf8(&body) {
            Ok("") => (None, false),
            Ok(text) => (Some(text.into()), false),
            Err(_not_text) => (Some(STANDARD.encode(&body).into()), true),
        }
    }

    fn request(&self, id: &HttpCallId, request: &HttpRequest<'_>) -> ledger::HttpCall {
        let (body, base64) = self.body(request.body);
        ledger::HttpCall {
            call_id: id.call_id.clone(),
            node_id: id.node_id.clone(),
            method: request.method.to_owned(),
            url: request.url.into(),
            headers: Json::from_serialize(request.headers).ok(),
            body,
            base64,
            effect: request.effect,
        }
    }

    /// How a request ended, if that is on record. It stops the run if nobody can know.
    pub(super) async fn recalled_request(
        &self,
        id: &HttpCallId,
        request: HttpRequest<'_>,
    ) -> Result<Option<RecalledHttp>, RecordRefused> {
        let Some(replay) = self.cx.replay() else {
            return Ok(None);
        };
        let recorded = replay.recorded().call(&id.call_id);
        // The guest has it when it had it then, and not before: what it did meanwhile, it does first. What
        // is not on record had not come by the end of that.
        let until = recorded.and_then(|recorded| recorded.result.or(recorded.denied));
        replay
            .comes_to(until.map_or(u64::MAX, |place| place.seq))
            .await;
        if recorded.is_none() && replay.is_record_only() && replay.recorded().has_end() {
            // The run ended before it was sent. Should it be waited for now, that wait is on no record.
            return std::future::pending().await;
        }
        let found = (|| {
            let Some(recorded) = recorded else {
                return match replay.is_record_only() {
                    true => Err(Halt::RecordEnds(id.call_id.clone())),
                    false => Ok(None),
                };
            };
            let Some(place) = recorded.call else {
                let denied = recorded.denied.map(|place| replay.recorded().read(place));
                let rule = match denied.transpose()?.map(|denied| denied.event) {
                    Some(Event::Denied(denied)) => denied.rule.unwrap_or_default(),
                    _ => String::new(),
                };
                return Ok(Some(RecalledHttp::Denied { rule }));
            };
            let mut call = replay.answer(place)?;
            let now = self.recorder.redacted(self.request(id, &request).into());
            let now = now.map_err(|error| Halt::Failed(error.to_string()))?;
            let (recorded_event, now) = without_secrets(call.event, now);
            call.event = recorded_event;
            call.check(Origin::Host, &now).map_err(Halt::Diverged)?;
            match recorded.result {
                Some(place) => Ok(Some(recalled(replay.answer(place)?.event))),
                None => {
                    replay.check_repetition(request.effect, &id.call_id, request.url)?;
                    Ok(None)
                }
            }
        })();
        match found {
            Ok(found) => Ok(found),
            Err(halt) => self.stop(halt).await,
        }
    }

    /// Puts a request on record. It has its place there before the future is polled.
    pub(super) fn record_request(
        &self,
        id: &HttpCallId,
        request: HttpRequest<'_>,
    ) -> impl Future<Output = Result<(), RecordRefused>> + Send + use<'_> {
        let effect = request.effect;
        let call = Event::from(self.request(id, &request));
        let begun = self.flight.begin();
        self.requests.open().insert(id.call_id.clone(), begun);
        let (durable, noted) = match effect {
            Effect::Write => (
                Some(self.recorder.record_durable(Origin::Host, &call)),
                Ok(()),
            ),
            Effect::Read | Effect::Idempotent => (None, self.note(call)),
        };
        async move {
            match durable {
                Some(durable) => self.recorded(durable.await).map(|_appended| ()),
                None => noted,
            }
        }
    }

    /// How a request ended, as [`Journal::record_response`] then leaves it: without the values that must not
    /// stand in a ledger, and so that it can be read again.
    pub(super) fn redact_end(&self, end: HttpEnd) -> Result<HttpEnd, RecordRefused> {
        let HttpResponse {
            status,
            headers,
            body,
        } = match end {
            Ok(response) => response,
            Err(reason) => return Ok(Err(self.redact_text(reason)?)),
        };
        let fields = headers.into_iter();
        let fields =
            fields.map(|(name, value)| Ok((self.redact_text(name)?, self.redact_text(value)?)));
        let headers = fields.collect::<Result<_, _>>()?;
        let body = self.redact(&body)?.map_or(body, Bytes::from);
        if std::str::from_utf8(&body).is_err() {
            self.check_redacted(STANDARD.encode(&body).as_bytes())?;
        }
        Ok(Ok(HttpResponse {
            status,
            headers,
            body,
        }))
    }

    /// `None` when there is nothing to be taken out.
    fn redact(&self, bytes: &[u8]) -> Result<Option<Vec<u8>>, RecordRefused> {
        let redacted = self.recorder.redact_bytes(bytes);
        if let Some(redacted) = &redacted {
            self.check_redacted(redacted)?;
        }
        Ok(redacted)
    }

    fn redact_text(&self, text: String) -> Result<String, RecordRefused> {
        let redacted = self.redact(text.as_bytes())?.map(String::from_utf8);
        let redacted = redacted.transpose();
        let redacted = redacted.map_err(|error| RecordRefused::Invalid {
            reason: error.to_string(),
        })?;
        Ok(redacted.unwrap_or(text))
    }

    /// What stands in place of a value may make another one with what is beside it, and so may base64. Of
    /// that the ledger would keep something else.
    fn check_redacted(&self, bytes: &[u8]) -> Result<(), RecordRefused> {
        match self.recorder.redact_bytes(bytes) {
            None => Ok(()),
            Some(_) => Err(RecordRefused::Invalid {
                reason: "a secret stands where it cannot be taken out".to_owned(),
            }),
        }
    }

    pub(super) fn record_response(
        &self,
        id: &HttpCallId,
        end: Result<&HttpResponse, &str>,
        duration_micros: u64,
    ) -> Result<(), RecordRefused> {
        self.requests.open().remove(&id.call_id);
        let mut result = ledger::HttpResult {
            call_id: id.call_id.clone(),
            node_id: id.node_id.clone(),
            duration_micros: Some(duration_micros),
            ..ledger::HttpResult::default()
        };
        match end {
            Ok(response) => {
                result.status = Some(response.status);
                result.headers = Json::from_serialize(&response.headers).ok();
                (result.body, result.base64) = self.body(&response.body);
            }
            Err(reason) => result.error = Some(reason.into()),
        }
        self.note(result)
    }
}

/// Two requests without the fields that a secret was put into in either of them: on another machine there
/// is none.
fn without_secrets(recorded: Event, now: Event) -> (Event, Event) {
    type Fields = Vec<(String, String)>;
    let (Event::HttpCall(mut recorded), Event::HttpCall(mut now)) = (recorded.clone(), now.clone())
    else {
        return (recorded, now);
    };
    let fields = |call: &ledger::HttpCall| -> Fields {
        let headers = call.headers.as_ref();
        headers
            .and_then(|headers| serde_json::from_str(headers.as_str()).ok())
            .unwrap_or_default()
    };
    let both = [fields(&recorded), fields(&now)];
    let hidden: Vec<String> = both
        .iter()
        .flatten()
        .filter(|(_, value)| is_shown_secret(value))
        .map(|(name, _)| name.clone())
        .collect();
    if !hidden.is_empty() {
        let [recorded_fields, now_fields] = both.map(|fields| {
            let mut left = fields;
            left.retain(|(name, _)| !hidden.contains(name));
            Json::from_serialize(&left).ok()
        });
        recorded.headers = recorded_fields;
        now.headers = now_fields;
    }
    (recorded.into(), now.into())
}

/// A recorded end, whole, as the guest's request sees it.
fn recalled(event: Event) -> RecalledHttp {
    let Event::HttpResult(result) = event else {
        return RecalledHttp::Failed(String::new());
    };
    let (Some(status), None) = (result.status, &result.error) else {
        let reason = result.error.unwrap_or_default();
        return RecalledHttp::Failed(reason.as_str().to_owned());
    };
    let body = result.body.unwrap_or_default();
    let body = match result.base64 {
        true => STANDARD.decode(body.as_str()).ok(),
        false => Some(body.as_str().as_bytes().to_vec()),
    };
    let headers = match &result.headers {
        None => Some(Vec::new()),
        Some(headers) => serde_json::from_str(headers.as_str()).ok(),
    };
    match (headers, body) {
        (Some(headers), Some(body)) => RecalledHttp::Response(HttpResponse {
            status,
            headers,
            body: body.into(),
        }),
        _ => RecalledHttp::Failed("the response on record cannot be read".to_owned()),
    }
}
