//! Telling clients what changed: which skills there are, and what is at an address that they watch.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::BoxFuture;
use rmcp::RoleServer;
use rmcp::model::{ErrorData, ResourceUpdatedNotificationParam, SubscriptionFilter};
use rmcp::service::{Peer, SubscriptionContext, SubscriptionSendError, SubscriptionSink};
use serde_json::json;
use tokio::sync::OwnedSemaphorePermit;
use tokio::task::JoinSet;
use tokio_util::task::AbortOnDropHandle;

use super::Mcp;
use super::catalog::exposed;
use super::client::Client;
use super::resource::{URI_BYTES_MAX, not_found};
use super::run_resource::RunAddress;
use super::skill_folder;
use super::start::{internal, reading};
use crate::ledger::{Delivery, Digest, Entry, Event, Store, StoreError, Subscription};
use crate::registry::{McpRole, Registry, Skill};

/// Addresses that one client watches at a time, in one session or by one request. Protects the host, which follows
/// each.
const SUBSCRIPTIONS_MAX: usize = 64;
/// Streams and addresses that all clients watch together. Protects the files that the process may open: each address of a
/// run is one.
pub(super) const WATCHES_MAX: usize = 2_048;
/// The least time between two notifications of one address. Protects the client from a run that does much.
const UPDATE_INTERVAL: Duration = Duration::from_millis(100);
/// How often it is looked whether a run goes on that nobody carries out.
const RESUMED_INTERVAL: Duration = Duration::from_secs(2);

/// By what a client is told.
#[derive(Clone)]
enum Line {
    /// By its session, where it is of a revision that has them.
    Session(Peer<RoleServer>),
    /// By the stream that it listens to.
    Stream(SubscriptionSink),
}

/// The client cannot be told any more.
struct Gone;

impl Line {
    async fn updated(&self, uri: &str) -> Result<(), Gone> {
        match self {
            Self::Session(peer) => {
                let params = ResourceUpdatedNotificationParam::new(uri);
                let told = peer.notify_resource_updated(params).await;
                told.map_err(|_| Gone)
            }
            Self::Stream(sink) => sent(sink.notify_resource_updated(uri).await),
        }
    }

    async fn lists(&self, changed: Changed) -> Result<(), Gone> {
        match self {
            Self::Session(peer) => {
                if changed.tools {
                    peer.notify_tool_list_changed().await.map_err(|_| Gone)?;
                }
                if changed.prompts {
                    peer.notify_prompt_list_changed().await.map_err(|_| Gone)?;
                }
                if changed.resources {
                    let told = peer.notify_resource_list_changed().await;
                    told.map_err(|_| Gone)?;
                }
            }
            Self::Stream(sink) => {
                if changed.tools {
                    sent(sink.notify_tool_list_changed().await)?;
                }
                if changed.prompts {
                    sent(sink.notify_prompt_list_changed().await)?;
                }
                if changed.resources {
                    sent(sink.notify_resource_list_changed().await)?;
                }
            }
        }
        Ok(())
    }
}

/// What a client did not ask for it is not told, which is as good as if it had been.
fn sent(sent: Result<(), SubscriptionSendError>) -> Result<(), Gone> {
    match sent {
        Ok(()) | Err(SubscriptionSendError::NotificationNotAccepted(_)) => Ok(()),
        Err(_) => Err(Gone),
    }
}

/// Which lists changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Changed {
    tools: bool,
    prompts: bool,
    resources: bool,
}

/// What there is for clients, each by its name with the digest of what makes it up.
#[derive(Debug, PartialEq, Eq)]
struct Offered {
    tools: BTreeMap<String, Digest>,
    prompts: BTreeMap<String, Digest>,
    resources: BTreeMap<String, Digest>,
}

impl Offered {
    fn of(registry: &Registry) -> Self {
        let of_role = |role| {
            let skills = exposed(registry, role).into_iter();
            let named = skills.map(|(name, skill)| (name, identity(&skill)));
            named.collect::<BTreeMap<_, _>>()
        };
        let mut resources = of_role(McpRole::Resource);
        for role in [McpRole::Tool, McpRole::Prompt] {
            // The files of every skill are resources.
            resources.extend(of_role(role));
        }
        Self {
            tools: of_role(McpRole::Tool),
            prompts: of_role(McpRole::Prompt),
            resources,
        }
    }

    fn changed_to(&self, now: &Self) -> Changed {
        Changed {
            tools: self.tools != now.tools,
            prompts: self.prompts != now.prompts,
            resources: self.resources != now.resources,
        }
    }
}

/// The digest of all that was read of a skill.
fn identity(skill: &Skill) -> Digest {
    let documents = skill.documents.iter();
    let documents: BTreeMap<&String, &String> = documents
        .map(|(path, document)| (path, &document.sha256))
        .collect();
    Digest::of(json!([skill.files, documents]).to_string().as_bytes())
}

