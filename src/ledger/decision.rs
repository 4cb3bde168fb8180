//! How a question of a run is answered by whoever may, in this process or in another.
//!
//! A decision is a small file beside the ledger. It is made whole under another name and then given its
//! own, which must be free: of two who decide at once one is first, and the other is told so. The run's
//! writer finds the file and records the decision. The file stays as long as the ledger, so that nobody
//! who began to decide before it was recorded comes first after it. Nothing else about a question is kept
//! outside of the ledger.

use std::collections::BTreeSet;
use std::io::{self, Read as _, Write as _};

use serde::{Deserialize, Serialize};

use super::digest::Digest;
use super::error::StoreError;
use super::event::{Event, Origin};
use super::folder::unless_gone;
use super::json::{Json, Text};
use super::payload::{ApprovalRequest, ApprovalResponse, ApprovalSource};
use super::reader::{Entry, Position};
use super::scan::is_of_the_original_system;
use super::state::{Phase, State};
use super::store::Store;
use crate::call::PermissionOption;
use crate::clock::Timestamp;
use crate::id::RunId;

/// Bytes of the reason for a decision. Protects ledgers and screens.
pub const REASON_BYTES_MAX: usize = 4 * 1024;
/// Bytes of an answer that is more than a decision. Protects the folder of ledgers, and whoever reads decisions.
pub const ANSWER_BYTES_MAX: usize = 256 * 1024;
/// Bytes of the file of a decision that are read; escaped, a reason or an answer is six times as long.
const FILE_BYTES_MAX: u64 = 2 * 1024 * 1024;

/// The names of the files of a run's decisions begin with this.
pub(super) fn prefix(run_id: &RunId) -> String {
    format!("{run_id}{MARK}")
}

/// What stands between the run and the number of the question in the name of a decision's file.
const MARK: &str = ".decision-";
/// How the ids of questions begin.
const ID_PREFIX: &str = "approval#";

/// What was decided, and by whom.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApprovalDecision {
    /// Yes or no.
    pub approved: bool,
    /// Why; may be empty, and has at most [`REASON_BYTES_MAX`] bytes.
    pub reason: String,
    /// Who decided.
    pub source: ApprovalSource,
    /// The id of what was chosen, where there is a choice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub option: Option<String>,
    /// What was answered, as JSON text of at most [`ANSWER_BYTES_MAX`] bytes, where it takes more than a decision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<String>,
}

impl From<ApprovalResponse> for ApprovalDecision {
    fn from(response: ApprovalResponse) -> Self {
        Self {
            approved: response.approved,
            reason: response.reason.unwrap_or_default().as_str().to_owned(),
            source: response.source,
            option: response.option,
            answer: response.answer.map(|answer| answer.as_str().to_owned()),
        }
    }
}

/// A question of a run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Gate {
    /// The run that asks.
    pub run_id: RunId,
    /// The question's id, unique in the run.
    pub approval_id: String,
    /// The question.
    pub prompt: Text,
    /// What the decision is about.
    pub payload: Option<Json>,
    /// The digest of run, component, prompt and payload, to which a decision is bound.
    pub binding: String,
    /// When it was asked.
    pub asked_at: Timestamp,
    /// Seconds from then until nobody has to answer any more.
    pub timeout_seconds: u64,
    /// What is to be chosen from, where it takes more than yes or no.
    pub options: Vec<PermissionOption>,
    /// The tool of the host that asks; none when the skill itself does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub asked_by: Option<String>,
    /// Whether a yes is no answer by itself.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub needs_answer: bool,
    /// What was decided, once it was.
    pub decision: Option<ApprovalDecision>,
}

