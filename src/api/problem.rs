//! What is answered when there is no answer: problem documents of RFC 9457.

use axum::Json;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use utoipa::ToSchema;

use super::dto::approval::Decision;
use super::health::Checks;
use crate::id::{ExecutionId, RunId};

/// The media type of every problem document.
pub(crate) const PROBLEM_JSON: &str = "application/problem+json";

/// Why a request has no answer, one meaning each. Where a run is behind it, its outcome code has the same name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ProblemCode {
    /// The request cannot be understood: a body that is no JSON, a parameter that is none.
    BadRequest,
    /// A value in the request is understood and cannot be used.
    InvalidInput,
    /// The token is missing or wrong.
    Unauthorized,
    /// `Host` names nothing that this is.
    ForbiddenHost,
    /// The request comes from a web page that may not send any.
    ForbiddenOrigin,
    /// The caller is known and may not do this.
    Denied,
    /// There is no such route, run, execution, skill or approval.
    NotFound,
    /// The route has no such method.
    MethodNotAllowed,
    /// What is asked for was settled before, or the run is in no state for it.
    Conflict,
    /// The execution ended before it came to what is asked for.
    Ended,
    /// The idempotency key came with another request before.
    KeyReused,
    /// The body is larger than one may be.
    TooLarge,
    /// The body's media type is not JSON.
    UnsupportedMediaType,
    /// The run waits for several approvals, and none was named.
    SeveralPending,
    /// The skill is prose and has nothing to run, is switched off, or is an agent where a skill is run, or the other
    /// way round.
    NotRunnable,
    /// The run would do something else than what is on record.
    Diverged,
    /// As many runs go on and wait as may be; or as many executions, prompts of one, or streams; or the bodies of all
    /// requests are too large together.
    Busy,
    /// The request took too long.
    Timeout,
    /// What has to be on disk cannot be written now: a ledger, or the requests that came with a key.
    Unavailable,
    /// The process is shutting down.
    ShuttingDown,
    /// The host failed. The log has the reason, with the request's id.
    Internal,
}

impl ProblemCode {
    pub(crate) fn status(self) -> StatusCode {
        match self {
            Self::BadRequest | Self::InvalidInput => StatusCode::BAD_REQUEST,
            Self::Unauthorized => StatusCode::UNAUTHORIZED,
            Self::ForbiddenHost | Self::ForbiddenOrigin | Self::Denied => StatusCode::FORBIDDEN,
            Self::NotFound => StatusCode::NOT_FOUND,
            Self::MethodNotAllowed => StatusCode::METHOD_NOT_ALLOWED,
            Self::Conflict | Self::Ended => StatusCode::CONFLICT,
            Self::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::UnsupportedMediaType => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Self::KeyReused | Self::SeveralPending | Self::NotRunnable | Self::Diverged => {
                StatusCode::UNPROCESSABLE_ENTITY
            }
            Self::Busy => StatusCode::TOO_MANY_REQUESTS,
            Self::Timeout => StatusCode::REQUEST_TIMEOUT,
            Self::Unavailable | Self::ShuttingDown => StatusCode::SERVICE_UNAVAILABLE,
            Self::Internal => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    fn title(self) -> &'static str {
        match self {
            Self::BadRequest => "the request cannot be understood",
            Self::InvalidInput => "a value cannot be used",
            Self::Unauthorized => "a token is needed",
            Self::ForbiddenHost => "the host is not this one",
            Self::ForbiddenOrigin => "the origin is not allowed",
            Self::Denied => "this caller may not do that",
            Self::NotFound => "there is no such thing",
            Self::MethodNotAllowed => "the method is not allowed",
            Self::Conflict => "it was settled before",
            Self::Ended => "the execution is over",
            Self::KeyReused => "the idempotency key was used for another request",
            Self::TooLarge => "the body is too large",
            Self::UnsupportedMediaType => "the body is not JSON",
            Self::SeveralPending => "which approval is meant is not clear",
            Self::NotRunnable => "the skill cannot be run",
            Self::Diverged => "the run would not do what is on record",
            Self::Busy => "too much at once",
            Self::Timeout => "it took too long",
            Self::Unavailable => "nothing can be recorded",
            Self::ShuttingDown => "the process is shutting down",
            Self::Internal => "the host failed",
        }
    }
}

/// Why a request has no answer.
#[derive(Debug, Clone)]
pub(crate) struct Problem {
    code: ProblemCode,
    detail: String,
    hint: Option<String>,
    run_id: Option<RunId>,
    checks: Option<Checks>,
    about: Box<ProblemAbout>,
    headers: Vec<(HeaderName, HeaderValue)>,
}

/// What few problems have.
#[derive(Debug, Clone, Default)]
struct ProblemAbout {
    execution_id: Option<ExecutionId>,
    decision: Option<Decision>,
    approval_ids: Vec<String>,
}

/// A problem as it is sent.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Problem)]
pub(crate) struct ProblemDocument {
    /// `about:blank`: what kind of problem it is, the code says.
    #[serde(rename = "type")]
    pub(crate) kind: &'static str,
    /// The code in words.
    title: &'static str,
    /// The status of the response.
    status: u16,
    /// Why there is no answer, for programs.
    code: ProblemCode,
    /// Why there is no answer, for people: what failed, the value, and what was expected.
    detail: String,
    /// What to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<String>,
    /// The run that it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    run_id: Option<RunId>,
    /// The execution that it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    execution_id: Option<ExecutionId>,
    /// What was looked at, where that is what the request asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    checks: Option<Checks>,
    /// What was decided before.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    decision: Option<Decision>,
    /// The questions of which one has to be named.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    approval_ids: Vec<String>,
    /// The id of the request, which the log of the process has too.
    request_id: String,
}

impl Problem {
    /// `detail` is seen by the caller, so it names no path and no internals.
    pub(crate) fn new(code: ProblemCode, detail: impl Into<String>) -> Self {
        Self {
            code,
            detail: detail.into(),
            hint: None,
            run_id: None,
            checks: None,
            about: Box::default(),
            headers: Vec::new(),
        }
    }

