//! What runs wait for, and the answers.

use axum::Json;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::http::header::ORIGIN;
use serde::Deserialize;
use tracing::Instrument as _;
use utoipa::IntoParams;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::Api;
use super::dto::approval::{Approval, Approvals, Decide, Verdict};
use super::extract::{JsonBody, Members, Path, Query, run_id};
use super::problem::{Problem, ProblemCode, ProblemDocument};
use crate::ledger::{ApprovalDecision, ApprovalSource, Cursor, PendingQuery};
use crate::telemetry::chain;

/// Questions of one page, unless the caller says how many.
const LIMIT_DEFAULT: usize = 50;
/// Questions of one page; those of its last run may be more. Protects memory: each has up to 64 KiB to decide
/// about.
const LIMIT_MAX: usize = 200;
/// Characters of the reason for a decision. Protects ledgers, in which it stands.
const REASON_CHARS_MAX: usize = 1024;

/// Which questions are wanted.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct ApprovalsQuery {
    /// Those of this run.
    #[param(max_length = 128, nullable = false)]
    run_id: Option<String>,
    /// How many at most; those that are left of the last run come on top. 50 when absent.
    #[param(minimum = 1, maximum = 200, nullable = false)]
    limit: Option<usize>,
    /// The `next_cursor` of the page before.
    #[param(pattern = "^[0-9a-f]{16}run_[0-9a-f]{32}$", nullable = false)]
    cursor: Option<String>,
}

pub(crate) fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new()
        .routes(routes!(list_approvals))
        .routes(routes!(decide_approval))
}

/// Shows what runs wait for.
///
/// Questions that nobody has answered, of runs that go on, are suspended or were interrupted. A page may be empty
/// and have a `next_cursor`.
#[utoipa::path(
    get,
    path = "/api/approvals",
    operation_id = "list_approvals",
    tag = "approvals",
    responses(
        (status = 200, description = "The questions", body = Approvals),
        (status = 400, description = "A parameter cannot be used", body = ProblemDocument, content_type = "application/problem+json"),
        (status = 404, description = "There is no such run", body = ProblemDocument, content_type = "application/problem+json")
    )
)]
async fn list_approvals(
    State(api): State<Api>,
    Query(query): Query<ApprovalsQuery>,
) -> Result<Json<Approvals>, Problem> {
    let limit = query.limit.unwrap_or(LIMIT_DEFAULT);
    if !(1..=LIMIT_MAX).contains(&limit) {
        let detail = format!("limit {limit}: expected 1 to {LIMIT_MAX}");
        return Err(Problem::new(ProblemCode::InvalidInput, detail));
    }
    let after = query.cursor.as_deref().map(str::parse::<Cursor>);
    let after = after
        .transpose()
        .map_err(|error| Problem::new(ProblemCode::InvalidInput, error.to_string()))?;
    let wanted = PendingQuery {
        run_id: query.run_id.as_deref().map(run_id).transpose()?,
        after,
        limit,
    };
    let store = api.host().store().clone();
    let pending = tokio::task::spawn_blocking(move || store.pending(&wanted)).await;
    let pending = pending.map_err(|error| Problem::internal(&error))??;
    for (run_id, error) in &pending.unreadable {
        tracing::warn!(%run_id, error = chain(error), "cannot tell what a run waits for");
    }
    Ok(Json(Approvals {
        approvals: pending.gates.into_iter().map(Approval::from).collect(),
        next_cursor: pending.next.map(|next| next.to_string()),
        unreadable_runs: pending.unreadable.len(),
    }))
}

/// Answers a question of a run.
///
/// The run goes on at once, also when it was suspended. One that was interrupted has the answer when it is
/// resumed.
#[utoipa::path(
    post,
    path = "/api/agent/runs/{id}/approve",
    operation_id = "decide_approval",
    tag = "approvals",
    params(("id" = String, Path, description = "The run", min_length = 1, max_length = 128)),
    request_body = Decide,
    responses(
        (status = 200, description = "It is decided, durably", body = Approval),
        (status = 400, description = "The body cannot be used", body = ProblemDocument, content_type = "application/problem+json"),
        (status = 404, description = "There is no such run, no such question, or none that is open", body = ProblemDocument, content_type = "application/problem+json"),
        (status = 409, description = "It was decided before, which `decision` says, or the run is over", body = ProblemDocument, content_type = "application/problem+json"),
        (status = 422, description = "Several questions are open, which `approval_ids` names", body = ProblemDocument, content_type = "application/problem+json")
    )
)]
async fn decide_approval(
    State(api): State<Api>,
    Path(id): Path<String>,
    headers: HeaderMap,
    JsonBody(Members(body)): JsonBody<Members<Decide>>,
) -> Result<Json<Approval>, Problem> {
    let run_id = run_id(&id)?;
    let reason = body.reason.unwrap_or_default();
    let chars = reason.chars().count();
    if chars > REASON_CHARS_MAX {
        let detail = format!("reason has {chars} characters: expected at most {REASON_CHARS_MAX}");
        return Err(Problem::new(ProblemCode::InvalidInput, detail));
    }
    let decision = ApprovalDecision {
        approved: body.decision == Verdict::Approve,
        reason,
        source: source_of(&headers),
        option: body.option,
        answer: None,
    };
    // In a task of its own: a run goes on for which it is decided, also when whoever decided goes away meanwhile.
    let decided = tokio::spawn({
        let run_id = run_id.clone();
        async move {
            let runner = api.host().runner();
            let approval_id = body.approval_id.as_deref();
            runner.decide(&run_id, approval_id, decision).await
        }
        .in_current_span()
    });
    let decided = decided.await.map_err(|error| Problem::internal(&error))?;
    let gate = decided.map_err(|error| Problem::from(error).with_run_id(run_id))?;
    Ok(Json(gate.into()))
}

/// Over which way an answer comes: only browsers say which page a request is from, and they always do when something
/// is decided.
fn source_of(headers: &HeaderMap) -> ApprovalSource {
    match headers.contains_key(ORIGIN) {
        true => ApprovalSource::Web,
        false => ApprovalSource::Api,
    }
}
