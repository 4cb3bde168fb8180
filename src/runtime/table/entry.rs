//! One execution of this process.

use std::collections::VecDeque;
use std::sync::Arc;

use futures_util::future::{BoxFuture, WeakShared};
use tokio::sync::{oneshot, watch};

use super::{QUEUED_MAX, SharedLaunch, TurnInFlight};
use crate::clock::Timestamp;
use crate::id::ExecutionId;
use crate::ledger::SessionFacts;
use crate::runner::{SessionSignal, TurnEnd};
use crate::runtime::backend::{End, Instance};
use crate::runtime::error::RuntimeError;
use crate::runtime::event::RecordedEnd;
use crate::runtime::state::{Change, Ending, ExecutionStatus, next};
use crate::runtime::statistics::LiveExecutions;
use crate::runtime::types::{Execution, ExecutionRef, Metadata};

/// What whoever sent a prompt is told.
pub(in crate::runtime) type Answer = Result<TurnEnd, RuntimeError>;
type Waiter = oneshot::Sender<Answer>;

/// How far the table is with an execution. A subscriber is told of an event when this has come to it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(in crate::runtime) struct Progress {
    /// The number of the newest line that was taken note of.
    pub(in crate::runtime) seq: u64,
    /// Whether the mode of its tools is being changed.
    pub(in crate::runtime) is_mode_changing: bool,
    /// Whether it ended.
    pub(in crate::runtime) is_over: bool,
}

/// What is to be launched.
pub(in crate::runtime) struct Plan {
    /// Tells this launch from others of the same execution.
    pub(in crate::runtime) number: u64,
    pub(in crate::runtime) facts: Arc<SessionFacts>,
    pub(in crate::runtime) metadata: Metadata,
    /// The first prompt, if there is one.
    pub(in crate::runtime) prompt: Option<String>,
}

/// A prompt that waits.
pub(in crate::runtime) struct Prompt {
    pub(in crate::runtime) ticket: u64,
    pub(in crate::runtime) text: String,
    /// Who waits for the end of its turn.
    pub(in crate::runtime) waiter: Option<Waiter>,
}

/// A turn that goes on, or a prompt that was sent.
struct Turn {
    generation: u64,
    /// Absent for a turn that was cut off and goes on.
    ticket: Option<u64>,
    waiters: Vec<Waiter>,
}

type WeakLaunch = WeakShared<BoxFuture<'static, Result<ExecutionRef, RuntimeError>>>;

/// What is known of one execution.
pub(super) struct Entry {
    number: u64,
    facts: Arc<SessionFacts>,
    metadata: Metadata,
    /// The launch that it is, until it is registered.
    launch: Option<WeakLaunch>,
    /// Why the launch is to come to nothing.
    doomed: Option<String>,
    instance: Option<Arc<dyn Instance>>,
    status: ExecutionStatus,
    started_at: Timestamp,
    finished_at: Option<Timestamp>,
    end: Option<End>,
    mcp_mode: String,
    /// Held by whoever changes the mode.
    mode_changes: Arc<tokio::sync::Mutex<()>>,
    /// The number of the newest prompt.
    newest: u64,
    queue: VecDeque<Prompt>,
    turn: Option<Turn>,
    /// Why it is being stopped, once it is.
    stopping: Option<String>,
    progress: watch::Sender<Progress>,
}

impl Entry {
    pub(super) fn new(plan: Plan, launch: &SharedLaunch, ticket: u64, now: Timestamp) -> Self {
        let first = plan.prompt.map(|text| Prompt {
            ticket,
            text,
            waiter: None,
        });
        Self {
            number: plan.number,
            mcp_mode: plan.facts.mcp_mode.clone(),
            mode_changes: Arc::default(),
            facts: plan.facts,
            metadata: plan.metadata,
            launch: launch.downgrade(),
            doomed: None,
            instance: None,
            status: ExecutionStatus::Pending,
            started_at: now,
            finished_at: None,
            end: None,
            newest: 0,
            queue: first.into_iter().collect(),
            turn: None,
            stopping: None,
            progress: watch::channel(Progress::default()).0,
        }
    }

    pub(super) fn id(&self) -> &ExecutionId {
        &self.facts.execution_id
    }

    pub(super) fn number(&self) -> u64 {
        self.number
    }

    pub(super) fn parent(&self) -> Option<&ExecutionId> {
        self.facts.parent_execution_id.as_ref()
    }

    /// Whether it is live, or being launched.
    pub(super) fn is_live(&self) -> bool {
        self.end.is_none()
    }

    /// Whether it is being launched, and nobody is told of it.
    pub(super) fn is_hidden(&self) -> bool {
        self.instance.is_none() && self.end.is_none()
    }

    pub(super) fn is_child_of(&self, parent: &ExecutionId) -> bool {
        self.is_live() && self.parent() == Some(parent)
    }

