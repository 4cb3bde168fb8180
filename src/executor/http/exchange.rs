//! One request that the policy allows, from its body to its response.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::HeaderMap;
use http_body_util::{BodyExt as _, Full};
use tokio::time::timeout;
use wasmtime_wasi_http::{RequestOptions, WasiBody};

use super::error::ExchangeError;
use super::fields;
use super::outgoing::{Requests, Response};
use super::resolve::{self, Found};
use super::wire::Answer;
use crate::call::Effect;
use crate::capability::{Capability, Method, Target};
use crate::executor::run_host::{Denial, HttpCallId, HttpRequest, HttpResponse, RecalledHttp};
use crate::limits::LimitKey;

/// One request that the policy allows.
pub(super) struct Exchange {
    pub(super) requests: Arc<Requests>,
    pub(super) id: HttpCallId,
    pub(super) target: Target,
    pub(super) headers: HeaderMap,
    pub(super) times: RequestOptions,
}

impl Exchange {
    /// Waits for a place, collects the body, and asks the record how the request ended. If that is not
    /// known: finds the addresses, puts the request on record, sends it, collects the response, puts it on
    /// record and gives it to the guest.
    ///
    /// The place comes first, since the bodies that are collected are what takes memory.
    pub(super) async fn carry_out(self, body: WasiBody) -> Result<Response, ExchangeError> {
        let requests = Arc::clone(&self.requests);
        let place = requests.places.acquire().await;
        let _place = place.map_err(|_closed| ExchangeError::RunEnded)?;
        let body = self.collect(body).await?;
        let fields = fields::of_request(
            self.headers.clone(),
            &self.target,
            body.len(),
            &requests.secrets,
        )?;
        let (method, url) = (self.target.method, self.target.url());
        let secrets = requests.secrets_granted;
        let calls = &requests.calls;
        calls.charge_request(&url, &fields.own, &body, secrets)?;
        let request = HttpRequest {
            method: method.as_str(),
            url: &url,
            headers: &fields.recorded,
            body: &body,
            effect: effect(method),
        };
        let recalled = requests.record.host().recall_http(&self.id, request).await;
        match recalled.map_err(ExchangeError::Unrecorded)? {
            Some(RecalledHttp::Response(response)) => self.recalled(response),
            Some(RecalledHttp::Failed(reason)) => Err(ExchangeError::Recorded(reason)),
            Some(RecalledHttp::Denied { rule }) => {
                let capability = Capability::Net(self.target.rule()).to_string();
                requests.record.note_denial(&capability, &rule);
                Err(ExchangeError::Prohibited)
            }
            None if requests.record_only => Err(ExchangeError::Host {
                reason: "the record does not say how the request ended".to_owned(),
            }),
            None => {
                self.carry_out_live(request, fields.sent, body.clone())
                    .await
            }
        }
    }

    /// A response that the guest got, as it got it.
    fn recalled(&self, response: HttpResponse) -> Result<Response, ExchangeError> {
        let requests = &self.requests;
        requests.calls.charge_recalled(&response);
        let hold = requests.unread.recall(&response)?;
        given(Answer { response, hold })
    }

    async fn carry_out_live(
        &self,
        request: HttpRequest<'_>,
        fields: HeaderMap,
        body: Bytes,
    ) -> Result<Response, ExchangeError> {
        let requests = &self.requests;
        let limit = requests.record.limits().get(LimitKey::HttpTimeoutMs);
        let time = Duration::from_millis(limit.value);
        let begun = requests.record.stopwatch();
        let found = self.addresses(time).await;
        if let Err(ExchangeError::Prohibited) = found {
            return Err(ExchangeError::Prohibited);
        }
        let call = requests.calls.begin(self.id.clone(), request).await?;
        let answer = match found {
            Ok(addresses) => {
                let left = time.saturating_sub(begun.elapsed());
                let sent = timeout(left, self.send(&addresses, fields, body)).await;
                sent.unwrap_or(Err(ExchangeError::Time { limit }))
            }
            Err(error) => Err(error),
        };
        given(call.end(answer)?)
    }

