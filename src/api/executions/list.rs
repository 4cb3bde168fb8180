//! `GET /api/agent/executions` and `GET /api/agent/executions/{id}`.

use axum::Json;
use axum::extract::State;
use serde::Deserialize;

use super::OfExecution;
use crate::api::Api;
use crate::api::dto::execution::{Execution, ExecutionPage, ExecutionStatus};
use crate::api::extract::Query;
use crate::api::problem::{Problem, ProblemCode, ProblemDocument};
use crate::runtime::{ExecutionFilter, LIST_EXECUTIONS_MAX, Runtime as _};

/// Executions of one page, unless the caller says how many.
const LIMIT_DEFAULT: usize = 50;

/// Which executions are wanted. Conditions that are absent let every one pass.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct ListQuery {
    /// Only executions in this state.
    #[param(inline, nullable = false)]
    status: Option<ExecutionStatus>,
    /// Only executions of this session.
    #[param(nullable = false)]
    session_id: Option<String>,
    /// Only executions that this one launched.
    #[param(pattern = "^exec_[0-9a-f]{32}_[1-9][0-9]{0,8}$", nullable = false)]
    parent: Option<String>,
    /// How many are looked at; of these those are given that the other conditions let pass.
    #[param(minimum = 1, maximum = 200, default = 50, nullable = false)]
    limit: Option<usize>,
    /// Only executions behind an earlier page, which named this as its `next_cursor`.
    #[param(pattern = "^[0-9a-f]{16}run_[0-9a-f]{32}$", nullable = false)]
    cursor: Option<String>,
}

impl ListQuery {
    fn into_filter(self) -> Result<ExecutionFilter, Problem> {
        let limit = self.limit.unwrap_or(LIMIT_DEFAULT);
        if !(1..=LIST_EXECUTIONS_MAX).contains(&limit) {
            let detail = format!("limit is {limit}: expected 1 to {LIST_EXECUTIONS_MAX}");
            return Err(Problem::new(ProblemCode::InvalidInput, detail));
        }
        let parent = self.parent.map(|parent| parent.parse()).transpose();
        let cursor = self.cursor.map(|cursor| cursor.parse()).transpose();
        Ok(ExecutionFilter {
            session_id: self.session_id,
            status: self.status.map(Into::into),
            parent: parent.map_err(|error| unusable("parent", &error))?,
            after: cursor.map_err(|error| unusable("cursor", &error))?,
            limit,
        })
    }
}

fn unusable(parameter: &str, error: &dyn std::error::Error) -> Problem {
    Problem::new(ProblemCode::InvalidInput, format!("{parameter}: {error}"))
}

/// Lists executions, those of the newest session first, and of each ledger the newest.
///
/// A page may be shorter than asked for, or empty, and have a `next_cursor`.
#[utoipa::path(
    get,
    path = "/api/agent/executions",
    operation_id = "list_executions",
    tag = "executions",
    params(ListQuery),
    responses(
        (status = 200, description = "A page of executions", body = ExecutionPage),
        (status = 400, description = "A parameter cannot be used", body = ProblemDocument, content_type = "application/problem+json")
    )
)]
pub(crate) async fn list_executions(
    State(api): State<Api>,
    Query(query): Query<ListQuery>,
) -> Result<Json<ExecutionPage>, Problem> {
    let filter = query.into_filter()?;
    let page = api.host().runtime().list_executions(filter).await?;
    Ok(Json(ExecutionPage {
        executions: page.executions.into_iter().map(Execution::from).collect(),
        next_cursor: page.next.map(|next| next.to_string()),
    }))
}

/// Shows an execution as it is now, or as it ended.
#[utoipa::path(
    get,
    path = "/api/agent/executions/{id}",
    operation_id = "get_execution",
    tag = "executions",
    params(("id" = String, Path, description = "The execution")),
    responses(
        (status = 200, description = "The execution", body = Execution),
        (status = 404, description = "There is no such execution", body = ProblemDocument, content_type = "application/problem+json")
    )
)]
pub(crate) async fn get_execution(of: OfExecution) -> Result<Json<Execution>, Problem> {
    Ok(Json(of.runtime.get_execution(&of.name).await?.into()))
}
