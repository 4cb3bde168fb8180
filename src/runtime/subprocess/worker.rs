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
/// The other side is gone, or says what cannot be understood. The process should end then at once, whatever the
/// agent does.
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
    let (told, mut to_tell) = mpsc::channel(FRAMES_MAX);
    let (asks, mut to_ask) = mpsc::channel(FRAMES_MAX);
    let waiting = Arc::<Waiting>::default();
    let tools = toolset(Asking::new(asks, Arc::clone(&waiting)), documents_dir)?;
    let backend = InProcess::new(runner.clone());
    let execution = launch.facts.execution_id.clone();
    let created = create(&backend, *launch, &tools, told).await;
    let Created {
        instance,
        started_at,
        mut ended,
    } = match created {
        Ok(created) => created,
        Err(error) => {
            let refused = refused(&error);
            return outgoing.send(&refused).await.map_err(WorkerError::Write);
        }
    };
    let started = FromWorker::Started { at: started_at };
    outgoing.send(&started).await.map_err(WorkerError::Write)?;
    let mut end = None;
    loop {
        tokio::select! {
            biased;
            Some(frame) = to_tell.recv() => {
                outgoing.send(&frame).await.map_err(WorkerError::Write)?;
            }
            Some(frame) = to_ask.recv(), if end.is_none() => {
                outgoing.send(&frame).await.map_err(WorkerError::Write)?;
            }
            // What was told before the end has been sent by now.
            ended = &mut ended, if end.is_none() => end = Some(ended),
            frame = incoming.next(), if end.is_none() => {
                let frame = frame.map_err(WorkerError::Read)?;
                let frame = frame.ok_or(WorkerError::Abandoned)?;
                if let ToWorker::Tell { number, told } = frame {
                    waiting.answer(number, told);
                    continue;
                }
                let mode = |mode: &str| Some(tools.surface(mode.parse().ok()?, &execution));
                if let Some(answer) = obey(frame, &*instance, &backend, mode).await {
                    outgoing.send(&answer).await.map_err(WorkerError::Write)?;
                }
            }
            else => break,
        }
        if let Some(end) = end.take_if(|_| to_tell.is_empty()) {
            let ended = FromWorker::Ended { end };
            outgoing.send(&ended).await.map_err(WorkerError::Write)?;
            break;
        }
    }
    runner.shutdown().await;
    Ok(())
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

/// Does what a frame says, and gives the answer, where it takes one.
async fn obey(
    frame: ToWorker,
    instance: &dyn Instance,
    backend: &InProcess,
    surface: impl Fn(&str) -> Option<crate::runner::ToolSurface>,
) -> Option<FromWorker> {
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
            let set = match surface(&mode) {
                Some(surface) => instance.set_surface(surface).await,
                None => Err(BackendError::Over),
            };
            let error = set.err().map(|error| chain(&error));
            return Some(FromWorker::ModeSet { error });
        }
        ToWorker::Finish { reason } => instance.finish(&reason),
        ToWorker::Interrupt => backend.interrupt(),
        ToWorker::Tell { .. } => {}
    }
    None
}
