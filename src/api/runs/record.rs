//! What takes a whole ledger to say: why its run ended, whether it is in order, whether the run can be done again, and
//! the values that are stored beside it.

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::HeaderValue;
use axum::http::header::{
    CONTENT_DISPOSITION, CONTENT_LENGTH, CONTENT_SECURITY_POLICY, CONTENT_TYPE,
};
use axum::response::Response;
use tokio_util::io::ReaderStream;

use super::blocking;
use crate::api::Api;
use crate::api::dto::record::{Explanation, Replay, Verification};
use crate::api::extract::{Path, run_id};
use crate::api::problem::{Problem, ProblemCode, ProblemDocument};
use crate::ledger::{Digest, DigestError, StoreError};
use crate::runner::ReplayOptions;

/// What a browser is to do with a stored value if somebody opens it: a skill made it, and it has this origin.
const NOTHING: HeaderValue = HeaderValue::from_static("default-src 'none'; sandbox");

/// Says why a run ended as it did: which rule, limit or decision was behind it, where that came from, and which
/// setting changes it.
#[utoipa::path(
    get,
    path = "/api/agent/runs/{id}/explain",
    operation_id = "explain_run",
    tag = "runs",
    params(("id" = String, Path, description = "The id of the run")),
    responses(
        (status = 200, description = "Why it ended so, or how it goes on", body = Explanation),
        (status = 404, description = "There is no such run", body = ProblemDocument, content_type = "application/problem+json"),
        (status = 429, description = "As many such requests wait as may", body = ProblemDocument, content_type = "application/problem+json",
            headers(("Retry-After" = u64, description = "Seconds until it may be tried again")))
    )
)]
pub(crate) async fn explain_run(
    State(api): State<Api>,
    Path(id): Path<String>,
) -> Result<Json<Explanation>, Problem> {
    let run_id = run_id(&id)?;
    let store = api.host().store().clone();
    let turn = api.whole_ledgers().next().await?;
    let explanation = blocking(move || {
        let _turn = turn;
        Ok(store.explain(&run_id)?)
    });
    Ok(Json(explanation.await?.into()))
}

/// Checks the ledger of a run from its first line to its last, with the values that are stored beside it.
#[utoipa::path(
    get,
    path = "/api/agent/runs/{id}/verify",
    operation_id = "verify_run",
    tag = "runs",
    params(("id" = String, Path, description = "The id of the run")),
    responses(
        (status = 200, description = "What the ledger was found to be, be it in order or not", body = Verification),
        (status = 404, description = "There is no such run", body = ProblemDocument, content_type = "application/problem+json"),
        (status = 429, description = "As many such requests wait as may", body = ProblemDocument, content_type = "application/problem+json",
            headers(("Retry-After" = u64, description = "Seconds until it may be tried again")))
    )
)]
pub(crate) async fn verify_run(
    State(api): State<Api>,
    Path(id): Path<String>,
) -> Result<Json<Verification>, Problem> {
    let run_id = run_id(&id)?;
    let store = api.host().store().clone();
    let turn = api.whole_ledgers().next().await?;
    let report = blocking(move || {
        let _turn = turn;
        Ok(store.verify(&run_id, None)?)
    });
    Ok(Json(report.await?.into()))
}

/// Does a run again from its ledger alone and compares.
///
/// Nothing is called, asked, sent or recorded. The run has none of its folders; the command line gives them to a
/// replay, and takes as long as it needs.
#[utoipa::path(
    post,
    path = "/api/agent/runs/{id}/replay",
    operation_id = "replay_run",
    tag = "runs",
    params(("id" = String, Path, description = "The id of the run")),
    responses(
        (status = 200, description = "Whether it did the same", body = Replay),
        (status = 404, description = "There is no such run, or its skill is gone", body = ProblemDocument, content_type = "application/problem+json"),
        (status = 409, description = "Its record does not say enough", body = ProblemDocument, content_type = "application/problem+json"),
        (status = 422, description = "The skill is another one than it was, or cannot be run", body = ProblemDocument, content_type = "application/problem+json"),
        (status = 429, description = "As many runs go on and wait as may, or as many such requests wait", body = ProblemDocument, content_type = "application/problem+json",
            headers(("Retry-After" = u64, description = "Seconds until it may be tried again")))
    )
)]
pub(crate) async fn replay_run(
    State(api): State<Api>,
    Path(id): Path<String>,
) -> Result<Json<Replay>, Problem> {
    let run_id = run_id(&id)?;
    let store = api.host().store().clone();
    let turn = api.whole_ledgers().next().await?;
    // The record is in memory for as long as the replay goes on.
    let (recorded, _turn) = blocking(move || Ok((store.recorded(&run_id)?, turn))).await?;
    let runner = api.host().runner();
    let report = runner.replay(recorded, ReplayOptions::default()).await?;
    Ok(Json(report.into()))
}

/// A value that was too large for its line, whole: the line has its digest.
#[utoipa::path(
    get,
    path = "/api/agent/runs/{id}/blobs/{digest}",
    operation_id = "get_blob",
    tag = "runs",
    params(
        ("id" = String, Path, description = "The id of the run"),
        ("digest" = String, Path, description = "The SHA-256 of the value, in hexadecimal: `blob` of the reference", min_length = 64, max_length = 64)
    ),
    responses(
        (status = 200, description = "The value: JSON text, or the text itself where the field is one", body = Vec<u8>, content_type = "application/octet-stream"),
        (status = 404, description = "There is no such value, or it is not what was stored", body = ProblemDocument, content_type = "application/problem+json"),
        (status = 429, description = "As many such requests wait as may", body = ProblemDocument, content_type = "application/problem+json",
            headers(("Retry-After" = u64, description = "Seconds until it may be tried again")))
    )
)]
pub(crate) async fn get_blob(
    State(api): State<Api>,
    Path((id, digest)): Path<(String, String)>,
) -> Result<Response, Problem> {
    let run_id = run_id(&id)?;
    let not_one = |error: DigestError| Problem::new(ProblemCode::NotFound, error.to_string());
    let digest: Digest = digest.parse().map_err(not_one)?;
    let name = format!("attachment; filename=\"{run_id}-{digest}.txt\"");
    let store = api.host().store().clone();
    let turn = api.blobs().next().await?;
    let opened = blocking(move || {
        let _turn = turn;
        match store.open_blob(&run_id, digest) {
            Err(error @ StoreError::Blob { .. }) => {
                Err(Problem::new(ProblemCode::NotFound, error.to_string()))
            }
            opened => Ok(opened?),
        }
    });
    let (file, bytes) = opened.await?;
    let content = Body::from_stream(ReaderStream::new(tokio::fs::File::from_std(file)));
    Response::builder()
        .header(CONTENT_TYPE, "application/octet-stream")
        .header(CONTENT_LENGTH, bytes)
        .header(CONTENT_DISPOSITION, name)
        .header(CONTENT_SECURITY_POLICY, NOTHING)
        .body(content)
        .map_err(|error| Problem::internal(&error))
}
