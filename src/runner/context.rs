//! The run that code is part of: passed explicitly, and in scope for code below that has no way to be
//! passed anything.

use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::Runner;
use super::executor::RunProfile;
use super::replay::{Halt, Replay};
use super::session::Session;
use crate::clock::Timestamp;
use crate::executor::Seed;
use crate::id::RunId;
use crate::ledger::{ClientFacts, Recorder, RunOrigin, RunStarted};
use crate::limits::Budget;
use crate::trace_context::{SpanId, TraceContext};

tokio::task_local! {
    static CURRENT: RunContext;
}

/// One run, as code that works for it sees it. Cheap to clone.
#[derive(Clone)]
pub struct RunContext(Arc<Inner>);

struct Inner {
    runner: Runner,
    recorder: Recorder,
    caller: Caller,
    profile: RunProfile,
    budget: Arc<Budget>,
    beginning: Beginning,
    /// How often the run had been cut off when this part of it began.
    part: u64,
    halting: Arc<Halting>,
    /// Below the caller's own, so that ending this run ends no other of the same caller.
    cancellation: CancellationToken,
}

/// Why a run stops in the middle of its record, once it does.
#[derive(Default)]
struct Halting {
    reason: OnceLock<Halt>,
    halted: CancellationToken,
}

/// How a run begins, or goes on.
pub(super) struct Beginning {
    pub(super) seed: Seed,
    /// Whom its guest takes itself for, and when that one began.
    pub(super) origin: RunOrigin,
    /// When this part of the run began.
    pub(super) began_at: Timestamp,
    /// The wall time that it has.
    pub(super) wall_time: Duration,
    /// Bounds the call as a whole.
    pub(super) deadline: Duration,
    /// What is on record of it already.
    pub(super) replay: Option<Replay>,
    /// The execution that it is.
    pub(super) session: Option<Session>,
}

/// A context that may be gone: it keeps no ledger open.
#[derive(Default)]
pub(super) struct WeakContext(Weak<Inner>);

impl WeakContext {
    pub(super) fn upgrade(&self) -> Option<RunContext> {
        self.0.upgrade().map(RunContext)
    }
}

impl RunContext {
    pub(super) fn downgrade(&self) -> WeakContext {
        WeakContext(Arc::downgrade(&self.0))
    }

    pub(super) fn new(
        runner: Runner,
        recorder: Recorder,
        caller: Caller,
        profile: RunProfile,
        beginning: Beginning,
    ) -> Self {
        let limits = Arc::clone(&profile.limits);
        Self(Arc::new(Inner {
            budget: Arc::new(Budget::new(limits, caller.budget.clone())),
            cancellation: caller.cancellation.child_token(),
            part: recorder.state().resumptions(),
            runner,
            recorder,
            caller,
            profile,
            beginning,
            halting: Arc::default(),
        }))
    }

    /// The same run for an instance that takes the place of another one, which is done again from this record.
    /// What it may use begins anew, since it uses it anew.
    pub(super) fn remade(&self, replay: Replay) -> Self {
        let Inner {
            runner,
            recorder,
            caller,
            profile,
            budget: _,
            beginning,
            part,
            halting,
            cancellation,
        } = &*self.0;
        let limits = Arc::clone(&profile.limits);
        Self(Arc::new(Inner {
            budget: Arc::new(Budget::new(limits, caller.budget.clone())),
            beginning: Beginning {
                seed: beginning.seed,
                origin: beginning.origin.clone(),
                began_at: beginning.began_at,
                wall_time: beginning.wall_time,
                deadline: beginning.deadline,
                replay: Some(replay),
                session: beginning.session.clone(),
            },
            part: *part,
            runner: runner.clone(),
            recorder: recorder.clone(),
            caller: caller.clone(),
            profile: profile.clone(),
            halting: Arc::clone(halting),
            cancellation: cancellation.clone(),
        }))
    }

    /// The execution that the run is, if it is one that goes on.
    pub(super) fn session(&self) -> Option<&Session> {
        self.0.beginning.session.as_ref()
    }

    /// Whether the run is that of an agent, going on or done again.
    pub(super) fn is_execution(&self) -> bool {
        self.session().is_some()
    }

    /// The run in scope, if there is one: inside [`super::Executor::call_tool`] and whatever it awaits
    /// in place. A task that it spawns is out of scope unless the context is handed to it.
    pub fn current() -> Option<Self> {
        CURRENT.try_with(Self::clone).ok()
    }

