//! Questions of a run, as questions to its client, and the client's answers as decisions.

use std::collections::{BTreeMap, BTreeSet};

use rmcp::model::{
    BooleanSchema, CreateMessageRequest, ElicitRequest, ElicitRequestParams, ElicitResult,
    ElicitationAction, ElicitationSchema, InputRequest, InputResponses, ListRootsRequest,
    PrimitiveSchemaDefinition, StringSchema,
};
use serde_json::Value;

use super::client_tools::{Wanted, check_answer, feature_of};
use crate::call::ClientFeature;
use crate::id::RunId;
use crate::ledger::{
    ApprovalDecision, ApprovalSource, DecideError, Gate, PendingQuery, RunQuery, Store, StoreError,
};

/// Runs inside a run whose questions its client is asked. Those of others are answered elsewhere. Protects whoever
/// waits for the answer, for which the ledger of each is read.
const RUNS_MAX: usize = 64;
/// Bytes of what an approval is about that are shown to the client's person. The whole is on record.
const PAYLOAD_SHOWN_BYTES_MAX: usize = 16 * 1024;
/// The field of a form that says yes or no, and the one that says why.
const APPROVE: &str = "approve";
const REASON: &str = "reason";

/// A question of a run, as its client is asked it.
#[derive(Debug, Clone)]
pub(super) struct Asked {
    gate: Gate,
    /// What the client knows it by.
    pub(super) key: String,
    /// What it takes of a client to answer it.
    pub(super) feature: ClientFeature,
    wanted: Option<Wanted>,
}

/// The questions that a run and those inside it have open, in the order in which they were asked.
///
/// # Errors
/// A ledger cannot be read.
pub(super) fn open(store: &Store, run_id: &RunId) -> Result<Vec<Asked>, StoreError> {
    let mut runs = vec![run_id.clone()];
    let mut at = 0;
    let mut gates = Vec::new();
    while let Some(run) = runs.get(at).cloned() {
        at += 1;
        let query = PendingQuery {
            run_id: Some(run.clone()),
            ..PendingQuery::default()
        };
        gates.extend(store.pending(&query)?.gates);
        let room = RUNS_MAX.saturating_sub(runs.len());
        if room > 0 {
            let inside = store.list(&RunQuery {
                parent_run_id: Some(run),
                may_go_on: true,
                ..RunQuery::newest(room)
            })?;
            runs.extend(inside.runs.into_iter().map(|run| run.run_id));
        }
    }
    gates.sort_by_key(|gate| gate.asked_at);
    let mut keys = BTreeSet::new();
    let asked = gates.into_iter().map(|gate| {
        let mut asked = Asked::of(gate, run_id);
        if !keys.insert(asked.key.clone()) {
            // Two calls that chose the same key are told apart by what the host calls them.
            asked.key = format!("{}/{}", asked.gate.run_id, asked.gate.approval_id);
            keys.insert(asked.key.clone());
        }
        asked
    });
    Ok(asked.collect())
}

impl Asked {
    fn of(gate: Gate, outermost: &RunId) -> Self {
        let payload = gate.payload.as_ref();
        let payload = payload.and_then(|payload| payload.to_value().ok());
        let feature = gate.asked_by.as_deref().and_then(feature_of);
        let wanted = feature.zip(payload.as_ref());
        let wanted = wanted.and_then(|(feature, payload)| Wanted::parse(feature, payload).ok());
        let chosen = match &wanted {
            Some(_) => payload
                .as_ref()
                .and_then(|payload| payload.get("key")?.as_str()),
            None => None,
        };
        let own = match gate.run_id == *outermost {
            true => gate.approval_id.clone(),
            false => format!("{}/{}", gate.run_id, gate.approval_id),
        };
        Self {
            key: chosen.map_or(own, str::to_owned),
            // Whoever wants a yes has a person asked.
            feature: feature
                .filter(|_| wanted.is_some())
                .unwrap_or(ClientFeature::Elicitation),
            wanted,
            gate,
        }
    }

    /// Whether it wants a yes of a person, and not something of the client's own.
    pub(super) fn is_approval(&self) -> bool {
        self.wanted.is_none()
    }

    /// What the client is asked.
    pub(super) fn request(&self) -> InputRequest {
        match &self.wanted {
            Some(Wanted::Elicit(params)) => {
                InputRequest::Elicitation(ElicitRequest::new(params.clone()))
            }
            Some(Wanted::Sample(params)) => {
                InputRequest::CreateMessage(CreateMessageRequest::new(params.clone()))
            }
            Some(Wanted::Roots) => InputRequest::ListRoots(ListRootsRequest::default()),
            None => InputRequest::Elicitation(ElicitRequest::new(self.approval())),
        }
    }

