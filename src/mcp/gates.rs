//! Questions of a run, as questions to its client, and the client's answers as decisions.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use rmcp::model::{
    BooleanSchema, CreateMessageRequest, ElicitRequest, ElicitRequestParams, ElicitResult,
    ElicitationAction, ElicitationSchema, InputRequest, InputResponses, ListRootsRequest,
    PrimitiveSchemaDefinition, StringSchema,
};
use serde_json::Value;

use super::client_tools::{Wanted, check_answer, feature_of};
use crate::call::ClientFeature;
use crate::clock::Timestamp;
use crate::id::RunId;
use crate::ledger::{
    ANSWER_BYTES_MAX, ApprovalDecision, ApprovalSource, DecideError, Gate, REASON_BYTES_MAX,
    RunQuery, Store, StoreError,
};

/// Runs inside a run whose questions its client is asked. Those of others are answered elsewhere. Protects whoever
/// waits for the answer, for which the ledger of each is read.
const RUNS_MAX: usize = 64;
/// The field of a form that says yes or no, and the one that says why.
const APPROVE: &str = "approve";
const REASON: &str = "reason";

/// A question of a run, as its client is asked it.
#[derive(Debug, Clone)]
pub(super) struct Asked {
    gate: Gate,
    /// What the client knows it by.
    pub(super) key: String,
    /// What the skill would have it known by.
    chosen: Option<String>,
    /// The skill that asks.
    skill: String,
    /// What it takes of a client to answer it.
    pub(super) feature: ClientFeature,
    wanted: Option<Wanted>,
}

/// The questions that a run and those inside it have open, in the order in which they were asked.
///
/// What a client knows a question by is never that of another of the same run, as long as the run lasts: an answer that
/// comes late, or twice, answers nothing else.
///
/// # Errors
/// A ledger cannot be read.
pub(super) fn open(store: &Store, run_id: &RunId) -> Result<Vec<Asked>, StoreError> {
    let mut runs = vec![run_id.clone()];
    let mut at = 0;
    let mut asked = Vec::new();
    let mut chosen = BTreeSet::new();
    while let Some(run) = runs.get(at).cloned() {
        let is_outermost = at == 0;
        at += 1;
        let summary = store.summary(&run)?;
        if !summary.state.may_go_on() {
            continue;
        }
        let gates = store.gates_where_one_is_open(&summary)?;
        let skill = summary.skill.unwrap_or_default();
        for gate in gates {
            let mut one = Asked::of(gate, &skill);
            let key = one.chosen.take().filter(|_| is_outermost);
            if let Some(key) = key.filter(|key| chosen.insert(key.clone())) {
                one.key = key;
            }
            if one.gate.decision.is_none() {
                asked.push(one);
            }
        }
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
    asked.sort_by_key(|asked| asked.gate.asked_at);
    Ok(asked)
}

/// Whether a skill may choose that as a key. Those of the host have other characters in them.
fn is_key(key: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
    !key.is_empty() && key.bytes().all(fits)
}

impl Asked {
    fn of(gate: Gate, skill: &str) -> Self {
        let payload = gate.payload.as_ref();
        let payload = payload.and_then(|payload| payload.to_value().ok());
        let feature = gate.asked_by.as_deref().and_then(feature_of);
        let wanted = feature.zip(payload.as_ref());
        let wanted = wanted.and_then(|(feature, payload)| Wanted::parse(feature, payload).ok());
        let chosen = wanted.as_ref().zip(payload.as_ref());
        let chosen = chosen.and_then(|(_, payload)| payload.get("key")?.as_str());
        Self {
            key: format!("{}/{}", gate.run_id, gate.approval_id),
            chosen: chosen.filter(|key| is_key(key)).map(str::to_owned),
            skill: skill.to_owned(),
            // Whoever wants a yes has a person asked.
            feature: feature
                .filter(|_| wanted.is_some())
                .unwrap_or(ClientFeature::Elicitation),
            wanted,
            gate,
        }
    }

    /// For how long from now on somebody can answer it.
    pub(super) fn time_left(&self, now: Timestamp) -> Duration {
        let asked = self.gate.asked_at.unix_micros();
        let waited = Duration::from_micros(u64::try_from(now.unix_micros() - asked).unwrap_or(0));
        Duration::from_secs(self.gate.timeout_seconds).saturating_sub(waited)
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

    /// The form in which a person approves: who asks, what, and all that is to be approved.
    fn approval(&self) -> ElicitRequestParams {
        let (skill, run_id) = (&self.skill, &self.gate.run_id);
        let prompt = self.gate.prompt.as_str();
        let mut message =
            format!("The skill {skill} asks for an approval in {run_id}.\n\n{prompt}");
        let payload = self.gate.payload.as_ref().map(|payload| payload.as_str());
        if let Some(payload) = payload.filter(|payload| !["{}", "null"].contains(payload)) {
            message.push_str(&format!("\n\n{payload}"));
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
            let text = answer.to_string();
            if text.len() > ANSWER_BYTES_MAX {
                let bytes = text.len();
                return Err(format!(
                    "it has {bytes} bytes: expected at most {ANSWER_BYTES_MAX}"
                ));
            }
            return Ok(ApprovalDecision {
                answer: Some(text),
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
        let reason = cut(reason);
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
            reason: cut(reason).to_owned(),
            source: ApprovalSource::Mcp,
            option: None,
            answer: None,
        }
    }
}

/// As much of a reason as one may have.
fn cut(reason: &str) -> &str {
    let end = reason.floor_char_boundary(REASON_BYTES_MAX);
    reason.get(..end).unwrap_or_default()
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
