//! What handlers take out of a request, refused with a problem when it is not what it should be.

use std::fmt;
use std::marker::PhantomData;

use axum::extract::rejection::{BytesRejection, JsonRejection, PathRejection, QueryRejection};
use axum::extract::{FromRequest, FromRequestParts, OptionalFromRequest, Request};
use axum::http::HeaderMap;
use axum::http::header::CONTENT_TYPE;
use serde::de::value::MapAccessDeserializer;
use serde::de::{DeserializeOwned, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

use super::problem::{Problem, ProblemCode};
use crate::id::{ExecutionId, RunId};

/// Characters of a name that is none which a problem repeats.
const SHOWN_CHARS_MAX: usize = 128;

/// A body of JSON, for routes that need nothing of it but its value.
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

impl From<BytesRejection> for Problem {
    fn from(rejection: BytesRejection) -> Self {
        match rejection.status() {
            status if status == ProblemCode::TooLarge.status() => Self::of_status(status),
            _ => Self::new(ProblemCode::BadRequest, rejection.body_text()),
        }
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

/// What a body holds whose bytes are needed as well.
pub(crate) fn json_of<T: DeserializeOwned>(headers: &HeaderMap, body: &[u8]) -> Result<T, Problem> {
    if !is_json(headers) {
        return Err(Problem::of_status(
            ProblemCode::UnsupportedMediaType.status(),
        ));
    }
    match axum::Json::from_bytes(body) {
        Ok(axum::Json(value)) => Ok(value),
        Err(rejection) => Err(rejection.into()),
    }
}

fn is_json(headers: &HeaderMap) -> bool {
    let kind = headers
        .get(CONTENT_TYPE)
        .and_then(|kind| kind.to_str().ok());
    let essence = kind.and_then(|kind| kind.split(';').next()).map(str::trim);
    essence.is_some_and(|essence| essence.eq_ignore_ascii_case("application/json"))
}

/// A value that is an object in a body: serde would take a list of the members' values for one as well.
#[derive(Debug, Default)]
pub(crate) struct Members<T>(pub(crate) T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Members<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(MembersVisitor(PhantomData))
    }
}

struct MembersVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for MembersVisitor<T> {
    type Value = Members<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Members<T>, A::Error> {
        T::deserialize(MapAccessDeserializer::new(map)).map(Members)
    }
}

/// A run's id in a path. One that no run can have names no run.
pub(crate) fn run_id(text: &str) -> Result<RunId, Problem> {
    text.parse().map_err(|_| no_such_run(text))
}

/// An execution's id in a path. One that no execution can have names none.
pub(crate) fn execution_id(text: &str) -> Result<ExecutionId, Problem> {
    text.parse().map_err(|_| no_such_execution(text))
}

/// There is no such execution; or none that is live, where it takes one.
pub(crate) fn no_such_execution(text: &str) -> Problem {
    let shown: String = text.chars().take(SHOWN_CHARS_MAX).collect();
    let detail =
        format!("there is no execution {shown:?}, or none that is live where it takes one");
    Problem::new(ProblemCode::NotFound, detail)
}

/// There is no such run.
pub(crate) fn no_such_run(text: &str) -> Problem {
    let shown: String = text.chars().take(SHOWN_CHARS_MAX).collect();
    Problem::new(ProblemCode::NotFound, format!("there is no run {shown:?}"))
}
