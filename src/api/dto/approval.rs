//! Questions of runs, and what is decided about them.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::clock::Timestamp;
use crate::id::RunId;
use crate::ledger::{ApprovalDecision, ApprovalSource, Gate, Json};

/// Yes or no.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Verdict {
    /// The run may do what it asks about.
    Approve,
    /// It may not.
    Reject,
}

/// A decision about a question of a run.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = Decide)]
pub(crate) struct Decide {
    /// Yes or no.
    pub(crate) decision: Verdict,
    /// Why. The skill and the ledger have it too.
    #[serde(default)]
    #[schema(max_length = 1024, example = "the invoice is paid")]
    pub(crate) reason: Option<String>,
    /// Which question; it can be left out when the run has one that is open.
    #[serde(default)]
    #[schema(max_length = 80, example = "approval#1")]
    pub(crate) approval_id: Option<String>,
    /// Which of the choices, of a question that has some. It goes with `approve`.
    #[serde(default)]
    #[schema(max_length = 128, example = "allow")]
    pub(crate) option: Option<String>,
}

/// What was decided.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub(crate) struct Decision {
    /// Yes or no.
    decision: Verdict,
    /// Why; may be empty.
    reason: String,
    /// Over which way the answer came.
    source: DecisionSource,
    /// What was chosen, where there was a choice.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    option: Option<String>,
}

/// One choice of a question.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Choice {
    /// What `option` has to be to choose it.
    id: String,
    /// What a person reads.
    label: String,
}

/// Over which way an answer came.
#[derive(Debug, Clone, Copy, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum DecisionSource {
    /// The command line.
    Cli,
    /// A page in a browser, such as the inspector.
    Web,
    /// The MCP server.
    Mcp,
    /// This interface.
    Api,
    /// None: nobody answered in time.
    Timeout,
    /// None: a rule of the operator answered.
    Auto,
    /// None: the turn in which it was asked was cancelled, or its execution stopped.
    Cancelled,
}

impl From<ApprovalSource> for DecisionSource {
    fn from(source: ApprovalSource) -> Self {
        match source {
            ApprovalSource::Cli => Self::Cli,
            ApprovalSource::Web => Self::Web,
            ApprovalSource::Mcp => Self::Mcp,
            ApprovalSource::Api => Self::Api,
            ApprovalSource::Timeout => Self::Timeout,
            ApprovalSource::Auto => Self::Auto,
            ApprovalSource::Cancelled => Self::Cancelled,
        }
    }
}

impl From<ApprovalDecision> for Decision {
    fn from(decided: ApprovalDecision) -> Self {
        Self {
            decision: match decided.approved {
                true => Verdict::Approve,
                false => Verdict::Reject,
            },
            reason: decided.reason,
            source: decided.source.into(),
            option: decided.option,
        }
    }
}

/// A question of a run.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Approval {
    /// The run that asks.
    #[schema(value_type = String, example = "run_0190a0a0a0a07000800000000000abcd")]
    run_id: RunId,
    /// The question's id, unique in the run.
    #[schema(example = "approval#1")]
    approval_id: String,
    /// The question, as the skill put it.
    prompt: String,
    /// What the decision is about, as the skill spelled it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<serde_json::Value>, nullable = false)]
    payload: Option<Json>,
    /// The digest of run, component, prompt and payload, to which the decision is bound.
    binding: String,
    /// When it was asked.
    #[schema(value_type = String, format = DateTime)]
    asked_at: Timestamp,
    /// Milliseconds from then until nobody has to answer any more.
    timeout_ms: u64,
    /// What there is to choose from, where it takes more than yes or no.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    options: Vec<Choice>,
    /// Whether a yes is no answer by itself: it is for the MCP client of the run to answer, and can only be rejected here.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    needs_answer: bool,
    /// What was decided, once it was.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    decision: Option<Decision>,
}

impl From<Gate> for Approval {
    fn from(gate: Gate) -> Self {
        Self {
            run_id: gate.run_id,
            approval_id: gate.approval_id,
            prompt: gate.prompt.as_str().to_owned(),
            payload: gate.payload,
            binding: gate.binding,
            asked_at: gate.asked_at,
            timeout_ms: gate.timeout_seconds.saturating_mul(1_000),
            options: gate
                .options
                .into_iter()
                .map(|option| Choice {
                    id: option.id,
                    label: option.label,
                })
                .collect(),
            needs_answer: gate.needs_answer,
            decision: gate.decision.map(Into::into),
        }
    }
}

/// Questions that nobody has answered, those of the newest run first.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Approvals {
    /// The questions.
    pub(crate) approvals: Vec<Approval>,
    /// What `cursor` has to be for the next page; absent when there are no more.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub(crate) next_cursor: Option<String>,
    /// How many runs could not be looked into. The log has the reasons.
    pub(crate) unreadable_runs: usize,
}
