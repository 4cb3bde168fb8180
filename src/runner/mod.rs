//! Runs skills and keeps the record: the only place where ledger, registry and executor meet.
//!
//! [`Runner::run`] waits for the answer, [`Runner::start`] returns as soon as the run is on record.
//! Both write `run_started` durably before anything runs and the terminal event before the run is seen
//! to end, whatever happens in between: an error, a panic, a cancellation, a future that is dropped.

mod admission;
mod approval;
mod context;
mod contract;
mod dispatch;
mod error;
mod executor;
mod journal;
mod json_object;
mod live;
mod protected;
mod recovery;
mod replay;
mod resume;
mod session;
#[cfg(any(feature = "server", feature = "mcp"))]
mod shown_line;
mod skill_executor;
mod statistics;
mod suspend;
mod terminal;
mod tool_result;

use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use rand::Rng;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;

pub use crate::executor::CallError;
pub use crate::executor::{
    Descriptor, EngineError, EngineStatistics, Failure, HttpOptions, OperationDescriptor,
    RefusedFunction, Resolve, SystemResolver,
};
pub use context::{Caller, RunContext, recorder_from_context, run_id_from_context};
pub use error::{FailedRun, ResumeError, RunError};
pub use executor::{Executor, ExecutorError, RunProfile, Terms};
pub use journal::{HostToolCall, UserAnswer};
pub use json_object::{INPUT_BYTES_MAX, InputError, JsonObject};
pub use recovery::{NotRestarted, Recovered};
pub use replay::{AmbiguousCall, ReplayError, ReplayOptions, ReplayReport, ReplayVerdict};
pub use resume::ResumeOptions;
pub use session::{
    GRACE_DEFAULT, PromptRefused, Session, SessionObserver, SessionOptions, SessionSignal,
    ToolSurface, TurnEnd, WORKSPACE_GUEST_PATH,
};
#[cfg(any(feature = "server", feature = "mcp"))]
pub(crate) use shown_line::shown_line;
#[cfg(feature = "server")]
pub(crate) use shown_line::without_host_dir;
pub use skill_executor::{SkillExecutor, SkillExecutorOptions};
pub use statistics::RunnerStatistics;
pub use suspend::Gate;
pub use tool_result::{ContentBlock, ToolCallResult};

use self::admission::{Admission, Ticket};
use self::context::Beginning;
use self::dispatch::Dispatch;
use self::live::LiveRuns;
use self::statistics::Counters;
use self::suspend::WaitingRoom;
use self::terminal::{Ends, Opened};
use crate::clock::{Clock, Timestamp};
use crate::config;
use crate::executor::Seed;
use crate::id::RunId;
use crate::ledger::{Head, Json, RunOrigin, RunStarted, Store, StoreError};
use crate::limits::{LimitKey, LimitReached, Scope};
use crate::outcome::OutcomeCode;
use crate::trace_context::TraceContext;

/// The deadline of a call that sets none: as long as a wall-time limit and the time that a person has
/// to answer may be. Protects from an executor that keeps no limit of its own.
const DEADLINE_DEFAULT: Duration = Duration::from_secs(31 * 24 * 60 * 60);

/// How deep runs nest at most that are looked into. Protects from ledgers that name each other.
const RUNS_ABOVE_MAX: usize = 64;

/// A builder of runtimes that stay responsive while guests compute.
///
/// A guest that computes hands its thread back every 10 ms. Left to itself, tokio looks at timers,
/// sockets and new tasks after 61 such turns, which is more than half a second. Here it looks after
/// each. A runtime of a single thread that is only driven by `block_on` needs none of this.
pub fn runtime_builder() -> tokio::runtime::Builder {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder
        .event_interval(1)
        .global_queue_interval(1)
        .enable_all();
    builder
}

/// One request for a run.
#[derive(Debug, Clone)]
pub struct StartOptions {
    /// The name of the skill; for a component that follows no world with `.` and the operation behind it.
    pub skill: String,
    /// The skill's handler language, when the caller knows better than the executor.
    pub flavor: Option<String>,
    /// What the skill is given, as the caller spelled it.
    pub input: JsonObject,
    /// The id of the run; none: a new one.
    pub run_id: Option<RunId>,
    /// Limits and grants for this run alone.
    pub terms: Terms,
    /// Bounds the call as a whole, loading included and waiting for admission not.
    pub deadline: Duration,
    /// The execution that the run is, for an agent. Whoever launches it bounds how many there are: it waits for
    /// no place among the runs, and takes none.
    pub session: Option<Session>,
}

