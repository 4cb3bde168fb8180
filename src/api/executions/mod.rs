//! Executions of agents: launched, listed, looked at, prompted and stopped. Watching one is in `streams`.

mod control;
mod launch;
mod list;
mod prompt;

use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::Api;

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
