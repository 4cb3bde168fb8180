//! Everything about executions of this process that changes, behind one lock.
//!
//! Methods neither wait nor call anybody who could come back, but for [`Instance::prompt`], which promises not to:
//! so a prompt that is taken back is never one that is just being sent.

mod entry;

#[cfg(test)]
mod tests;

#[cfg(not(test))]
use std::sync::{Mutex, MutexGuard};

#[cfg(test)]
use shuttle::sync::{Mutex, MutexGuard};

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use futures_util::future::{BoxFuture, Shared};
use tokio::sync::{oneshot, watch};

use self::entry::Entry;
pub(super) use self::entry::{Answer, Plan, Progress, Prompt};
use super::backend::{End, Instance};
use super::error::RuntimeError;
use super::statistics::LiveExecutions;
use super::types::{Execution, ExecutionRef};
use crate::clock::Timestamp;
use crate::id::{ExecutionId, RunId};
use crate::runner::SessionSignal;

/// Prompts of one execution that may wait. Protects the host's memory from whoever sends more than an agent
/// takes.
pub const QUEUED_MAX: usize = 64;
/// Executions that one has launched and that are live. Protects those of other launchers from one that launches
/// without end.
pub const CHILDREN_MAX: usize = 16;
/// How far below the one at the root, which no execution launched, one may be. Protects whoever pays: each has limits
/// of its own.
pub const DEPTH_MAX: usize = 4;
/// Live executions below one root, however far. Protects the same, and others, which share the runtime's places.
pub const DESCENDANTS_MAX: usize = 32;
/// Executions that are kept at hand after their end, however short ago that is. Protects the host's memory from
/// executions that are launched and end at once.
const RETAINED_MAX: usize = 1_024;

/// A launch that goes on. Whoever launches the same session meanwhile waits for the same, and when nobody waits
/// for it any more it is given up.
pub(super) type SharedLaunch = Shared<BoxFuture<'static, Result<ExecutionRef, RuntimeError>>>;

/// The executions of this process.
pub(super) struct Table {
    executions_max: usize,
    retention: Duration,
    inner: Mutex<Inner>,
    /// How many are live, those that are being launched included.
    live: watch::Sender<usize>,
}

#[derive(Default)]
struct Inner {
    is_closed: bool,
    executions: HashMap<ExecutionId, Entry>,
    /// The live execution of each session that has one.
    sessions: HashMap<String, ExecutionId>,
    /// Those that ended, the one that did so first first, and when.
    ended: VecDeque<(Timestamp, ExecutionId)>,
    /// Prompts so far; each has its own number.
    prompts: u64,
}

/// An execution that is to be stopped, by whoever holds this.
pub(super) struct Claim {
    pub(super) id: ExecutionId,
    pub(super) instance: Arc<dyn Instance>,
    pub(super) progress: watch::Receiver<Progress>,
}

/// One launch of an execution. What belongs to another launch of the same is none of its business: the first may
/// have been given up, and still be coming to its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Slot {
    pub(super) id: ExecutionId,
    pub(super) number: u64,
}

/// What the table knows of an execution.
pub(super) enum Seen {
    /// Nothing: it is none of this process, or has ended long ago.
    Unknown,
    /// It is being launched, and nobody is told of it.
    Hidden,
    /// This.
    Known(Box<Execution>),
}

/// A turn that goes on, or the prompt of one that was sent.
pub(super) struct TurnInFlight {
    pub(super) generation: u64,
    pub(super) instance: Arc<dyn Instance>,
    pub(super) answer: oneshot::Receiver<Answer>,
}

impl Inner {
    fn live(&self, id: &ExecutionId) -> Option<&Entry> {
        let entry = self.executions.get(id)?;
        entry.is_live().then_some(entry)
    }

    fn of(&mut self, slot: &Slot) -> Option<&mut Entry> {
        let entry = self.executions.get_mut(&slot.id)?;
        (entry.number() == slot.number).then_some(entry)
    }

    fn live_mut(&mut self, id: &ExecutionId) -> Result<&mut Entry, RuntimeError> {
        let entry = self.executions.get_mut(id).filter(|entry| entry.is_live());
        entry.ok_or_else(|| RuntimeError::not_found(&id.to_string()))
    }

    /// Forgets executions that ended long ago.
    fn purge(&mut self, now: Timestamp, retention: Duration) {
        let retention = i64::try_from(retention.as_micros()).unwrap_or(i64::MAX);
        while let Some((ended_at, _)) = self.ended.front() {
            let age = now.unix_micros().saturating_sub(ended_at.unix_micros());
            if age < retention && self.ended.len() <= RETAINED_MAX {
                return;
            }
            if let Some((_, id)) = self.ended.pop_front() {
                self.executions.remove(&id);
            }
        }
    }

