//! Doing a run again from its record alone: nothing is called, sent, asked, started or written.

use std::sync::Arc;
use std::time::Duration;

use super::report::{ReplayError, ReplayOptions, ReplayReport, ReplayVerdict};
use super::{Beyond, Halt, Replay};
use crate::capability::{Capability, FsAccess, HOST_DIR_ANY, Policy};
use crate::id::RunId;
use crate::ledger::{
    Difference, Event, Json, Recalled, Recorded, RunCompleted, RunOrigin, RunStarted, RunStatus,
    StoreError,
};
use crate::limits::{LimitKey, Limits};
use crate::outcome::OutcomeCode;
use crate::runner::context::{Beginning, Caller, RunContext};
use crate::runner::dispatch::call;
use crate::runner::error::RunError;
use crate::runner::executor::{RunProfile, Terms};
use crate::runner::json_object::JsonObject;
use crate::runner::resume::parse_seed;
use crate::runner::session::Session;
use crate::runner::terminal::{Ended, Terminal};
use crate::runner::{Admit, DEADLINE_DEFAULT, Runner};

/// Bytes of the policy, the limits and the environment of a record. Protects memory and time of whoever
/// replays a record that somebody made up.
const PROFILE_BYTES_MAX: usize = 1024 * 1024;
/// How the ids of calls of other skills begin.
const SKILL_PREFIX: &str = "skill#";

/// A run that is ready to be done again.
struct Again {
    cx: RunContext,
    started: RunStarted,
    input: JsonObject,
    end: Option<Recalled>,
    report: ReplayReport,
}

impl Runner {
    /// Does a run again from its record alone, and compares what the skill does with what it did. Nothing is
    /// ever done: no tool is called and none started, no model and nobody asked, no request sent, no other
    /// skill run, and nothing recorded; no key is needed. Timers are not waited for. The run is held to the
    /// policy and the limits that are on record, and is in no folder that is not given in `options`.
    /// Dropping the future stops it.
    ///
    /// # Errors
    /// The record, or the skill, cannot be used. That the skill does something else is no error.
    pub async fn replay(
        &self,
        recorded: Recorded,
        options: ReplayOptions,
    ) -> Result<ReplayReport, ReplayError> {
        let inner = &self.0;
        if self.is_shutting_down() {
            return Err(RunError::ShuttingDown.into());
        }
        let Again {
            cx,
            started,
            input,
            end,
            mut report,
        } = self.again(recorded, &options)?;
        let ticket = self.admit(&Caller::new(), cx.profile(), Admit::IfThereIsRoom)?;
        let executor = self.executor();
        let work = async {
            let _place = ticket.redeem().await;
            // Also where the skill has another name now, its guest knows the one that it had.
            call(&cx, &*executor, &started.skill, input).await
        };
        let ended = tokio::select! {
            biased;
            () = inner.shutdown.cancelled() => return Err(RunError::ShuttingDown.into()),
            () = cx.halted() => Ended::Interrupted,
            ended = work => ended,
        };
        let verdict = match cx.halt_reason() {
            Some(halt) => stopped(halt, end.as_ref()).map_err(|reason| ReplayError::Stuck {
                run_id: report.run_id.clone(),
                reason,
            })?,
            None => ended_so(&cx, ended, end.as_ref(), &mut report)?,
        };
        Ok(ReplayReport { verdict, ..report })
    }

