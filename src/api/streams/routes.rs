//! The routes of streams.

use std::sync::Arc;
use std::time::Duration;

use axum::Extension;
use axum::Json;
use axum::extract::State;
use axum::http::header::{CONTENT_TYPE, RETRY_AFTER};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use serde::Serialize;
use tokio::sync::OwnedSemaphorePermit;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::block::Types;
use super::client::{Filter, Held, Setup, Source, body};
use super::request::{
    AllStreamQuery, ExecutionStreamQuery, ExecutionTypes, Reset, RunStreamQuery, last_id, types,
};
use super::stats::Watching;
use super::tail::{Tails, block_of_file};
use super::tickets::TicketUse;
use super::{execution, frame};
use crate::api::Api;
use crate::api::extract::{Path, Query, execution_id, run_id};
use crate::api::problem::{Problem, ProblemCode, ProblemDocument};
use crate::id::RunId;
use crate::ledger::{Follower, Position, RunState, RunStatus, Store, StoreError};
use crate::runtime::Runtime as _;

/// Seconds after which a client that was refused for want of room may ask again.
const RETRY_AFTER_S: &str = "5";
/// Tells proxies to pass on what comes as it comes.
const ACCEL_BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");

/// What every stream is sent with.
const STREAM_HEADERS: [(HeaderName, HeaderValue); 2] = [
    (CONTENT_TYPE, HeaderValue::from_static("text/event-stream")),
    (ACCEL_BUFFERING, HeaderValue::from_static("no")),
];
/// The id that stands for the last event that there is, whichever that is.
const NEWEST: &str = "newest";

pub(crate) fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new()
        .routes(routes!(run_events))
        .routes(routes!(execution_events))
        .routes(routes!(all_events))
        .routes(routes!(issue_ticket))
}

/// Watches one run: its events from the one that is asked for on, until it is over. A suspended run is not.
///
/// An event's id is its number, its name the event's type, and its data the line of the ledger. What the stream
/// says about itself has no id: `end` with how the run ended, after which the stream closes; `reset` when the run
/// cannot have had the event that the client names, after which everything is sent from the beginning; `lagged`
/// when the client is slow, of which nothing is lost; `damaged` for a line that is no event; `shutdown` when the
/// process ends, after which the stream closes.
#[utoipa::path(
    get,
    path = "/api/agent/runs/{id}/events",
    operation_id = "watch_run",
    tag = "streams",
    params(
        ("id" = String, Path, description = "The run"),
        ("Last-Event-ID" = Option<String>, Header, description = "The number of the last event that the client has", nullable = false),
        RunStreamQuery
    ),
    responses(
        (status = 200, description = "The events", body = String, content_type = "text/event-stream"),
        (status = 204, description = "The run is over, and the client has all that it wants of it"),
        (status = 400, description = "A parameter cannot be used", body = ProblemDocument, content_type = "application/problem+json"),
        (status = 401, description = "A token or a ticket is needed", body = ProblemDocument, content_type = "application/problem+json"),
        (status = 403, description = "The host or the origin is not allowed", body = ProblemDocument, content_type = "application/problem+json"),
        (status = 404, description = "There is no such run", body = ProblemDocument, content_type = "application/problem+json"),
        (status = 429, description = "As many streams are open as may be", body = ProblemDocument, content_type = "application/problem+json"),
        (status = 500, description = "The host failed", body = ProblemDocument, content_type = "application/problem+json"),
        (status = 503, description = "The process is shutting down", body = ProblemDocument, content_type = "application/problem+json")
    )
)]
async fn run_events(
    State(api): State<Api>,
    Path(id): Path<String>,
    Query(query): Query<RunStreamQuery>,
    ticket: Option<Extension<Arc<TicketUse>>>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let run_id = run_id(&id)?;
    let types = types(query.types.as_deref())?;
    let last_id = last_id(&headers, query.after);
    let held = held(&api, ticket)?;
    let store = api.host().store().clone();
    let tails = Arc::clone(&api.0.streams.tails);
    let runtime = tokio::runtime::Handle::current();
    let begun = tokio::task::spawn_blocking(move || {
        // The task that reads the run is started from here.
        let _entered = runtime.enter();
        begin(&store, &tails, run_id, last_id.as_deref(), types)
    });
    let begun = begun.await.map_err(|error| Problem::internal(&error))??;
    let Some(begun) = begun else {
        return Ok(StatusCode::NO_CONTENT.into_response());
    };
    let filter = Filter {
        types,
        run: None,
        skill: None,
    };
    Ok(answer(&api, begun, filter, held))
}