    /// Runs `work` with this run in scope.
    pub async fn scope<F: Future>(&self, work: F) -> F::Output {
        CURRENT.scope(self.clone(), work).await
    }

    /// The run's id.
    pub fn run_id(&self) -> &RunId {
        self.0.recorder.run_id()
    }

    /// Who asked for the run.
    pub(super) fn caller(&self) -> &Caller {
        &self.0.caller
    }

    /// The run that handed work to this one.
    pub fn parent_run_id(&self) -> Option<&RunId> {
        self.0.caller.parent.as_ref()
    }

    /// Whoever carries the run out; runs inside it go through the same.
    pub fn runner(&self) -> &Runner {
        &self.0.runner
    }

    /// The run's ledger.
    pub fn recorder(&self) -> &Recorder {
        &self.0.recorder
    }

    /// Fires when the run is to stop, its caller or its parent being cancelled, and when it has ended.
    pub fn cancellation(&self) -> &CancellationToken {
        &self.0.cancellation
    }

    /// Waits until the caller, or the run that this one is inside of, is cancelled.
    pub(super) async fn cancelled(&self) {
        self.0.caller.cancelled().await;
    }

    /// How long the call may take as a whole, loading included and waiting for admission not.
    pub fn deadline(&self) -> Duration {
        self.0.beginning.deadline
    }

    /// The trace that the run is in, below its caller's span.
    pub fn trace(&self) -> Option<&TraceContext> {
        self.0.caller.trace.as_ref()
    }

    /// The same trace, below the span of this call of the run; below the run's own where there is no call.
    pub fn trace_of(&self, call_id: Option<&str>) -> Option<TraceContext> {
        let trace = self.trace()?;
        let part = self.0.part;
        Some(trace.below(match call_id {
            Some(call_id) => SpanId::of(self.run_id(), part, call_id),
            None => SpanId::of_part(self.run_id(), part),
        }))
    }

    /// The client on whose behalf the run is done, where that is known.
    pub fn client(&self) -> Option<&ClientFacts> {
        self.0.caller.client()
    }

    /// The id under which the caller's request is logged.
    pub fn request_id(&self) -> Option<&str> {
        self.0.caller.request_id.as_deref()
    }

    /// What the run is held to.
    pub fn profile(&self) -> &RunProfile {
        &self.0.profile
    }

    /// What of its limits the run has used. A run inside it draws on it too.
    pub fn budget(&self) -> &Arc<Budget> {
        &self.0.budget
    }

    /// How many runs there are above this one.
    pub fn depth(&self) -> u64 {
        self.0.caller.depth
    }

    /// The run as its guest knows it: of a run that repeats the beginning of another, that one.
    pub(super) fn origin(&self) -> &RunOrigin {
        &self.0.beginning.origin
    }

    /// When this part of the run began.
    pub(super) fn began_at(&self) -> Timestamp {
        self.0.beginning.began_at
    }

    /// The wall time that this part of the run has.
    pub(super) fn wall_time(&self) -> Duration {
        self.0.beginning.wall_time
    }

    /// What is on record of the run already, when it is done again.
    pub(super) fn replay(&self) -> Option<&Replay> {
        self.0.beginning.replay.as_ref()
    }

    /// Whether nothing is ever done that is not on record.
    pub(super) fn is_record_only(&self) -> bool {
        self.replay().is_some_and(Replay::is_record_only)
    }

    /// Stops the run where it is. The first reason counts.
    pub(super) fn halt(&self, halt: Halt) {
        let _the_first_reason_counts = self.0.halting.reason.set(halt);
        self.0.halting.halted.cancel();
    }

    /// Why the run was stopped, if it was.
    pub(super) fn halt_reason(&self) -> Option<Halt> {
        self.0.halting.reason.get().cloned()
    }

    /// Waits until the run is stopped.
    pub(super) async fn halted(&self) {
        self.0.halting.halted.cancelled().await;
    }

    /// What the guest's random numbers are made from.
    pub fn seed(&self) -> Seed {
        self.0.beginning.seed
    }
}

/// The id of the run in scope; none outside a run.
pub fn run_id_from_context() -> Option<RunId> {
    RunContext::current().map(|cx| cx.run_id().clone())
}

/// The recorder of the run in scope; none outside a run.
pub fn recorder_from_context() -> Option<Recorder> {
    RunContext::current().map(|cx| cx.recorder().clone())
}

