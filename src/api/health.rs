//! Whether the process is there, and whether it can do its work.

use axum::Json;
use axum::extract::State;
use serde::Serialize;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::Api;
use super::problem::{Problem, ProblemCode, ProblemDocument};
use crate::telemetry::chain;

/// The process is there.
#[derive(Debug, Serialize, ToSchema)]
struct Health {
    /// Always `ok`.
    status: &'static str,
    /// The version of skillrun.
    version: &'static str,
}

pub(crate) fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new()
        .routes(routes!(healthz))
        .routes(routes!(readyz))
}

/// Says that the process is there.
#[utoipa::path(
    get,
    path = "/healthz",
    tag = "operations",
    responses((status = 200, description = "The process is there", body = Health)),
    security(())
)]
async fn healthz() -> Json<Health> {
    Json(HEALTHY)
}

const HEALTHY: Health = Health {
    status: "ok",
    version: env!("CARGO_PKG_VERSION"),
};

/// Says whether runs can be taken.
#[utoipa::path(
    get,
    path = "/readyz",
    tag = "operations",
    responses(
        (status = 200, description = "Runs can be taken", body = Health),
        (status = 503, description = "They cannot", body = ProblemDocument, content_type = "application/problem+json")
    ),
    security(())
)]
async fn readyz(State(api): State<Api>) -> Result<Json<Health>, Problem> {
    let store = api.host().store().clone();
    let healthy = tokio::task::spawn_blocking(move || store.healthy()).await;
    match healthy {
        Ok(Ok(())) => Ok(Json(HEALTHY)),
        Ok(Err(error)) => {
            tracing::warn!(error = chain(&error), "not ready");
            let detail = "the folder of ledgers cannot be written";
            Err(Problem::new(ProblemCode::Unavailable, detail))
        }
        Err(error) => Err(Problem::internal(&error)),
    }
}