/// What a session of an older revision is told, as long as it lives.
#[derive(Default)]
pub(super) struct Watched(Mutex<Watches>);

#[derive(Default)]
struct Watches {
    lists: Option<AbortOnDropHandle<()>>,
    addresses: BTreeMap<String, AbortOnDropHandle<()>>,
}

impl Watched {
    fn watches(&self) -> MutexGuard<'_, Watches> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells the client of changes of lists from now on.
    pub(super) fn begin(&self, mcp: &Mcp, peer: Peer<RoleServer>) {
        let telling = tokio::spawn(mcp.clone().tell_lists(Line::Session(peer)));
        self.watches().lists = Some(AbortOnDropHandle::new(telling));
    }

    /// Tells the client of changes of what is at `uri` from now on.
    ///
    /// # Errors
    /// There is nothing, or the client watches too much.
    pub(super) async fn subscribe(
        &self,
        mcp: &Mcp,
        client: &Client,
        uri: String,
    ) -> Result<(), ErrorData> {
        let line = Line::Session(client.peer().clone());
        let telling = mcp.telling(client, &uri, line).await?;
        let telling = telling.ok_or_else(|| not_found(&uri))?;
        let addresses = &mut self.watches().addresses;
        addresses.retain(|_, telling| !telling.is_finished());
        if addresses.len() >= SUBSCRIPTIONS_MAX && !addresses.contains_key(&uri) {
            let message = format!("expected at most {SUBSCRIPTIONS_MAX} subscriptions");
            return Err(ErrorData::invalid_params(message, None));
        }
        addresses.insert(uri, AbortOnDropHandle::new(tokio::spawn(telling)));
        Ok(())
    }

    /// Tells the client no more of what is at `uri`.
    pub(super) fn unsubscribe(&self, uri: &str) {
        self.watches().addresses.remove(uri);
    }
}

impl Mcp {
    /// What of a filter can be listened to: addresses that there are, or of runs, and not too many of them.
    pub(super) fn accepted(&self, requested: &SubscriptionFilter) -> SubscriptionFilter {
        let registry = self.host().skills().current();
        let mut accepted = requested.clone();
        if let Some(uris) = &mut accepted.resource_subscriptions {
            uris.truncate(SUBSCRIPTIONS_MAX);
            uris.retain(|uri| {
                RunAddress::parse(uri).is_some() || version(&registry, uri).is_some()
            });
        }
        accepted
    }

    /// Tells whoever listens, until it does not any more.
    pub(super) async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        let client = Client::of(self, context.request_context());
        let line = Line::Stream(context.sink().clone());
        let _place = self.watch()?;
        let mut telling = JoinSet::new();
        telling.spawn(self.clone().tell_lists(line.clone()));
        let uris = context.accepted().resource_subscriptions.clone();
        for uri in uris.unwrap_or_default() {
            // What the client may not see it is told nothing of.
            if let Some(told) = self.telling(&client, &uri, line.clone()).await? {
                telling.spawn(told);
            }
        }
        context.cancelled().await;
        Ok(())
    }

    /// A place for something more that a client watches.
    fn watch(&self) -> Result<OwnedSemaphorePermit, ErrorData> {
        let place = Arc::clone(&self.shared.watches).try_acquire_owned();
        place.map_err(|_full| {
            let message =
                format!("clients watch {WATCHES_MAX} streams and addresses, as many as may be");
            ErrorData::internal_error(message, Some(json!({ "code": "busy" })))
        })
    }

    async fn tell_lists(self, line: Line) {
        let mut skills = self.host().skills().clone();
        let mut offered = Offered::of(&skills.current());
        while skills.changed().await {
            let now = Offered::of(&skills.current());
            if line.lists(offered.changed_to(&now)).await.is_err() {
                return;
            }
            offered = now;
        }
    }

    /// What tells of changes of what is at `uri` from now on; none when there is nothing for the client.
    async fn telling(
        &self,
        client: &Client,
        uri: &str,
        line: Line,
    ) -> Result<Option<BoxFuture<'static, ()>>, ErrorData> {
        if uri.len() > URI_BYTES_MAX {
            return Ok(None);
        }
        if let Some(address) = RunAddress::parse(uri) {
            if !self.sees_run(client, &address.run_id).await {
                return Ok(None);
            }
            let place = self.watch()?;
            let store = self.host().store().clone();
            let followed = reading(move || Followed::new(store, address)).await;
            let followed = followed.map_err(|error| internal(&error))?;
            let uri = uri.to_owned();
            return Ok(Some(Box::pin(async move {
                let _place = place;
                // A stream is accepted before it is looked what there is: what changed in between is told of so.
                let is_late = matches!(line, Line::Stream(_));
                if is_late && line.updated(&uri).await.is_err() {
                    return;
                }
                let told = followed.tell(&line, &uri).await;
                if let Err(error) = told {
                    tracing::warn!(uri, %error, "a client is told no more of a run");
                }
            })));
        }
        let mut skills = self.host().skills().clone();
        let Some(mut known) = version(&skills.current(), uri) else {
            return Ok(None);
        };
        let (uri, place) = (uri.to_owned(), self.watch()?);
        Ok(Some(Box::pin(async move {
            let _place = place;
            while skills.changed().await {
                let now = version(&skills.current(), &uri).unwrap_or_default();
                if now != known && line.updated(&uri).await.is_err() {
                    return;
                }
                known = now;
            }
        })))
    }
}

