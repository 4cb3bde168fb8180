//! Why a run ended as it did: which rule, limit or decision was behind it, where that came from, and
//! which setting changes it. It is read from the ledger alone.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::error::StoreError;
use super::event::Event;
use super::list::skill_of;
use super::payload::{
    ApprovalResponse, ApprovalSource, Denied, RunCompleted, RunStarted, RunStatus,
};
use super::reader::{Entry, Follower};
use super::summary::{RunState, Summary};
use crate::capability::{Capability, address_class};
use crate::id::RunId;
use crate::outcome::OutcomeCode;

/// Why a run ended as it did.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Explanation {
    /// The run.
    pub run_id: RunId,
    /// The skill that was asked for.
    pub skill: Option<String>,
    /// The state that the ledger shows.
    pub status: &'static str,
    /// The code with which it ended, if it did.
    pub code: Option<OutcomeCode>,
    /// What it said about itself.
    pub message: Option<String>,
    /// What decided.
    pub cause: Cause,
    /// The event that shows it, by number.
    pub seq: Option<u64>,
    /// Host calls that were refused in the whole run, whether they decided or not.
    pub denials: u64,
    /// The settings to change, each with the value that it needs; none when no setting would.
    pub settings: Vec<Setting>,
    /// What to do about it, in words.
    pub hint: Option<String>,
}

/// What decided about the end of a run.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Cause {
    /// It has no end yet.
    Unfinished,
    /// It has a result.
    Done,
    /// A limit was reached.
    Limit {
        /// Its key.
        key: String,
        /// Its value, in the unit that the key ends in.
        value: u64,
        /// Who set it.
        source: String,
        /// Whether it is that of a run above this one.
        above: bool,
    },
    /// The policy refused a host call.
    Capability {
        /// What would have allowed it.
        capability: String,
        /// The rule that refused it.
        rule: Option<String>,
        /// What the guest wanted.
        wanted: String,
    },
    /// A person or a policy said no.
    Approval {
        /// The question.
        approval_id: String,
        /// Who decided.
        source: ApprovalSource,
        /// Why.
        reason: Option<String>,
    },
    /// What it was given does not fit the skill's schema.
    Input,
    /// The skill says itself that it failed, or broke its own promise.
    Skill,
    /// A bound was reached that no limit of the run is: the message names it.
    Bound,
    /// The guest broke down: a trap or a panic.
    Guest,
    /// The skill could not be found or loaded.
    Load,
    /// Somebody cancelled it, or stopped the execution that it is.
    Cancelled,
    /// Its process ended before it did. It may go on.
    Stopped,
    /// It waits for people, and nobody carries it out meanwhile.
    Waiting,
    /// It was done again, and its record does not say how it goes on. It can be resumed.
    Record,
    /// The host failed, or had no room.
    Host,
}

impl fmt::Display for Cause {
    /// In words, with whatever a skill or a person said in them as it is.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = match self {
            Self::Limit {
                key,
                value,
                source,
                above,
            } => {
                write!(f, "limit {key} = {value}, set by {source}")?;
                match above {
                    true => ", for the run above this one",
                    false => "",
                }
            }
            Self::Capability {
                capability,
                rule,
                wanted,
            } => {
                let rule = rule.as_deref().unwrap_or("denied");
                return write!(f, "capability {capability}: {rule}; wanted {wanted}");
            }
            Self::Approval {
                approval_id,
                source,
                reason,
            } => {
                write!(f, "approval {approval_id} was refused by {source}")?;
                return match reason {
                    Some(reason) => write!(f, ": {reason}"),
                    None => Ok(()),
                };
            }
            Self::Unfinished => "nothing yet: the run has no end",
            Self::Done => "nothing: the run has a result",
            Self::Input => "the input: it does not fit the skill's schema",
            Self::Skill => "the skill itself: it reported an error",
            Self::Bound => "a bound that no limit of the run sets; what was said names it",
            Self::Guest => "the guest broke down; no setting changes that",
            Self::Load => "the skill was not found or could not be loaded",
            Self::Cancelled => "whoever cancelled or stopped it",
            Self::Stopped => "the end of the process that carried it out",
            Self::Waiting => "a question that nobody has answered; the run is suspended",
            Self::Record => "the record of the run, which does not say how it goes on",
            Self::Host => "the host",
        };
        f.write_str(words)
    }
}

/// A setting and the value that it needs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Setting {
    /// The file, or the flag of a command.
    pub place: &'static str,
    /// The key in it.
    pub key: String,
    /// What to set it to, or to add to it when it is a list of capabilities.
    pub value: String,
}

impl fmt::Display for Setting {
    /// What to do in its place. What else a list of capabilities has stays in it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (key, value) = (&self.key, &self.value);
        match value.parse::<Capability>() {
            Ok(_) => write!(f, "add \"{value}\" to {key}"),
            Err(_) => write!(f, "set {key} to {value}"),
        }
    }
}

