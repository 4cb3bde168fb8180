//! What an agent says to whoever watches it. Each update is an event of its execution.
//!
//! Only an agent has a session: a skill that calls this module has an import that its world lacks, and cannot be
//! built.

use serde::Serialize;

use crate::HostError;
use crate::host;
use crate::host_error::encode;

/// How far a step of a plan is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlanStatus {
    /// It was not begun.
    Pending,
    /// It is being done.
    InProgress,
    /// It is done.
    Completed,
    /// It could not be done.
    Failed,
}

/// One step of a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlanEntry {
    /// What is to be done.
    pub description: String,
    /// How far it is.
    pub status: PlanStatus,
    /// 0 matters most.
    pub priority: u8,
}

impl PlanEntry {
    /// A step that matters most.
    pub fn new(description: &str, status: PlanStatus) -> Self {
        Self {
            description: description.to_owned(),
            status,
            priority: 0,
        }
    }
}

/// One thing to tell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Update {
    /// Text of the answer; the chunks of a turn, put together, are the answer.
    MessageChunk(String),
    /// Text that explains how the answer comes about.
    Reasoning(String),
    /// The whole plan as it stands now; it replaces the one before.
    Plan(Vec<PlanEntry>),
    /// Tokens used, and tokens there are.
    ContextWindow(u32, u32),
}

/// One choice of a permission request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PermissionOption {
    /// Unique within the request.
    pub id: String,
    /// What is shown.
    pub label: String,
}

/// What is asked of whoever watches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PermissionRequest {
    /// One line.
    pub title: String,
    /// What there is to choose from.
    pub options: Vec<PermissionOption>,
    /// What exactly it is about, as JSON; shown with the title and recorded.
    pub details: String,
}

/// Tells something. It is taken while a turn is being cancelled, too.
///
/// # Errors
/// It is too large, this execution may record no more, or it is ending.
pub fn emit(update: &Update) -> Result<(), HostError> {
    host::emit_update(update)
}

/// The next piece of the answer.
///
/// # Errors
/// Those of [`emit`].
pub fn emit_text(text: &str) -> Result<(), HostError> {
    emit(&Update::MessageChunk(text.to_owned()))
}

/// Text that explains how the answer comes about.
///
/// # Errors
/// Those of [`emit`].
pub fn reasoning(text: &str) -> Result<(), HostError> {
    emit(&Update::Reasoning(text.to_owned()))
}

/// The whole plan as it stands now.
///
/// # Errors
/// Those of [`emit`].
pub fn plan(entries: &[PlanEntry]) -> Result<(), HostError> {
    emit(&Update::Plan(entries.to_vec()))
}

/// How many tokens of the context window are used, and how many there are.
///
/// # Errors
/// Those of [`emit`].
pub fn context_window(used_tokens: u32, size_tokens: u32) -> Result<(), HostError> {
    emit(&Update::ContextWindow(used_tokens, size_tokens))
}

/// Asks whoever watches to choose one of `options`, each an id and a label, waits, and gives the id of the one
/// that was chosen. `details` is what it is about, as anything that becomes JSON.
///
/// # Errors
/// The details cannot be encoded, the host did not ask, nobody answered in time, or the turn is being cancelled.
pub fn request_permission(
    title: &str,
    options: &[(&str, &str)],
    details: &(impl Serialize + ?Sized),
) -> Result<String, HostError> {
    let options = options.iter().map(|(id, label)| PermissionOption {
        id: (*id).to_owned(),
        label: (*label).to_owned(),
    });
    host::request_permission(&PermissionRequest {
        title: title.to_owned(),
        options: options.collect(),
        details: encode(details)?,
    })
}
