//! `POST /api/agent/runs/{id}/cancel`.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;

use super::blocking;
use crate::api::Api;
use crate::api::dto::run::RunCancelling;
use crate::api::extract::{Path, run_id};
use crate::api::problem::{Problem, ProblemCode, ProblemDocument};
use crate::ledger::{RunState, RunStatus, Summary};

/// Cancels a run that this process carries out, be it queued or suspended, and with it every run inside.
#[utoipa::path(
    post,
    path = "/api/agent/runs/{id}/cancel",
    operation_id = "cancel_run",
    tag = "runs",
    params(("id" = String, Path, description = "The id of the run")),
    responses(
        (status = 202, description = "The run is cancelled, which is on record soon after", body = RunCancelling),
        (status = 401, description = "A token is needed", body = ProblemDocument, content_type = "application/problem+json"),
        (status = 403, description = "The host or the origin is not allowed", body = ProblemDocument, content_type = "application/problem+json"),
        (status = 404, description = "There is no such run", body = ProblemDocument, content_type = "application/problem+json"),
        (status = 409, description = "The run has ended, or this process does not carry it out", body = ProblemDocument, content_type = "application/problem+json"),
        (status = 500, description = "The host failed", body = ProblemDocument, content_type = "application/problem+json")
    )
)]
pub(crate) async fn cancel_run(
    State(api): State<Api>,
    Path(id): Path<String>,
) -> Result<(StatusCode, Json<RunCancelling>), Problem> {
    let run_id = run_id(&id)?;
    if !api.host().runner().cancel(&run_id) {
        let store = api.host().store().clone();
        let summary = blocking(move || Ok(store.summary(&run_id)?)).await?;
        return Err(not_cancelled(&summary));
    }
    let status = "cancelling";
    Ok((StatusCode::ACCEPTED, Json(RunCancelling { run_id, status })))
}

/// Why a run that is not carried out here cannot be cancelled.
fn not_cancelled(run: &Summary) -> Problem {
    let run_id = &run.run_id;
    let detail = match run.state {
        RunState::Ended(status @ (RunStatus::Ok | RunStatus::Error | RunStatus::Cancelled)) => {
            format!("run {run_id} has ended: its status is {}", status.as_str())
        }
        RunState::Ended(status) => format!(
            "run {run_id} is {}, and this process does not carry it out",
            status.as_str()
        ),
        RunState::Running if run.writer_pid.is_some() => {
            format!("run {run_id} is carried out by another process")
        }
        RunState::Running => format!("run {run_id} was cut off, and nobody carries it out"),
        RunState::Corrupt => format!("the ledger of run {run_id} is damaged"),
    };
    Problem::new(ProblemCode::Conflict, detail)
}
