//! Runs that are to go on.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::clock::Timestamp;
use crate::id::RunId;

/// How a run is to go on.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = ResumeRun)]
pub(crate) struct ResumeRun {
    /// Begin a new run instead, which repeats this one up to where this step was entered or this call made.
    #[serde(default)]
    #[schema(min_length = 1, max_length = 256, example = "tool#3")]
    pub(crate) from_node: Option<String>,
    /// Make calls again that may have had their effect.
    #[serde(default)]
    pub(crate) retry_ambiguous: bool,
}

/// A run that goes on.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = RunResumed)]
pub(crate) struct RunResumed {
    /// The run that goes on: the one that was named, or the new one that repeats its beginning.
    #[schema(value_type = String, example = "run_0190a0a0a0a07000800000000000abcd")]
    pub(crate) run_id: RunId,
    /// When the first event of the run was recorded; of a new one, when that of the run was whose beginning it
    /// repeats.
    #[schema(value_type = String, format = DateTime)]
    pub(crate) started_at: Timestamp,
    /// The run of which the new one repeats the beginning.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, nullable = false)]
    pub(crate) resumed_from: Option<RunId>,
}
