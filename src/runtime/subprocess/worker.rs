//! A worker: the process that carries one execution out.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::mpsc;

use super::asked::{Asking, Waiting};
use super::frame::{FromWorker, Incoming, Launch, Outgoing, ToWorker};
use crate::capability::Capability;
use crate::id::ExecutionId;
use crate::runner::{JsonObject, Runner, SessionObserver, SessionSignal, Terms};
use crate::runtime::backend::{Backend, BackendError, CreateRequest, Created, Instance};
use crate::runtime::in_process::InProcess;
use crate::runtime::mode::{Mode, ModeTools};
use crate::runtime::modes::{Children, ModeParts, ModeToolset};
use crate::telemetry::chain;
use crate::tools::ToolNameError;

/// Frames that wait to be sent. What becomes of an execution is a few of them for each prompt, and there is one
/// prompt at a time.
const FRAMES_MAX: usize = 256;

/// How long what goes on has to end once nobody is there to be told of it. Protects the machine from a worker that
/// nobody knows of.
const SHUTDOWN_TIME_MAX: Duration = Duration::from_secs(10);

/// Why a worker ended before its execution did.
#[derive(Debug, thiserror::Error)]
pub enum WorkerError {
    /// Whoever started it is gone, or says what cannot be understood.
    #[error("cannot read what to do")]
    Read(#[source] io::Error),
    /// Nobody is there any more to be told.
    #[error("cannot tell what became of the execution")]
    Write(#[source] io::Error),
    /// The tools of its modes cannot be made.
    #[error("cannot offer tools")]
    Tools(#[from] ToolNameError),
    /// It was told nothing, or something else than to begin.
    #[error("the first frame does not begin an execution")]
    NoLaunch,
    /// Whoever started it is gone.
    #[error("whoever started this worker is gone")]
    Abandoned,
}

struct Told(mpsc::Sender<FromWorker>);

impl SessionObserver for Told {
    fn signal(&self, signal: SessionSignal) {
        if self.0.try_send(FromWorker::Signal { signal }).is_err() {
            tracing::error!("cannot tell what became of the execution");
        }
    }
}

/// Carries out the execution that comes in, by this runner, until it ended or nobody is there any more.
///
/// # Errors
/// The other side is gone, or says what cannot be understood. The execution was interrupted then, if it could be,
/// and the process should end, whatever the agent does.
pub async fn work(
    runner: Runner,
    documents_dir: PathBuf,
    input: impl AsyncRead + Unpin,
    output: impl AsyncWrite + Unpin,
) -> Result<(), WorkerError> {
    let mut incoming = Incoming::new(input);
    let mut outgoing = Outgoing::new(output);
    let first = incoming.next().await.map_err(WorkerError::Read)?;
    let Some(ToWorker::Launch(launch)) = first else {
        return Err(WorkerError::NoLaunch);
    };
    let (told, to_tell) = mpsc::channel(FRAMES_MAX);
    let (asks, to_ask) = mpsc::channel(FRAMES_MAX);
    let waiting = Arc::<Waiting>::default();
    let tools = toolset(Asking::new(asks, Arc::clone(&waiting)), documents_dir)?;
    let backend = InProcess::new(runner.clone());
    let execution = launch.facts.execution_id.clone();
    let created = create(&backend, *launch, &tools, told).await;
    let mut created = match created {
        Ok(created) => created,
        Err(error) => {
            let refused = refused(&error);
            return outgoing.send(&refused).await.map_err(WorkerError::Write);
        }
    };
    let mut serving = Serving {
        incoming,
        outgoing,
        to_tell,
        to_ask,
        waiting,
        tools,
        execution,
        backend,
    };
    let served = serving.serve(&mut created).await;
    // Before the execution is dropped: one that nobody waits for is interrupted, and not cancelled.
    let shutdown = tokio::time::timeout(SHUTDOWN_TIME_MAX, runner.shutdown());
    if shutdown.await.is_err() {
        tracing::error!("the execution does not end");
    }
    served
}

/// A worker whose execution has begun.
struct Serving<R, W> {
    incoming: Incoming<R>,
    outgoing: Outgoing<W>,
    to_tell: mpsc::Receiver<FromWorker>,
    to_ask: mpsc::Receiver<FromWorker>,
    waiting: Arc<Waiting>,
    tools: ModeToolset,
    execution: ExecutionId,
    backend: InProcess,
}

impl<R: AsyncRead + Unpin, W: AsyncWrite + Unpin> Serving<R, W> {
    async fn send(&mut self, frame: &FromWorker) -> Result<(), WorkerError> {
        self.outgoing.send(frame).await.map_err(WorkerError::Write)
    }

    /// Passes on what becomes of the execution and what it is told, until it ended.
    async fn serve(&mut self, created: &mut Created) -> Result<(), WorkerError> {
        let at = created.started_at;
        self.send(&FromWorker::Started { at }).await?;
        let mut end = None;
        loop {
            tokio::select! {
                biased;
                Some(frame) = self.to_tell.recv() => self.send(&frame).await?,
                Some(frame) = self.to_ask.recv(), if end.is_none() => self.send(&frame).await?,
                // What was told before the end has been sent by now.
                ended = &mut created.ended, if end.is_none() => end = Some(ended),
                frame = self.incoming.next(), if end.is_none() => {
                    let frame = frame.map_err(WorkerError::Read)?;
                    self.obey(frame.ok_or(WorkerError::Abandoned)?, &*created.instance).await?;
                }
                else => return Ok(()),
            }
            if let Some(end) = end.take_if(|_| self.to_tell.is_empty()) {
                return self.send(&FromWorker::Ended { end }).await;
            }
        }
    }

    /// Does what a frame says, and answers where it takes an answer.
    async fn obey(&mut self, frame: ToWorker, instance: &dyn Instance) -> Result<(), WorkerError> {
        match frame {
            ToWorker::Launch(_) => tracing::error!("told to begin a second time"),
            ToWorker::Prompt { generation, text } => {
                if let Err(refused) = instance.prompt(generation, text) {
                    tracing::warn!(
                        generation,
                        error = chain(&refused),
                        "a prompt came too late"
                    );
                }
            }
            ToWorker::CancelTurn { generation } => instance.cancel_turn(generation),
            ToWorker::SetMode { mode } => {
                let set = match mode.parse() {
                    Ok(mode) => {
                        let surface = self.tools.surface(mode, &self.execution);
                        instance.set_surface(surface).await
                    }
                    Err(_unknown) => Err(BackendError::Over),
                };
                let error = set.err().map(|error| chain(&error));
                self.send(&FromWorker::ModeSet { error }).await?;
            }
            ToWorker::Finish { reason } => instance.finish(&reason),
            ToWorker::Interrupt => self.backend.interrupt(),
            ToWorker::Tell { number, told } => self.waiting.answer(number, told),
        }
        Ok(())
    }
}

/// The tools of the modes, which ask whoever started this process.
fn toolset(asking: Asking, documents_dir: PathBuf) -> Result<ModeToolset, ToolNameError> {
    let asking = Arc::new(asking);
    ModeToolset::new(&ModeParts {
        children: Arc::clone(&asking) as Arc<dyn Children>,
        settings: asking,
        documents_dir,
    })
}

fn refused(error: &BackendError) -> FromWorker {
    FromWorker::Refused {
        code: error.code(),
        message: chain(error),
        hint: error.hint(),
    }
}

async fn create(
    backend: &InProcess,
    launch: Launch,
    tools: &dyn ModeTools,
    told: mpsc::Sender<FromWorker>,
) -> Result<Created, BackendError> {
    let unusable = |reason: String| BackendError::Unavailable {
        name: backend.name().to_owned(),
        reason,
    };
    let grants: Result<Vec<Capability>, _> =
        launch.grants.iter().map(|grant| grant.parse()).collect();
    let mode: Mode = launch
        .mode
        .parse()
        .map_err(|error| unusable(chain(&error)))?;
    let execution = &launch.facts.execution_id;
    let request = CreateRequest {
        surface: tools.surface(mode, execution),
        run_id: launch.run_id,
        part: launch.part,
        metadata: JsonObject::parse(&launch.metadata).map_err(|error| unusable(chain(&error)))?,
        terms: Terms {
            limits: launch.limits,
            grants: grants.map_err(|error| unusable(chain(&error)))?,
            approvals: launch.approvals,
        },
        grace: Duration::from_millis(launch.grace_ms),
        observer: Arc::new(Told(told)),
        facts: launch.facts,
    };
    backend.create(request).await
}