/// Where a stream begins.
struct Begun {
    source: Source,
    next: u64,
    reset: Option<Reset>,
}

/// Finds the place in a run from which on a client wants its events; none when there is nothing to come.
fn begin(
    store: &Store,
    tails: &Tails,
    run_id: RunId,
    last_id: Option<&str>,
    types: Types,
) -> Result<Option<Begun>, StoreError> {
    let summary = store.summary(&run_id)?;
    let mut follower = store.follow(&run_id, Position::default())?;
    let mut reset = None;
    if let Some(last_id) = last_id {
        match last_id.parse::<u64>() {
            Ok(seq) if seq <= summary.head.seq => {
                follower.skip_to(seq.saturating_add(1))?;
                let is_over = match summary.state {
                    RunState::Running | RunState::Ended(RunStatus::Suspended) => false,
                    RunState::Ended(_) | RunState::Corrupt => true,
                };
                let place = follower.position();
                if is_over && !has_any(&mut follower, types)? {
                    return Ok(None);
                }
                follower = store.follow(&run_id, place)?;
            }
            Ok(_) => reset = Some("this run has no such event"),
            Err(_) => reset = Some("no event of a run has such an id"),
        }
    }
    let place = follower.position();
    Ok(Some(Begun {
        next: place.lines(),
        source: Source::Run {
            tail: tails.of(store, &run_id)?,
            run_id,
            place,
            follower: None,
        },
        reset: reset.map(|reason| Reset { reason }),
    }))
}