    /// The launch that it is, as long as somebody waits for it.
    pub(super) fn launch(&self) -> Option<SharedLaunch> {
        self.launch.as_ref()?.upgrade()
    }

    /// Lets the launch come to nothing.
    pub(super) fn doom(&mut self, reason: &str) {
        self.doomed.get_or_insert_with(|| reason.to_owned());
    }

    fn stopped(&self, reason: &str) -> RuntimeError {
        RuntimeError::Stopped {
            id: self.id().clone(),
            reason: reason.to_owned(),
        }
    }

    /// # Errors
    /// It is being stopped, or has ended.
    pub(super) fn check_goes_on(&self) -> Result<(), RuntimeError> {
        match (&self.end, &self.stopping) {
            (Some(end), _) => Err(ended(self.id(), end)),
            (None, Some(reason)) => Err(self.stopped(reason)),
            (None, None) => Ok(()),
        }
    }

    pub(super) fn register(
        &mut self,
        instance: &Arc<dyn Instance>,
        started_at: Timestamp,
    ) -> Result<(), RuntimeError> {
        if let Some(reason) = &self.doomed {
            return Err(self.stopped(reason));
        }
        self.launch = None;
        self.instance = Some(Arc::clone(instance));
        self.started_at = started_at;
        if self.status == ExecutionStatus::Pending {
            self.change(Change::Registered);
        }
        self.dispatch();
        Ok(())
    }

    /// False when the change cannot be, and nothing has changed.
    fn change(&mut self, by: Change) -> bool {
        match next(self.status, by) {
            Ok(status) => {
                self.status = status;
                true
            }
            Err(illegal) => {
                tracing::warn!(execution_id = %self.id(), "{illegal}");
                false
            }
        }
    }

    pub(super) fn apply(&mut self, signal: SessionSignal) {
        if self.end.is_some() {
            return;
        }
        // Whatever can tell of itself is on record.
        if self.status == ExecutionStatus::Pending {
            self.change(Change::Registered);
        }
        let seq = match signal {
            SessionSignal::Booted { generation, seq } => {
                self.newest = self.newest.max(generation);
                self.change(Change::Booted);
                seq
            }
            SessionSignal::TurnBegun { generation, seq } => {
                self.begin_turn(generation);
                seq
            }
            SessionSignal::TurnEnded { turn, seq } => {
                self.end_turn(turn);
                seq
            }
            SessionSignal::Ready { generation, seq } => {
                // While a later turn goes on, this is late.
                if self.turn.is_none() && generation >= self.newest {
                    self.change(Change::Ready);
                }
                seq
            }
        };
        self.progress
            .send_modify(|progress| progress.seq = progress.seq.max(seq));
        self.dispatch();
    }

    fn begin_turn(&mut self, generation: u64) {
        match &self.turn {
            Some(turn) if turn.generation == generation => {}
            None if generation > self.newest || self.status == ExecutionStatus::Starting => {
                self.newest = self.newest.max(generation);
                self.turn = Some(Turn {
                    generation,
                    ticket: None,
                    waiters: Vec::new(),
                });
            }
            // It is of a turn that is over.
            _ => return,
        }
        self.change(Change::TurnBegun);
    }

    fn end_turn(&mut self, end: TurnEnd) {
        let ended = self.turn.take_if(|turn| turn.generation == end.generation);
        for waiter in ended.into_iter().flat_map(|turn| turn.waiters) {
            let _nobody_waits = waiter.send(Ok(end.clone()));
        }
    }

    pub(super) fn enqueue(&mut self, prompt: Prompt) -> Result<(), RuntimeError> {
        if self.is_hidden() {
            return Err(RuntimeError::not_found(&self.id().to_string()));
        }
        self.check_goes_on()?;
        if self.queue.len() >= QUEUED_MAX {
            return Err(RuntimeError::Busy {
                id: self.id().clone(),
                queued_max: QUEUED_MAX,
            });
        }
        self.queue.push_back(prompt);
        self.dispatch();
        Ok(())
    }

    /// Sends the next prompt, if the agent waits for one.
    fn dispatch(&mut self) {
        let waits = self.status == ExecutionStatus::Ready && self.turn.is_none();
        let Some(instance) = self.instance.as_ref().filter(|_| waits) else {
            return;
        };
        if self.stopping.is_some() {
            return;
        }
        let Some(prompt) = self.queue.pop_front() else {
            return;
        };
        // A ledger that somebody made up may have the last number there is, and then all have that.
        self.newest = self.newest.saturating_add(1);
        self.turn = Some(Turn {
            generation: self.newest,
            ticket: Some(prompt.ticket),
            waiters: prompt.waiter.into_iter().collect(),
        });
        // One that is refused is answered when the execution ends, which it is about to.
        if let Err(refused) = instance.prompt(self.newest, prompt.text) {
            tracing::debug!(execution_id = %self.id(), "{refused}");
        }
    }