const CONFIG: &str = "config.toml";
const MANIFEST: &str = "skill.toml";
const COMMAND: &str = "skillrun run";

/// A limit as `run_completed` names it.
#[derive(Deserialize)]
struct ReachedLimit {
    key: String,
    value: u64,
    source: String,
    scope: String,
}

/// The part of a recorded policy that is needed here. Ledgers of older versions have less of it.
#[derive(Default, Deserialize)]
#[serde(default)]
struct RecordedPolicy {
    requested: Vec<String>,
    granted: Vec<RecordedGrant>,
}

#[derive(Deserialize)]
struct RecordedGrant {
    capability: String,
}

/// What is kept of a ledger while it is read.
#[derive(Default)]
struct Gathered {
    started: Option<RunStarted>,
    completed: Option<(u64, RunCompleted)>,
    denied: Option<(u64, Denied)>,
    denials: u64,
    refused: Option<(u64, ApprovalResponse)>,
}

pub(super) fn explain(summary: &Summary, mut events: Follower) -> Result<Explanation, StoreError> {
    let mut gathered = Gathered::default();
    while let Some(entry) = events.next_entry()? {
        if let Entry::Record(record) = entry {
            gathered.add(record.seq, record.event());
        }
    }
    Ok(gathered.explanation(summary))
}

/// How a run goes on that has no end, or none that is final.
fn goes_on(summary: &Summary, cause: &Cause) -> Option<String> {
    let run_id = &summary.run_id;
    if summary.session_id.is_some() && summary.writer_pid.is_none() && summary.state.may_go_on() {
        let agent = summary.skill.as_deref().unwrap_or_default();
        return Some(format!(
            "skillrun agent launch {agent} --prior-session {run_id} takes it up again"
        ));
    }
    match (cause, summary.state) {
        (Cause::Unfinished, RunState::Running) => Some(match summary.writer_pid {
            Some(pid) => format!(
                "process {pid} carries the run out; skillrun runs tail {run_id} shows what it does"
            ),
            None => format!(
                "no process carries the run out; skillrun runs resume {run_id} goes on with it"
            ),
        }),
        (Cause::Waiting, _) => Some(format!(
            "skillrun runs approvals {run_id} shows the question; when it is answered, the process that waits for the run goes on with it, or skillrun runs resume {run_id}"
        )),
        (_, RunState::Ended(RunStatus::Interrupted)) => {
            Some(format!("skillrun runs resume {run_id} goes on with it"))
        }
        _ => None,
    }
}

impl Gathered {
    fn add(&mut self, seq: u64, event: Event) {
        match event {
            Event::RunStarted(started) => self.started = Some(started),
            Event::RunCompleted(completed) => self.completed = Some((seq, completed)),
            Event::RunResumed(_) => self.completed = None,
            Event::Denied(denied) => {
                self.denials += 1;
                self.denied = Some((seq, denied));
            }
            Event::ApprovalResponse(response) if !response.approved => {
                self.refused = Some((seq, response));
            }
            _ => {}
        }
    }

    fn explanation(self, summary: &Summary) -> Explanation {
        let completed = self.completed.as_ref();
        let code = completed.and_then(|(_, completed)| completed.code);
        let (cause, seq) = self.cause(summary.state, code);
        let settings = self.settings(&cause);
        Explanation {
            run_id: summary.run_id.clone(),
            skill: summary.skill.clone(),
            status: summary.state.as_str(),
            code,
            message: completed
                .and_then(|(_, completed)| completed.error.as_ref())
                .map(|error| error.as_str().to_owned()),
            hint: completed
                .and_then(|(_, completed)| completed.hint.clone())
                .or_else(|| goes_on(summary, &cause)),
            cause,
            seq: seq.or_else(|| completed.map(|&(seq, _)| seq)),
            denials: self.denials,
            settings,
        }
    }

    fn cause(&self, state: RunState, code: Option<OutcomeCode>) -> (Cause, Option<u64>) {
        if let Some(reached) = self.limit() {
            let cause = Cause::Limit {
                key: reached.key,
                value: reached.value,
                source: reached.source,
                above: reached.scope == "above",
            };
            return (cause, None);
        }
        if state == RunState::Ended(RunStatus::Suspended) {
            return (Cause::Waiting, None);
        }
        match code {
            Some(OutcomeCode::Denied) => return self.denial(),
            Some(OutcomeCode::Ok) => return (Cause::Done, None),
            _ => {}
        }
        let cause = match code {
            Some(OutcomeCode::SkillError | OutcomeCode::InvalidOutput) => Cause::Skill,
            Some(OutcomeCode::InvalidInput) => Cause::Input,
            Some(OutcomeCode::Trap | OutcomeCode::Panic) => Cause::Guest,
            Some(OutcomeCode::LoadError | OutcomeCode::NotFound) => Cause::Load,
            Some(OutcomeCode::HostCallLimit | OutcomeCode::MemoryLimit | OutcomeCode::Busy) => {
                Cause::Bound
            }
            Some(OutcomeCode::Cancelled) => Cause::Cancelled,
            Some(OutcomeCode::Interrupted) => Cause::Stopped,
            Some(OutcomeCode::Diverged | OutcomeCode::AmbiguousCall) => Cause::Record,
            Some(_) => Cause::Host,
            None if matches!(state, RunState::Ended(_)) => Cause::Done,
            None => Cause::Unfinished,
        };
        (cause, None)
    }