    /// Makes a run ready to be done again, as its record says it was.
    fn again(&self, recorded: Recorded, options: &ReplayOptions) -> Result<Again, ReplayError> {
        let run_id = recorded.run_id().clone();
        let unread = |source: StoreError| ReplayError::Record {
            run_id: run_id.clone(),
            source,
        };
        let missing = |what| ReplayError::NotRecorded {
            run_id: run_id.clone(),
            what,
        };
        let (started, started_at) = recorded.started().map_err(unread)?;
        let end = recorded.end().map_err(unread)?;
        let seed = started.seed.as_deref().and_then(parse_seed);
        let seed = seed.ok_or_else(|| missing("seed"))?;
        let input = JsonObject::parse(started.input.as_str()).map_err(|_| missing("input"))?;
        let (profile, folders_missing) = self.recorded_profile(&run_id, &started, options)?;
        let own = profile.limits.value(LimitKey::WallTimeMs);
        let calls = recorded.calls();
        let skills = calls.filter(|(id, call)| id.starts_with(SKILL_PREFIX) && call.call.is_some());
        let report = ReplayReport {
            skill: started.skill.clone(),
            verdict: ReplayVerdict::Same,
            events: recorded.events(),
            code: None,
            output: None,
            runs_inside: skills.count(),
            folders_missing,
            run_id: run_id.clone(),
        };
        let origin = started.origin.clone().unwrap_or_else(|| RunOrigin {
            run_id: run_id.clone(),
            started_at,
        });
        let beginning = Beginning {
            seed,
            origin,
            began_at: started_at,
            wall_time: Duration::from_millis(started.wall_time_ms.unwrap_or(own)),
            deadline: DEADLINE_DEFAULT,
            session: match &started.session {
                Some(facts) => {
                    let completed = recorded.completed().map_err(unread)?;
                    let stopped = completed.and_then(|completed| completed.stop_reason);
                    let stopped = stopped.map(|reason| reason.as_str().to_owned());
                    Some(Session::of_record((**facts).clone(), stopped))
                }
                None => None,
            },
            replay: Some(Replay::new(recorded, Beyond::Stop)),
        };
        let caller = Caller::new().of_recorded(&started);
        let recorder = self.store().closed(run_id);
        Ok(Again {
            cx: RunContext::new(self.clone(), recorder, caller, profile, beginning),
            started,
            input,
            end,
            report,
        })
    }

    /// What a run was held to, of a skill that is here; and the folders that it had and has not now.
    fn recorded_profile(
        &self,
        run_id: &RunId,
        started: &RunStarted,
        options: &ReplayOptions,
    ) -> Result<(RunProfile, Vec<Capability>), ReplayError> {
        let unusable = |what, problem: String| ReplayError::Unusable {
            run_id: run_id.clone(),
            what,
            problem,
        };
        let executor = self.executor();
        let skill = options.skill.as_ref().unwrap_or(&started.skill);
        let here = executor.profile(skill, &Terms::default());
        let here = here.map_err(RunError::from)?;
        if started.component_digest != here.component_digest && !options.any_component {
            let or_absent =
                |digest: &Option<String>| digest.as_deref().unwrap_or("absent").to_owned();
            return Err(ReplayError::ComponentChanged {
                run_id: run_id.clone(),
                skill: skill.clone(),
                recorded: or_absent(&started.component_digest),
                now: or_absent(&here.component_digest),
            });
        }
        let limits = match bounded(started.limits.as_ref()) {
            None => Ok(Limits::default()),
            Some(text) => text.and_then(|text| {
                let limits = executor.limits().recorded(text);
                limits.map_err(|error| error.to_string())
            }),
        };
        let limits = limits.map_err(|problem| unusable("limits", problem))?;
        let policy: Policy =
            parsed(started.policy.as_ref()).map_err(|problem| unusable("capabilities", problem))?;
        let (policy, folders_missing) = with_folders(policy, &options.folders)?;
        // A value that must not stand in a ledger is missing here, too: it is no business of a replay.
        let environment: Vec<(String, String)> = parsed(started.environment.as_ref())
            .map_err(|problem| unusable("variables", problem))?;
        let profile = RunProfile {
            policy: Arc::new(policy),
            limits: Arc::new(limits),
            environment: environment.into(),
            ..here
        };
        Ok((profile, folders_missing))
    }
}

fn bounded(json: Option<&Json>) -> Option<Result<&str, String>> {
    let text = json?.as_str();
    Some(match text.len() {
        0..=PROFILE_BYTES_MAX => Ok(text),
        bytes => Err(format!(
            "{bytes} bytes: expected at most {PROFILE_BYTES_MAX}"
        )),
    })
}

fn parsed<T: serde::de::DeserializeOwned + Default>(json: Option<&Json>) -> Result<T, String> {
    match bounded(json) {
        None => Ok(T::default()),
        Some(text) => serde_json::from_str(text?).map_err(|error| error.to_string()),
    }
}

