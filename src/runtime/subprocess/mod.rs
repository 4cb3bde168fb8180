//! Executions in processes of their own, so that one can be killed outright, whatever its agent does.
//!
//! The worker is this program once more. It writes the ledger of its one execution and is told what to do by frames
//! on its standard input; when that ends, because this process is gone, it ends at once.

mod asked;
mod frame;
mod process;
mod worker;

use std::collections::{HashMap, VecDeque};
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use async_trait::async_trait;
use tokio::process::ChildStdout;
use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot};
use tokio::task::{AbortHandle, JoinSet};
use tokio_util::sync::CancellationToken;

use self::asked::{Ask, Rights, Told};
use self::frame::{FromWorker, Incoming, Launch, Outgoing, ToWorker};
use self::process::{Pipes, Process};
use super::backend::{
    Backend, BackendError, BackendHealth, CreateRequest, Created, End, Instance, Isolation,
};
use super::event::REASON_INTERRUPTED;
use super::modes::{ModeParts, Refusal, RefusalCode};
use super::record;
use super::state::Ending;
use crate::clock::Timestamp;
use crate::id::{ExecutionId, RunId};
use crate::ledger::{RunCompleted, RunStatus, StoreError};
use crate::outcome::OutcomeCode;
use crate::runner::{PromptRefused, Runner, SessionObserver, ToolSurface};
use crate::telemetry::chain;

pub use self::frame::{respell_daemon_frames, respell_worker_frames};
pub use self::worker::{WorkerError, work};

/// The name of the backend.
pub const SUBPROCESS: &str = "subprocess";

/// How long a worker may take to put its first event on record. Protects launches from a program that is none.
const START_TIMEOUT: Duration = Duration::from_secs(60);
/// How long it may take to change its tools, to end as interrupted, and to end after its execution has.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// Frames that wait to be sent to a worker. There is one prompt at a time, so that more are a sign that it does not
/// read.
const FRAMES_MAX: usize = 64;

/// What the tools of one execution may ask for at once. Protects this process from a worker that asks without end.
const ASKED_MAX: usize = 256;

/// Which program a worker is.
#[derive(Debug, Clone)]
pub struct WorkerProgram {
    /// The program.
    pub program: PathBuf,
    /// Its arguments.
    pub arguments: Vec<OsString>,
    /// Variables that it is given beside those of this process.
    pub environment: Vec<(OsString, OsString)>,
}

/// Carries each execution out in a process of its own.
pub struct Subprocess {
    worker: WorkerProgram,
    runner: Runner,
    parts: Option<ModeParts>,
    live: Arc<Live>,
}

/// The workers that there are.
#[derive(Default)]
struct Live {
    workers: Mutex<HashMap<RunId, Weak<Worker>>>,
    /// Fires when all of them are to end as interrupted, also those that come later.
    interrupted: CancellationToken,
}

impl Live {
    fn workers(&self) -> MutexGuard<'_, HashMap<RunId, Weak<Worker>>> {
        self.workers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ready when workers were told to end as interrupted and have had their time for that.
    async fn overdue(&self) {
        self.interrupted.cancelled().await;
        tokio::time::sleep(ANSWER_TIMEOUT).await;
    }
}

impl Subprocess {
    /// Carries them out by this program. The runner is the one whose store has their ledgers.
    pub fn new(worker: WorkerProgram, runner: Runner) -> Self {
        Self {
            worker,
            runner,
            parts: None,
            live: Arc::default(),
        }
    }

    /// Lets the tools of executions reach these, which are not in their processes: children, skills and limits.
    #[must_use]
    pub fn with_parts(mut self, parts: ModeParts) -> Self {
        self.parts = Some(parts);
        self
    }

    fn unavailable(reason: impl Into<String>) -> BackendError {
        BackendError::Unavailable {
            name: SUBPROCESS.to_owned(),
            reason: reason.into(),
        }
    }
}

#[async_trait]
impl Backend for Subprocess {
    fn name(&self) -> &str {
        SUBPROCESS
    }

    fn isolation(&self) -> Isolation {
        Isolation::Process
    }

    async fn health(&self) -> BackendHealth {
        match std::fs::metadata(&self.worker.program) {
            Ok(metadata) if metadata.is_file() => BackendHealth::Healthy,
            Ok(_) => BackendHealth::Unhealthy("the worker is no file".to_owned()),
            Err(error) => BackendHealth::Unhealthy(format!("no worker: {error}")),
        }
    }