impl StartOptions {
    /// A run of `skill` with this input and nothing else set.
    pub fn new(skill: impl Into<String>, input: JsonObject) -> Self {
        Self {
            skill: skill.into(),
            flavor: None,
            input,
            run_id: None,
            terms: Terms::default(),
            deadline: DEADLINE_DEFAULT,
            session: None,
        }
    }
}

/// A run that ended with an answer.
#[derive(Debug, Clone, PartialEq)]
pub struct RunOutcome {
    /// The run.
    pub run_id: RunId,
    /// The time of its first event.
    pub started_at: Timestamp,
    /// [`OutcomeCode::Ok`], or [`OutcomeCode::SkillError`] when the answer says that it is an error.
    pub code: OutcomeCode,
    /// The answer.
    pub result: ToolCallResult,
    /// What to do about it, when it says that it is an error and there is something to do.
    pub hint: Option<String>,
    /// Microseconds of work, time in the queue apart.
    pub duration_micros: u64,
    /// The last line of the ledger; whoever keeps it can tell later that no line is missing.
    pub head: Head,
}

/// A run that is on record and going on.
#[derive(Debug)]
pub struct Started {
    /// The run.
    pub run_id: RunId,
    /// The time of its first event.
    pub started_at: Timestamp,
    /// The way to its end. Dropping it changes nothing.
    pub handle: RunHandle,
}

/// The way to the end of a run that was started.
#[derive(Debug)]
pub struct RunHandle {
    cancellation: CancellationToken,
    work: JoinHandle<Result<RunOutcome, RunError>>,
}

impl RunHandle {
    /// Cancels the run; it ends within a moment, and [`RunHandle::wait`] tells when.
    pub fn cancel(&self) {
        self.cancellation.cancel();
    }

    /// As [`RunHandle::wait`]; the run is cancelled when `token` fires.
    ///
    /// # Errors
    /// As [`RunHandle::wait`].
    pub async fn wait_or_cancel(self, token: CancellationToken) -> Result<RunOutcome, RunError> {
        let cancellation = self.cancellation.clone();
        let mut ended = std::pin::pin!(self.wait());
        tokio::select! {
            ended = &mut ended => return ended,
            () = token.cancelled() => cancellation.cancel(),
        }
        ended.await
    }

    /// Waits for the end.
    ///
    /// # Errors
    /// The run has no answer. [`RunError::ShuttingDown`] when the runtime itself stopped.
    pub async fn wait(self) -> Result<RunOutcome, RunError> {
        self.work.await.unwrap_or(Err(RunError::ShuttingDown))
    }
}

/// What a runner is made of.
pub struct RunnerOptions {
    /// Where ledgers go.
    pub store: Store,
    /// Who carries runs out.
    pub executor: Arc<dyn Executor>,
    /// How many go on at once and how many wait.
    pub admission: config::Admission,
    /// Where time comes from.
    pub clock: Clock,
}

/// Runs skills and keeps the record. Cheap to clone; clones share admission and shutdown.
#[derive(Clone)]
pub struct Runner(Arc<Inner>);

struct Inner {
    store: Store,
    executor: RwLock<Arc<dyn Executor>>,
    admission: Admission,
    clock: Clock,
    shutdown: CancellationToken,
    work: TaskTracker,
    waiting: Arc<WaitingRoom>,
    live: Arc<LiveRuns>,
    counters: Arc<Counters>,
}

impl Inner {
    fn ends(&self, work: TaskTrackerToken) -> Ends {
        Ends {
            shutdown: self.shutdown.clone(),
            counters: Arc::clone(&self.counters),
            work,
        }
    }
}

impl Runner {
    /// A runner that takes runs at once.
    pub fn new(options: RunnerOptions) -> Self {
        Self(Arc::new(Inner {
            store: options.store,
            executor: RwLock::new(options.executor),
            admission: Admission::new(options.admission),
            clock: options.clock,
            shutdown: CancellationToken::new(),
            work: TaskTracker::new(),
            waiting: Arc::default(),
            live: Arc::default(),
            counters: Arc::default(),
        }))
    }

    /// Where time comes from.
    pub fn clock(&self) -> &Clock {
        &self.0.clock
    }