    /// The execution above this one that nothing launched, itself perhaps, and how far above it is.
    fn root<'a>(&'a self, of: &'a ExecutionId) -> (&'a ExecutionId, usize) {
        let (mut root, mut depth) = (of, 0);
        // Every launch was held to the depth, so that this ends.
        while let Some(parent) = self.executions.get(root).and_then(Entry::parent) {
            root = parent;
            depth += 1;
        }
        (root, depth)
    }

    /// # Errors
    /// This execution may launch no other one.
    fn check_family(&self, parent: &ExecutionId) -> Result<(), RuntimeError> {
        let (root, depth) = self.root(parent);
        if depth >= DEPTH_MAX {
            return Err(RuntimeError::TooDeep {
                parent: parent.clone(),
                depth_max: DEPTH_MAX,
            });
        }
        let full = |of, live_max| RuntimeError::FamilyFull {
            parent: parent.clone(),
            of,
            live_max,
        };
        let live = self.executions.values().filter(|entry| entry.is_live());
        let (mut children, mut below) = (0, 0);
        for entry in live {
            children += usize::from(entry.parent() == Some(parent));
            below += usize::from(entry.id() != root && self.root(entry.id()).0 == root);
        }
        if children >= CHILDREN_MAX {
            return Err(full("children of it", CHILDREN_MAX));
        }
        match below >= DESCENDANTS_MAX {
            true => Err(full("executions below the same root", DESCENDANTS_MAX)),
            false => Ok(()),
        }
    }

    /// Takes the stop of an execution, and of all below it that nobody stops yet, into one hand.
    fn claim(&mut self, id: &ExecutionId, reason: &str, claims: &mut Vec<Claim>) {
        let Some(entry) = self.executions.get_mut(id) else {
            return;
        };
        match entry.begin_stop(reason) {
            Some((instance, progress)) => claims.push(Claim {
                id: id.clone(),
                instance,
                progress,
            }),
            None => return,
        }
        self.claim_children(id, reason, claims);
    }

    /// Every level takes one from what is there, so that this ends.
    fn claim_children(&mut self, parent: &ExecutionId, reason: &str, claims: &mut Vec<Claim>) {
        let children = self.executions.values_mut();
        let children = children.filter(|entry| entry.is_child_of(parent));
        let children: Vec<ExecutionId> = children
            .filter_map(|entry| match entry.is_hidden() {
                true => {
                    entry.doom(reason);
                    None
                }
                false => Some(entry.id().clone()),
            })
            .collect();
        for child in children {
            self.claim(&child, reason, claims);
        }
    }
}