/// Who asks for a run, and what flows from there into it.
#[derive(Debug, Clone, Default)]
pub struct Caller {
    /// That of the run that the caller is, if it is one.
    cancellation: CancellationToken,
    /// One of the caller's own beside it.
    own: Option<CancellationToken>,
    parent: Option<RunId>,
    /// That of the run that the caller is.
    budget: Option<Arc<Budget>>,
    depth: u64,
    trace: Option<TraceContext>,
    request_id: Option<String>,
    client: Option<Arc<ClientFacts>>,
}

impl Caller {
    /// A caller that is no run itself.
    pub fn new() -> Self {
        Self::default()
    }

    /// The run `parent`, handing work on: the new run names it, nests one level deeper, stays in its
    /// trace and is cancelled with it.
    pub fn within(parent: &RunContext) -> Self {
        Self {
            cancellation: parent.cancellation().clone(),
            own: None,
            parent: Some(parent.run_id().clone()),
            budget: Some(Arc::clone(parent.budget())),
            depth: parent.depth().saturating_add(1),
            trace: parent.trace_of(None),
            request_id: parent.0.caller.request_id.clone(),
            // What the client asks after is the outermost run alone.
            client: parent.client().map(|client| {
                let task = None;
                Arc::new(ClientFacts {
                    task,
                    ..client.clone()
                })
            }),
        }
    }

    /// Cancels the run when `token` fires too.
    #[must_use]
    pub fn with_cancellation(mut self, token: CancellationToken) -> Self {
        self.own = Some(token);
        self
    }

    /// Places the run in the caller's trace, below the caller's span. Without it, a run that begins gets a trace
    /// of its own, and one that goes on stays where it was. The trace and the span are recorded.
    #[must_use]
    pub fn with_trace(mut self, trace: impl Into<Option<TraceContext>>) -> Self {
        self.trace = trace.into().or(self.trace);
        self
    }

    /// Says for which client of a surface the run is done, and every run inside it. It is recorded.
    #[must_use]
    pub fn with_client(mut self, client: ClientFacts) -> Self {
        self.client = Some(Arc::new(client));
        self
    }

    pub(super) fn client(&self) -> Option<&ClientFacts> {
        self.client.as_deref()
    }

    /// Passes on the id under which the caller's request is logged.
    #[must_use]
    pub fn with_request_id(mut self, request_id: impl Into<String>) -> Self {
        self.request_id = Some(request_id.into());
        self
    }

    pub(super) fn parent(&self) -> Option<&RunId> {
        self.parent.as_ref()
    }

    pub(super) fn depth(&self) -> u64 {
        self.depth
    }

    /// The same caller, of one run, all parts of which end with the token that this one has.
    pub(super) fn of_one_run(mut self) -> Self {
        self.cancellation = self.cancellation.child_token();
        self
    }

    pub(super) fn cancellation(&self) -> &CancellationToken {
        &self.cancellation
    }

    /// Waits until the caller, or the run that it is, is cancelled.
    pub(super) async fn cancelled(&self) {
        match &self.own {
            None => self.cancellation.cancelled().await,
            Some(own) => tokio::select! {
                () = own.cancelled() => {}
                () = self.cancellation.cancelled() => {}
            },
        }
    }

    pub(super) fn budget(&self) -> Option<&Arc<Budget>> {
        self.budget.as_ref()
    }

    /// The same caller, for a run whose ledger names a parent and a client, though nobody carries the one out and
    /// the other may be gone.
    pub(super) fn of_recorded(mut self, started: &RunStarted) -> Self {
        self.parent = self.parent.or_else(|| started.parent_run_id.clone());
        let client = || started.client.as_deref().cloned().map(Arc::new);
        self.client = self.client.or_else(client);
        self
    }

    pub(super) fn trace(&self) -> Option<&TraceContext> {
        self.trace.as_ref()
    }

    /// The same caller in a trace: its own, or else this one, or else a new one.
    pub(super) fn traced(mut self, recorded: Option<TraceContext>) -> Self {
        let trace = self.trace.or(recorded);
        self.trace = Some(trace.unwrap_or_else(TraceContext::generate));
        self
    }

    /// The same caller without a cancellation of its own; that of the run it is inside of stays.
    pub(super) fn detached(mut self) -> Self {
        self.own = None;
        self
    }
}