    /// A fault of the host. What failed goes to the log, where it is found by the request's id.
    pub(crate) fn internal(error: &(dyn std::error::Error + 'static)) -> Self {
        tracing::error!(error = crate::telemetry::chain(error), "request failed");
        Self::new(ProblemCode::Internal, "the log of the host says why")
    }

    /// What programs go by.
    #[cfg(test)]
    pub(crate) fn code(&self) -> ProblemCode {
        self.code
    }

    /// Names the run that it is about.
    #[must_use]
    pub(crate) fn with_run_id(mut self, run_id: RunId) -> Self {
        self.run_id = Some(run_id);
        self
    }

    /// Names the execution that it is about.
    #[must_use]
    pub(crate) fn with_execution_id(mut self, execution_id: ExecutionId) -> Self {
        self.about.execution_id = Some(execution_id);
        self
    }

    /// Adds what was decided before.
    #[must_use]
    pub(crate) fn with_decision(mut self, decision: impl Into<Decision>) -> Self {
        self.about.decision = Some(decision.into());
        self
    }

    /// Adds the questions of which one has to be named.
    #[must_use]
    pub(crate) fn with_approval_ids(mut self, approval_ids: Vec<String>) -> Self {
        self.about.approval_ids = approval_ids;
        self
    }

    #[must_use]
    pub(crate) fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    #[must_use]
    pub(crate) fn with_checks(mut self, checks: Checks) -> Self {
        self.checks = Some(checks);
        self
    }

    #[must_use]
    pub(crate) fn with_header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.headers.push((name, value));
        self
    }

    /// The problem that a response without a document of its own stands for.
    pub(crate) fn of_status(status: StatusCode) -> Self {
        let (code, detail) = match status {
            StatusCode::NOT_FOUND => (ProblemCode::NotFound, "there is no such route"),
            StatusCode::METHOD_NOT_ALLOWED => (
                ProblemCode::MethodNotAllowed,
                "the header field Allow names the methods of this route",
            ),
            StatusCode::PAYLOAD_TOO_LARGE => (
                ProblemCode::TooLarge,
                "the body has more bytes than serve.body_bytes_max",
            ),
            StatusCode::UNSUPPORTED_MEDIA_TYPE => (
                ProblemCode::UnsupportedMediaType,
                "expected the header field Content-Type: application/json",
            ),
            StatusCode::REQUEST_TIMEOUT => (
                ProblemCode::Timeout,
                "the request was not answered within serve.request_timeout_ms",
            ),
            StatusCode::SERVICE_UNAVAILABLE => {
                (ProblemCode::ShuttingDown, "no new requests are taken")
            }
            status if status.is_client_error() => {
                (ProblemCode::BadRequest, "the request cannot be understood")
            }
            _ => (ProblemCode::Internal, "the log of the host says why"),
        };
        Self::new(code, detail)
    }

    /// The response, header fields and all.
    pub(crate) fn render(self, request_id: &str) -> Response {
        let status = self.code.status();
        let document = ProblemDocument {
            kind: "about:blank",
            title: self.code.title(),
            status: status.as_u16(),
            code: self.code,
            detail: self.detail,
            hint: self.hint,
            run_id: self.run_id,
            execution_id: self.about.execution_id,
            checks: self.checks,
            decision: self.about.decision,
            approval_ids: self.about.approval_ids,
            request_id: request_id.to_owned(),
        };
        let mut response = (status, Json(document)).into_response();
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(PROBLEM_JSON));
        headers.extend(self.headers);
        response
    }
}

impl IntoResponse for Problem {
    /// The response has its status and no body yet: the outermost layer writes it, which knows the request's id.
    fn into_response(self) -> Response {
        let mut response = self.code.status().into_response();
        response.extensions_mut().insert(self);
        response
    }
}
