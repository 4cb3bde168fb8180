//! Runs as resources: `skillrun://runs/{id}` is a run at a glance, `skillrun://runs/{id}/events` what is on record of
//! it. A client sees the runs that it began, and those inside them, of skills that are exposed to it.

use rmcp::model::{ErrorData, Resource, ResourceContents, ResourceTemplate};
use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};

use super::Mcp;
use super::answer::run_uri;
use super::client::Client;
use super::start::{internal, reading, started};
use crate::id::RunId;
use crate::ledger::{
    Corruption, Damage, Entry, Follower, Position, RunQuery, Store, StoreError, Summary,
};
use crate::outcome::OutcomeCode;
use crate::registry::Registry;
use crate::runner::shown_line;

/// The media type of both.
const MIME_TYPE: &str = "application/json";
const RUNS: &str = "skillrun://runs/";
const SUMMARY_TEMPLATE: &str = "skillrun://runs/{id}";
const EVENTS_TEMPLATE: &str = "skillrun://runs/{id}/events{?after}";
/// The variables of the templates.
pub(super) const ID: &str = "id";
pub(super) const AFTER: &str = "after";
/// Events of one page. Protects whoever reads it, which is most often a model.
const EVENTS_MAX: usize = 100;
/// Bytes after which a page takes no further event. Protects the same from events that are large.
const EVENTS_BYTES_MAX: usize = 256 * 1024;

/// What an address of ours stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RunAddress {
    /// The run.
    pub(super) run_id: RunId,
    /// Behind which event those begin that are wanted; none where it is the run at a glance.
    pub(super) events_after: Option<u64>,
}

impl RunAddress {
    /// What `uri` is the address of, if it is one of a run.
    pub(super) fn parse(uri: &str) -> Option<Self> {
        let rest = uri.strip_prefix(RUNS)?;
        let (id, after) = match rest.split_once('/') {
            None => (rest, None),
            Some((id, "events")) => (id, Some(0)),
            Some((id, rest)) => {
                let number = rest.strip_prefix("events?after=")?;
                let is_plain = !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit());
                let number = is_plain.then(|| number.parse::<i64>().ok()).flatten()?;
                (id, Some(u64::try_from(number).ok()?))
            }
        };
        let run_id: RunId = id.parse().ok()?;
        (run_id.as_str() == id).then_some(Self {
            run_id,
            events_after: after,
        })
    }
}

/// Whether a template is one of ours.
pub(super) fn is_template(template: &str) -> bool {
    [SUMMARY_TEMPLATE, EVENTS_TEMPLATE].contains(&template)
}

/// Our templates.
pub(super) fn templates() -> [ResourceTemplate; 2] {
    let template = |template, name, description| {
        ResourceTemplate::new(template, name)
            .with_description(description)
            .with_mime_type(MIME_TYPE)
    };
    [
        template(
            SUMMARY_TEMPLATE,
            "run",
            "A run at a glance: its state, and how it ended.",
        ),
        template(
            EVENTS_TEMPLATE,
            "run-events",
            "What is on record of a run, page by page: `next_after` is the `after` of the next one.",
        ),
    ]
}

/// A run in a list.
pub(super) fn listed(run: &Summary) -> Resource {
    let skill = run.skill.as_deref().unwrap_or("a skill");
    Resource::new(run_uri(&run.run_id), run.run_id.as_str())
        .with_title(format!("A run of {skill}"))
        .with_description(format!("The run of {skill} is {}.", run.state.as_str()))
        .with_mime_type(MIME_TYPE)
}

impl Mcp {
    /// The newest runs, of which a page is looked through, as far as the client may see them.
    pub(super) async fn own_runs(&self, client: &Client) -> Result<Vec<Summary>, ErrorData> {
        let (store, client) = (self.host().store().clone(), client.clone());
        let registry = self.host().skills().current();
        let limit = self.settings().page_size;
        let runs = reading(move || {
            let newest = store.list(&RunQuery::newest(limit))?.runs.into_iter();
            let may_see = |run: &Summary| may_see(&store, &registry, &client, run).unwrap_or(false);
            Ok(newest.filter(may_see).collect())
        });
        runs.await.map_err(|error| internal(&error))
    }

    /// What there is at an address; none when there is no such run, or it is not the client's.
    pub(super) async fn read_run(
        &self,
        client: &Client,
        uri: &str,
        address: RunAddress,
    ) -> Result<Option<ResourceContents>, ErrorData> {
        let (store, client) = (self.host().store().clone(), client.clone());
        let registry = self.host().skills().current();
        let text = reading(move || {
            let Some(run) = seen(&store, &registry, &client, &address.run_id)? else {
                return Ok(None);
            };
            Ok(Some(match address.events_after {
                None => glance(&run).to_string(),
                Some(after) => events(&store, &address.run_id, after)?,
            }))
        });
        let text = text.await.map_err(|error| internal(&error))?;
        Ok(text.map(|text| ResourceContents::text(text, uri).with_mime_type(MIME_TYPE)))
    }

