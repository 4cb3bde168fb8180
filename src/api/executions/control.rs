//! What is done to a live execution: its turn cancelled, it or its children stopped, its mode changed.

use axum::Json;
use serde::Deserialize;

use super::OfExecution;
use crate::api::dto::execution::{
    ExecutionStopped, ExecutionsStopped, ModeSet, SetMode, StopExecution, TurnCancelled,
};
use crate::api::extract::{JsonBody, Members, Query};
use crate::api::problem::{Problem, ProblemCode, ProblemDocument};
use crate::runtime::Runtime as _;

/// Characters of the reason for a stop. Protects ledgers, in which it stands.
const REASON_CHARS_MAX: usize = 1024;
/// Why something was stopped, when nobody says.
const REASON_DEFAULT: &str = "stopped over HTTP";

/// Why an execution is stopped.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct StopQuery {
    /// The reason, which is kept and steers nothing.
    #[param(max_length = 1024, nullable = false)]
    reason: Option<String>,
}

fn reason(given: Option<String>) -> Result<String, Problem> {
    let reason = given.filter(|reason| !reason.is_empty());
    let reason = reason.unwrap_or_else(|| REASON_DEFAULT.to_owned());
    let chars = reason.chars().count();
    if chars > REASON_CHARS_MAX {
        let detail = format!("reason has {chars} characters: expected at most {REASON_CHARS_MAX}");
        return Err(Problem::new(ProblemCode::InvalidInput, detail));
    }
    Ok(reason)
}

type StopBody = Option<JsonBody<Option<Members<StopExecution>>>>;

fn reason_of(body: StopBody) -> Result<String, Problem> {
    let body = body.and_then(|JsonBody(body)| body);
    reason(body.and_then(|Members(body)| body.reason))
}

/// Cancels the turn that goes on, and waits for its end. The execution takes the next prompt.
///
/// An agent that does not end the turn within `runtime.grace_ms` is interrupted, and for it the turn never was.
#[utoipa::path(
    post,
    path = "/api/agent/executions/{id}/cancel",
    operation_id = "cancel_turn",
    tag = "executions",
    params(("id" = String, Path, description = "The execution")),
    responses(
        (status = 200, description = "No turn goes on", body = TurnCancelled),
        (status = 404, description = "There is no such live execution", body = ProblemDocument, content_type = "application/problem+json"),
        (status = 409, description = "The execution ended meanwhile", body = ProblemDocument, content_type = "application/problem+json")
    )
)]
pub(crate) async fn cancel_turn(of: OfExecution) -> Result<Json<TurnCancelled>, Problem> {
    let turn = of.runtime.cancel_turn(&of.name).await?;
    Ok(Json(TurnCancelled {
        id: of.id,
        turn: turn.map(Into::into),
    }))
}

/// Stops an execution and its children, and waits for their ends.
///
/// Each may finish within `runtime.grace_ms` and is ended by force after that. Of all who stop an execution one
/// is answered with 200, and the others with 404. What was begun goes on when the client goes away.
#[utoipa::path(
    post,
    path = "/api/agent/executions/{id}/stop",
    operation_id = "stop_execution",
    tag = "executions",
    params(("id" = String, Path, description = "The execution")),
    request_body = Option<StopExecution>,
    responses(
        (status = 200, description = "It has ended", body = ExecutionStopped),
        (status = 400, description = "The body cannot be used", body = ProblemDocument, content_type = "application/problem+json"),
        (status = 404, description = "There is no such live execution, or somebody else stops it", body = ProblemDocument, content_type = "application/problem+json")
    )
)]
pub(crate) async fn stop_execution(
    of: OfExecution,
    body: StopBody,
) -> Result<Json<ExecutionStopped>, Problem> {
    of.stop(&reason_of(body)?).await
}

/// Stops an execution, as the route that ends with `stop` does. Its ledger stays.
#[utoipa::path(
    delete,
    path = "/api/agent/executions/{id}",
    operation_id = "delete_execution",
    tag = "executions",
    params(("id" = String, Path, description = "The execution"), StopQuery),
    responses(
        (status = 200, description = "It has ended", body = ExecutionStopped),
        (status = 400, description = "A parameter cannot be used", body = ProblemDocument, content_type = "application/problem+json"),
        (status = 404, description = "There is no such live execution, or somebody else stops it", body = ProblemDocument, content_type = "application/problem+json")
    )
)]
pub(crate) async fn delete_execution(
    of: OfExecution,
    Query(query): Query<StopQuery>,
) -> Result<Json<ExecutionStopped>, Problem> {
    of.stop(&reason(query.reason)?).await
}

impl OfExecution {
    async fn stop(self, reason: &str) -> Result<Json<ExecutionStopped>, Problem> {
        let stopped = self.runtime.stop(&self.name, reason).await?;
        Ok(Json(stopped.into()))
    }
}

/// Stops all executions that this one launched, and those that it is just launching.
#[utoipa::path(
    post,
    path = "/api/agent/executions/{id}/stop-children",
    operation_id = "stop_children",
    tag = "executions",
    params(("id" = String, Path, description = "The execution whose children they are")),
    request_body = Option<StopExecution>,
    responses(
        (status = 200, description = "They have ended", body = ExecutionsStopped),
        (status = 400, description = "The body cannot be used", body = ProblemDocument, content_type = "application/problem+json"),
        (status = 404, description = "There is no such execution", body = ProblemDocument, content_type = "application/problem+json")
    )
)]
pub(crate) async fn stop_children(
    of: OfExecution,
    body: StopBody,
) -> Result<Json<ExecutionsStopped>, Problem> {
    let reason = reason_of(body)?;
    let stopped = of.runtime.stop_children(&of.name, &reason).await?;
    Ok(Json(ExecutionsStopped {
        stopped: stopped.into_iter().map(Into::into).collect(),
    }))
}

/// Gives an execution the tools of another mode, at once and as a whole, also in the middle of a turn.
#[utoipa::path(
    post,
    path = "/api/agent/executions/{id}/mode",
    operation_id = "set_mode",
    tag = "executions",
    params(("id" = String, Path, description = "The execution")),
    request_body = SetMode,
    responses(
        (status = 200, description = "It has the tools of that mode", body = ModeSet),
        (status = 400, description = "The body cannot be used, or there is no such mode", body = ProblemDocument, content_type = "application/problem+json"),
        (status = 404, description = "There is no such live execution", body = ProblemDocument, content_type = "application/problem+json")
    )
)]
pub(crate) async fn set_mode(
    of: OfExecution,
    JsonBody(Members(body)): JsonBody<Members<SetMode>>,
) -> Result<Json<ModeSet>, Problem> {
    let mcp_mode = body.mode;
    let changed = of.runtime.set_mcp_mode(&of.name, mcp_mode.word());
    let changed = changed.await?;
    Ok(Json(ModeSet {
        id: of.id,
        mcp_mode,
        changed,
    }))
}
