//! `/metrics`: the process in numbers, as Prometheus reads them.
//!
//! No label has a value that a caller, a skill or a run can choose, so the number of series is bounded: routes
//! are counted under their templates, methods under the names that there are, ends under status and code.

mod exposition;
mod process;

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use axum::extract::{MatchedPath, Request, State};
use axum::http::Method;
use axum::http::header::CONTENT_TYPE;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use prometheus_client::encoding::prometheus_text;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use self::exposition::Exposition;
use super::Api;
use super::problem::{Problem, ProblemDocument};
use crate::histogram::Histogram;

/// Where they are read.
pub(crate) const METRICS: &str = "/metrics";
/// What a request is counted under that no route matches.
const NO_ROUTE: &str = "none";
/// What a method is counted under that is none of the usual ones.
const OTHER_METHOD: &str = "other";

/// What is counted of requests.
#[derive(Default)]
pub(crate) struct Metrics {
    requests: Mutex<Requests>,
    /// From the head of a request to the head of its answer.
    duration: Histogram,
}

/// Counts by route, method and status. There are as many as routes that this has, times methods, times statuses.
type Requests = BTreeMap<RequestKind, u64>;

/// What requests are told apart by.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct RequestKind {
    /// The template, such as `/api/agent/runs/{id}`.
    route: String,
    method: &'static str,
    status: u16,
}

impl Metrics {
    fn answered(&self, kind: RequestKind, micros: u64) {
        let requests = self.requests.lock();
        let mut requests = requests.unwrap_or_else(PoisonError::into_inner);
        *requests.entry(kind).or_default() += 1;
        drop(requests);
        self.duration.add(micros);
    }

    fn requests(&self) -> Requests {
        let requests = self.requests.lock();
        requests.unwrap_or_else(PoisonError::into_inner).clone()
    }
}

fn method(method: &Method) -> &'static str {
    const KNOWN: [(Method, &str); 8] = [
        (Method::GET, "GET"),
        (Method::HEAD, "HEAD"),
        (Method::POST, "POST"),
        (Method::PUT, "PUT"),
        (Method::DELETE, "DELETE"),
        (Method::OPTIONS, "OPTIONS"),
        (Method::PATCH, "PATCH"),
        (Method::CONNECT, "CONNECT"),
    ];
    let known = KNOWN.iter().find(|(known, _)| known == method);
    known.map_or(OTHER_METHOD, |(_, name)| name)
}

/// The layer around all others.
pub(crate) async fn count(State(api): State<Api>, request: Request, next: Next) -> Response {
    let route = request.extensions().get::<MatchedPath>();
    let route = route.map_or(NO_ROUTE, MatchedPath::as_str).to_owned();
    let method = method(request.method());
    let begun = api.host().clock().stopwatch();
    let response = next.run(request).await;
    let kind = RequestKind {
        route,
        method,
        status: response.status().as_u16(),
    };
    api.metrics().answered(kind, begun.elapsed_micros());
    response
}

pub(crate) fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new().routes(routes!(metrics))
}

/// Gives the figures of the process.
#[utoipa::path(
    get,
    path = "/metrics",
    operation_id = "get_metrics",
    tag = "operations",
    responses(
        (status = 200, description = "The figures, in the text format of Prometheus", body = String, content_type = "text/plain; version=0.0.4; charset=utf-8"),
        (status = 401, description = "The token is missing or wrong", body = ProblemDocument, content_type = "application/problem+json"),
        (status = 403, description = "The host or the origin is not allowed", body = ProblemDocument, content_type = "application/problem+json"),
        (status = 500, description = "The host failed", body = ProblemDocument, content_type = "application/problem+json")
    )
)]
async fn metrics(State(api): State<Api>) -> Result<Response, Problem> {
    let written = tokio::task::spawn_blocking(move || {
        let mut registry = prometheus_client::registry::Registry::with_prefix("skillrun");
        registry.register_collector(Box::new(Exposition::of(&api)));
        let mut text = String::new();
        prometheus_text::encode(&mut text, &registry).map(|()| text)
    });
    let text = written.await.map_err(|error| Problem::internal(&error))?;
    let text = text.map_err(|error| Problem::internal(&error))?;
    let headers = [(CONTENT_TYPE, prometheus_text::CONTENT_TYPE)];
    Ok((headers, text).into_response())
}