/// Whether there is a line that a client wants.
fn has_any(follower: &mut Follower, types: Types) -> Result<bool, StoreError> {
    while let Some(block) = block_of_file(follower, u64::MAX)? {
        if block.items.iter().any(|item| item.types.has_any(types)) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Watches one execution: its events from the one that is asked for on, until it has ended.
///
/// An event's id is the number of its line in the ledger, which rises and has gaps; its name is its `type`, and its
/// data says the rest. `stopped` is the last, after which the stream closes. What the stream says about itself has
/// no id: `reset` when the execution cannot have had the event that the client names, after which everything is
/// sent from the beginning; `lagged` when the client is slow, of which nothing is lost; `shutdown` when the process
/// ends, after which the stream closes.
#[utoipa::path(
    get,
    path = "/api/agent/executions/{id}/events",
    operation_id = "watch_execution",
    tag = "streams",
    params(
        ("id" = String, Path, description = "The execution"),
        ("Last-Event-ID" = Option<String>, Header, description = "The number of the last event that the client has", nullable = false),
        ExecutionStreamQuery
    ),
    responses(
        (status = 200, description = "The events", body = String, content_type = "text/event-stream"),
        (status = 204, description = "The execution has ended, and the client has all of it"),
        (status = 400, description = "A parameter cannot be used", body = ProblemDocument, content_type = "application/problem+json"),
        (status = 404, description = "There is no such execution", body = ProblemDocument, content_type = "application/problem+json"),
        (status = 429, description = "As many streams are open as may be", body = ProblemDocument, content_type = "application/problem+json")
    )
)]
async fn execution_events(
    State(api): State<Api>,
    Path(id): Path<String>,
    Query(query): Query<ExecutionStreamQuery>,
    ticket: Option<Extension<Arc<TicketUse>>>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let id = execution_id(&id)?;
    let types = ExecutionTypes::of(query.types.as_deref())?;
    let last_id = last_id(&headers, query.after);
    let held = held(&api, ticket)?;
    let runtime = api.host().runtime();
    let status = runtime.get_execution(&id.to_string()).await?.status;
    let store = api.host().store().clone();
    let run_id = id.run_id().clone();
    let newest = tokio::task::spawn_blocking(move || Ok(store.summary(&run_id)?.head.seq));
    let newest: Result<u64, StoreError> =
        newest.await.map_err(|error| Problem::internal(&error))?;
    let newest = newest?;
    let mut reset = None;
    let after = match last_id.as_deref() {
        None => None,
        Some(NEWEST) => Some(newest),
        Some(last_id) => match last_id.parse::<u64>() {
            Ok(seq) if seq <= newest => Some(seq),
            Ok(_) => {
                reset = Some("this execution has no such event");
                None
            }
            Err(_) => {
                reset = Some("no event of an execution has such an id");
                None
            }
        },
    };
    let from = after.map(|seq| seq.saturating_add(1));
    let mut events = runtime.subscribe_events(&id.to_string(), from).await?;
    let mut first = None;
    if status.is_terminal() && after.is_some() {
        first = events.next().await?;
        if first.is_none() {
            return Ok(StatusCode::NO_CONTENT.into_response());
        }
    }
    let reset = reset.map(|reason| frame::control("reset", &Reset { reason }));
    let body = execution::body(execution::Setup {
        events,
        types,
        first,
        first_words: std::iter::once(frame::opening()).chain(reset).collect(),
        heartbeat: Duration::from_millis(api.settings().heartbeat_ms),
        clock: api.host().clock().clone(),
        closing: api.closing().clone(),
        held,
    });
    Ok((STREAM_HEADERS, body).into_response())
}

/// Watches all runs: their events from now on, those of one run in order.
///
/// An event's id is the stream's own and holds as long as the process does, for some thousand events: with it a
/// client that comes again goes on where it was. When it cannot, it is told by `reset` and sees what comes from
/// then on; when it is slow and events were passed over, by `lagged`. After both it has to list the runs to know
/// what it missed. `shutdown` comes when the process ends.
#[utoipa::path(
    get,
    path = "/api/agent/runs/events",
    operation_id = "watch_runs",
    tag = "streams",
    params(
        ("Last-Event-ID" = Option<String>, Header, description = "The id of the last event that the client has", nullable = false),
        AllStreamQuery
    ),
    responses(
        (status = 200, description = "The events", body = String, content_type = "text/event-stream"),
        (status = 400, description = "A parameter cannot be used", body = ProblemDocument, content_type = "application/problem+json"),
        (status = 401, description = "A token or a ticket is needed", body = ProblemDocument, content_type = "application/problem+json"),
        (status = 403, description = "The host or the origin is not allowed", body = ProblemDocument, content_type = "application/problem+json"),
        (status = 429, description = "As many streams are open as may be", body = ProblemDocument, content_type = "application/problem+json"),
        (status = 503, description = "The process is shutting down", body = ProblemDocument, content_type = "application/problem+json")
    )
)]
async fn all_events(
    State(api): State<Api>,
    Query(query): Query<AllStreamQuery>,
    ticket: Option<Extension<Arc<TicketUse>>>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let run = query.run.as_deref().map(|run| {
        let detail = format!("parameter run is {run:?}: expected the id of a run");
        run.parse()
            .map_err(|_| Problem::new(ProblemCode::InvalidInput, detail))
    });
    let filter = Filter {
        types: types(query.types.as_deref())?,
        run: run.transpose()?,
        skill: query.skill,
    };
    let held = held(&api, ticket)?;
    let feeds = &api.0.streams.feeds;
    let reader = feeds.read(api.host().store(), api.closing());
    let now = reader.0.ring.next();
    let last_id = last_id(&headers, query.after);
    let asked = last_id.map(|id| reader.0.number_after(&id));
    let is_unknown = asked == Some(None);
    let begun = Begun {
        next: asked.flatten().unwrap_or(now),
        source: Source::Feed(reader),
        reset: is_unknown.then_some(Reset {
            reason: "the id is not one of this process, or nobody watched for too long",
        }),
    };
    Ok(answer(&api, begun, filter, held))
}