    /// Whether there is such a run for the client.
    pub(super) async fn sees_run(&self, client: &Client, run_id: &RunId) -> bool {
        let (store, client) = (self.host().store().clone(), client.clone());
        let (registry, run_id) = (self.host().skills().current(), run_id.clone());
        let seen = reading(move || Ok(seen(&store, &registry, &client, &run_id)?.is_some()));
        seen.await.unwrap_or(false)
    }
}

fn seen(
    store: &Store,
    registry: &Registry,
    client: &Client,
    run_id: &RunId,
) -> Result<Option<Summary>, StoreError> {
    let run = match store.summary(run_id) {
        Err(StoreError::NotFound { .. }) => return Ok(None),
        run => run?,
    };
    Ok(may_see(store, registry, client, &run)?.then_some(run))
}

/// Whether a client may see a run: it began it, or one that it is inside of, and its skill is exposed.
fn may_see(
    store: &Store,
    registry: &Registry,
    client: &Client,
    run: &Summary,
) -> Result<bool, StoreError> {
    // Behind the dot is an operation of the skill.
    let skill = run
        .skill
        .as_deref()
        .and_then(|asked| asked.split('.').next());
    let skill = skill.and_then(|name| registry.get(name));
    if !skill.is_some_and(|skill| skill.manifest.expose.mcp) {
        return Ok(false);
    }
    let facts = started(store, &run.run_id)?.and_then(|started| started.client);
    Ok(facts.is_some_and(|facts| client.owns(&facts)))
}

/// The run under the names that it has over HTTP.
fn glance(run: &Summary) -> Value {
    json!({
        "run_id": run.run_id,
        "status": run.state.as_str(),
        "code": run.code,
        "skill": run.skill,
        "flavor": run.flavor,
        "parent_run_id": run.parent_run_id,
        "started_at": run.started_at,
        "ended_at": run.ended_at,
        // What it says of a skill that cannot be loaded names what is the operator's own.
        "error": run.error.as_ref().filter(|_| run.code != Some(OutcomeCode::LoadError)),
        "cost_usd": run.cost_usd,
        "head": run.head,
        "chained": run.is_chained,
        "corruption": run.corruption.as_ref().map(shown),
    })
}

/// What is wrong, without what the operating system said, which names files of the machine.
fn shown(corruption: &Corruption) -> String {
    match &corruption.damage {
        Damage::Unreadable { .. } if corruption.line == 0 => "the ledger cannot be read".to_owned(),
        _ => corruption.to_string(),
    }
}

/// A page of events, under the names that it has over HTTP.
#[derive(Serialize)]
struct Events {
    run: Value,
    events: Vec<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_after: Option<u64>,
}

fn events(store: &Store, run_id: &RunId, after: u64) -> Result<String, StoreError> {
    // The events first, so that the summary is not older than they are.
    let mut follower = store.follow(run_id, Position::default())?;
    follower.skip_lines(after)?;
    let events = some_events(&mut follower)?;
    let last = follower.lines();
    let has_more = follower.next_entry()?.is_some();
    let page = Events {
        run: glance(&store.summary(run_id)?),
        events,
        next_after: has_more.then_some(last),
    };
    Ok(serde_json::to_string(&page).unwrap_or_default())
}

fn some_events(follower: &mut Follower) -> Result<Vec<Box<RawValue>>, StoreError> {
    let mut events = Vec::new();
    let mut bytes = 0;
    while events.len() < EVENTS_MAX && bytes < EVENTS_BYTES_MAX {
        let Some(entry) = follower.next_entry()? else {
            break;
        };
        let event = match entry {
            Entry::Record(record) => RawValue::from_string(shown_line(&record).into_owned()),
            Entry::Damaged(corruption) => {
                let damaged = corruption.to_string();
                to_raw_value(&json!({ "damaged": damaged, "line": corruption.line }))
            }
        };
        // A line of a ledger is JSON.
        if let Ok(event) = event {
            bytes += event.get().len();
            events.push(event);
        }
    }
    Ok(events)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::RunAddress;

    const ID: &str = "run_0190a0a0a0a07000800000000000002a";

    #[test]
    fn an_address_is_that_of_a_run_or_of_its_events() {
        let of = |rest: &str| RunAddress::parse(&format!("skillrun://runs/{ID}{rest}"));
        assert_eq!(of("").unwrap().events_after, None);
        assert_eq!(of("/events").unwrap().events_after, Some(0));
        assert_eq!(of("/events?after=12").unwrap().events_after, Some(12));
        for other in [
            "/",
            "/events/",
            "/events?after=",
            "/events?after=-1",
            "/events?after=+1",
            "/events?after=99999999999999999999",
            "?a",
            "/input",
        ] {
            assert_eq!(of(other), None, "{other}");
        }
        assert_eq!(RunAddress::parse("skillrun://runs/../x"), None);
        assert_eq!(RunAddress::parse("skill://runs/x"), None);
    }

    proptest! {
        #[test]
        fn any_text_is_an_address_or_none(text in "(skillrun://runs/)?\\PC{0,60}") {
            let _address = RunAddress::parse(&text);
        }

        #[test]
        fn an_address_says_which_events(after in 0..=i64::MAX as u64) {
            let uri = format!("skillrun://runs/{ID}/events?after={after}");
            prop_assert_eq!(RunAddress::parse(&uri).unwrap().events_after, Some(after));
        }
    }
}