/// The recorded policy with those of its folders that are given again, read-only; and those that are not.
fn with_folders(
    policy: Policy,
    given: &[Capability],
) -> Result<(Policy, Vec<Capability>), ReplayError> {
    if let Some(other) = given
        .iter()
        .find(|given| !matches!(given, Capability::Fs { .. }))
    {
        return Err(ReplayError::NotAFolder {
            capability: other.clone(),
        });
    }
    let mut effective = Vec::new();
    let mut missing = Vec::new();
    for capability in policy.effective {
        let Capability::Fs {
            host_dir,
            guest_dir,
            ..
        } = &capability
        else {
            effective.push(capability);
            continue;
        };
        let read_only = |host_dir: &str| Capability::Fs {
            access: FsAccess::ReadOnly,
            host_dir: host_dir.to_owned(),
            guest_dir: guest_dir.clone(),
        };
        // On another machine the folder may be in another place. Who gives it says where.
        let wanted = [read_only(host_dir), read_only(HOST_DIR_ANY)];
        let shared = |given| wanted.iter().find_map(|wanted| wanted.intersection(given));
        let found: Vec<Capability> = given.iter().filter_map(shared).collect();
        if found.is_empty() {
            missing.push(capability);
        }
        effective.extend(found);
    }
    let policy = Policy {
        effective,
        ..policy
    };
    Ok((policy, missing))
}

/// Whether a record says how its run ends whoever carries it out: with a result or with an error of the skill.
fn is_final(end: &RunCompleted) -> bool {
    matches!(end.status, RunStatus::Ok | RunStatus::Error)
        && end.code.is_some_and(|code| {
            !matches!(
                code,
                OutcomeCode::TimeLimit
                    | OutcomeCode::NotFound
                    | OutcomeCode::LoadError
                    | OutcomeCode::Internal
                    | OutcomeCode::Busy
                    | OutcomeCode::Cancelled
                    | OutcomeCode::Interrupted
                    | OutcomeCode::Diverged
                    | OutcomeCode::AmbiguousCall
            )
        })
}

/// The end of a run, if it is final.
fn final_end(end: Option<&Recalled>) -> Option<&Recalled> {
    end.filter(|end| matches!(&end.event, Event::RunCompleted(completed) if is_final(completed)))
}

fn code_of(end: Option<&Recalled>) -> Option<OutcomeCode> {
    match &end?.event {
        Event::RunCompleted(completed) => completed.code,
        _ => None,
    }
}

/// What it means that a run was stopped.
fn stopped(halt: Halt, end: Option<&Recalled>) -> Result<ReplayVerdict, String> {
    match halt {
        Halt::Diverged(difference) => Ok(ReplayVerdict::Diverged(difference)),
        Halt::RecordEnds(next) => Ok(match final_end(end) {
            // The run ended here, and now it does more.
            Some(end) => ReplayVerdict::Diverged(Difference {
                seq: end.seq,
                recorded: end.shown(),
                now: next,
            }),
            None => ReplayVerdict::SameSoFar { next },
        }),
        Halt::Ambiguous(call) => Err(call.to_string()),
        Halt::Suspended(_) => Err("it waits for people".to_owned()),
        Halt::Failed(reason) => Err(reason),
    }
}

/// What it means that a run has ended.
fn ended_so(
    cx: &RunContext,
    ended: Ended,
    end: Option<&Recalled>,
    report: &mut ReplayReport,
) -> Result<ReplayVerdict, ReplayError> {
    if let Ended::Failed(error) = &ended {
        match error.code() {
            // How long something takes is on no record.
            OutcomeCode::TimeLimit if final_end(end).is_some() => {
                return Err(ReplayError::TooSlow {
                    run_id: cx.run_id().clone(),
                    reached: error.clone(),
                });
            }
            OutcomeCode::NotFound | OutcomeCode::LoadError | OutcomeCode::Internal
                if code_of(end) != Some(error.code()) =>
            {
                return Err(error.clone().into());
            }
            _ => {}
        }
    }
    let terminal = Terminal::of(cx.run_id(), ended, &cx.profile().policy, 0, 0);
    let now = terminal.completed().clone();
    let now = match cx.recorder().redacted(now.clone().into()) {
        Ok(Event::RunCompleted(redacted)) => redacted,
        _ => now,
    };
    report.code = now.code;
    report.output.clone_from(&now.output);
    let code = now.code.map_or("", OutcomeCode::as_str);
    Ok(match final_end(end).map(|end| end.check_end(&now)) {
        Some(Ok(())) => ReplayVerdict::Same,
        Some(Err(difference)) => ReplayVerdict::Diverged(difference),
        None if code_of(end) == now.code => ReplayVerdict::Same,
        None => ReplayVerdict::SameSoFar {
            next: format!("the end of the run ({code})"),
        },
    })
}