/// Takes a place among the streams.
fn held(api: &Api, ticket: Option<Extension<Arc<TicketUse>>>) -> Result<Held, Problem> {
    if api.closing().is_cancelled() {
        return Err(Problem::of_status(StatusCode::SERVICE_UNAVAILABLE));
    }
    let streams = &api.0.streams;
    let place: Result<OwnedSemaphorePermit, _> = Arc::clone(&streams.places).try_acquire_owned();
    let place = place.map_err(|_| {
        let streams_max = api.settings().streams_max;
        let detail = format!("{streams_max} streams are open, as many as serve.streams_max allows");
        Problem::new(ProblemCode::Busy, detail)
            .with_header(RETRY_AFTER, HeaderValue::from_static(RETRY_AFTER_S))
    })?;
    Ok(Held {
        watching: Watching::new(&streams.stats),
        _place: place,
        _ticket: ticket.map(|Extension(ticket)| ticket),
    })
}

fn answer(api: &Api, begun: Begun, filter: Filter, held: Held) -> Response {
    let reset = begun.reset.map(|reset| frame::control("reset", &reset));
    let first_words: Vec<Bytes> = std::iter::once(frame::opening()).chain(reset).collect();
    let body = body(Setup {
        store: api.host().store().clone(),
        source: begun.source,
        filter,
        next: begun.next,
        first_words,
        heartbeat: Duration::from_millis(api.settings().heartbeat_ms),
        clock: api.host().clock().clone(),
        closing: api.closing().clone(),
        held,
    });
    (STREAM_HEADERS, body).into_response()
}

/// A ticket, which opens one stream instead of a token.
#[derive(Debug, Serialize, ToSchema)]
struct StreamTicket {
    /// What the parameter `ticket` has to be.
    ticket: String,
    /// When it has to have opened a stream, in UTC.
    #[schema(format = "date-time")]
    expires_at: String,
}

/// Issues a ticket for a client that cannot send `Authorization`, as a browser's `EventSource` cannot.
///
/// The ticket goes into the parameter `ticket` of a stream within 60 seconds. It opens that stream alone, and opens
/// it again for a client that comes again while a stream is open with it, or was within the last 60 seconds; for
/// twelve hours at most, and as long as the process lives.
#[utoipa::path(
    post,
    path = "/api/stream-tickets",
    operation_id = "issue_stream_ticket",
    tag = "streams",
    responses(
        (status = 201, description = "The ticket", body = StreamTicket),
        (status = 401, description = "A token is needed", body = ProblemDocument, content_type = "application/problem+json"),
        (status = 403, description = "The host or the origin is not allowed", body = ProblemDocument, content_type = "application/problem+json"),
        (status = 429, description = "As many tickets are good as may be", body = ProblemDocument, content_type = "application/problem+json")
    )
)]
async fn issue_ticket(State(api): State<Api>) -> Result<Response, Problem> {
    let issued = api.0.streams.tickets.issue(api.host().clock());
    let issued = issued.ok_or_else(|| {
        Problem::new(ProblemCode::Busy, "as many tickets are good as may be")
            .with_header(RETRY_AFTER, HeaderValue::from_static(RETRY_AFTER_S))
    })?;
    let ticket = StreamTicket {
        ticket: issued.ticket,
        expires_at: issued.expires_at.to_string(),
    };
    Ok((StatusCode::CREATED, Json(ticket)).into_response())
}
