//! `POST /api/agent/runs`.

use axum::Extension;
use axum::Json;
use axum::body::Bytes;
use axum::extract::State;
use axum::extract::rejection::BytesRejection;
use axum::http::header::LOCATION;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use tracing::Instrument as _;

use super::outcome;
use crate::api::Api;
use crate::api::body::BodyRoom;
use crate::api::dto::run::{Outcome, RunAccepted, StartRun};
use crate::api::extract::{Members, Query, json_of};
use crate::api::guard;
use crate::api::idempotency::{IDEMPOTENCY_REPLAYED, Keyed, Known};
use crate::api::problem::{Problem, ProblemCode, ProblemDocument};
use crate::api::request::RequestId;
use crate::api::skills::check_runnable;
use crate::api::wait;
use crate::clock::Timestamp;
use crate::id::RunId;
use crate::ledger::StoreError;
use crate::runner::{Caller, InputError, JsonObject, RunError, RunHandle, StartOptions, Started};
use crate::trace_context::TraceContext;

/// The header field with the run that the caller works for.
const PARENT_RUN: HeaderName = HeaderName::from_static("x-parent-run");
/// Bytes of what a caller may call a skill. Protects the log, and whoever reads the answer.
const SKILL_NAME_BYTES_MAX: usize = 1_024;
/// How a run is started.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct StartQuery {
    /// Whether the end of the run is waited for: `true`, `false`, or for how many milliseconds at most, 1 to
    /// 600,000. `true` is the longest of them.
    #[param(pattern = "^(true|false|[0-9]{1,6})$", nullable = false)]
    wait: Option<String>,
}

fn invalid(detail: impl Into<String>) -> Problem {
    Problem::new(ProblemCode::InvalidInput, detail)
}

