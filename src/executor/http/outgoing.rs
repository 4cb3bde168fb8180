//! The requests of one run, from the guest's call to the policy's answer.

use std::sync::Arc;

use http::header::{EXPECT, TE, TRAILER};
use http::request::Parts;
use tokio::sync::Semaphore;
use wasmtime_wasi_http::{
    DEFAULT_FORBIDDEN_HEADERS, Error, ForbiddenHeaderFilter, RequestOptions, WasiBody,
    WasiHttpHooks,
};

use super::calls::Calls;
use super::error::ExchangeError;
use super::exchange::Exchange;
use super::unread::Unread;
use super::wire::Client;
use crate::capability::{Capability, Policy, Target, TargetError};
use crate::config::Secret;
use crate::executor::failure::Failure;
use crate::executor::guest_record::GuestRecord;
use crate::executor::run_host::Denial;
use crate::limits::LimitKey;
use crate::outcome::OutcomeCode;

/// Bytes that a guest may write into the body of a request at a time. Two writes are kept until the
/// request has its place among those that are carried out, so that one that waits, or is never handed in,
/// takes 32 KiB and as much for its fields. It is two of the guest's resources: what all of them take is
/// bounded by `resources`, at 32 KiB for each. Protects the host's heap from a guest that makes many.
pub(super) const WRITE_BYTES_MAX: usize = 16 * 1024;
/// Writes into the body of a request that are kept until somebody takes them up.
pub(super) const WRITES_KEPT: usize = 2;

/// The requests of one run. They end with it: what is dropped with this is neither sent nor waited for.
pub(crate) struct Outgoing(Arc<Requests>);

/// What the requests of one run share.
pub(super) struct Requests {
    pub(super) client: Arc<Client>,
    pub(super) record: Arc<GuestRecord>,
    policy: Arc<Policy>,
    /// The secrets that the run has, in the order in which they are put into a request.
    pub(super) secrets: Vec<Secret>,
    /// How many the policy names, which may be more than are there.
    pub(super) secrets_granted: u64,
    /// Whether nothing is ever sent.
    pub(super) record_only: bool,
    /// One permit for each request that may go on.
    pub(super) places: Semaphore,
    pub(super) unread: Arc<Unread>,
    pub(super) calls: Arc<Calls>,
}

impl Outgoing {
    /// The requests of a run that may do what `policy` says. With `record_only` the record alone answers
    /// them.
    ///
    /// # Errors
    /// The policy has a secret that is not configured, and requests may be sent.
    pub(crate) fn new(
        client: Arc<Client>,
        policy: Arc<Policy>,
        record: Arc<GuestRecord>,
        record_only: bool,
    ) -> Result<Self, Failure> {
        let parallel = record.limits().value(LimitKey::ParallelCalls);
        let limit = record.limits().get(LimitKey::HttpResponseBytes);
        Ok(Self(Arc::new(Requests {
            secrets: secrets(&client, &policy, record_only)?,
            secrets_granted: count(&policy),
            record_only,
            places: Semaphore::new(usize::try_from(parallel).unwrap_or(1)),
            unread: Unread::new(limit, parallel),
            calls: Arc::new(Calls::new(Arc::clone(&record))),
            client,
            policy,
            record,
        })))
    }

    /// Puts on record what became of requests that are not over when the call of the guest is.
    pub(crate) fn finish(&self) {
        self.0.calls.finish();
    }
}

impl Drop for Outgoing {
    fn drop(&mut self) {
        self.0.calls.abandon();
    }
}

/// The secrets that the policy names, the narrowest last.
fn secrets(client: &Client, policy: &Policy, may_lack: bool) -> Result<Vec<Secret>, Failure> {
    let mut found = Vec::new();
    for capability in &policy.effective {
        let Capability::Secret { name } = capability else {
            continue;
        };
        let mut configured = client.options.secrets.iter();
        match configured.find(|secret| secret.name() == name) {
            Some(secret) => found.push(secret.clone()),
            None if may_lack => {}
            None => {
                return Err(Failure {
                    hint: Some(format!("add a section [secrets.{name}] to config.toml")),
                    ..Failure::new(
                        OutcomeCode::LoadError,
                        format!("{capability} is granted and not configured"),
                    )
                });
            }
        }
    }
    found.sort_by_key(Secret::narrowness);
    Ok(found)
}

fn count(policy: &Policy) -> u64 {
    let named = policy.effective.iter();
    let named = named.filter(|capability| matches!(capability, Capability::Secret { .. }));
    u64::try_from(named.count()).unwrap_or(u64::MAX)
}

impl WasiHttpHooks for Outgoing {
    fn send_request(
        &mut self,
        request: http::Request<WasiBody>,
        options: Option<RequestOptions>,
        _trailers: Box<dyn Future<Output = Result<(), Error>> + Send>,
    ) -> Box<dyn Future<Output = Result<Response, Error>> + Send> {
        let (head, body) = request.into_parts();
        let target = match self.0.allowed(&head) {
            Ok(target) => target,
            Err(denied) => return Box::new(std::future::ready(Err(denied.into()))),
        };
        let exchange = Exchange {
            id: self.0.record.host().next_http_call(),
            requests: Arc::clone(&self.0),
            target,
            headers: head.headers,
            times: options.unwrap_or_default(),
        };
        Box::new(async move { Ok(exchange.carry_out(body).await?) })
    }

    // Beside the fields that are about the connection, those that change how a message is framed.
    fn forbidden_header_filter(&mut self) -> ForbiddenHeaderFilter {
        Arc::new(|name| {
            DEFAULT_FORBIDDEN_HEADERS.contains(name) || matches!(*name, TE | TRAILER | EXPECT)
        })
    }

    // One more than it says is kept.
    fn p2_outgoing_body_buffer_chunks(&mut self) -> usize {
        WRITES_KEPT - 1
    }

    fn p2_outgoing_body_chunk_size(&mut self) -> usize {
        WRITE_BYTES_MAX
    }

    // A scheme that cannot be granted is refused with all else that cannot, and on record.
    fn is_supported_scheme(&mut self, _scheme: &http::uri::Scheme) -> bool {
        true
    }
}

/// A response, and what is still to be done for it, which is nothing.
pub(super) type Response = (
    http::Response<WasiBody>,
    Box<dyn Future<Output = Result<(), Error>> + Send>,
);

impl Requests {
    /// The normalised target of a request, if the policy allows it. What it does not allow is on record.
    fn allowed(&self, head: &Parts) -> Result<Target, ExchangeError> {
        let uri = &head.uri;
        let method = head.method.as_str();
        let scheme = uri.scheme_str().unwrap_or_default();
        let authority = uri.authority().map_or("", |authority| authority.as_str());
        let path_and_query = uri.path_and_query().map_or("", |path| path.as_str());
        let target = match Target::parse(method, scheme, authority, path_and_query) {
            Ok(target) => target,
            Err(error) => {
                // No capability would allow what cannot be read in one way.
                self.record.denied(Denial {
                    capability: "net",
                    rule: &error.to_string(),
                    wanted: &format!("{method} {scheme}://{authority}{path_and_query}"),
                    call_id: None,
                });
                return Err(match error {
                    TargetError::TooLong => ExchangeError::UrlTooLong,
                    _ => ExchangeError::Denied,
                });
            }
        };
        if let Err(denied) = self.policy.allows(&target) {
            self.record.denied(Denial {
                capability: &denied.capability.to_string(),
                rule: &denied.rule,
                wanted: &target.to_string(),
                call_id: None,
            });
            return Err(ExchangeError::Denied);
        }
        Ok(target)
    }
}
