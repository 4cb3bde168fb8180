//! `GET /api/agent/runs/{id}`.

use axum::Json;
use axum::extract::State;
use serde::Deserialize;
use serde_json::value::{RawValue, to_raw_value};

use super::blocking;
use crate::api::Api;
use crate::api::dto::run::{DamagedLine, RunDetail, RunRow};
use crate::api::extract::{Path, Query, run_id};
use crate::api::problem::{Problem, ProblemCode, ProblemDocument};
use crate::ledger::{Entry, Follower, Position};
use crate::runner::shown_line;

/// Events of one page. Protects the memory of both sides.
const EVENTS_MAX: usize = 1_000;
const EVENTS_DEFAULT: usize = 100;
/// Bytes after which a page takes no further event. Protects the memory of both sides from events that are large.
const EVENTS_BYTES_MAX: usize = 1024 * 1024;

/// Which events are wanted.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct EventsQuery {
    /// Only events behind this number. An event has the number of its line.
    #[param(minimum = 0, default = 0, nullable = false)]
    after: Option<u64>,
    /// At most so many events; fewer when they are large.
    #[param(minimum = 1, maximum = 1_000, default = 100, nullable = false)]
    limit: Option<usize>,
}

/// Shows a run and its events, page by page.
#[utoipa::path(
    get,
    path = "/api/agent/runs/{id}",
    operation_id = "get_run",
    tag = "runs",
    params(("id" = String, Path, description = "The id of the run"), EventsQuery),
    responses(
        (status = 200, description = "The run and a page of its events", body = RunDetail),
        (status = 400, description = "A parameter cannot be used", body = ProblemDocument, content_type = "application/problem+json"),
        (status = 401, description = "A token is needed", body = ProblemDocument, content_type = "application/problem+json"),
        (status = 403, description = "The host or the origin is not allowed", body = ProblemDocument, content_type = "application/problem+json"),
        (status = 404, description = "There is no such run", body = ProblemDocument, content_type = "application/problem+json"),
        (status = 500, description = "The host failed", body = ProblemDocument, content_type = "application/problem+json")
    )
)]
pub(crate) async fn get_run(
    State(api): State<Api>,
    Path(id): Path<String>,
    Query(query): Query<EventsQuery>,
) -> Result<Json<RunDetail>, Problem> {
    let run_id = run_id(&id)?;
    let limit = query.limit.unwrap_or(EVENTS_DEFAULT);
    if !(1..=EVENTS_MAX).contains(&limit) {
        let detail = format!("limit is {limit}: expected 1 to {EVENTS_MAX}");
        return Err(Problem::new(ProblemCode::InvalidInput, detail));
    }
    let after = query.after.unwrap_or(0);
    if i64::try_from(after).is_err() {
        let detail = format!("after is {after}: expected at most {}", i64::MAX);
        return Err(Problem::new(ProblemCode::InvalidInput, detail));
    }
    let store = api.host().store().clone();
    let detail = blocking(move || {
        // The events first, so that the summary is not older than they are.
        let mut follower = store.follow(&run_id, Position::default())?;
        follower.skip_lines(after)?;
        let events = page(&mut follower, limit)?;
        let last = follower.lines();
        let has_more = follower.next_entry()?.is_some();
        Ok(RunDetail {
            run: RunRow::from(store.summary(&run_id)?),
            events,
            next_after: has_more.then_some(last),
        })
    });
    Ok(Json(detail.await?))
}

fn page(follower: &mut Follower, limit: usize) -> Result<Vec<Box<RawValue>>, Problem> {
    let mut events = Vec::new();
    let mut bytes = 0;
    while events.len() < limit && bytes < EVENTS_BYTES_MAX {
        let Some(entry) = follower.next_entry()? else {
            break;
        };
        let event = match entry {
            Entry::Record(record) => RawValue::from_string(shown_line(&record).into_owned()),
            Entry::Damaged(corruption) => to_raw_value(&DamagedLine::from(&corruption)),
        };
        let event = event.map_err(|error| Problem::internal(&error))?;
        bytes += event.get().len();
        events.push(event);
    }
    Ok(events)
}
