//! `GET /api/agent/runs`.

use axum::Json;
use axum::extract::State;
use serde::Deserialize;

use super::blocking;
use super::since;
use crate::api::Api;
use crate::api::dto::run::{RunPage, RunRow, RunStatus};
use crate::api::extract::Query;
use crate::api::problem::{Problem, ProblemCode, ProblemDocument};
use crate::clock::Clock;
use crate::ledger::RunQuery;

/// Runs of one page. Protects the memory of both sides.
const RUNS_MAX: usize = 1_000;
const RUNS_DEFAULT: usize = 50;

/// Which runs are wanted. Conditions that are absent let every run pass.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct ListQuery {
    /// Only runs in this state.
    #[param(inline, nullable = false)]
    status: Option<RunStatus>,
    /// Only runs of this skill, or of one operation of it, which is asked for as `skill.operation`.
    #[param(nullable = false)]
    skill: Option<String>,
    /// Only runs that this one asked for.
    #[param(pattern = "^run_[0-9a-f]{32}$", nullable = false)]
    parent: Option<String>,
    /// Only runs that started then or later: RFC 3339, or how long ago, such as `1h` or `30d`.
    #[param(
        pattern = "^([0-9]{1,4}[smhd]|20[0-9]{2}-0[1-9]-[01][1-9]T[01][0-9]:[0-5][0-9]:[0-5][0-9](\\.[0-9]{1,6})?Z)$",
        example = "30d",
        nullable = false
    )]
    since: Option<String>,
    /// At most so many runs.
    #[param(minimum = 1, maximum = 1_000, default = 50, nullable = false)]
    limit: Option<usize>,
    /// Only runs behind an earlier page, which named this as its `next_cursor`.
    #[param(pattern = "^[0-9a-f]{16}run_[0-9a-f]{32}$", nullable = false)]
    cursor: Option<String>,
}

impl ListQuery {
    fn into_query(self, clock: &Clock) -> Result<RunQuery, Problem> {
        let limit = self.limit.unwrap_or(RUNS_DEFAULT);
        if !(1..=RUNS_MAX).contains(&limit) {
            let detail = format!("limit is {limit}: expected 1 to {RUNS_MAX}");
            return Err(Problem::new(ProblemCode::InvalidInput, detail));
        }
        let parent = self.parent.map(|parent| parent.parse()).transpose();
        let cursor = self.cursor.map(|cursor| cursor.parse()).transpose();
        let since = self.since.map(|text| since::parse(&text, clock.now()));
        Ok(RunQuery {
            state: self.status.map(Into::into),
            skill: self.skill,
            parent_run_id: parent.map_err(|error| unusable("parent", &error))?,
            since: since
                .transpose()
                .map_err(|error| unusable("since", &error))?,
            after: cursor.map_err(|error| unusable("cursor", &error))?,
            limit,
            ..RunQuery::default()
        })
    }
}

fn unusable(parameter: &str, error: &dyn std::error::Error) -> Problem {
    Problem::new(ProblemCode::InvalidInput, format!("{parameter}: {error}"))
}

/// Lists runs, newest first.
#[utoipa::path(
    get,
    path = "/api/agent/runs",
    operation_id = "list_runs",
    tag = "runs",
    params(ListQuery),
    responses(
        (status = 200, description = "A page of runs", body = RunPage),
        (status = 400, description = "A parameter cannot be used", body = ProblemDocument, content_type = "application/problem+json"),
        (status = 401, description = "A token is needed", body = ProblemDocument, content_type = "application/problem+json"),
        (status = 403, description = "The host or the origin is not allowed", body = ProblemDocument, content_type = "application/problem+json"),
        (status = 500, description = "The host failed", body = ProblemDocument, content_type = "application/problem+json")
    )
)]
pub(crate) async fn list_runs(
    State(api): State<Api>,
    Query(query): Query<ListQuery>,
) -> Result<Json<RunPage>, Problem> {
    let query = query.into_query(api.host().clock())?;
    let store = api.host().store().clone();
    let listing = blocking(move || Ok(store.list(&query)?)).await?;
    Ok(Json(RunPage {
        runs: listing.runs.into_iter().map(RunRow::from).collect(),
        next_cursor: listing.next.map(|next| next.to_string()),
    }))
}
