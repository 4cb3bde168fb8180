//! What handlers take out of a request, refused with a problem when it is not what it should be.

use axum::extract::rejection::{JsonRejection, PathRejection, QueryRejection};
use axum::extract::{FromRequest, FromRequestParts, OptionalFromRequest, Request};
use serde::de::DeserializeOwned;

use super::problem::{Problem, ProblemCode};
use crate::id::RunId;

/// A body of JSON.
#[derive(FromRequest)]
#[from_request(via(axum::Json), rejection(Problem))]
pub(crate) struct JsonBody<T>(pub(crate) T);

/// One that may be left out, together with its media type.
impl<T: DeserializeOwned, S: Send + Sync> OptionalFromRequest<S> for JsonBody<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Option<Self>, Problem> {
        let body = <axum::Json<T> as OptionalFromRequest<S>>::from_request(request, state).await?;
        Ok(body.map(|axum::Json(body)| Self(body)))
    }
}

/// The parameters behind the `?`.
#[derive(FromRequestParts)]
#[from_request(via(axum::extract::Query), rejection(Problem))]
pub(crate) struct Query<T>(pub(crate) T);

/// The parts of the path.
#[derive(FromRequestParts)]
#[from_request(via(axum::extract::Path), rejection(Problem))]
pub(crate) struct Path<T>(pub(crate) T);

impl From<JsonRejection> for Problem {
    fn from(rejection: JsonRejection) -> Self {
        let code = match &rejection {
            JsonRejection::MissingJsonContentType(_) => ProblemCode::UnsupportedMediaType,
            JsonRejection::BytesRejection(_)
                if rejection.status() == ProblemCode::TooLarge.status() =>
            {
                return Self::of_status(rejection.status());
            }
            _ => ProblemCode::BadRequest,
        };
        Self::new(code, rejection.body_text())
    }
}

impl From<QueryRejection> for Problem {
    fn from(rejection: QueryRejection) -> Self {
        Self::new(ProblemCode::BadRequest, rejection.body_text())
    }
}

impl From<PathRejection> for Problem {
    fn from(rejection: PathRejection) -> Self {
        Self::new(ProblemCode::BadRequest, rejection.body_text())
    }
}

/// A run's id in a path. One that no run can have names no run.
pub(crate) fn run_id(text: &str) -> Result<RunId, Problem> {
    text.parse().map_err(|_| no_such_run(text))
}

/// There is no such run.
pub(crate) fn no_such_run(text: &str) -> Problem {
    Problem::new(ProblemCode::NotFound, format!("there is no run {text:?}"))
}
