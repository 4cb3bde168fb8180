//! What is done to every request and every response: an id, a line in the log, and a document for each problem.

use std::any::Any;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{MatchedPath, Request, State};
use axum::http::header::{
    ALLOW, CACHE_CONTROL, CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use axum::http::{HeaderName, HeaderValue, Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use tracing::Instrument as _;
use uuid::Uuid;

use super::Api;
use super::problem::{PROBLEM_JSON, Problem, ProblemCode};
use super::router::MCP_ROUTE;

/// The header field with the id of a request, in the response and, if the caller has one, in the request.
pub(crate) const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Bytes of an id that a caller may give a request. Protects the log.
const REQUEST_ID_BYTES_MAX: usize = 128;

/// The id of a request.
#[derive(Debug, Clone)]
pub(crate) struct RequestId(pub(crate) String);

impl RequestId {
    fn of(request: &Request) -> Self {
        let given = request.headers().get(REQUEST_ID);
        let given = given.and_then(|value| value.to_str().ok());
        let is_id = |id: &&str| {
            (1..=REQUEST_ID_BYTES_MAX).contains(&id.len())
                && id.bytes().all(|byte| byte.is_ascii_graphic())
        };
        let id = given.filter(is_id).map(str::to_owned);
        Self(id.unwrap_or_else(|| Uuid::now_v7().to_string()))
    }
}

/// The outermost layer.
pub(crate) async fn answer(mut request: Request, next: Next) -> Response {
    let id = RequestId::of(&request);
    // What an MCP server answers is for MCP to say, also when it is an error.
    let is_mcp = route(&request) == MCP_ROUTE;
    let span = tracing::info_span!("request", id = id.0, method = %request.method(), path = request.uri().path());
    request.extensions_mut().insert(id.clone());
    let mut response = next.run(request).instrument(span).await;
    let is_error = response.status().is_client_error() || response.status().is_server_error();
    let is_own = !is_mcp || response.extensions().get::<Problem>().is_some();
    if is_error && is_own {
        response = with_document(response, &id.0);
    }
    let headers = response.headers_mut();
    if let Ok(value) = HeaderValue::from_str(&id.0) {
        headers.insert(REQUEST_ID, value);
    }
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(X_FRAME_OPTIONS, HeaderValue::from_static("DENY"));
    headers
        .entry(CACHE_CONTROL)
        .or_insert(HeaderValue::from_static("no-store"));
    response
}

/// The response as a problem document, unless it is one.
fn with_document(mut response: Response, request_id: &str) -> Response {
    let problem = response.extensions_mut().remove::<Problem>();
    let problem = problem.unwrap_or_else(|| Problem::of_status(response.status()));
    let allow = response.headers_mut().remove(ALLOW);
    let mut response = problem.render(request_id);
    if let Some(allow) = allow {
        response.headers_mut().insert(ALLOW, allow);
    }
    debug_assert!(
        response
            .headers()
            .get(CONTENT_TYPE)
            .is_some_and(|kind| kind == PROBLEM_JSON)
    );
    response
}

/// Where runs are started, whose answer may take as long as a run does if the caller asks to wait for it.
const RUNS_ROUTE: &str = "/api/agent/runs";
/// Where executions are launched.
const EXECUTIONS_ROUTE: &str = "/api/agent/executions";
/// Where an execution is prompted, whose answer may take as long as a turn does, likewise.
const PROMPT_ROUTE: &str = "/api/agent/executions/{id}/prompt";
/// Where one execution is, which ends when that is deleted.
const EXECUTION_ROUTE: &str = "/api/agent/executions/{id}";
/// Where turns and executions are ended, whose answer may take as long as the agent has for that.
const ENDING_ROUTES: [&str; 3] = [
    "/api/agent/executions/{id}/cancel",
    "/api/agent/executions/{id}/stop",
    "/api/agent/executions/{id}/stop-children",
];
/// How the paths of routes end that answer for as long as somebody listens.
const STREAMING_ROUTE: &str = "/events";

fn route(request: &Request) -> &str {
    let matched = request.extensions().get::<MatchedPath>();
    matched.map_or("", MatchedPath::as_str)
}

/// Whether somebody waits for something that takes its own time.
fn takes_its_time(request: &Request) -> bool {
    let query = request.uri().query().unwrap_or_default();
    let waits = url::form_urlencoded::parse(query.as_bytes()).any(|(key, _)| key == "wait");
    let route = route(request);
    let ends = ENDING_ROUTES.contains(&route)
        || request.method() == Method::DELETE && route == EXECUTION_ROUTE;
    ends || route.ends_with(STREAMING_ROUTE)
        || route == MCP_ROUTE
        || waits && [RUNS_ROUTE, PROMPT_ROUTE].contains(&route)
}

/// Bounds the time of an answer, and reads the body before. A request that may take its own time has to have come
/// within it.
pub(crate) async fn in_time(State(api): State<Api>, request: Request, next: Next) -> Response {
    let time = Duration::from_millis(api.settings().request_timeout_ms);
    let late = |_elapsed| Problem::of_status(StatusCode::REQUEST_TIMEOUT).into_response();
    let takes_its_time = takes_its_time(&request);
    let whole = whole(&api, request);
    if takes_its_time {
        return match tokio::time::timeout(time, whole).await {
            Ok(Ok(request)) => next.run(request).await,
            Ok(Err(problem)) => problem.into_response(),
            Err(elapsed) => late(elapsed),
        };
    }
    let answered = async {
        match whole.await {
            Ok(request) => next.run(request).await,
            Err(problem) => problem.into_response(),
        }
    };
    let answered = tokio::time::timeout(time, answered).await;
    answered.unwrap_or_else(late)
}

/// The request with all of its body, if it is one that has one.
async fn whole(api: &Api, request: Request) -> Result<Request, Problem> {
    if request.method() != Method::POST || route(&request).is_empty() {
        return Ok(request);
    }
    let (mut head, body) = request.into_parts();
    let bytes_max = api.settings().body_bytes_max;
    let (body, room) = api.0.bodies.read(body, bytes_max).await?;
    head.extensions.insert(room);
    Ok(Request::from_parts(head, Body::from(body)))
}

/// Begins nothing new when the process is about to end.
pub(crate) async fn unless_draining(
    State(api): State<Api>,
    request: Request,
    next: Next,
) -> Response {
    let begins = request.method() == Method::POST && is_beginning(request.uri().path());
    if begins && api.is_draining() {
        return Problem::of_status(StatusCode::SERVICE_UNAVAILABLE).into_response();
    }
    next.run(request).await
}

/// Whether something begins there when it is posted to: a run, an execution, a turn, or a call of a client of MCP.
fn is_beginning(path: &str) -> bool {
    let begins = |route, continuation| {
        let rest = path.strip_prefix(route);
        rest.is_some_and(|rest: &str| rest.is_empty() || rest.ends_with(continuation))
    };
    begins(RUNS_ROUTE, "/resume") || begins(EXECUTIONS_ROUTE, "/prompt") || path == MCP_ROUTE
}

/// What a handler that panicked answers.
#[expect(
    clippy::needless_pass_by_value,
    reason = "it is the type that the layer asks for"
)]
pub(crate) fn panicked(panic: Box<dyn Any + Send + 'static>) -> Response {
    let text = panic
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| panic.downcast_ref::<&str>().copied());
    tracing::error!(panic = text.unwrap_or("no text"), "handler panicked");
    Problem::new(ProblemCode::Internal, "the log of the host says why").into_response()
}