/// What tells whether there is something else at an address of a skill; none when there is nothing.
fn version(registry: &Registry, uri: &str) -> Option<String> {
    skill_folder::digest(registry, uri).or_else(|| {
        let resources = exposed(registry, McpRole::Resource);
        let is_there = |skill: &&Arc<Skill>| {
            let address = skill.manifest.mcp.address.as_ref();
            address.is_some_and(|address| address.matched(uri).is_some())
        };
        let skill = resources.values().find(is_there)?;
        Some(identity(skill).to_string())
    })
}

/// A run of which a client is told.
struct Followed {
    store: Store,
    address: RunAddress,
    events: Subscription,
    /// The last event that there was nothing to tell of.
    seq: u64,
}

impl Followed {
    fn new(store: Store, address: RunAddress) -> Result<Self, StoreError> {
        let seq = store.summary(&address.run_id)?.head.seq;
        let events = store.subscribe(&address.run_id, seq + 1)?;
        Ok(Self {
            events: events.through_suspensions(),
            store,
            address,
            seq,
        })
    }

    /// Tells until the run has ended for good, or the client is gone.
    async fn tell(mut self, line: &Line, uri: &str) -> Result<(), StoreError> {
        loop {
            while let Some(delivery) = self.events.next().await? {
                let mut is_told = self.counts(&delivery);
                while let Some(more) = self.events.try_next()? {
                    is_told |= self.counts(&more);
                }
                if is_told {
                    if line.updated(uri).await.is_err() {
                        return Ok(());
                    }
                    tokio::time::sleep(UPDATE_INTERVAL).await;
                }
            }
            if !self.goes_on_later().await? {
                return Ok(());
            }
            self.events = self
                .store
                .subscribe(&self.address.run_id, self.seq + 1)?
                .through_suspensions();
        }
    }

    /// Whether there is something else at the address after that.
    fn counts(&mut self, delivery: &Delivery) -> bool {
        let Delivery::Entry(Entry::Record(record)) = delivery else {
            return true;
        };
        self.seq = self.seq.max(record.seq);
        let is_state = matches!(
            record.event(),
            Event::RunCompleted(_) | Event::RunResumed(_)
        );
        is_state || self.address.events_after.is_some()
    }

    /// Waits for a run to go on that has no end, or one after which it can; false when it has ended for good.
    async fn goes_on_later(&self) -> Result<bool, StoreError> {
        loop {
            let (store, run_id) = (self.store.clone(), self.address.run_id.clone());
            let run = reading(move || store.summary(&run_id)).await?;
            if run.head.seq > self.seq {
                return Ok(true);
            }
            if !run.state.may_go_on() {
                return Ok(false);
            }
            tokio::time::sleep(RESUMED_INTERVAL).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Changed, Offered, version};
    use crate::registry::{Registry, Skill};

    fn prompt(folder: &std::path::Path, body: &str) -> Skill {
        let folder = folder.join("notes");
        std::fs::create_dir_all(&folder).unwrap();
        let text = format!("---\nname: notes\ndescription: d\n---\n{body}\n");
        std::fs::write(folder.join("SKILL.md"), text).unwrap();
        Skill::from_folder(&folder).unwrap()
    }

    #[test]
    fn only_what_changed_is_told_of() {
        let dir = tempfile::tempdir().unwrap();
        let of = |body: &str| Registry::of([prompt(dir.path(), body)]);
        let (before, same, after) = (of("a"), of("a"), of("b"));
        let changed = |now: &Registry| Offered::of(&before).changed_to(&Offered::of(now));
        let prompts_alone = |changed| Changed {
            tools: false,
            prompts: changed,
            resources: changed,
        };
        assert_eq!(changed(&same), prompts_alone(false));
        assert_eq!(changed(&after), prompts_alone(true));
        assert_eq!(changed(&Registry::default()), prompts_alone(true));
        let uri = "skill://notes/SKILL.md";
        assert_eq!(version(&before, uri), version(&same, uri));
        assert_ne!(version(&before, uri), version(&after, uri));
        assert_eq!(version(&Registry::default(), uri), None);
    }
}
