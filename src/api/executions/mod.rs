//! Executions of agents: launched, listed, looked at, prompted and stopped. Watching one is in `streams`.

mod control;
mod launch;
mod list;
mod prompt;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::Api;
use super::extract::{Path, execution_id};
use super::problem::Problem;
use crate::id::ExecutionId;
use crate::runtime::WasmRuntime;

/// The execution that the path of a request names, and who may have it.
struct OfExecution {
    id: ExecutionId,
    /// The same as text, as the runtime is asked for it.
    name: String,
    runtime: WasmRuntime,
}

impl FromRequestParts<Api> for OfExecution {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, api: &Api) -> Result<Self, Problem> {
        let Path(id) = Path::<String>::from_request_parts(parts, api).await?;
        let id = execution_id(&id)?;
        Ok(Self {
            name: id.to_string(),
            id,
            runtime: api.host().runtime().clone(),
        })
    }
}

pub(crate) fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new()
        .routes(routes!(launch::launch_execution, list::list_executions))
        .routes(routes!(list::get_execution, control::delete_execution))
        .routes(routes!(prompt::prompt_execution))
        .routes(routes!(control::cancel_turn))
        .routes(routes!(control::stop_execution))
        .routes(routes!(control::stop_children))
        .routes(routes!(control::set_mode))
}