    pub(super) fn withdraw(&mut self, ticket: u64) -> Option<(Arc<dyn Instance>, u64)> {
        self.queue.retain(|prompt| prompt.ticket != ticket);
        let turn = self.turn.as_ref()?;
        let generation = turn.generation;
        (turn.ticket == Some(ticket)).then_some(())?;
        Some((self.instance.clone()?, generation))
    }

    pub(super) fn turn_in_flight(&mut self) -> Result<Option<TurnInFlight>, RuntimeError> {
        let Some(instance) = self.instance.clone() else {
            return Err(RuntimeError::not_found(&self.id().to_string()));
        };
        self.check_goes_on()?;
        Ok(self.turn.as_mut().map(|turn| {
            let (waiter, answer) = oneshot::channel();
            turn.waiters.push(waiter);
            TurnInFlight {
                generation: turn.generation,
                instance,
                answer,
            }
        }))
    }

    /// Gives the stop away, once; whoever waits for a turn is told.
    pub(super) fn begin_stop(
        &mut self,
        reason: &str,
    ) -> Option<(Arc<dyn Instance>, watch::Receiver<Progress>)> {
        if self.end.is_some() || self.stopping.is_some() {
            return None;
        }
        let instance = self.instance.clone()?;
        self.stopping = Some(reason.to_owned());
        self.answer_all(&self.stopped(reason));
        Some((instance, self.progress.subscribe()))
    }

    fn answer_all(&mut self, error: &RuntimeError) {
        let queued = self.queue.drain(..).filter_map(|prompt| prompt.waiter);
        let turn = self.turn.iter_mut();
        let in_flight = turn.flat_map(|turn| turn.waiters.drain(..));
        for waiter in queued.chain(in_flight) {
            let _nobody_waits = waiter.send(Err(error.clone()));
        }
    }

    /// Takes note of the end, and gives back the way to the instance.
    pub(super) fn end(&mut self, end: End, now: Timestamp) -> Option<Arc<dyn Instance>> {
        if !self.change(Change::Ended(end.ending)) {
            return None;
        }
        self.answer_all(&ended(self.id(), &end));
        self.turn = None;
        self.launch = None;
        self.finished_at = Some(now);
        self.end = Some(end);
        self.progress.send_modify(|progress| {
            progress.is_over = true;
            progress.is_mode_changing = false;
        });
        self.instance.take()
    }

    pub(super) fn count(&self, live: &mut LiveExecutions) {
        let count = match self.status {
            ExecutionStatus::Pending => &mut live.pending,
            ExecutionStatus::Starting => &mut live.starting,
            ExecutionStatus::Ready => &mut live.ready,
            ExecutionStatus::Running => &mut live.running,
            ExecutionStatus::Completed | ExecutionStatus::Failed | ExecutionStatus::Stopped => {
                return;
            }
        };
        *count += 1;
        live.prompts_queued += self.queue.len();
    }

    pub(super) fn teardown_error(&self) -> Option<String> {
        self.end.as_ref()?.teardown_error.clone()
    }

    pub(super) fn progress(&self) -> watch::Receiver<Progress> {
        self.progress.subscribe()
    }

    pub(super) fn mode_changes(&self) -> Arc<tokio::sync::Mutex<()>> {
        Arc::clone(&self.mode_changes)
    }

    pub(super) fn begin_mode_change(
        &mut self,
    ) -> Result<(Arc<dyn Instance>, String), RuntimeError> {
        let Some(instance) = self.instance.clone() else {
            return Err(RuntimeError::not_found(&self.id().to_string()));
        };
        self.check_goes_on()?;
        self.progress
            .send_modify(|progress| progress.is_mode_changing = true);
        Ok((instance, self.mcp_mode.clone()))
    }

    pub(super) fn end_mode_change(&mut self, mode: Option<String>) {
        if let Some(mode) = mode {
            self.mcp_mode = mode;
        }
        self.progress
            .send_modify(|progress| progress.is_mode_changing = false);
    }

    pub(super) fn snapshot(&self) -> Execution {
        let end = self.end.as_ref().map(RecordedEnd::from);
        let execution = Execution {
            status: self.status,
            finished_at: self.finished_at,
            mcp_mode: self.mcp_mode.clone(),
            prompt_generation: self.newest,
            prompts_queued: self.queue.len(),
            metadata: self.metadata.clone(),
            ..Execution::of(&self.facts, self.started_at)
        };
        match end {
            Some(end) => execution.ended(end),
            None => execution,
        }
    }
}

/// What is told of an execution that has ended to whoever wanted something else of it.
fn ended(id: &ExecutionId, end: &End) -> RuntimeError {
    let id = id.clone();
    match end.ending {
        Ending::Completed => RuntimeError::Completed { id },
        Ending::Failed => RuntimeError::Failed {
            id,
            code: end.code,
            message: end.message.clone(),
        },
        Ending::Stopped => RuntimeError::Stopped {
            id,
            reason: end.stop_reason.clone(),
        },
    }
}
