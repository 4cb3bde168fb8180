//! All routes, and what every request passes on its way to them.

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::http::Uri;
use axum::middleware;
use tower_http::catch_panic::CatchPanicLayer;
use utoipa::OpenApi;
use utoipa_axum::router::OpenApiRouter;
use utoipa_swagger_ui::{Config, SwaggerUi};

use super::problem::{Problem, ProblemCode, ProblemDocument};
use super::{
    Api, approvals, document, executions, guard, health, metrics, page, request, resume, runs,
    skills, streams,
};

/// Where an MCP server is that the surface has beside its own routes.
pub const MCP_ROUTE: &str = "/mcp";

/// The document of the surface, to which every route adds itself.
#[derive(OpenApi)]
#[openapi(
    info(
        title = "skillrun",
        description = "Runs other people's skills in a WebAssembly sandbox, with every call on the record.",
        license(name = "Apache-2.0", identifier = "Apache-2.0")
    ),
    components(schemas(ProblemDocument)),
    tags(
        (name = "runs", description = "Runs: started, shown, resumed and cancelled"),
        (name = "executions", description = "Agents that live on between prompts: launched, prompted, watched and stopped"),
        (name = "approvals", description = "What runs wait for, and the answers"),
        (name = "skills", description = "Which skills there are"),
        (name = "streams", description = "Events as they are recorded"),
        (name = "operations", description = "Health and figures of the process")
    )
)]
struct Document;

impl Api {
    /// Everything that can be asked. Whoever serves it on a socket of its own keeps the bounds on connections;
    /// [`Api::serve`] does both.
    pub fn router(&self) -> Router {
        let routes = OpenApiRouter::with_openapi(Document::openapi())
            .merge(health::routes())
            .merge(metrics::routes())
            .merge(runs::routes())
            .merge(resume::routes())
            .merge(executions::routes())
            .merge(approvals::routes())
            .merge(skills::routes())
            .merge(streams::routes());
        let (router, mut document) = routes.split_for_parts();
        document::complete(&mut document);
        // Unless it is told otherwise, the page has the document looked at by a server of its makers.
        let docs = SwaggerUi::new("/docs")
            .config(Config::default().validator_url("none"))
            .url("/openapi.json", document);
        router
            .merge(docs)
            .merge(page::routes())
            .merge(self.0.mcp.clone().unwrap_or_default().with_state(()))
            .fallback(no_such_route)
            .layer(middleware::from_fn_with_state(
                self.clone(),
                request::in_time,
            ))
            .layer(middleware::from_fn_with_state(
                self.clone(),
                request::unless_draining,
            ))
            .layer(DefaultBodyLimit::max(self.settings().body_bytes_max))
            .layer(middleware::from_fn_with_state(self.clone(), guard::check))
            .layer(CatchPanicLayer::custom(request::panicked))
            .layer(middleware::from_fn(request::answer))
            .layer(middleware::from_fn_with_state(self.clone(), metrics::count))
            .with_state(self.clone())
    }
}

async fn no_such_route(uri: Uri) -> Problem {
    let hint = match uri.path() {
        MCP_ROUTE => "skillrun serve --mcp has the MCP server there, and so has mcp.serve",
        _ => "/docs shows the routes there are",
    };
    Problem::new(ProblemCode::NotFound, "there is no such route").with_hint(hint)
}