    /// Who carries runs out from now on.
    pub fn executor(&self) -> Arc<dyn Executor> {
        let executor = self.0.executor.read();
        Arc::clone(&executor.unwrap_or_else(PoisonError::into_inner))
    }

    /// Lets another one carry out the runs that begin, or go on, from now on. Those that have begun stay with
    /// the one that they began with.
    pub fn replace_executor(&self, executor: Arc<dyn Executor>) {
        let held = self.0.executor.write();
        let before =
            std::mem::replace(&mut *held.unwrap_or_else(PoisonError::into_inner), executor);
        // Dropping an engine takes a while, during which nobody should have to wait for the lock.
        drop(before);
    }

    /// The store that the ledgers are in.
    pub fn store(&self) -> &Store {
        &self.0.store
    }

    /// Runs a skill and waits for its answer. The caller's cancellation flows through, and so does
    /// dropping the future: either stops the guest and is recorded as `cancelled`.
    ///
    /// # Errors
    /// The run was refused before anything was written, or it is on record and has no answer.
    pub async fn run(&self, caller: Caller, options: StartOptions) -> Result<RunOutcome, RunError> {
        let dispatch = self.begin(caller, options).await?;
        dispatch.carry_out().await
    }

    /// Starts a run and returns once its first event is durable, so that its id can be given away at
    /// once. The work keeps the caller's trace and request ids and not its cancellation: it ends on
    /// [`RunHandle::cancel`], at its deadline, with the run that it is inside of, or when the process
    /// shuts down.
    ///
    /// # Errors
    /// The run was refused before anything was written.
    pub async fn start(&self, caller: Caller, options: StartOptions) -> Result<Started, RunError> {
        Ok(self.carry_on(self.begin(caller.detached(), options).await?))
    }

    /// Carries a run out in a task of its own.
    fn carry_on(&self, dispatch: Dispatch) -> Started {
        let (run_id, started_at) = (dispatch.cx.run_id().clone(), dispatch.started_at);
        let cancellation = dispatch.cx.caller().cancellation().clone();
        let work = dispatch.carry_out();
        Started {
            run_id,
            started_at,
            handle: RunHandle {
                cancellation,
                work: self.0.work.spawn(work),
            },
        }
    }

    /// Takes no more runs and interrupts those that go on; they can be resumed. It does not wait.
    pub fn interrupt(&self) {
        self.0.shutdown.cancel();
    }

    pub(super) fn is_shutting_down(&self) -> bool {
        self.0.shutdown.is_cancelled()
    }

    /// As [`Runner::interrupt`], and waits until every run has its terminal event. Whoever drives a
    /// [`Runner::run`] has to go on driving it meanwhile.
    pub async fn shutdown(&self) {
        self.interrupt();
        self.0.work.close();
        self.0.work.wait().await;
    }

    /// Reads ledgers, which may be long, on a thread where nobody waits for others.
    async fn reading<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Self) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let runner = self.clone();
        let read = tokio::task::spawn_blocking(move || read(&runner)).await;
        read.unwrap_or(Err(StoreError::ShutDown))
    }

    /// Everything up to the durable first event. Nothing is written when it fails.
    async fn begin(&self, caller: Caller, options: StartOptions) -> Result<Dispatch, RunError> {
        let inner = &self.0;
        let work = inner.work.token();
        let asked = inner.clock.stopwatch();
        if options.skill.is_empty() {
            return Err(RunError::NoSkill);
        }
        if self.is_shutting_down() {
            return Err(RunError::ShuttingDown);
        }
        let executor = self.executor();
        let profile = executor.profile(&options.skill, &options.terms)?;
        let caller = caller.of_one_run().traced(None);
        let admit = match &options.session {
            None => Admit::IfThereIsRoom,
            Some(_) => Admit::Outside,
        };
        let ticket = self.admit(&caller, &profile, admit)?;
        let mut seed = Seed::default();
        rand::rng().fill_bytes(&mut seed);
        let started = run_started(&caller, &options, &profile, &seed);
        let run_id = options.run_id.unwrap_or_else(RunId::generate);
        let wall_time = Duration::from_millis(wall_time_ms(&caller, &profile));
        let origin_id = run_id.clone();
        let (opened, recorder, appended) =
            Opened::create(&inner.store, run_id.clone(), started, inner.ends(work))
                .await
                .map_err(|source| RunError::NoLedger { run_id, source })?;
        inner.counters.started();
        let cx = RunContext::new(
            self.clone(),
            recorder,
            caller,
            profile,
            Beginning {
                seed,
                origin: RunOrigin {
                    run_id: origin_id,
                    started_at: appended.time,
                },
                began_at: appended.time,
                wall_time,
                deadline: options.deadline,
                replay: None,
                session: options.session.clone(),
            },
        );
        Ok(Dispatch {
            live: inner.live.enter(&cx),
            executor,
            cx,
            opened,
            started_at: appended.time,
            ticket,
            again: ResumeOptions {
                skill: Some(options.skill.clone()),
                terms: options.terms,
                deadline: options.deadline,
                session: options.session,
                ..ResumeOptions::default()
            },
            skill: options.skill,
            input: options.input,
            asked,
            shutdown: inner.shutdown.clone(),
        })
    }
}

