//! Executions of agents: runs that live, take prompts and are stopped.
//!
//! A [`Session`] is the seam between whoever supervises an execution and the run that it is. Commands go in by
//! its methods, what becomes of them comes out as [`SessionSignal`]s. The ledger of the run has all of it.

mod life;

pub(super) use self::life::{Life, Lived};

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::Runner;
use crate::call::{TurnStop, Usage};
use crate::id::RunId;
use crate::ledger::{
    ErrorReport, Event, Origin, Phase, RecordError, Recorder, RunCompleted, SessionFacts,
    SessionPhase, SessionStatus, StoreError,
};
use crate::tools::Toolbox;

/// Where a guest finds its workspace.
pub const WORKSPACE_GUEST_PATH: &str = "/workspace";
/// How long a cancelled turn has to end by itself, and a stopped execution to finish, unless somebody says
/// otherwise. Protects whoever waits from an agent that does not listen.
pub const GRACE_DEFAULT: Duration = Duration::from_secs(2);

/// How a turn ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TurnEnd {
    /// The number of its prompt.
    pub generation: u64,
    /// Why it ended.
    pub stop_reason: TurnStop,
    /// What the agent said, when it ended the turn with an error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Whether it had to be interrupted, and for the agent never was.
    #[serde(default)]
    pub undone: bool,
    /// What models took in it.
    #[serde(default)]
    pub usage: Usage,
}

/// Something that became of an execution. Its end is no signal: it is the end of its run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "signal", rename_all = "snake_case")]
pub enum SessionSignal {
    /// The agent has started, or was taken up, and takes a prompt.
    Booted {
        /// The number of the newest prompt so far; 0 when there was none.
        generation: u64,
        /// The number of its event.
        seq: u64,
    },
    /// A turn begins, or, taken up, goes on.
    TurnBegun {
        /// The number of its prompt.
        generation: u64,
        /// The number of its event.
        seq: u64,
    },
    /// A turn ended.
    TurnEnded {
        /// How.
        turn: TurnEnd,
        /// The number of its event.
        seq: u64,
    },
    /// The agent takes the next prompt.
    Ready {
        /// The number of the newest prompt so far.
        generation: u64,
        /// The number of its event.
        seq: u64,
    },
}

/// Who is told what becomes of an execution. Calls come from the execution's own task, in order, after the event
/// is on record; they must not wait.
pub trait SessionObserver: Send + Sync {
    /// Something became of it.
    fn signal(&self, signal: SessionSignal);
}

/// What the tools of an execution are at some time.
#[derive(Clone, Default)]
pub struct ToolSurface {
    /// The mode.
    pub mode: String,
    /// The tools of the mode, beside those of servers and of the host.
    pub tools: Toolbox,
}

/// What a [`Session`] is made of.
pub struct SessionOptions {
    /// Which execution it is. It is recorded in the first event of the run, or of this part of it.
    pub facts: SessionFacts,
    /// Its tools at the start.
    pub surface: ToolSurface,
    /// How long a cancelled turn has to end by itself, and a stopped execution to finish.
    pub grace: Duration,
    /// Who is told what becomes of it.
    pub observer: Arc<dyn SessionObserver>,
}

/// One execution. Cheap to clone; clones are the same.
#[derive(Clone)]
pub struct Session(Arc<Inner>);

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Session({})", self.0.facts.execution_id)
    }
}

struct Inner {
    facts: SessionFacts,
    grace: Duration,
    observer: Arc<dyn SessionObserver>,
    state: Mutex<State>,
    changed: Notify,
    /// Fires when it is to end.
    finishing: CancellationToken,
}

#[derive(Default)]
struct State {
    surface: ToolSurface,
    /// The prompt that was sent and not begun.
    prompt: Option<(u64, String)>,
    /// The turn that goes on: its number and what cancels it.
    turn: Option<(u64, CancellationToken)>,
    /// Why it is to end, once it is.
    finish: Option<String>,
    /// The status with which the agent ended itself.
    exit_code: Option<i32>,
    /// What went wrong when it was told to end.
    teardown_error: Option<String>,
}

/// A prompt cannot be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the execution has a prompt already, or is ending")]
pub struct PromptRefused;

/// What a session does next.
enum Next {
    /// A turn.
    Prompt(u64, String),
    /// It ends.
    Finish,
}

impl Session {
    /// An execution that is still to be begun: by [`super::Runner::start`] or [`super::Runner::start_resume`].
    pub fn new(options: SessionOptions) -> Self {
        Self(Arc::new(Inner {
            facts: options.facts,
            grace: options.grace,
            observer: options.observer,
            state: Mutex::new(State {
                surface: options.surface,
                ..State::default()
            }),
            changed: Notify::new(),
            finishing: CancellationToken::new(),
        }))
    }

