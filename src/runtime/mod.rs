//! Executions of agents: launched, prompted again, stopped and watched, without the caller knowing how they run.
//!
//! [`Runtime`] is the one seam for whoever coordinates agents; [`WasmRuntime`] is what there is behind it. It knows
//! nothing of tasks. An execution is a live instance of an agent's component, and its ledger is the run of the same
//! number: whatever is told of an execution is read from there, so that nothing is told that is not on record.
//!
//! - **One** execution serves a session at a time.
//! - **A state** is changed by one pure function, [`next`], and an end is final.
//! - **A prompt** has a number, its generation. What comes late for an earlier one changes nothing.
//! - **A stop** has one owner. Whoever waits for the execution is told, and so are its children.
//! - **A failure** on the way to an execution leaves nothing behind.

mod backend;
mod error;
mod event;
mod in_process;
mod launch_request;
mod mode;
pub mod modes;
mod record;
mod state;
mod statistics;
mod subprocess;
mod subscription;
mod table;
mod types;
mod wasm_runtime;
mod workspace;

use async_trait::async_trait;

pub use self::backend::{
    Backend, BackendError, BackendHealth, CreateRequest, Created, End, Instance, Isolation,
    LedgerPart,
};
pub use self::error::RuntimeError;
pub use self::event::{Event, EventKind, LaunchKind};
pub use self::in_process::{IN_PROCESS, InProcess};
pub use self::launch_request::METADATA_BYTES_MAX;
pub use self::mode::{Mode, ModeTools, NoModeTools};
pub use self::state::{Change, Ending, ExecutionStatus, IllegalTransition, next};
pub use self::statistics::{LiveExecutions, RuntimeStatistics};
pub use self::subprocess::{
    SUBPROCESS, Subprocess, WorkerError, WorkerProgram, respell_daemon_frames,
    respell_worker_frames, work,
};
pub use self::subscription::EventSubscription;
pub use self::table::{CHILDREN_MAX, DEPTH_MAX, DESCENDANTS_MAX, QUEUED_MAX};
pub use self::types::{
    Execution, ExecutionFilter, ExecutionRef, Executions, LIST_EXECUTIONS_MAX, LaunchSpec,
    Metadata, PROMPT_BYTES_MAX, Stopped, WorkspaceRef,
};
pub use self::wasm_runtime::{BackendRecovery, RuntimeOptions, WasmRuntime};
pub use self::workspace::WorkspaceError;
pub use crate::runner::TurnEnd;

/// Launches executions of agents, prompts, stops and shows them. Every method may be called at any time by
/// anyone, also from the handler of a subscriber.
///
/// An id that is empty or no id at all is [`RuntimeError::InvalidArgument`]; one that names nothing is
/// [`RuntimeError::NotFound`].
#[async_trait]
pub trait Runtime: Send + Sync {
    /// Launches an agent, and returns once its execution is on record. What fails after that is seen in its
    /// state and its events; what fails before leaves nothing behind, and so does a caller who goes away.
    ///
    /// Launches of one session at the same time have one result.
    ///
    /// # Errors
    /// The spec is refused, the session has an execution, there is no room for another one, its parent may launch
    /// no other, or it could not be begun.
    async fn launch(&self, spec: LaunchSpec) -> Result<ExecutionRef, RuntimeError>;

    /// Sends a prompt of 1 to [`PROMPT_BYTES_MAX`] bytes and waits until its turn ends. Prompts of an execution
    /// are taken one after the other. Dropping the future takes the prompt back, or cancels its turn if that has
    /// begun.
    ///
    /// A turn that the agent ends with an error is no error here: [`TurnEnd::error`] has it.
    ///
    /// # Errors
    /// [`RuntimeError::NotFound`] for an execution that is not live, [`RuntimeError::Busy`] when
    /// [`QUEUED_MAX`] prompts wait, and what became of the execution when it ended before the turn did.
    async fn resume(&self, id: &str, prompt: &str) -> Result<TurnEnd, RuntimeError>;

    /// Cancels the turn that goes on, and waits for its end; none when no turn goes on. The execution stays
    /// usable. An agent that does not end the turn within the grace is interrupted.
    ///
    /// # Errors
    /// [`RuntimeError::NotFound`] for an execution that is not live; what became of it when it ended meanwhile;
    /// [`RuntimeError::Unresponsive`] when its backend did not end the turn, and the execution was ended
    /// instead.
    async fn cancel_turn(&self, id: &str) -> Result<Option<TurnEnd>, RuntimeError>;

    /// Stops an execution and its children, and waits for their ends: each may finish within the grace and is
    /// ended by force after that. The reason is kept, and steers nothing. It goes on when the future is
    /// dropped.
    ///
    /// # Errors
    /// [`RuntimeError::NotFound`] for an execution that is not live, or that somebody else stops: of all who
    /// do, one succeeds. [`RuntimeError::Unresponsive`] when its backend did not end it.
    async fn stop(&self, id: &str, reason: &str) -> Result<Stopped, RuntimeError>;

    /// Stops all executions that this one launched, and those that are just being launched by it.
    ///
    /// # Errors
    /// [`RuntimeError::NotFound`] when there is no such execution. What went wrong with a single child is in its
    /// [`Stopped`].
    async fn stop_children(&self, parent: &str, reason: &str)
    -> Result<Vec<Stopped>, RuntimeError>;

    /// As [`Runtime::stop`], for an execution that this one launched.
    ///
    /// # Errors
    /// As [`Runtime::stop`]; [`RuntimeError::NotFound`] for an execution that somebody else launched.
    async fn stop_child(
        &self,
        parent: &str,
        id: &str,
        reason: &str,
    ) -> Result<Stopped, RuntimeError>;

    /// An execution as it is at one moment.
    ///
    /// # Errors
    /// [`RuntimeError::NotFound`], or its ledger cannot be read.
    async fn get_execution(&self, id: &str) -> Result<Execution, RuntimeError>;

    /// The executions that `filter` wants, newest session first, the newest of each session that was taken up.
    ///
    /// # Errors
    /// The ledgers cannot be read.
    async fn list_executions(&self, filter: ExecutionFilter) -> Result<Executions, RuntimeError>;

    /// The executions that this one launched, newest first, at most [`LIST_EXECUTIONS_MAX`]: those that are live, and
    /// those that ended so short ago that they are kept at hand. No ledger is read for it.
    ///
    /// # Errors
    /// [`RuntimeError::NotFound`] for a parent that there is not.
    async fn list_children(&self, parent: &str) -> Result<Vec<Execution>, RuntimeError>;

    /// The events of an execution from the one numbered `from` on, or from its launch, and those to come, in
    /// order and without a gap. [`EventKind::Stopped`] is the last.
    ///
    /// # Errors
    /// [`RuntimeError::NotFound`], or its ledger cannot be read.
    async fn subscribe_events(
        &self,
        id: &str,
        from: Option<u64>,
    ) -> Result<EventSubscription, RuntimeError>;

    /// Gives an execution the tools of another mode, at once and as a whole, also in the middle of a turn.
    /// False when it has them already.
    ///
    /// # Errors
    /// [`RuntimeError::NotFound`] for an execution that is not live, [`RuntimeError::UnknownMode`], or the change
    /// cannot be recorded; nothing has changed then.
    async fn set_mcp_mode(&self, id: &str, mode: &str) -> Result<bool, RuntimeError>;
}