/// Whether a run may be sent away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Admit {
    /// When as many wait as may.
    IfThereIsRoom,
    /// Never: it was there before.
    Always,
    /// Never: somebody else sees to how many there are.
    Outside,
}

impl Runner {
    /// Gives a run its place among those that go on, now or later.
    fn admit(
        &self,
        caller: &Caller,
        profile: &RunProfile,
        admit: Admit,
    ) -> Result<Ticket, RunError> {
        let depth_limit = profile.limits.get(LimitKey::NestingDepth);
        if caller.depth() > depth_limit.value {
            return Err(RunError::TooDeep(LimitReached {
                key: LimitKey::NestingDepth,
                limit: depth_limit,
                scope: Scope::Run,
            }));
        }
        let admission = &self.0.admission;
        if admit == Admit::Outside {
            return Ok(Admission::outside());
        }
        if admit == Admit::Always && caller.depth() == 0 {
            return Ok(admission.ask_again());
        }
        admission.ask(caller.depth()).map_err(|_full| {
            self.0.counters.refused();
            let bounds = admission.bounds();
            RunError::Busy {
                at_once_max: bounds.at_once_max,
                queue_max: bounds.queue_max,
            }
        })
    }
}

/// The first event of a run.
fn run_started(
    caller: &Caller,
    options: &StartOptions,
    profile: &RunProfile,
    seed: &Seed,
) -> RunStarted {
    RunStarted {
        skill: options.skill.clone(),
        flavor: options.flavor.clone().or_else(|| profile.flavor.clone()),
        input: options.input.json().clone(),
        input_digest: Some(options.input.digest().to_string()),
        parent_run_id: caller.parent().cloned(),
        trace_id: caller.trace().map(|trace| trace.trace_id().to_string()),
        parent_span_id: caller.trace().and_then(parent_span_id),
        trace_unsampled: caller.trace().is_some_and(|trace| !trace.is_sampled()),
        component_digest: profile.component_digest.clone(),
        policy: Json::from_serialize(&*profile.policy).ok(),
        limits: Json::from_serialize(&*profile.limits).ok(),
        environment: recorded_environment(profile),
        wall_time_ms: Some(wall_time_ms(caller, profile)),
        seed: Some(hex(seed)),
        session: options
            .session
            .as_ref()
            .map(|session| Box::new(session.facts().clone())),
        client: caller.client().cloned().map(Box::new),
        ..RunStarted::default()
    }
}

/// The caller's span, as it is recorded.
fn parent_span_id(trace: &TraceContext) -> Option<String> {
    trace.parent_span_id().map(|id| id.to_string())
}

/// The wall time of a run: its own limit, or what is left of those above it.
fn wall_time_ms(caller: &Caller, profile: &RunProfile) -> u64 {
    let own = profile.limits.value(LimitKey::WallTimeMs);
    let above = caller.budget().map(|budget| budget.wall_time_left().0);
    let above = above.map(|left| u64::try_from(left.as_millis()).unwrap_or(u64::MAX));
    above.map_or(own, |above| own.min(above))
}

fn recorded_environment(profile: &RunProfile) -> Option<Json> {
    let environment = &*profile.environment;
    let recorded = Json::from_serialize(environment).ok();
    recorded.filter(|_| !environment.is_empty())
}

fn hex(bytes: &[u8]) -> String {
    let digits =
        |byte: &u8| [byte >> 4, byte & 0xf].map(|digit| char::from_digit(digit.into(), 16));
    bytes.iter().flat_map(digits).flatten().collect()
}