    async fn create(&self, request: CreateRequest) -> Result<Created, BackendError> {
        let started = Process::start(&self.worker);
        let (process, Pipes { stdin, stdout }) = started.map_err(Self::unavailable)?;
        let agent = &request.facts.agent_profile_id;
        let profile = self.runner.executor().profile(agent, &request.terms);
        let rights = Rights {
            policy: profile.map(|profile| profile.policy).unwrap_or_default(),
            mode: request.surface.mode.clone(),
        };
        let mut supervisor = Supervisor {
            runner: self.runner.clone(),
            run_id: request.run_id.clone(),
            process: Some(process),
            incoming: Incoming::new(stdout),
            observer: Arc::clone(&request.observer),
            parts: self.parts.clone(),
            execution: request.facts.execution_id.clone(),
            rights,
            asked: JoinSet::new(),
            taken_back: HashMap::new(),
            live: Arc::clone(&self.live),
        };
        let mut outgoing = Outgoing::new(stdin);
        let launch = ToWorker::Launch(Box::new(launch(request)));
        let sent = outgoing.send(&launch).await;
        sent.map_err(|error| Self::unavailable(format!("the worker takes nothing: {error}")))?;
        let started_at = tokio::select! {
            started = supervisor.started() => started?,
            () = tokio::time::sleep(START_TIMEOUT) => {
                let seconds = START_TIMEOUT.as_secs();
                return Err(Self::unavailable(format!(
                    "the worker did not begin within {seconds} s"
                )));
            }
            () = self.live.overdue() => {
                return Err(Self::unavailable("the worker did not begin before the shutdown"));
            }
        };
        let (frames, to_send) = mpsc::channel(FRAMES_MAX);
        let worker = Arc::new(Worker {
            frames,
            killed: CancellationToken::new(),
            state: Mutex::default(),
            live: Arc::clone(&self.live),
            run_id: supervisor.run_id.clone(),
        });
        let mut workers = self.live.workers();
        workers.insert(worker.run_id.clone(), Arc::downgrade(&worker));
        drop(workers);
        // After that it is found by whoever interrupts all; before, it has to look itself.
        if self.live.interrupted.is_cancelled() {
            worker.send(ToWorker::Interrupt);
        }
        tokio::spawn(send(outgoing, to_send, worker.killed.clone()));
        let (ended, end) = oneshot::channel();
        let (killed, state) = (worker.killed.clone(), Arc::downgrade(&worker));
        tokio::spawn(async move {
            // Whoever waited for it may be gone.
            let _waited_for = ended.send(supervisor.supervise(killed, state).await);
        });
        Ok(Created {
            instance: worker,
            started_at,
            ended: Box::pin(async {
                let gone = |_| End::failed(OutcomeCode::Internal, "nobody supervised the worker");
                end.await.unwrap_or_else(gone)
            }),
        })
    }

    async fn recover(&self) -> Result<(), BackendError> {
        // Workers of an earlier process ended with it, and whoever recovers the ledgers closes theirs.
        Ok(())
    }

    fn interrupt(&self) {
        self.live.interrupted.cancel();
        let workers: Vec<_> = self
            .live
            .workers()
            .values()
            .filter_map(Weak::upgrade)
            .collect();
        for worker in workers {
            worker.send(ToWorker::Interrupt);
        }
    }
}

fn launch(request: CreateRequest) -> Launch {
    let grants = request.terms.grants.iter().map(ToString::to_string);
    Launch {
        run_id: request.run_id,
        part: request.part,
        facts: request.facts,
        metadata: request.metadata.as_str().to_owned(),
        limits: request.terms.limits,
        grants: grants.collect(),
        approvals: request.terms.approvals,
        mode: request.surface.mode,
        grace_ms: u64::try_from(request.grace.as_millis()).unwrap_or(u64::MAX),
    }
}

/// Sends frames until the worker is gone. One that does not read them is of no use any more.
async fn send(
    mut outgoing: Outgoing<tokio::process::ChildStdin>,
    mut frames: mpsc::Receiver<ToWorker>,
    killed: CancellationToken,
) {
    while let Some(frame) = frames.recv().await {
        let sent = tokio::select! {
            sent = outgoing.send(&frame) => sent,
            () = killed.cancelled() => return,
        };
        if sent.is_err() {
            return;
        }
    }
}

/// The way to a worker. When it is dropped, the worker is killed.
struct Worker {
    frames: mpsc::Sender<ToWorker>,
    killed: CancellationToken,
    state: Mutex<WorkerState>,
    live: Arc<Live>,
    run_id: RunId,
}

#[derive(Default)]
struct WorkerState {
    /// Why it was told to end.
    reason: Option<String>,
    /// The modes that are to be, one after the other, and who waits for each.
    mode_waiters: VecDeque<(String, oneshot::Sender<Result<(), String>>)>,
}

impl Worker {
    fn state(&self) -> MutexGuard<'_, WorkerState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends a frame, and kills a worker that reads none.
    fn send(&self, frame: ToWorker) -> bool {
        let sent = self.frames.try_send(frame);
        if let Err(mpsc::error::TrySendError::Full(_)) = &sent {
            self.killed.cancel();
        }
        sent.is_ok()
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.killed.cancel();
        let mut workers = self.live.workers();
        // A later part of the same ledger may have taken its place.
        if workers
            .get(&self.run_id)
            .is_some_and(|worker| worker.strong_count() == 0)
        {
            workers.remove(&self.run_id);
        }
    }
}

