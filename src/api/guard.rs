//! Who may ask at all: the host that a request names, where it comes from, and the token that it brings.

use std::net::IpAddr;
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::header::{AUTHORIZATION, HOST, ORIGIN, WWW_AUTHENTICATE};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderValue, Method};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use subtle::ConstantTimeEq as _;

use super::metrics::METRICS;
use super::problem::{Problem, ProblemCode};
use super::streams::TicketUse;
use super::{Access, Api, page, streams};
use crate::config::Token;

/// Who sends a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Caller {
    /// Somebody who can reach this port.
    Anybody,
    /// Somebody who brought a token.
    Trusted,
    /// Somebody who brought a ticket, which opens one stream and nothing else.
    Watcher,
}

/// Routes that need no token: they say nothing but that the process is there and well, and what every daemon of
/// this version can be asked, and the page that asks it.
fn is_open(path: &str) -> bool {
    let docs = path.strip_prefix("/docs");
    ["/healthz", "/readyz", "/openapi.json"].contains(&path)
        || page::is_page(path)
        || docs.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Refuses whoever may not ask.
pub(crate) async fn check(State(api): State<Api>, mut request: Request, next: Next) -> Response {
    match api.caller(&request) {
        Ok((caller, ticket)) => {
            request.extensions_mut().insert(caller);
            if let Some(ticket) = ticket {
                request.extensions_mut().insert(Arc::new(ticket));
            }
            next.run(request).await
        }
        Err(problem) => problem.into_response(),
    }
}

impl Api {
    fn caller(&self, request: &Request) -> Result<(Caller, Option<TicketUse>), Problem> {
        self.check_host(request)?;
        self.check_origin(request.headers())?;
        let Access { settings, token } = self.access().clone();
        let path = request.uri().path();
        let is_open = is_open(path) || path == METRICS && settings.metrics_open;
        let known = [token.as_ref(), self.0.local_token.as_ref()];
        match bearer(request.headers()) {
            Some(given) if is_token(given, known) => Ok((Caller::Trusted, None)),
            // Where nobody needs a token, whatever else is brought along is nobody's business.
            _ if token.is_none() => Ok((Caller::Anybody, None)),
            None if is_open => Ok((Caller::Anybody, None)),
            None if is_stream_asked_for(request) => self.watcher(request),
            given => Err(Problem::new(
                ProblemCode::Unauthorized,
                match given {
                    None => "expected the header field Authorization: Bearer TOKEN",
                    Some(_) => "the token is not the one that is configured",
                },
            )
            .with_header(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"))),
        }
    }

    /// Whoever brought a ticket for the stream that is asked for.
    fn watcher(&self, request: &Request) -> Result<(Caller, Option<TicketUse>), Problem> {
        let query = request.uri().query().unwrap_or_default().as_bytes();
        let mut parameters = url::form_urlencoded::parse(query);
        let ticket = parameters.find(|(name, _)| name == "ticket");
        let refused = |detail| {
            Problem::new(ProblemCode::Unauthorized, detail)
                .with_header(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"))
                .with_hint("POST /api/stream-tickets gives a ticket")
        };
        let (_, ticket) = ticket.ok_or_else(|| {
            refused(
                "expected the header field Authorization: Bearer TOKEN, or the parameter ticket",
            )
        })?;
        let (path, clock) = (request.uri().path(), self.host().clock());
        let opened = self.0.streams.tickets().open(&ticket, path, clock);
        match opened {
            Some(opened) => Ok((Caller::Watcher, Some(opened))),
            None => Err(refused(
                "the ticket is not, or no longer, good for this stream",
            )),
        }
    }

    /// A page whose name is made to lead to this machine names its own host, which is not this one.
    fn check_host(&self, request: &Request) -> Result<(), Problem> {
        let mut named = request.headers().get_all(HOST).iter();
        let refused = |what: String| {
            let hint = "serve.hosts names further hosts that may be asked for";
            Problem::new(ProblemCode::ForbiddenHost, what).with_hint(hint)
        };
        let (Some(host), None) = (named.next(), named.next()) else {
            return Err(refused("expected one header field Host".to_owned()));
        };
        let authority = host
            .to_str()
            .ok()
            .and_then(|host| host.parse::<Authority>().ok());
        let authority = authority.filter(|authority| !authority.as_str().contains('@'));
        let authority =
            authority.ok_or_else(|| refused("the header field Host is none".to_owned()))?;
        let in_target = request.uri().authority();
        let is_one = in_target.is_none_or(|target| *target == authority);
        if is_one && self.is_host(authority.host()) {
            return Ok(());
        }
        Err(refused(format!(
            "host {:?} is not one of this process",
            authority.host()
        )))
    }

    fn is_host(&self, host: &str) -> bool {
        let host = host.to_ascii_lowercase();
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        let settings = self.settings();
        let listen = settings.listen.ip();
        // Whoever listens on every address does not know them all. A name that was made to lead here is no
        // address, and a page that was fetched from one is refused by its origin.
        let is_own = bare.parse::<IpAddr>().is_ok_and(|address| {
            address == listen
                || listen.is_unspecified()
                || address.is_loopback() && listen.is_loopback()
        });
        is_own
            || host == "localhost"
            || settings
                .hosts
                .iter()
                .any(|allowed| *allowed == host || allowed == bare)
    }

    /// A browser says which page a request is from. Whoever sends none is no page.
    fn check_origin(&self, headers: &HeaderMap) -> Result<(), Problem> {
        let host = headers.get(HOST).and_then(|host| host.to_str().ok());
        for origin in headers.get_all(ORIGIN) {
            let text = origin.to_str().unwrap_or_default().to_ascii_lowercase();
            let is_own =
                host.is_some_and(|host| text == format!("http://{host}").to_ascii_lowercase());
            if !is_own && !self.settings().origins.contains(&text) {
                let detail = format!("origin {text:?} is not allowed");
                let hint = "serve.origins names further origins that may send requests";
                return Err(Problem::new(ProblemCode::ForbiddenOrigin, detail).with_hint(hint));
            }
        }
        Ok(())
    }
}

/// In a time that does not say how much of it was right.
fn is_token(given: &str, known: [Option<&Token>; 2]) -> bool {
    let given = given.as_bytes();
    let found = known.into_iter().flatten().fold(0, |found, token| {
        found | token.value().as_bytes().ct_eq(given).unwrap_u8()
    });
    found == 1
}

fn is_stream_asked_for(request: &Request) -> bool {
    request.method() == Method::GET && streams::is_stream(request.uri().path())
}

/// The token of a request.
fn bearer(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}