impl Table {
    pub(super) fn new(executions_max: usize, retention: Duration) -> Self {
        Self {
            executions_max,
            retention,
            inner: Mutex::default(),
            live: watch::channel(0).0,
        }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn count(&self, inner: &Inner) {
        self.live.send_replace(inner.sessions.len());
    }

    /// Joins the launch of a session that goes on, or begins one, which is not seen until it is registered.
    ///
    /// # Errors
    /// The session has an execution, there is no room, the parent is ending or may launch no other, or nothing is
    /// launched any more.
    pub(super) fn join(
        &self,
        plan: Plan,
        now: Timestamp,
        begin: impl FnOnce() -> SharedLaunch,
    ) -> Result<SharedLaunch, RuntimeError> {
        let mut inner = self.inner();
        inner.purge(now, self.retention);
        if inner.is_closed {
            return Err(RuntimeError::ShuttingDown);
        }
        let session = plan.facts.session_id.clone();
        let same_ledger = inner.executions.values().find(|entry| {
            entry.is_live() && entry.id().run_id() == plan.facts.execution_id.run_id()
        });
        let served_by = inner.sessions.get(&session);
        let served_by = served_by.and_then(|id| inner.executions.get(id));
        if let Some(entry) = served_by.or(same_ledger) {
            if let Some(launch) = entry.launch() {
                return Ok(launch);
            }
            // A launch that everybody has left, and that is just being given up, holds nothing up.
            if !entry.is_hidden() {
                return Err(RuntimeError::AlreadyRunning {
                    session_id: session,
                    execution_id: entry.id().clone(),
                });
            }
        } else if inner.sessions.len() >= self.executions_max {
            return Err(RuntimeError::Full {
                executions_max: self.executions_max,
            });
        }
        if let Some(parent) = &plan.facts.parent_execution_id {
            let parent_entry = inner.live(parent);
            let parent_entry = parent_entry.filter(|entry| !entry.is_hidden());
            let parent_entry =
                parent_entry.ok_or_else(|| RuntimeError::not_found(&parent.to_string()))?;
            parent_entry.check_goes_on()?;
            inner.check_family(parent)?;
        }
        let launch = begin();
        let id = plan.facts.execution_id.clone();
        inner.prompts += 1;
        let entry = Entry::new(plan, &launch, inner.prompts, now);
        let given_up = inner.executions.insert(id.clone(), entry);
        inner.sessions.insert(session, id);
        self.count(&inner);
        drop(inner);
        drop(given_up);
        Ok(launch)
    }

    /// Forgets a launch that failed, or that nobody waits for.
    pub(super) fn abandon(&self, slot: &Slot) {
        let mut inner = self.inner();
        if !inner.of(slot).is_some_and(|entry| entry.is_hidden()) {
            return;
        }
        let gone = inner.executions.remove(&slot.id);
        inner.sessions.retain(|_, served_by| *served_by != slot.id);
        self.count(&inner);
        drop(inner);
        drop(gone);
    }

    /// Lets an execution be seen that is on record, and sends its first prompt.
    ///
    /// # Errors
    /// Its parent is being stopped, or has ended; it is to be ended, and to be abandoned.
    pub(super) fn register(
        &self,
        slot: &Slot,
        instance: &Arc<dyn Instance>,
        started_at: Timestamp,
    ) -> Result<(), RuntimeError> {
        let mut inner = self.inner();
        let entry = inner.of(slot);
        let parent = entry.and_then(|entry| entry.parent().cloned());
        if let Some(parent) = parent {
            let goes_on = inner.live(&parent).map(Entry::check_goes_on);
            goes_on.unwrap_or_else(|| Err(RuntimeError::not_found(&parent.to_string())))?;
        }
        let entry = inner.of(slot);
        let entry = entry.ok_or_else(|| RuntimeError::not_found(&slot.id.to_string()))?;
        entry.register(instance, started_at)
    }

    /// Takes note of what became of an execution.
    pub(super) fn apply(&self, slot: &Slot, signal: SessionSignal) {
        if let Some(entry) = self.inner().of(slot) {
            entry.apply(signal);
        }
    }

    /// Puts a prompt behind those that wait, or sends it.
    ///
    /// # Errors
    /// There is no such live execution, it is being stopped, or too many wait.
    pub(super) fn enqueue(
        &self,
        id: &ExecutionId,
        text: String,
    ) -> Result<(u64, oneshot::Receiver<Answer>), RuntimeError> {
        let mut inner = self.inner();
        inner.prompts += 1;
        let ticket = inner.prompts;
        let entry = inner.live_mut(id)?;
        let (waiter, answer) = oneshot::channel();
        entry.enqueue(Prompt {
            ticket,
            text,
            waiter: Some(waiter),
        })?;
        Ok((ticket, answer))
    }

    /// Takes a prompt back. If it was sent, its turn is for the caller to cancel.
    pub(super) fn withdraw(
        &self,
        id: &ExecutionId,
        ticket: u64,
    ) -> Option<(Arc<dyn Instance>, u64)> {
        let mut inner = self.inner();
        inner.live_mut(id).ok()?.withdraw(ticket)
    }

    /// The turn that goes on, if one does.
    ///
    /// # Errors
    /// There is no such live execution, or it is being stopped.
    pub(super) fn turn(&self, id: &ExecutionId) -> Result<Option<TurnInFlight>, RuntimeError> {
        self.inner().live_mut(id)?.turn_in_flight()
    }

    /// Takes the stop of an execution and all below it into one hand: first that of its own. Of two who want
    /// that, one gets it.
    ///
    /// # Errors
    /// There is no such live execution, somebody else stops it, or it is no child of `parent`.
    pub(super) fn begin_stop(
        &self,
        id: &ExecutionId,
        reason: &str,
        parent: Option<&ExecutionId>,
    ) -> Result<Vec<Claim>, RuntimeError> {
        let mut inner = self.inner();
        let entry = inner.live_mut(id)?;
        let mut claims = Vec::new();
        if parent.is_none_or(|parent| entry.is_child_of(parent)) {
            inner.claim(id, reason, &mut claims);
        }
        match claims.is_empty() {
            true => Err(RuntimeError::not_found(&id.to_string())),
            false => Ok(claims),
        }
    }

    /// The same of all below an execution, which may have ended. Launches of it that go on come to nothing.
    pub(super) fn begin_stop_children(&self, parent: &ExecutionId, reason: &str) -> Vec<Claim> {
        let mut claims = Vec::new();
        self.inner().claim_children(parent, reason, &mut claims);
        claims
    }

    /// Takes note of the end of an execution: the first one counts.
    pub(super) fn end(&self, slot: &Slot, end: End, now: Timestamp) {
        let mut inner = self.inner();
        let Some(entry) = inner.of(slot).filter(|entry| entry.is_live()) else {
            return;
        };
        let instance = entry.end(end, now);
        inner.sessions.retain(|_, served_by| *served_by != slot.id);
        inner.ended.push_back((now, slot.id.clone()));
        inner.purge(now, self.retention);
        self.count(&inner);
        drop(inner);
        drop(instance);
    }

    /// An execution as it is now.
    pub(super) fn look(&self, id: &ExecutionId, now: Timestamp) -> Seen {
        let mut inner = self.inner();
        inner.purge(now, self.retention);
        match inner.executions.get(id) {
            None => Seen::Unknown,
            Some(entry) if entry.is_hidden() => Seen::Hidden,
            Some(entry) => Seen::Known(Box::new(entry.snapshot())),
        }
    }

    /// Executions that this one launched and of which something is known: those that are live, and those that
    /// ended a short while ago. The newest first, and at most so many.
    pub(super) fn children(
        &self,
        parent: &ExecutionId,
        now: Timestamp,
        count_max: usize,
    ) -> Vec<Execution> {
        let mut inner = self.inner();
        inner.purge(now, self.retention);
        let children = inner.executions.values();
        let children = children.filter(|entry| entry.parent() == Some(parent));
        let seen = children.filter(|entry| !entry.is_hidden());
        let mut seen: Vec<Execution> = seen.map(Entry::snapshot).collect();
        drop(inner);
        seen.sort_by(|a, b| (b.started_at, &b.id).cmp(&(a.started_at, &a.id)));
        seen.truncate(count_max);
        seen
    }

    /// How many executions are live, by what they do.
    pub(super) fn live_executions(&self) -> LiveExecutions {
        let mut live = LiveExecutions::default();
        for entry in self.inner().executions.values() {
            entry.count(&mut live);
        }
        live
    }

    /// The newest execution of each of these ledgers that something is known of; none inside for one that is
    /// being launched.
    pub(super) fn newest_of(&self, runs: &[RunId]) -> HashMap<RunId, Option<Execution>> {
        let wanted: HashSet<&RunId> = runs.iter().collect();
        let mut newest: HashMap<RunId, &Entry> = HashMap::new();
        let inner = self.inner();
        for entry in inner.executions.values() {
            let run_id = entry.id().run_id();
            if !wanted.contains(run_id) {
                continue;
            }
            let known = newest.get(run_id);
            if known.is_none_or(|known| known.id().part() < entry.id().part()) {
                newest.insert(run_id.clone(), entry);
            }
        }
        let shown = newest.into_iter();
        let shown = shown.map(|(run_id, entry)| {
            let execution = (!entry.is_hidden()).then(|| entry.snapshot());
            (run_id, execution)
        });
        shown.collect()
    }

    /// Whether an execution is live, or being launched, that has this ledger.
    pub(super) fn has_ledger(&self, run_id: &RunId) -> bool {
        let inner = self.inner();
        let mut entries = inner.executions.values();
        entries.any(|entry| entry.is_live() && entry.id().run_id() == run_id)
    }

    /// How an execution of this process ended, beside what its snapshot has.
    pub(super) fn teardown_error(&self, id: &ExecutionId) -> Option<String> {
        let inner = self.inner();
        inner.executions.get(id)?.teardown_error()
    }

    /// How far an execution is of which something is known.
    pub(super) fn progress(&self, id: &ExecutionId) -> Option<watch::Receiver<Progress>> {
        let inner = self.inner();
        let entry = inner.executions.get(id)?;
        (!entry.is_hidden()).then(|| entry.progress())
    }

    /// What whoever changes the mode of an execution holds meanwhile.
    ///
    /// # Errors
    /// There is no such live execution.
    pub(super) fn mode_changes(
        &self,
        id: &ExecutionId,
    ) -> Result<Arc<tokio::sync::Mutex<()>>, RuntimeError> {
        Ok(self.inner().live_mut(id)?.mode_changes())
    }

    /// The way to a live execution whose mode is to be changed, and the mode that it has. From here to
    /// [`Table::end_mode_change`] no subscriber is told of a change.
    ///
    /// # Errors
    /// There is no such live execution, or it is being stopped.
    pub(super) fn begin_mode_change(
        &self,
        id: &ExecutionId,
    ) -> Result<(Arc<dyn Instance>, String), RuntimeError> {
        self.inner().live_mut(id)?.begin_mode_change()
    }

    /// Takes note of the mode, if it has changed.
    pub(super) fn end_mode_change(&self, id: &ExecutionId, mode: Option<String>) {
        if let Some(entry) = self.inner().executions.get_mut(id) {
            entry.end_mode_change(mode);
        }
    }

    /// Lets nothing begin any more.
    pub(super) fn close(&self) {
        self.inner().is_closed = true;
    }

    pub(super) fn is_closed(&self) -> bool {
        self.inner().is_closed
    }

    /// How many executions are live, those that are being launched included.
    pub(super) fn live_count(&self) -> watch::Receiver<usize> {
        self.live.subscribe()
    }
}
