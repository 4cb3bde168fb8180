//! Runs that are to go on.

use axum::extract::State;
use axum::http::header::LOCATION;
use axum::http::{HeaderMap, HeaderName, StatusCode};
use axum::{Extension, Json};
use tracing::Instrument as _;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::Api;
use super::dto::resume::{ResumeRun, RunResumed};
use super::extract::{JsonBody, Members, Path, run_id};
use super::problem::{Problem, ProblemCode, ProblemDocument};
use super::request::RequestId;
use crate::runner::{Caller, ResumeOptions};
use crate::trace_context::TraceContext;

pub(crate) fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new().routes(routes!(resume_run))
}

/// Goes on with a run that was cut off.
///
/// The skill is run again from its beginning and is told what is on record for as long as that lasts. With
/// `from_node` a new run begins, and the old one stays as it is, be it over or not.
#[utoipa::path(
    post,
    path = "/api/agent/runs/{id}/resume",
    operation_id = "resume_run",
    tag = "runs",
    params(
        ("id" = String, Path, description = "The run", min_length = 1, max_length = 128),
        ("traceparent" = Option<String>, Header, description = "The caller's place in a trace, as W3C Trace Context has it; one that does not follow it does not count", nullable = false)
    ),
    request_body = Option<ResumeRun>,
    responses(
        (status = 202, description = "It goes on, which is on record", body = RunResumed,
            headers(("Location" = String, description = "The run that goes on"))),
        (status = 400, description = "The body cannot be used", body = ProblemDocument, content_type = "application/problem+json"),
        (status = 403, description = "What was granted to it by its caller would be missing", body = ProblemDocument, content_type = "application/problem+json"),
        (status = 404, description = "There is no such run, no such step, and no such call", body = ProblemDocument, content_type = "application/problem+json"),
        (status = 409, description = "It has ended, or is being carried out", body = ProblemDocument, content_type = "application/problem+json"),
        (status = 422, description = "The skill is another one than it was", body = ProblemDocument, content_type = "application/problem+json"),
        (status = 429, description = "As many runs go on and wait as may", body = ProblemDocument, content_type = "application/problem+json",
            headers(("Retry-After" = u64, description = "Seconds until it may be tried again")))
    )
)]
async fn resume_run(
    State(api): State<Api>,
    Path(id): Path<String>,
    Extension(request_id): Extension<RequestId>,
    headers: HeaderMap,
    body: Option<JsonBody<Option<Members<ResumeRun>>>>,
) -> Result<(StatusCode, [(HeaderName, String); 1], Json<RunResumed>), Problem> {
    let run_id = run_id(&id)?;
    let Members(body) = body.and_then(|JsonBody(body)| body).unwrap_or_default();
    let runner = api.host().runner();
    if body.from_node.is_none() && runner.is_live(&run_id) {
        let detail = format!("run {run_id} is being carried out");
        return Err(Problem::new(ProblemCode::Conflict, detail).with_run_id(run_id));
    }
    let options = ResumeOptions {
        from_node: body.from_node.clone(),
        retry_ambiguous: body.retry_ambiguous,
        ..ResumeOptions::default()
    };
    let caller = Caller::new()
        .with_trace(TraceContext::of_headers(&headers))
        .with_request_id(request_id.0);
    // In a task of its own: a run that is taken up goes on when whoever asked for it goes away.
    let resumed = tokio::spawn({
        let (runner, run_id) = (runner.clone(), run_id.clone());
        async move { runner.start_resume(caller, &run_id, options).await }.in_current_span()
    });
    let resumed = resumed.await.map_err(|error| Problem::internal(&error))?;
    let resumed = resumed.map_err(|error| Problem::from(error).with_run_id(run_id.clone()))?;
    let location = format!("/api/agent/runs/{}", resumed.run_id);
    let document = RunResumed {
        run_id: resumed.run_id,
        started_at: resumed.started_at,
        resumed_from: body.from_node.map(|_| run_id),
    };
    Ok((StatusCode::ACCEPTED, [(LOCATION, location)], Json(document)))
}