    /// The form in which a person approves.
    fn approval(&self) -> ElicitRequestParams {
        let mut message = self.gate.prompt.as_str().to_owned();
        let payload = self.gate.payload.as_ref().map(|payload| payload.as_str());
        if let Some(payload) = payload.filter(|payload| !["{}", "null"].contains(payload)) {
            let end = payload.floor_char_boundary(PAYLOAD_SHOWN_BYTES_MAX);
            let cut = match end < payload.len() {
                true => " … (all of it is in the ledger of the run)",
                false => "",
            };
            message.push_str(&format!(
                "\n\n{}{cut}",
                payload.get(..end).unwrap_or_default()
            ));
        }
        let approve = PrimitiveSchemaDefinition::Boolean(BooleanSchema::new().title("Approve"));
        let reason = PrimitiveSchemaDefinition::String(StringSchema::new().title("Reason"));
        let properties = [(APPROVE.to_owned(), approve), (REASON.to_owned(), reason)];
        let mut schema = ElicitationSchema::new(properties.into_iter().collect());
        schema.required = Some(vec![APPROVE.to_owned()]);
        ElicitRequestParams::FormElicitationParams {
            meta: None,
            message,
            requested_schema: schema,
        }
    }

    /// What an answer of the client decides.
    ///
    /// # Errors
    /// It is no answer to this question; the text says why not.
    pub(super) fn decision(&self, answer: &Value) -> Result<ApprovalDecision, String> {
        check_answer(self.feature, answer)?;
        let decided = |approved, reason: &str| ApprovalDecision {
            approved,
            reason: reason.to_owned(),
            source: ApprovalSource::Mcp,
            option: None,
            answer: None,
        };
        if self.wanted.is_some() {
            return Ok(ApprovalDecision {
                answer: Some(answer.to_string()),
                ..decided(true, "")
            });
        }
        let answer: ElicitResult =
            serde_json::from_value(answer.clone()).map_err(|e| e.to_string())?;
        let content = answer.content.unwrap_or_default();
        let reason = content
            .get(REASON)
            .and_then(Value::as_str)
            .unwrap_or_default();
        match (answer.action, content.get(APPROVE).and_then(Value::as_bool)) {
            (ElicitationAction::Accept, Some(approved)) => Ok(decided(approved, reason)),
            (ElicitationAction::Accept, None) => {
                Err(format!("content.{APPROVE}: expected true or false"))
            }
            (ElicitationAction::Decline, _) => Ok(decided(false, "declined")),
            _ => Ok(decided(false, "the question was dismissed")),
        }
    }

    /// Files a decision. Somebody may have been first, or the run be over: then that stands.
    pub(super) fn decide(
        &self,
        store: &Store,
        decision: &ApprovalDecision,
    ) -> Result<(), DecideError> {
        let id = Some(self.gate.approval_id.as_str());
        match store.decide(&self.gate.run_id, id, decision) {
            Ok(_) | Err(DecideError::Decided { .. } | DecideError::Over { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// What is decided where the client cannot be asked.
    pub(super) fn refusal(&self, reason: &str) -> ApprovalDecision {
        ApprovalDecision {
            approved: false,
            reason: reason.to_owned(),
            source: ApprovalSource::Mcp,
            option: None,
            answer: None,
        }
    }
}

/// What the client is asked, by the keys that it answers with.
pub(super) fn requests(asked: &[Asked]) -> BTreeMap<String, InputRequest> {
    let request = |asked: &Asked| (asked.key.clone(), asked.request());
    asked.iter().map(request).collect()
}

/// What of the answers decides which questions. What answers none is left out.
///
/// # Errors
/// An answer is none to its question; the text names it.
pub(super) fn answered(
    open: Vec<Asked>,
    answers: &InputResponses,
    takes: impl Fn(&Asked) -> bool,
) -> Result<Vec<(Asked, ApprovalDecision)>, String> {
    let mut decided = Vec::new();
    for asked in open {
        if let Some(answer) = answers.get(&asked.key).filter(|_| takes(&asked)) {
            let decision = asked.decision(answer);
            let decision =
                decision.map_err(|problem| format!("inputResponses.{}: {problem}", asked.key))?;
            decided.push((asked, decision));
        }
    }
    Ok(decided)
}
