//! `POST /api/agent/executions/{id}/prompt`.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use serde::Deserialize;
use tokio_util::task::AbortOnDropHandle;
use tracing::Instrument as _;

use super::OfExecution;
use crate::api::body::BodyRoom;
use crate::api::dto::execution::{PromptAccepted, PromptExecution, Turn};
use crate::api::extract::{JsonBody, Members, Query};
use crate::api::problem::{Problem, ProblemDocument};
use crate::api::{Api, wait};
use crate::runtime::Runtime as _;

/// How an execution is prompted.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct PromptQuery {
    /// Whether the end of the turn is waited for: `true`, `false`, or for how many milliseconds at most, 1 to
    /// 600,000. `true` is the longest of them.
    #[param(pattern = "^(true|false|[0-9]{1,6})$", nullable = false)]
    wait: Option<String>,
}

/// Sends a prompt. Prompts of an execution are taken one after the other.
///
/// Without `wait` the answer comes once the prompt is queued, and nothing of it depends on the client any more.
/// Whoever waits stands behind the prompt: when the connection closes before the answer, the prompt is taken back,
/// or its turn is cancelled if that has begun. When the time is over that was to be waited, the turn goes on and
/// the answer is that of a prompt without `wait`. A turn that the agent ends with an error is answered like any
/// other, with its `stop_reason`.
#[utoipa::path(
    post,
    path = "/api/agent/executions/{id}/prompt",
    operation_id = "prompt_execution",
    tag = "executions",
    params(("id" = String, Path, description = "The execution"), PromptQuery),
    request_body = PromptExecution,
    responses(
        (status = 200, description = "The turn is over, within the time that was to be waited", body = Turn),
        (status = 202, description = "The prompt waits for its turn, or that goes on", body = PromptAccepted),
        (status = 400, description = "The request cannot be used", body = ProblemDocument, content_type = "application/problem+json"),
        (status = 404, description = "There is no such live execution", body = ProblemDocument, content_type = "application/problem+json"),
        (status = 409, description = "The execution ended before the turn did", body = ProblemDocument, content_type = "application/problem+json"),
        (status = 429, description = "As many prompts wait as may", body = ProblemDocument, content_type = "application/problem+json",
            headers(("Retry-After" = u32, description = "Seconds")))
    )
)]
pub(crate) async fn prompt_execution(
    State(api): State<Api>,
    OfExecution { id, name, runtime }: OfExecution,
    Query(query): Query<PromptQuery>,
    Extension(room): Extension<BodyRoom>,
    JsonBody(Members(body)): JsonBody<Members<PromptExecution>>,
) -> Result<Response, Problem> {
    let wait = wait::parse(query.wait.as_deref())?;
    let mut turn = Box::pin(async move { runtime.resume(&name, &body.prompt).await });
    // It is queued, or refused, when it is first looked at.
    tokio::select! {
        biased;
        ended = &mut turn => return Ok(Json(Turn::from(ended?)).into_response()),
        () = std::future::ready(()) => {}
    }
    // Whoever waits for minutes does not hold the room of what was sent for as long.
    room.release();
    let turn = tokio::spawn(turn.in_current_span());
    // Whoever goes away drops this, and with it the prompt or its turn.
    let mut turn = AbortOnDropHandle::new(turn);
    if let Some(wait) = wait {
        tokio::select! {
            ended = &mut turn => {
                let ended = ended.map_err(|error| Problem::internal(&error))??;
                return Ok(Json(Turn::from(ended)).into_response());
            }
            () = tokio::time::sleep(wait) => {}
            () = api.closing().cancelled() => {}
        }
    }
    let _goes_on = turn.detach();
    let status = "accepted";
    Ok((StatusCode::ACCEPTED, Json(PromptAccepted { id, status })).into_response())
}