    /// The whole body of the request, as the guest writes it.
    async fn collect(&self, mut body: WasiBody) -> Result<Bytes, ExchangeError> {
        let key = LimitKey::HttpRequestBytes;
        let limit = self.requests.record.limits().get(key);
        let bytes_max = usize::try_from(limit.value).unwrap_or(usize::MAX);
        let mut collected = BytesMut::new();
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|_| ExchangeError::RequestAborted)?;
            let Ok(data) = frame.into_data() else {
                return Err(ExchangeError::RequestTrailers);
            };
            if data.len() > bytes_max.saturating_sub(collected.len()) {
                return Err(ExchangeError::Body { key, limit });
            }
            collected.extend_from_slice(&data);
        }
        Ok(collected.freeze())
    }

    /// The addresses that may be connected to. That there are none is on record.
    async fn addresses(&self, time_max: Duration) -> Result<Vec<SocketAddr>, ExchangeError> {
        let options = &self.requests.client.options;
        let found = resolve::addresses(
            &*options.resolver,
            &options.addresses_allowed,
            &self.target,
            self.times
                .connect_timeout
                .map_or(time_max, |time| time.min(time_max)),
        );
        match found.await? {
            Found::Usable(addresses) => Ok(addresses),
            Found::Prohibited(address, class) => {
                let capability = Capability::Net(self.target.rule()).to_string();
                let rule = format!(
                    "address: {} resolves to {address}, which is {class} and not in http.addresses_allowed",
                    self.target.host
                );
                let denial = Denial {
                    capability: &capability,
                    rule: &rule,
                    wanted: &self.target.to_string(),
                    call_id: Some(&self.id.call_id),
                };
                self.requests.calls.write(|record| record.denied(denial));
                Err(ExchangeError::Prohibited)
            }
        }
    }

    async fn send(
        &self,
        addresses: &[SocketAddr],
        fields: HeaderMap,
        body: Bytes,
    ) -> Result<Answer, ExchangeError> {
        let request = http::Request::builder()
            .method(self.target.method.as_str())
            .uri(self.target.path_and_query())
            .body(Full::new(body));
        let mut request = request.map_err(|error| ExchangeError::Host {
            reason: error.to_string(),
        })?;
        *request.headers_mut() = fields;
        let requests = &self.requests;
        // After the request was put on record: done again, it would have another.
        if let Some(trace) = requests.record.host().trace_of(&self.id) {
            trace.add_to(request.headers_mut());
        }
        let exchange = requests.client.exchange(
            &self.target,
            addresses,
            request,
            self.times,
            &requests.unread,
        );
        exchange.await
    }
}

/// What a repetition would do, by the meaning that HTTP gives to the method.
fn effect(method: Method) -> Effect {
    match method {
        Method::Get | Method::Head | Method::Options => Effect::Read,
        Method::Put | Method::Delete => Effect::Idempotent,
        Method::Post | Method::Patch => Effect::Write,
    }
}

/// The answer as the guest gets it. It counts as unread until its body is gone.
fn given(answer: Answer) -> Result<Response, ExchangeError> {
    let Answer { response, hold } = answer;
    let mut headers = fields::of_texts(&response.headers);
    hold.keep_with(&mut headers)?;
    let body = Full::new(response.body)
        .map_err(|never| match never {})
        .map_frame(move |frame| {
            let _held = &hold;
            frame
        });
    let given = http::Response::builder()
        .status(response.status)
        .body(body.boxed_unsync());
    let mut given = given.map_err(|error| ExchangeError::Host {
        reason: error.to_string(),
    })?;
    *given.headers_mut() = headers;
    Ok((given, Box::new(std::future::ready(Ok(())))))
}
