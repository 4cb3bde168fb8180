//! Outgoing requests of guests: `wasi:http/outgoing-handler`.
//!
//! A request is normalised, held to the run's policy, collected, put on record, sent by the host to an
//! address that was checked, and answered from the record's side of the wire: the guest sees a response
//! when it is whole and on record, and sees what is there. What a run that is replayed has on record is
//! not sent again. Nothing is kept between two requests: no connection, no cookie, no
//! session of TLS, no answer to a look-up. A connection that one run left open would tell the next one
//! about it, by its speed if by nothing else.
//!
//! * `outgoing.rs`: the requests of one run, from the guest's call to the policy's answer.
//! * `request_body.rs`: what the guest writes into the body of a request.
//! * `exchange.rs`: one request that the policy allows, from its body to its response.
//! * `calls.rs`: which requests are on record without a result, so that each gets one, and what it says.
//! * `fields.rs`: header fields, bounded, with secrets put in.
//! * `resolve.rs`: from a granted name to addresses that may be connected to.
//! * `unread.rs`: what of responses the host keeps for the guest, bounded.
//! * `wire.rs`: connecting, TLS and one HTTP/1.1 exchange.
//! * `error.rs`: why there is no response, for the guest and for the record, from which it is read again.

mod calls;
mod error;
mod exchange;
mod fields;
mod head;
mod outgoing;
mod request_body;
mod resolve;
#[cfg(test)]
mod tests;
mod unread;
mod wire;

use std::fmt;
use std::sync::Arc;

use ipnet::IpNet;
use wasmtime::component::{Linker, Resource};
use wasmtime_wasi::p2::DynOutputStream;
use wasmtime_wasi_http::p2::bindings::LinkOptions;
use wasmtime_wasi_http::p2::bindings::http::outgoing_handler::Host;
use wasmtime_wasi_http::p2::bindings::http::types::{self, ErrorCode};
use wasmtime_wasi_http::p2::body::HostOutgoingBody;
use wasmtime_wasi_http::p2::types::{HostFutureIncomingResponse, HostOutgoingRequest};
use wasmtime_wasi_http::{RequestOptions, WasiHttp, WasiHttpView};

use self::request_body::RequestBody;
use super::state::HostState;
use crate::config::{self, Secret};
use crate::limits::LimitKey;

pub(crate) use self::fields::FIELDS_BYTES_MAX;
pub(crate) use self::outgoing::Outgoing;
pub use self::resolve::{Resolve, SystemResolver};
pub(crate) use self::wire::Client;

/// The interface whose one function counts as a host call.
const OUTGOING_HANDLER: &str = "wasi:http/outgoing-handler@0.2.12";

/// The interface of which one function is replaced by ours.
const TYPES: &str = "wasi:http/types@0.2.12";

/// How outgoing requests are carried out.
#[derive(Clone)]
pub struct HttpOptions {
    /// Networks that a granted name may resolve to although they are not public.
    pub addresses_allowed: Vec<IpNet>,
    /// Certificates in DER form that are trusted beside those of the system.
    pub ca_certificates: Vec<Vec<u8>>,
    /// What the host puts into requests of skills that have `secret:NAME`. Whoever sets them keeps
    /// their values out of ledgers, which `Store::redact` does.
    pub secrets: Vec<Secret>,
    /// Who knows the addresses of a name.
    pub resolver: Arc<dyn Resolve>,
}

impl From<&config::Http> for HttpOptions {
    /// What stands in the configuration itself.
    fn from(http: &config::Http) -> Self {
        Self {
            addresses_allowed: http.addresses_allowed.clone(),
            ..Self::default()
        }
    }
}

impl Default for HttpOptions {
    fn default() -> Self {
        Self {
            addresses_allowed: Vec::new(),
            ca_certificates: Vec::new(),
            secrets: Vec::new(),
            resolver: Arc::new(SystemResolver),
        }
    }
}

impl fmt::Debug for HttpOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpOptions")
            .field("addresses_allowed", &self.addresses_allowed)
            .field("ca_certificates", &self.ca_certificates.len())
            .field("secrets", &self.secrets)
            .finish_non_exhaustive()
    }
}

/// Links `wasi:http`, its handler of incoming requests apart.
pub(crate) fn add_to_linker(linker: &mut Linker<HostState>) -> wasmtime::Result<()> {
    let options = LinkOptions::default();
    types::add_to_linker::<_, WasiHttp>(linker, &(&options).into(), HostState::http)?;
    linker.allow_shadowing(true);
    let mut replaced = linker.instance(TYPES)?;
    replaced.func_wrap(
        "[method]outgoing-body.write",
        |mut store, (body,): (Resource<HostOutgoingBody>,)| {
            write_body(store.data_mut(), &body).map(|stream| (stream.ok_or(()),))
        },
    )?;
    linker.allow_shadowing(false);
    let mut handler = linker.instance(OUTGOING_HANDLER)?;
    handler.func_wrap(
        "handle",
        |mut store,
         (request, options): (
            Resource<HostOutgoingRequest>,
            Option<Resource<RequestOptions>>,
        )| {
            let state: &mut HostState = store.data_mut();
            state.count_host_call()?;
            handle(state, request, options).map(|handled| (handled,))
        },
    )
}

/// The stream into the body of a request, for whoever asks first.
fn write_body(
    state: &mut HostState,
    body: &Resource<HostOutgoingBody>,
) -> wasmtime::Result<Option<Resource<DynOutputStream>>> {
    let Some(stream) = state.table.get_mut(body)?.take_output_stream() else {
        return Ok(None);
    };
    let bytes_max = state.record.limits().value(LimitKey::HttpRequestBytes);
    let stream: DynOutputStream = Box::new(RequestBody::new(stream, bytes_max));
    Ok(Some(state.table.push_child(stream, body)?))
}

/// What the binding's own function does. It cannot end the instance, which a limit that is reached must.
fn handle(
    state: &mut HostState,
    request: Resource<HostOutgoingRequest>,
    options: Option<Resource<RequestOptions>>,
) -> wasmtime::Result<Result<Resource<HostFutureIncomingResponse>, ErrorCode>> {
    match state.http().handle(request, options) {
        Ok(response) => Ok(Ok(response)),
        Err(error) => error.downcast().map(Err),
    }
}
