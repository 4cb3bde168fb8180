//! Runs: started, listed, looked at, checked and cancelled.

mod cancel;
mod inspect;
mod list;
mod outcome;
mod record;
mod since;
mod start;

use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::Api;
use super::problem::Problem;

pub(crate) fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new()
        .routes(routes!(start::start_run, list::list_runs))
        .routes(routes!(inspect::get_run))
        .routes(routes!(record::explain_run))
        .routes(routes!(record::verify_run))
        .routes(routes!(record::replay_run))
        .routes(routes!(record::get_blob))
        .routes(routes!(cancel::cancel_run))
}

/// Reads the disk where that holds up nobody.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Problem> + Send + 'static,
) -> Result<T, Problem> {
    let worked = tokio::task::spawn_blocking(work).await;
    worked.unwrap_or_else(|error| Err(Problem::internal(&error)))
}