/// Starts a run. The answer comes once the run is on record; the run goes on whether or not anybody waits for it.
///
/// A run that failed is answered like one that did not, with its code: that is no problem of the request.
#[utoipa::path(
    post,
    path = "/api/agent/runs",
    operation_id = "start_run",
    tag = "runs",
    params(
        StartQuery,
        ("Idempotency-Key" = Option<String>, Header, description = "1 to 255 visible ASCII characters. For 24 hours a second request with the same key, body and parent is answered with the run of the first", min_length = 1, max_length = 255, pattern = "^[!-~]+$", nullable = false),
        ("traceparent" = Option<String>, Header, description = "The caller's place in a trace, as W3C Trace Context has it; one that does not follow it does not count", nullable = false),
        ("X-Parent-Run" = Option<String>, Header, description = "The run that the new one is inside of; this process has to carry it out, and the caller has to bring a token", pattern = "^run_[0-9a-f]{32}$", example = "run_0190a0a0a0a070008000000000000001", nullable = false)
    ),
    request_body(content = StartRun, content_type = "application/json"),
    responses(
        (status = 200, description = "The run has ended, within the time that was to be waited", body = Outcome, headers(
            ("Location" = String, description = "Where the run is"),
            ("Idempotency-Replayed" = Option<String>, description = "`true` when an earlier request with that key started it")
        )),
        (status = 202, description = "The run is on record and goes on", body = RunAccepted, headers(
            ("Location" = String, description = "Where the run is"),
            ("Idempotency-Replayed" = Option<String>, description = "`true` when an earlier request with that key started it")
        )),
        (status = 400, description = "The request or its input cannot be used", body = ProblemDocument, content_type = "application/problem+json"),
        (status = 401, description = "A token is needed", body = ProblemDocument, content_type = "application/problem+json"),
        (status = 403, description = "This caller may not start it, or runs would nest too deeply", body = ProblemDocument, content_type = "application/problem+json"),
        (status = 404, description = "There is no such skill", body = ProblemDocument, content_type = "application/problem+json"),
        (status = 409, description = "The parent is not carried out here", body = ProblemDocument, content_type = "application/problem+json"),
        (status = 413, description = "The body is too large", body = ProblemDocument, content_type = "application/problem+json"),
        (status = 415, description = "The body is not JSON", body = ProblemDocument, content_type = "application/problem+json"),
        (status = 422, description = "The skill cannot be run, or the key came with another request", body = ProblemDocument, content_type = "application/problem+json"),
        (status = 429, description = "As many runs go on and wait as may be", body = ProblemDocument, content_type = "application/problem+json", headers(("Retry-After" = u32, description = "Seconds"))),
        (status = 500, description = "The host failed", body = ProblemDocument, content_type = "application/problem+json"),
        (status = 503, description = "Runs cannot be recorded now, or the process shuts down", body = ProblemDocument, content_type = "application/problem+json")
    )
)]
pub(crate) async fn start_run(
    State(api): State<Api>,
    Extension(caller): Extension<guard::Caller>,
    Extension(request_id): Extension<RequestId>,
    Extension(room): Extension<BodyRoom>,
    Query(query): Query<StartQuery>,
    headers: HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Result<Response, Problem> {
    let wait = wait::parse(query.wait.as_deref())?;
    let parent = parent(&headers, caller)?;
    let body = body?;
    let Members(asked): Members<StartRun> = json_of(&headers, &body)?;
    let input = asked.input.as_ref().map_or("{}", |input| input.get());
    let request = Request {
        input: JsonObject::parse(input).map_err(|error| unusable(&error))?,
        skill: skill_name(asked.skill_name)?,
        key: Keyed::of(
            &headers,
            caller,
            "POST /api/agent/runs",
            parent.as_ref(),
            &body,
        )?,
        parent,
        trace: TraceContext::of_headers(&headers),
        request_id,
        api: api.clone(),
    };
    // In a task of its own: a run that is begun goes on when whoever asked for it goes away.
    let begun = tokio::spawn(request.begin().in_current_span()).await;
    let begun = begun.map_err(|error| Problem::internal(&error))??;
    // Whoever waits for minutes does not hold what was sent for as long.
    drop((body, asked.input));
    room.release();
    let run_id = begun.run_id.clone();
    let is_replayed = begun.handle.is_none();
    let ended = match wait {
        Some(wait) => outcome::within(&api, &run_id, begun.handle, wait).await?,
        None => None,
    };
    let started_at = begun.started_at;
    let mut response = match ended {
        Some(outcome) => Json(outcome).into_response(),
        None => (
            StatusCode::ACCEPTED,
            Json(RunAccepted {
                run_id: run_id.clone(),
                started_at,
            }),
        )
            .into_response(),
    };
    let location = HeaderValue::from_str(&format!("/api/agent/runs/{run_id}"));
    let location = location.map_err(|error| Problem::internal(&error))?;
    response.headers_mut().insert(LOCATION, location);
    if is_replayed {
        let replayed = HeaderValue::from_static("true");
        response
            .headers_mut()
            .insert(IDEMPOTENCY_REPLAYED, replayed);
    }
    Ok(response)
}

fn unusable(error: &InputError) -> Problem {
    invalid(error.to_string())
}

fn skill_name(name: String) -> Result<String, Problem> {
    match name.len() {
        0 => Err(invalid("skill_name is empty: expected the name of a skill")),
        1..=SKILL_NAME_BYTES_MAX => Ok(name),
        bytes => Err(invalid(format!(
            "skill_name has {bytes} bytes: expected at most {SKILL_NAME_BYTES_MAX}"
        ))),
    }
}

/// The run that the caller works for. A run that nobody vouches for would spend the budget of a stranger's.
fn parent(headers: &HeaderMap, caller: guard::Caller) -> Result<Option<RunId>, Problem> {
    let mut named = headers.get_all(PARENT_RUN).iter();
    let (parent, further) = (named.next(), named.next());
    let Some(parent) = parent else {
        return Ok(None);
    };
    if caller != guard::Caller::Trusted {
        let detail = "the header field X-Parent-Run is for callers with a token";
        return Err(Problem::new(ProblemCode::Denied, detail));
    }
    if further.is_some() {
        let detail = "expected one header field X-Parent-Run";
        return Err(Problem::new(ProblemCode::BadRequest, detail));
    }
    let parent = parent.to_str().ok().and_then(|parent| parent.parse().ok());
    // What no run can be called names none that goes on here.
    parent.map(Some).ok_or_else(|| {
        let detail = "the header field X-Parent-Run names no run that goes on here";
        Problem::new(ProblemCode::Conflict, detail)
    })
}

/// A run that is asked for.
struct Request {
    api: Api,
    skill: String,
    input: JsonObject,
    parent: Option<RunId>,
    trace: Option<TraceContext>,
    request_id: RequestId,
    key: Option<Keyed>,
}

/// A run that is on record.
struct Begun {
    run_id: RunId,
    started_at: Timestamp,
    /// None when an earlier request began it.
    handle: Option<RunHandle>,
}

impl Begun {
    fn before(run_id: RunId, started_at: Timestamp) -> Self {
        Self {
            run_id,
            started_at,
            handle: None,
        }
    }
}

impl From<Started> for Begun {
    fn from(started: Started) -> Self {
        Self {
            run_id: started.run_id,
            started_at: started.started_at,
            handle: Some(started.handle),
        }
    }
}

/// Why a run was not begun.
enum NotBegun {
    Refused(Problem),
    Failed(RunError),
}

impl From<NotBegun> for Problem {
    fn from(not_begun: NotBegun) -> Self {
        match not_begun {
            NotBegun::Refused(problem) => problem,
            NotBegun::Failed(error) => {
                let hint = error.hint();
                let problem = Self::from(error);
                match hint {
                    Some(hint) => problem.with_hint(hint),
                    None => problem,
                }
            }
        }
    }
}

impl Request {
    async fn begin(self) -> Result<Begun, Problem> {
        let Some(key) = self.key else {
            return Ok(self.start(None).await?.into());
        };
        let requests = self.api.requests().clone();
        // Those who ask with the same key at once come one after the other.
        let _turn = requests.turn(&key).await;
        if let Some(known) = requests.find(&key).await? {
            return self.begin_again(&key, known).await;
        }
        check_runnable(&self.api, &self.skill)?;
        let run_id = RunId::generate();
        let claimed = requests.claim(&key, &run_id).await?;
        if claimed.run_id != run_id {
            return self.begin_again(&key, claimed).await;
        }
        self.begin_as(&key, run_id).await
    }

    /// Gives the run that an earlier request began, or meant to begin when its process died.
    async fn begin_again(&self, key: &Keyed, known: Known) -> Result<Begun, Problem> {
        if !known.is_of(key) {
            let detail = "this idempotency key came with another request before";
            let hint = "a request that is sent again has the same body and the same parent";
            return Err(Problem::new(ProblemCode::KeyReused, detail).with_hint(hint));
        }
        if let Some(started_at) = known.started_at {
            return Ok(Begun::before(known.run_id, started_at));
        }
        match outcome::started_at(&self.api, &known.run_id).await? {
            Some(started_at) => {
                self.api.requests().settle(key, started_at).await;
                Ok(Begun::before(known.run_id, started_at))
            }
            None => self.begin_as(key, known.run_id).await,
        }
    }

    /// Begins the run that the key was claimed for.
    async fn begin_as(&self, key: &Keyed, run_id: RunId) -> Result<Begun, Problem> {
        match self.start(Some(run_id.clone())).await {
            Ok(started) => {
                self.api.requests().settle(key, started.started_at).await;
                Ok(started.into())
            }
            // Another process was asked the same, and was faster.
            Err(NotBegun::Failed(RunError::NoLedger {
                source: source @ (StoreError::Exists { .. } | StoreError::Locked { .. }),
                ..
            })) => match outcome::started_at(&self.api, &run_id).await? {
                Some(started_at) => Ok(Begun::before(run_id, started_at)),
                None => Err(source.into()),
            },
            // Whether something was written is not known.
            Err(NotBegun::Failed(
                error @ RunError::NoLedger {
                    source: StoreError::ShutDown,
                    ..
                },
            )) => Err(error.into()),
            Err(nothing_written) => {
                self.api.requests().release(key, &run_id).await;
                Err(nothing_written.into())
            }
        }
    }

    /// Starts the run. Nothing is written when it is refused.
    async fn start(&self, run_id: Option<RunId>) -> Result<Started, NotBegun> {
        check_runnable(&self.api, &self.skill).map_err(NotBegun::Refused)?;
        let caller = self.caller().map_err(NotBegun::Refused)?;
        let options = StartOptions {
            run_id,
            ..StartOptions::new(self.skill.clone(), self.input.clone())
        };
        let started = self.api.host().runner().start(caller, options).await;
        started.map_err(NotBegun::Failed)
    }

    /// Whoever asks, as the run knows them. Whatever else is to flow from a request into its run is added here.
    fn caller(&self) -> Result<Caller, Problem> {
        let runner = self.api.host().runner();
        let caller = match &self.parent {
            // A run inside another is in the trace of that one.
            None => Caller::new().with_trace(self.trace.clone()),
            Some(parent) => match runner.live(parent) {
                Some(parent) => Caller::within(&parent),
                None => {
                    let detail = format!("this process does not carry out run {parent}");
                    return Err(Problem::new(ProblemCode::Conflict, detail));
                }
            },
        };
        Ok(caller.with_request_id(self.request_id.0.clone()))
    }
}