#[async_trait]
impl Instance for Worker {
    fn prompt(&self, generation: u64, text: String) -> Result<(), PromptRefused> {
        match self.send(ToWorker::Prompt { generation, text }) {
            true => Ok(()),
            false => Err(PromptRefused),
        }
    }

    fn cancel_turn(&self, generation: u64) {
        self.send(ToWorker::CancelTurn { generation });
    }

    async fn set_surface(&self, surface: ToolSurface) -> Result<(), BackendError> {
        let (answer, answered) = oneshot::channel();
        {
            // Under one lock, so that answers come in the order of those who wait.
            let mut state = self.state();
            let mode = surface.mode;
            if !self.send(ToWorker::SetMode { mode: mode.clone() }) {
                return Err(BackendError::Over);
            }
            state.mode_waiters.push_back((mode, answer));
        }
        match tokio::time::timeout(ANSWER_TIMEOUT, answered).await {
            Ok(Ok(Ok(()))) => Ok(()),
            Ok(Ok(Err(reason))) => Err(Subprocess::unavailable(reason)),
            Ok(Err(_gone)) => Err(BackendError::Over),
            Err(_elapsed) => {
                // It may change its tools later all the same, when everybody takes them for the old ones.
                self.killed.cancel();
                Err(Subprocess::unavailable("the worker does not answer"))
            }
        }
    }

    fn finish(&self, reason: &str) {
        self.state().reason.get_or_insert_with(|| reason.to_owned());
        let reason = reason.to_owned();
        self.send(ToWorker::Finish { reason });
    }

    fn stop(&self) {
        self.killed.cancel();
    }
}

/// What watches over a worker until it is gone.
struct Supervisor {
    runner: Runner,
    run_id: RunId,
    /// None when it is gone and its ledger has an end.
    process: Option<Process>,
    incoming: Incoming<ChildStdout>,
    observer: Arc<dyn SessionObserver>,
    parts: Option<ModeParts>,
    execution: ExecutionId,
    rights: Rights,
    /// What its tools ask for. It ends with this.
    asked: JoinSet<(u64, Told)>,
    taken_back: HashMap<u64, AbortHandle>,
    live: Arc<Live>,
}

impl Supervisor {
    /// Waits until the first event is on record.
    async fn started(&mut self) -> Result<Timestamp, BackendError> {
        match self.incoming.next().await {
            Ok(Some(FromWorker::Started { at })) => Ok(at),
            Ok(Some(FromWorker::Refused {
                code,
                message,
                hint,
            })) => {
                // It has begun nothing, and ends by itself.
                self.process = None;
                Err(BackendError::Refused {
                    code,
                    message,
                    hint,
                })
            }
            Ok(Some(_)) => Err(Subprocess::unavailable("the worker did not begin")),
            Ok(None) => Err(Subprocess::unavailable("the worker ended before it began")),
            Err(error) => Err(Subprocess::unavailable(format!(
                "the worker cannot be understood: {error}"
            ))),
        }
    }

    /// Passes on what the worker tells, until it is gone and its ledger has an end.
    async fn supervise(mut self, killed: CancellationToken, worker: Weak<Worker>) -> End {
        let live = Arc::clone(&self.live);
        let mut overdue = std::pin::pin!(live.overdue());
        let mut is_overdue = false;
        let problem = loop {
            let frame = tokio::select! {
                frame = self.incoming.next::<FromWorker>() => frame,
                () = killed.cancelled() => break "it was killed".to_owned(),
                () = &mut overdue => {
                    is_overdue = true;
                    break "it did not end when it was interrupted".to_owned();
                }
                Some(told) = self.asked.join_next() => {
                    self.tell(told.ok(), &worker);
                    continue;
                }
            };
            match frame {
                Ok(Some(FromWorker::Ask { number, ask })) => self.carry_out(number, ask, &worker),
                Ok(Some(FromWorker::TakeBack { number })) => {
                    if let Some(asked) = self.taken_back.remove(&number) {
                        asked.abort();
                    }
                }
                Ok(Some(FromWorker::Signal { signal })) => self.observer.signal(signal),
                Ok(Some(FromWorker::ModeSet { error })) => {
                    let waiter = worker
                        .upgrade()
                        .and_then(|worker| worker.state().mode_waiters.pop_front());
                    if let Some((mode, waiter)) = waiter {
                        if error.is_none() {
                            self.rights.mode = mode;
                        }
                        // Whoever asked may not wait any more.
                        let _answered = waiter.send(error.map_or(Ok(()), Err));
                    }
                }
                Ok(Some(FromWorker::Ended { end })) => {
                    if let Some(process) = self.process.take() {
                        process.ended(ANSWER_TIMEOUT).await;
                    }
                    return end;
                }
                Ok(Some(FromWorker::Started { .. } | FromWorker::Refused { .. })) => {
                    break "it began twice".to_owned();
                }
                Ok(None) => break "it ended without a word".to_owned(),
                Err(error) => break format!("it cannot be understood: {error}"),
            }
        };
        let reason = worker
            .upgrade()
            .and_then(|worker| worker.state().reason.clone());
        let is_killed = killed.is_cancelled();
        let status = match self.process.take() {
            Some(process) => process.killed().await,
            None => None,
        };
        let end = match reason.filter(|_| is_killed) {
            Some(reason) => End::stopped(OutcomeCode::Cancelled, reason),
            None if is_overdue => End::stopped(OutcomeCode::Interrupted, REASON_INTERRUPTED),
            None => End::failed(OutcomeCode::Internal, gone(&problem, status)),
        };
        self.close(end).await
    }