/// Why a decision was not taken.
#[derive(Debug, thiserror::Error)]
pub enum DecideError {
    /// The run has no such question.
    #[error("run {run_id} has no approval {approval_id:?}")]
    NoSuchApproval {
        /// The run.
        run_id: RunId,
        /// The question that was named.
        approval_id: String,
    },
    /// The run waits for nobody.
    #[error("run {run_id} waits for no approval")]
    NonePending {
        /// The run.
        run_id: RunId,
    },
    /// The run waits for several, and none was named.
    #[error("run {run_id} waits for {} approvals: name one of {}", ids.len(), ids.join(", "))]
    SeveralPending {
        /// The run.
        run_id: RunId,
        /// What it waits for.
        ids: Vec<String>,
    },
    /// Somebody was first.
    #[error("approval {approval_id} is decided already: {}", spelled(first))]
    Decided {
        /// The question.
        approval_id: String,
        /// What was decided.
        first: ApprovalDecision,
    },
    /// The run ended without an answer.
    #[error("run {run_id} is over: nobody waits for approval {approval_id} any more")]
    Over {
        /// The run.
        run_id: RunId,
        /// The question.
        approval_id: String,
    },
    /// Yes does not say which, or what was chosen is no choice.
    #[error("approval {approval_id} is answered with one of {}: found {}", options.join(", "), option.as_deref().unwrap_or("none"))]
    NoSuchOption {
        /// The question.
        approval_id: String,
        /// What was chosen, cut after 80 characters.
        option: Option<String>,
        /// What there is to choose from; empty for a question that is answered with yes or no.
        options: Vec<String>,
    },
    /// Yes is not what was asked for.
    #[error(
        "approval {approval_id} asks for more than yes: only the client of run {run_id} can answer it"
    )]
    NeedsAnswer {
        /// The run.
        run_id: RunId,
        /// The question.
        approval_id: String,
    },
    /// The reason is longer than one may be.
    #[error("reason has {bytes} bytes: expected at most {REASON_BYTES_MAX}")]
    ReasonTooLong {
        /// Its size.
        bytes: usize,
    },
    /// The answer is longer than one may be.
    #[error("answer has {bytes} bytes: expected at most {ANSWER_BYTES_MAX}")]
    AnswerTooLong {
        /// Its size.
        bytes: usize,
    },
    /// The ledger cannot be read, or the decision not be written.
    #[error(transparent)]
    Store(#[from] StoreError),
}

fn spelled(decision: &ApprovalDecision) -> String {
    let word = if decision.approved {
        "approved"
    } else {
        "rejected"
    };
    match decision.reason.as_str() {
        "" => word.to_owned(),
        reason => format!("{word} ({reason})"),
    }
}

/// A decision as its file has it.
#[derive(Serialize, Deserialize)]
struct Filed {
    approval_id: String,
    binding: String,
    #[serde(flatten)]
    decision: ApprovalDecision,
}

impl Store {
    /// The questions of a run, in the order in which they were asked, answered or not.
    ///
    /// # Errors
    /// [`StoreError::NotFound`], or a file cannot be read.
    pub fn gates(&self, run_id: &RunId) -> Result<Vec<Gate>, StoreError> {
        Ok(self.gates_and_phase(run_id)?.0)
    }

    fn gates_and_phase(&self, run_id: &RunId) -> Result<(Vec<Gate>, Phase), StoreError> {
        let (mut gates, phase) = self.recorded_gates(run_id)?;
        for gate in gates.iter_mut().filter(|gate| gate.decision.is_none()) {
            gate.decision = self.filed(run_id, &gate.approval_id, &gate.binding)?;
        }
        Ok((gates, phase))
    }

    /// As the ledger alone has them.
    fn recorded_gates(&self, run_id: &RunId) -> Result<(Vec<Gate>, Phase), StoreError> {
        let mut gates: Vec<Gate> = Vec::new();
        let mut state = State::default();
        let mut follower = self.follow(run_id, Position::default())?;
        while let Some(entry) = follower.next_entry()? {
            let Entry::Record(record) = entry else {
                continue;
            };
            let event = record.event();
            if state.check(record.origin, &event).is_ok() {
                state = state.after(record.origin, &event);
            }
            match event {
                _ if record.origin != Origin::Host => {}
                Event::TurnCompleted(turn) if turn.undone => {
                    // Nobody asks any more.
                    let of_turn = format!("{ID_PREFIX}{}.", turn.generation);
                    gates.retain(|gate| !gate.approval_id.starts_with(&of_turn));
                }
                event @ Event::ApprovalRequest(_) => {
                    // Nobody decides about a part: what stands beside the ledger is shown as well.
                    let Event::ApprovalRequest(request) = self.whole(run_id, event)? else {
                        continue;
                    };
                    // Asked again after the run was resumed, it is the same question.
                    gates.retain(|gate| gate.approval_id != request.approval_id);
                    gates.push(Gate::new(run_id, request, record.time));
                }
                Event::ApprovalResponse(response) => {
                    let id = &response.approval_id;
                    let gate = gates.iter_mut().rfind(|gate| gate.approval_id == *id);
                    if let Some(gate) = gate {
                        gate.decision = Some(response.into());
                    }
                }
                _ => {}
            }
        }
        Ok((gates, state.phase()))
    }