    /// Which execution it is.
    pub fn facts(&self) -> &SessionFacts {
        &self.0.facts
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends a prompt, which begins a turn of this number as soon as the agent waits for one.
    ///
    /// # Errors
    /// There is one already that has not begun, or the execution is ending.
    pub fn prompt(&self, generation: u64, text: String) -> Result<(), PromptRefused> {
        let mut state = self.state();
        if state.prompt.is_some() || state.finish.is_some() {
            return Err(PromptRefused);
        }
        state.prompt = Some((generation, text));
        drop(state);
        self.0.changed.notify_one();
        Ok(())
    }

    /// Cancels the turn of that number. Its calls are answered with `cancelled` from now on; an agent that
    /// does not end the turn within the grace is interrupted, and the turn undone. A turn of another number
    /// goes on.
    pub fn cancel_turn(&self, generation: u64) {
        let mut state = self.state();
        if let Some((_, cancellation)) = state.turn.as_ref().filter(|turn| turn.0 == generation) {
            cancellation.cancel();
            return;
        }
        if state
            .prompt
            .take_if(|prompt| prompt.0 == generation)
            .is_some()
        {
            drop(state);
            // Nothing of it is on record: it never began.
            self.0.observer.signal(SessionSignal::TurnEnded {
                turn: TurnEnd {
                    generation,
                    stop_reason: TurnStop::Cancelled,
                    error: None,
                    undone: true,
                    usage: Usage::default(),
                },
                seq: 0,
            });
        }
    }

    /// Lets the execution end: its turn is cancelled, and when that is over the agent may finish. The first
    /// reason counts.
    pub fn finish(&self, reason: &str) {
        let mut state = self.state();
        state.finish.get_or_insert_with(|| reason.to_owned());
        state.prompt = None;
        drop(state);
        self.0.finishing.cancel();
        self.0.changed.notify_one();
    }

    /// Gives the execution other tools, at once and as a whole, also in the middle of a turn. The change is on
    /// record when this returns, with those of the tools that the agent may call.
    ///
    /// # Errors
    /// It cannot be recorded; the tools are as they were then.
    pub fn set_surface(
        &self,
        surface: ToolSurface,
        callable: Vec<String>,
        recorder: &Recorder,
    ) -> Result<(), RecordError> {
        let mut state = self.state();
        if state.surface.mode == surface.mode {
            return Ok(());
        }
        record_surface(recorder, &surface.mode, callable)?;
        state.surface = surface;
        Ok(())
    }

    /// The mode of its tools now.
    pub fn mode(&self) -> String {
        self.state().surface.mode.clone()
    }

    /// The tools of the mode now.
    pub(super) fn tools(&self) -> Toolbox {
        self.state().surface.tools.clone()
    }

    /// Why it was told to end, if it was.
    pub fn finish_reason(&self) -> Option<String> {
        self.state().finish.clone()
    }

    /// The status with which the agent ended itself, if it did.
    pub fn exit_code(&self) -> Option<i32> {
        self.state().exit_code
    }

    /// Fires when the turn that goes on is cancelled; never, between turns.
    pub(super) fn turn_cancellation(&self) -> CancellationToken {
        let state = self.state();
        let turn = state.turn.as_ref().map(|(_, token)| token.clone());
        turn.unwrap_or_default()
    }

    fn signal(&self, signal: SessionSignal) {
        self.0.observer.signal(signal);
    }

    /// Waits for what comes next.
    async fn next(&self) -> Next {
        loop {
            // Made before the look, so that what comes between the two is not missed.
            let changed = self.0.changed.notified();
            {
                let mut state = self.state();
                if state.finish.is_some() {
                    return Next::Finish;
                }
                if let Some((generation, text)) = state.prompt.take() {
                    state.turn = Some((generation, self.0.finishing.child_token()));
                    return Next::Prompt(generation, text);
                }
            }
            changed.await;
        }
    }

    /// A turn that is on record goes on.
    fn take_up_turn(&self, generation: u64) {
        let cancellation = self.0.finishing.child_token();
        self.state().turn = Some((generation, cancellation));
    }

    fn end_turn(&self) {
        self.state().turn = None;
    }

    /// What went wrong when it was told to end: the agent failed in that, or did not come to its end in time.
    pub fn teardown_error(&self) -> Option<String> {
        self.state().teardown_error.clone()
    }

    fn exited(&self, status: i32) {
        self.state().exit_code = Some(status);
    }

    /// An execution that is done again from its record alone, of which nobody is told anything.
    pub(super) fn of_record(facts: SessionFacts, stopped: Option<String>) -> Self {
        struct Nobody;
        impl SessionObserver for Nobody {
            fn signal(&self, _signal: SessionSignal) {}
        }
        let session = Self::new(SessionOptions {
            facts,
            surface: ToolSurface::default(),
            grace: GRACE_DEFAULT,
            observer: Arc::new(Nobody),
        });
        if let Some(reason) = stopped {
            session.finish(&reason);
        }
        session
    }
}

impl Runner {
    /// Records the end of an execution that another process carried out, which is gone.
    ///
    /// # Errors
    /// [`StoreError::Ended`] when that could do so itself; its ledger cannot be taken up or written.
    pub async fn close_execution(
        &self,
        run_id: &RunId,
        completed: RunCompleted,
    ) -> Result<(), StoreError> {
        let (recorder, _) = self.store().take_up(run_id).await?;
        // A part that ended in a way that lets it be taken up can be opened, and has its end all the same.
        if let Phase::Paused(_) = recorder.state().phase() {
            let run_id = run_id.clone();
            return Err(StoreError::Ended { run_id });
        }
        let failed = |source| StoreError::Record {
            run_id: run_id.clone(),
            source,
        };
        if let Some(message) = &completed.error {
            let report = ErrorReport {
                message: message.clone(),
                code: completed.code,
                ..ErrorReport::default()
            };
            recorder
                .record(Origin::Host, &report.into())
                .map_err(failed)?;
        }
        let recorded = recorder.record_durable(Origin::Host, &completed.into());
        recorded.await.map(drop).map_err(failed)
    }
}

/// Puts it on record that the tools are others.
fn record_surface(
    recorder: &Recorder,
    mode: &str,
    callable: Vec<String>,
) -> Result<(), RecordError> {
    let changed = |status, mcp_mode, tools| -> Event {
        SessionStatus {
            status,
            mcp_mode,
            tools,
        }
        .into()
    };
    let mode = changed(SessionPhase::ModeChanged, Some(mode.to_owned()), None);
    recorder.record(Origin::Host, &mode)?;
    let tools = changed(SessionPhase::ToolsChanged, None, Some(callable));
    recorder.record(Origin::Host, &tools)?;
    Ok(())
}
