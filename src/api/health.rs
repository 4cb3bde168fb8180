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

/// What came of one look.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum Check {
    /// It is as it should be.
    Ok,
    /// It is not.
    Failed,
}

impl From<bool> for Check {
    fn from(is_ok: bool) -> Self {
        if is_ok { Self::Ok } else { Self::Failed }
    }
}

/// What has to be well for runs to be taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
pub(crate) struct Checks {
    /// The process is not about to end. It answers only after it has looked after the runs that the last one
    /// left, so that this says it of these, too.
    accepting: Check,
    /// Ledgers can be written: no write or sync has failed since the last one that succeeded.
    ledgers: Check,
    /// There is as much room for them as `serve.disk_free_bytes_min` says.
    disk: Check,
}

/// Runs can be taken.
#[derive(Debug, Serialize, ToSchema)]
struct Readiness {
    /// Always `ok`.
    status: &'static str,
    /// What was looked at.
    checks: Checks,
}

/// Says whether runs can be taken.
#[utoipa::path(
    get,
    path = "/readyz",
    tag = "operations",
    responses(
        (status = 200, description = "Runs can be taken", body = Readiness),
        (status = 503, description = "They cannot, and checks says why", body = ProblemDocument, content_type = "application/problem+json")
    ),
    security(())
)]
async fn readyz(State(api): State<Api>) -> Result<Json<Readiness>, Problem> {
    let disk_free_bytes_min = api.settings().disk_free_bytes_min;
    let store = api.host().store().clone();
    let looked = tokio::task::spawn_blocking(move || {
        // It was taken out of use by a failure, and this may be the first to ask since.
        let ledgers = match store.healthy() {
            Ok(()) => Ok(()),
            Err(_unavailable) => store.probe(),
        };
        (ledgers, store.free_bytes())
    });
    let (ledgers, free_bytes) = looked.await.map_err(|error| Problem::internal(&error))?;
    if let Err(error) = &ledgers {
        tracing::warn!(error = chain(error), "not ready");
    }
    if let Err(error) = &free_bytes {
        tracing::warn!(%error, "cannot tell how much of the disk is free");
    }
    let checks = Checks {
        accepting: (!api.is_draining()).into(),
        ledgers: ledgers.is_ok().into(),
        disk: free_bytes
            .is_ok_and(|bytes| bytes >= disk_free_bytes_min)
            .into(),
    };
    let (code, detail) = match checks {
        Checks {
            accepting: Check::Failed,
            ..
        } => (ProblemCode::ShuttingDown, "no new runs are taken"),
        Checks {
            ledgers: Check::Failed,
            ..
        } => (
            ProblemCode::Unavailable,
            "the folder of ledgers cannot be written",
        ),
        Checks {
            disk: Check::Failed,
            ..
        } => (
            ProblemCode::Unavailable,
            "fewer bytes are free for ledgers than serve.disk_free_bytes_min",
        ),
        _ => {
            let status = "ok";
            return Ok(Json(Readiness { status, checks }));
        }
    };
    Err(Problem::new(code, detail).with_checks(checks))
}