    /// Decides the question of that id, or the only one that is open when none is named. The decision is
    /// durable when this returns, also when nobody carries the run out at present.
    ///
    /// # Errors
    /// There is no such question, it was decided before, or the decision cannot be written.
    pub fn decide(
        &self,
        run_id: &RunId,
        approval_id: Option<&str>,
        decision: &ApprovalDecision,
    ) -> Result<Gate, DecideError> {
        let bytes = decision.reason.len();
        if bytes > REASON_BYTES_MAX {
            return Err(DecideError::ReasonTooLong { bytes });
        }
        let bytes = decision.answer.as_ref().map_or(0, String::len);
        if bytes > ANSWER_BYTES_MAX {
            return Err(DecideError::AnswerTooLong { bytes });
        }
        if is_of_the_original_system(run_id) {
            let run_id = run_id.clone();
            return Err(StoreError::ReadOnly { run_id }.into());
        }
        let (gates, phase) = self.gates_and_phase(run_id)?;
        let mut gate = choose(gates, run_id, approval_id)?;
        let approval_id = gate.approval_id.clone();
        if let Some(first) = gate.decision {
            return Err(DecideError::Decided { approval_id, first });
        }
        if matches!(phase, Phase::Ended(_)) {
            let run_id = run_id.clone();
            return Err(DecideError::Over {
                run_id,
                approval_id,
            });
        }
        if gate.needs_answer && decision.approved && decision.answer.is_none() {
            let run_id = run_id.clone();
            return Err(DecideError::NeedsAnswer {
                run_id,
                approval_id,
            });
        }
        check_option(&gate, decision)?;
        let filed = self.file(run_id, &approval_id, &gate.binding, decision)?;
        if let Some(first) = filed {
            return Err(DecideError::Decided { approval_id, first });
        }
        gate.decision = Some(decision.clone());
        Ok(gate)
    }

    /// Files a decision unless there is one, which is the answer then.
    pub(crate) fn file(
        &self,
        run_id: &RunId,
        approval_id: &str,
        binding: &str,
        decision: &ApprovalDecision,
    ) -> Result<Option<ApprovalDecision>, StoreError> {
        let folder = &self.0.folder;
        let name = file_name(run_id, approval_id);
        let failed = |error| folder.failed("decide", &name, error);
        let filed = Json::from_serialize(&Filed {
            approval_id: approval_id.to_owned(),
            binding: binding.to_owned(),
            decision: decision.clone(),
        });
        let filed = filed.map_err(|error| failed(io::Error::other(error)))?;
        let temporary = format!("{name}.{}", RunId::generate());
        let written = (|| {
            let mut file = folder.create_temporary(&temporary)?;
            file.write_all(filed.as_str().as_bytes())?;
            file.sync_all()?;
            folder.link(&temporary, &name)
        })();
        let removed = unless_gone(folder.remove(&temporary));
        match written {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                return self.filed(run_id, approval_id, binding);
            }
            written => written.and(removed).map_err(failed)?,
        }
        folder.sync().map_err(failed)?;
        self.0.decided.notify_waiters();
        Ok(None)
    }

    /// The decision that was filed for a question, if one was.
    pub(crate) fn filed(
        &self,
        run_id: &RunId,
        approval_id: &str,
        binding: &str,
    ) -> Result<Option<ApprovalDecision>, StoreError> {
        let folder = &self.0.folder;
        let name = file_name(run_id, approval_id);
        let failed = |error| folder.failed("read", &name, error);
        let mut text = Vec::new();
        match folder.open_read(&name) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            opened => opened
                .and_then(|file| file.take(FILE_BYTES_MAX).read_to_end(&mut text))
                .map_err(failed)?,
        };
        match serde_json::from_slice::<Filed>(&text) {
            Ok(filed)
                if filed.approval_id == approval_id
                    && filed.binding == binding
                    && filed.decision.reason.len() <= REASON_BYTES_MAX
                    && filed.decision.answer.as_ref().map_or(0, String::len)
                        <= ANSWER_BYTES_MAX =>
            {
                Ok(Some(filed.decision))
            }
            // It answers another question, or none; who put it there has to look.
            _ => Err(failed(io::Error::new(
                io::ErrorKind::InvalidData,
                "no decision about this question",
            ))),
        }
    }

    /// Which questions have a decision on file, by run and id, whatever it is.
    pub(crate) fn decisions(&self) -> Result<BTreeSet<(RunId, String)>, StoreError> {
        let folder = &self.0.folder;
        let failed = |error| folder.failed("read", "", error);
        let mut decisions = BTreeSet::new();
        for name in folder.names().map_err(failed)? {
            let name = name.map_err(failed)?;
            let Some((run_id, number)) = name.split_once(MARK) else {
                continue;
            };
            let is_whole = number.chars().all(is_of_number);
            if let (true, Ok(run_id)) = (is_whole, run_id.parse()) {
                decisions.insert((run_id, format!("{ID_PREFIX}{number}")));
            }
        }
        Ok(decisions)
    }

    /// Is ready when something was decided in this process, by [`Store::decide`].
    pub(crate) fn decided(&self) -> impl Future<Output = ()> {
        self.0.decided.notified()
    }
}

