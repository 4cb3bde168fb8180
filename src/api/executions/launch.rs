//! `POST /api/agent/executions`.

use axum::Json;
use axum::extract::State;
use axum::http::header::LOCATION;
use axum::http::{HeaderName, StatusCode};

use crate::api::Api;
use crate::api::dto::execution::{ExecutionRef, LaunchExecution};
use crate::api::extract::{JsonBody, Members};
use crate::api::problem::{Problem, ProblemDocument};
use crate::api::skills::check_runnable;
use crate::runtime::Runtime as _;

/// Launches an agent. The answer comes once its execution is on record.
///
/// It goes on whether or not anybody watches, until it ends by itself or is stopped; a client that goes away before
/// the answer is ready has launched nothing. A session has one execution
/// at a time: launches of one session at once are answered with the same one, and a later one is refused with
/// `execution_id`, which makes a launch that names its session safe to send again.
#[utoipa::path(
    post,
    path = "/api/agent/executions",
    operation_id = "launch_execution",
    tag = "executions",
    request_body = LaunchExecution,
    responses(
        (status = 201, description = "The execution is on record, and its agent starts", body = ExecutionRef,
            headers(("Location" = String, description = "Where the execution is"))),
        (status = 400, description = "The request cannot be used", body = ProblemDocument, content_type = "application/problem+json"),
        (status = 404, description = "There is no such agent, or no such run to take up", body = ProblemDocument, content_type = "application/problem+json"),
        (status = 409, description = "The session, or the run to take up, has an execution, which `execution_id` names; or the run cannot be taken up", body = ProblemDocument, content_type = "application/problem+json"),
        (status = 422, description = "The skill is no agent, or cannot be run", body = ProblemDocument, content_type = "application/problem+json"),
        (status = 429, description = "As many executions are live as may be", body = ProblemDocument, content_type = "application/problem+json",
            headers(("Retry-After" = u32, description = "Seconds")))
    )
)]
pub(crate) async fn launch_execution(
    State(api): State<Api>,
    JsonBody(Members(asked)): JsonBody<Members<LaunchExecution>>,
) -> Result<(StatusCode, [(HeaderName, String); 1], Json<ExecutionRef>), Problem> {
    check_runnable(&api, asked.agent())?;
    // Not in a task of its own: a launch whose client goes away before it is on record comes to nothing.
    let launched = api.host().runtime().launch(asked.into()).await?;
    let location = format!("/api/agent/executions/{}", launched.id);
    Ok((
        StatusCode::CREATED,
        [(LOCATION, location)],
        Json(launched.into()),
    ))
}
