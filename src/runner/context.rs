//! The run that code is part of: passed explicitly, and in scope for code below that has no way to be
//! passed anything.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::Runner;
use super::executor::RunProfile;
use crate::executor::Seed;
use crate::id::RunId;
use crate::ledger::Recorder;
use crate::limits::Budget;

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
    seed: Seed,
    deadline: Duration,
    /// Below the caller's own, so that ending this run ends no other of the same caller.
    cancellation: CancellationToken,
}

impl RunContext {
    pub(super) fn new(
        runner: Runner,
        recorder: Recorder,
        caller: Caller,
        profile: RunProfile,
        seed: Seed,
        deadline: Duration,
    ) -> Self {
        let limits = Arc::clone(&profile.limits);
        Self(Arc::new(Inner {
            budget: Arc::new(Budget::new(limits, caller.budget.clone())),
            cancellation: caller.cancellation.child_token(),
            runner,
            recorder,
            caller,
            profile,
            seed,
            deadline,
        }))
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
        match &self.0.caller.own {
            None => self.cancellation().cancelled().await,
            Some(own) => tokio::select! {
                () = own.cancelled() => {}
                () = self.cancellation().cancelled() => {}
            },
        }
    }

    /// How long the call may take as a whole, loading included and waiting for admission not.
    pub fn deadline(&self) -> Duration {
        self.0.deadline
    }

    /// The W3C trace id of the caller, 32 hexadecimal digits.
    pub fn trace_id(&self) -> Option<&str> {
        self.0.caller.trace_id.as_deref()
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

    /// What the guest's random numbers are made from.
    pub fn seed(&self) -> Seed {
        self.0.seed
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
    trace_id: Option<String>,
    request_id: Option<String>,
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
            trace_id: parent.0.caller.trace_id.clone(),
            request_id: parent.0.caller.request_id.clone(),
        }
    }

    /// Cancels the run when `token` fires too.
    #[must_use]
    pub fn with_cancellation(mut self, token: CancellationToken) -> Self {
        self.own = Some(token);
        self
    }

    /// Records the W3C trace that the caller is in, as 32 hexadecimal digits.
    #[must_use]
    pub fn with_trace_id(mut self, trace_id: impl Into<String>) -> Self {
        self.trace_id = Some(trace_id.into());
        self
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

    pub(super) fn trace_id(&self) -> Option<&str> {
        self.trace_id.as_deref()
    }

    /// The same caller without a cancellation of its own; that of the run it is inside of stays.
    pub(super) fn detached(mut self) -> Self {
        self.own = None;
        self
    }
}