    /// Does what a tool asks for, beside everything else.
    fn carry_out(&mut self, number: u64, ask: Ask, worker: &Weak<Worker>) {
        if self.asked.len() >= ASKED_MAX {
            let problem = format!("{ASKED_MAX} tools of the execution ask for something already");
            let refusal = Refusal::new(RefusalCode::Full, problem);
            return self.tell(Some((number, Told::Refused { refusal })), worker);
        }
        let (parts, execution) = (self.parts.clone(), self.execution.clone());
        let rights = self.rights.clone();
        let asked = self.asked.spawn(async move {
            let told = asked::carry_out(parts.as_ref(), &execution, &rights, ask).await;
            (number, told)
        });
        self.taken_back.insert(number, asked);
    }

    /// Answers a tool; nothing of what was taken back is answered.
    fn tell(&mut self, told: Option<(u64, Told)>, worker: &Weak<Worker>) {
        let Some((number, told)) = told else {
            return;
        };
        self.taken_back.remove(&number);
        if let Some(worker) = worker.upgrade() {
            worker.send(ToWorker::Tell { number, told });
        }
    }

    /// Puts on record how the execution ended whose worker is gone, unless that could do so itself.
    async fn close(&self, end: End) -> End {
        let (status, error) = match end.ending {
            Ending::Stopped => (RunStatus::Interrupted, None),
            _ => (RunStatus::Error, Some(end.message.as_str().into())),
        };
        let completed = RunCompleted {
            error,
            stop_reason: Some(end.stop_reason.as_str())
                .filter(|reason| !reason.is_empty())
                .map(Into::into),
            ..RunCompleted::new(status, end.code)
        };
        match self.runner.close_execution(&self.run_id, completed).await {
            Ok(()) => end,
            Err(StoreError::Ended { .. }) => self.recorded_end().await.unwrap_or(end),
            Err(error) => {
                let run_id = &self.run_id;
                tracing::error!(%run_id, error = chain(&error), "cannot record an end");
                End {
                    teardown_error: Some(chain(&error)),
                    ..end
                }
            }
        }
    }
}

impl Supervisor {
    /// What the worker itself put on record before it was gone: nobody is told of another end than that.
    async fn recorded_end(&self) -> Option<End> {
        let (store, id) = (self.runner.store().clone(), self.execution.clone());
        let read = tokio::task::spawn_blocking(move || record::end(&store, &id)).await;
        match read.unwrap_or(Err(StoreError::ShutDown)) {
            Ok(end) => end,
            Err(error) => {
                let id = &self.execution;
                tracing::error!(%id, error = chain(&error), "cannot read an end");
                None
            }
        }
    }
}

/// A worker that nobody supervises any more, because its launch was given up, is killed, and its ledger, if it has
/// begun one, gets an end after which it can be taken up.
impl Drop for Supervisor {
    fn drop(&mut self) {
        let (Some(process), Ok(runtime)) = (self.process.take(), Handle::try_current()) else {
            return;
        };
        let (runner, run_id) = (self.runner.clone(), self.run_id.clone());
        runtime.spawn(async move {
            process.killed().await;
            let end = RunCompleted::new(RunStatus::Interrupted, OutcomeCode::Interrupted);
            match runner.close_execution(&run_id, end).await {
                Ok(()) | Err(StoreError::Ended { .. } | StoreError::NotFound { .. }) => {}
                Err(error) => {
                    tracing::error!(%run_id, error = chain(&error), "cannot record an end");
                }
            }
        });
    }
}

/// What is said of a worker that is gone.
fn gone(problem: &str, status: Option<ExitStatus>) -> String {
    match status {
        Some(status) => format!("the worker is gone ({status}): {problem}"),
        None => format!("the worker is gone: {problem}"),
    }
}