    /// The later of the last refusal by the policy and the last by a person.
    fn denial(&self) -> (Cause, Option<u64>) {
        match (&self.denied, &self.refused) {
            (denied, Some((seq, refused))) if denied.as_ref().is_none_or(|(at, _)| at < seq) => {
                let cause = Cause::Approval {
                    approval_id: refused.approval_id.clone(),
                    source: refused.source,
                    reason: refused.reason.as_ref().map(|text| text.as_str().to_owned()),
                };
                (cause, Some(*seq))
            }
            (Some((seq, denied)), _) => {
                let cause = Cause::Capability {
                    capability: denied.capability.clone(),
                    rule: denied.rule.clone(),
                    wanted: denied.wanted.as_str().to_owned(),
                };
                (cause, Some(*seq))
            }
            (None, _) => (Cause::Skill, None),
        }
    }

    fn limit(&self) -> Option<ReachedLimit> {
        let (_, completed) = self.completed.as_ref()?;
        serde_json::from_str(completed.limit.as_ref()?.as_str()).ok()
    }

    fn settings(&self, cause: &Cause) -> Vec<Setting> {
        match cause {
            Cause::Limit {
                key, source, above, ..
            } => self.limit_setting(key, source, *above),
            Cause::Capability { capability, .. } => self.capability_settings(capability),
            _ => Vec::new(),
        }
    }

    fn skill(&self) -> &str {
        let asked = self.started.as_ref().map_or("", |started| &started.skill);
        skill_of(asked)
    }

    /// The setting that holds the limit. Of a run above, it is not known which skill that was.
    fn limit_setting(&self, key: &str, source: &str, above: bool) -> Vec<Setting> {
        let (place, key) = match source {
            "skill" if !above => (CONFIG, format!("skills.{}.limits.{key}", self.skill())),
            "manifest" if !above => (MANIFEST, format!("limits.{key}")),
            "call" if key == "wall_time_ms" => (COMMAND, "--timeout".to_owned()),
            "skill" | "manifest" | "call" => return Vec::new(),
            _ => (CONFIG, format!("limits.{key}")),
        };
        vec![Setting {
            place,
            key,
            value: "a larger value".to_owned(),
        }]
    }

    /// What each side that did not have the capability would have to say. Where both had it, something
    /// else was in the way: of a request, the address that its name stands for; of a path, where it leads,
    /// which no setting changes.
    fn capability_settings(&self, capability: &str) -> Vec<Setting> {
        let Ok(wanted) = capability.parse::<Capability>() else {
            return Vec::new();
        };
        // A guest chooses what it asks for. That it asked for an address inside the network, or inside the
        // cloud that the host runs in, is no reason to advise anybody to give it that.
        if let Capability::Net(rule) = &wanted
            && rule
                .address()
                .is_some_and(|address| address_class(address).is_some())
        {
            return Vec::new();
        }
        let policy = self
            .started
            .as_ref()
            .and_then(|started| started.policy.as_ref());
        let policy: RecordedPolicy = policy
            .and_then(|policy| serde_json::from_str(policy.as_str()).ok())
            .unwrap_or_default();
        let covers = |known: &str| {
            let known = known.parse::<Capability>();
            known.is_ok_and(|known| known.intersection(&wanted).as_ref() == Some(&wanted))
        };
        let is_requested = policy.requested.iter().any(|known| covers(known));
        let is_granted = policy.granted.iter().any(|grant| covers(&grant.capability));
        let mut settings = Vec::new();
        if !is_requested {
            // A manifest names no folder of the host.
            let asked = match &wanted {
                Capability::Fs {
                    access, guest_dir, ..
                } => format!("fs:{}:*={guest_dir}", access.as_str()),
                _ => capability.to_owned(),
            };
            settings.push(Setting {
                place: MANIFEST,
                key: "capabilities.request".to_owned(),
                value: asked,
            });
        }
        if !is_granted {
            settings.push(Setting {
                place: CONFIG,
                key: format!("skills.{}.grant", self.skill()),
                value: capability.to_owned(),
            });
        }
        if settings.is_empty() && matches!(wanted, Capability::Net(_)) {
            settings.push(Setting {
                place: CONFIG,
                key: "http.addresses_allowed".to_owned(),
                value: "a network that the address is in".to_owned(),
            });
        }
        settings
    }
}