/// The digest to which a decision is bound.
pub(crate) fn binding(
    run_id: &RunId,
    component_digest: Option<&str>,
    prompt: &str,
    payload: &str,
) -> Digest {
    // A JSON array keeps the parts apart, whatever is in them.
    let parts = [
        Some(run_id.as_str()),
        component_digest,
        Some(prompt),
        Some(payload),
    ];
    Digest::of(serde_json::json!(parts).to_string().as_bytes())
}

/// The file name of a decision. An id that is not made of what a name may hold has none of its own.
fn file_name(run_id: &RunId, approval_id: &str) -> String {
    let number: String = approval_id.chars().filter(|c| is_of_number(*c)).collect();
    format!("{}{number}", prefix(run_id))
}

/// What the number of a question is made of: in an execution it is that of the turn, a point, and its own; that of
/// one which a tool asks has the number of the tool's call in it, after a `t`.
fn is_of_number(character: char) -> bool {
    character.is_ascii_digit() || matches!(character, '.' | 't')
}

impl Gate {
    fn new(run_id: &RunId, request: ApprovalRequest, asked_at: Timestamp) -> Self {
        Self {
            run_id: run_id.clone(),
            approval_id: request.approval_id,
            prompt: request.prompt,
            payload: request.payload,
            binding: request.binding.unwrap_or_default(),
            asked_at,
            timeout_seconds: request.timeout_seconds,
            options: request.options,
            asked_by: request.asked_by,
            needs_answer: request.needs_answer,
            decision: None,
        }
    }
}

/// Whether what was chosen is there, and something was where it has to be.
fn check_option(gate: &Gate, decision: &ApprovalDecision) -> Result<(), DecideError> {
    let fits = match &decision.option {
        Some(chosen) => decision.approved && gate.options.iter().any(|option| option.id == *chosen),
        None => gate.options.is_empty() || !decision.approved,
    };
    let refused = || DecideError::NoSuchOption {
        approval_id: gate.approval_id.clone(),
        option: decision
            .option
            .as_ref()
            .map(|option| option.chars().take(80).collect()),
        options: gate
            .options
            .iter()
            .map(|option| option.id.clone())
            .collect(),
    };
    fits.then_some(()).ok_or_else(refused)
}

fn choose(
    gates: Vec<Gate>,
    run_id: &RunId,
    approval_id: Option<&str>,
) -> Result<Gate, DecideError> {
    let run_id = run_id.clone();
    if let Some(id) = approval_id {
        let gate = gates.into_iter().find(|gate| gate.approval_id == id);
        return gate.ok_or_else(|| DecideError::NoSuchApproval {
            run_id,
            approval_id: id.chars().take(80).collect(),
        });
    }
    let (open, closed): (Vec<Gate>, Vec<Gate>) =
        gates.into_iter().partition(|gate| gate.decision.is_none());
    match <[Gate; 1]>::try_from(open) {
        Ok([gate]) => Ok(gate),
        Err(several) if !several.is_empty() => Err(DecideError::SeveralPending {
            run_id,
            ids: several.into_iter().map(|gate| gate.approval_id).collect(),
        }),
        // Whoever comes second is told what was decided, and not that there is nothing to decide.
        Err(_none) => closed
            .into_iter()
            .next_back()
            .ok_or(DecideError::NonePending { run_id }),
    }
}
