//! Runs that were cut off and go on: the guest is run again from its beginning, and is told what is on record
//! for as long as that lasts.

use std::sync::Arc;
use std::time::Duration;

use super::context::{Beginning, Caller, RunContext};
use super::dispatch::Dispatch;
use super::error::{FailedRun, ResumeError, RunError};
use super::executor::{Executor, ExecutorError, RunProfile, Terms};
use super::json_object::JsonObject;
use super::replay::{Beyond, Replay};
use super::session::Session;
use super::suspend::LOOK_INTERVAL;
use super::terminal::Opened;
use super::tool_result::{ContentBlock, ToolCallResult};
use super::{
    Admit, DEADLINE_DEFAULT, RunOutcome, Runner, StartOptions, Started, parent_span_id,
    wall_time_ms,
};
use crate::capability::{Capability, GrantSource};
use crate::executor::{Failure, Seed};
use crate::id::RunId;
use crate::ledger::{
    Appended, Origin, Recorded, Recorder, ResumeReason, RunCompleted, RunOrigin, RunResumed,
    RunStarted, RunStatus, StoreError,
};
use crate::outcome::OutcomeCode;
use crate::trace_context::TraceContext;

/// What stands in a ledger where a value was taken out.
const REDACTED: &str = "[redacted:";

/// How a run goes on.
#[derive(Debug, Clone)]
pub struct ResumeOptions {
    /// Begin a new run instead, which repeats this one up to where this step was entered or this call made:
    /// the id of either, as the ledger has it. The old ledger is not changed.
    pub from_node: Option<String>,
    /// Make calls again that may have had their effect.
    pub retry_ambiguous: bool,
    /// The name under which the executor has the skill, when that is not the recorded one. The component has
    /// to be the same.
    pub skill: Option<String>,
    /// Limits and grants for this part of the run. Nothing of what the first caller set is kept: what it
    /// granted has to be granted again.
    pub terms: Terms,
    /// Why it goes on.
    pub reason: ResumeReason,
    /// Bounds this part of the run as a whole.
    pub deadline: Duration,
    /// The execution that this part of the run is, for an agent. It is needed for one, and for nothing else.
    pub session: Option<Session>,
}

impl Default for ResumeOptions {
    fn default() -> Self {
        Self {
            from_node: None,
            retry_ambiguous: false,
            skill: None,
            terms: Terms::default(),
            reason: ResumeReason::Asked,
            deadline: DEADLINE_DEFAULT,
            session: None,
        }
    }
}

/// A run inside another that goes on with it.
pub(super) enum Inside {
    /// It goes on.
    GoesOn(Box<Started>),
    /// It had ended before.
    Ended(Result<RunOutcome, RunError>),
}

/// A ledger that was taken up, and what it says of the beginning.
struct TakenUp {
    recorder: Recorder,
    recorded: Recorded,
    started: RunStarted,
    origin: RunOrigin,
    seed: Seed,
}

impl Runner {
    /// Goes on with a run that was cut off, and waits for its answer. The caller's cancellation flows through,
    /// as in [`Runner::run`]. Its ledger goes on after a `run_resumed`; two cannot do this at once.
    ///
    /// # Errors
    /// The run was not taken up, and its ledger is as it was; or it is on record and has no answer.
    pub async fn resume(
        &self,
        caller: Caller,
        run_id: &RunId,
        options: ResumeOptions,
    ) -> Result<RunOutcome, RunError> {
        let dispatch = self.begin_again(caller.of_one_run(), run_id, options);
        let dispatch = dispatch.await?;
        dispatch.carry_out().await
    }

    /// As [`Runner::resume`], and returns once `run_resumed` is durable, as [`Runner::start`] does.
    ///
    /// # Errors
    /// The run was not taken up, and its ledger is as it was.
    pub async fn start_resume(
        &self,
        caller: Caller,
        run_id: &RunId,
        options: ResumeOptions,
    ) -> Result<Started, RunError> {
        let dispatch = self.begin_again(caller.detached().of_one_run(), run_id, options);
        Ok(self.carry_on(dispatch.await?))
    }

    /// Goes on with a run inside another that goes on.
    pub(super) async fn resume_inside(
        &self,
        caller: Caller,
        run_id: &RunId,
        parent: &RunContext,
        options: StartOptions,
    ) -> Result<Inside, RunError> {
        let again = ResumeOptions {
            retry_ambiguous: parent.replay().is_some_and(Replay::retry_ambiguous),
            terms: options.terms.clone(),
            reason: ResumeReason::Parent,
            ..ResumeOptions::default()
        };
        match self.when_free(&caller, run_id, again).await {
            Ok(dispatch) => Ok(Inside::GoesOn(Box::new(self.carry_on(dispatch)))),
            Err(RunError::NotResumed(ResumeError::Ledger {
                source: StoreError::Ended { .. },
                ..
            })) => Ok(Inside::Ended(self.recorded_outcome(run_id).await?)),
            // The process was gone before its first event was whole.
            Err(RunError::NotResumed(ResumeError::Ledger {
                source: StoreError::NeverStarted { .. },
                ..
            })) => Ok(Inside::GoesOn(Box::new(self.start(caller, options).await?))),
            Err(error) => Err(error),
        }
    }

    /// Takes a run up, after whoever carries it out, as one does who resumed it before its parent.
    async fn when_free(
        &self,
        caller: &Caller,
        run_id: &RunId,
        options: ResumeOptions,
    ) -> Result<Dispatch, RunError> {
        loop {
            let inside = caller.clone().detached().of_one_run();
            let begun = self.begin_again(inside, run_id, options.clone()).await;
            let Err(RunError::NotResumed(ResumeError::Ledger {
                source: StoreError::Locked { .. },
                ..
            })) = &begun
            else {
                return begun;
            };
            tokio::select! {
                biased;
                () = caller.cancelled() => return begun,
                () = self.0.shutdown.cancelled() => return begun,
                () = tokio::time::sleep(LOOK_INTERVAL) => {}
            }
        }
    }

    /// How a run ended that has ended, as its caller was told.
    pub(super) async fn recorded_outcome(
        &self,
        run_id: &RunId,
    ) -> Result<Result<RunOutcome, RunError>, ResumeError> {
        let failed = |source| ResumeError::Ledger {
            run_id: run_id.clone(),
            source,
        };
        let id = run_id.clone();
        let read = self.reading(move |runner| {
            let recorded = runner.store().recorded(&id)?;
            let (_, started_at) = recorded.started()?;
            let head = runner.store().summary(&id)?.head;
            Ok((recorded.completed()?, started_at, head))
        });
        let (completed, started_at, head) = read.await.map_err(failed)?;
        let completed = completed.ok_or_else(|| not_recorded(run_id, "end"))?;
        let duration_micros = completed.duration_micros.unwrap_or_default();
        Ok(outcome(run_id, completed).map(|(code, result)| RunOutcome {
            run_id: run_id.clone(),
            started_at,
            code,
            result,
            hint: None,
            duration_micros,
            head,
        }))
    }

    /// Everything up to the durable `run_resumed`. The ledger is as it was when this fails.
    pub(super) async fn begin_again(
        &self,
        caller: Caller,
        run_id: &RunId,
        options: ResumeOptions,
    ) -> Result<Dispatch, RunError> {
        // In a task of its own: should the future be dropped meanwhile, what was taken up by then is dropped
        // as a whole, and has an end.
        let (runner, run_id) = (self.clone(), run_id.clone());
        let begun = tokio::spawn(async move { runner.take_on(caller, &run_id, options).await });
        begun.await.unwrap_or(Err(RunError::ShuttingDown))
    }

    async fn take_on(
        &self,
        caller: Caller,
        run_id: &RunId,
        options: ResumeOptions,
    ) -> Result<Dispatch, RunError> {
        let inner = &self.0;
        let work = inner.work.token();
        let asked = inner.clock.stopwatch();
        if self.is_shutting_down() {
            return Err(RunError::ShuttingDown);
        }
        let TakenUp {
            recorder,
            recorded,
            started,
            origin,
            seed,
        } = self.take_up(run_id, &options).await?;
        let is_execution = options.session.is_some();
        let again = || Opened::again(recorder.clone(), is_execution, inner.ends(work.clone()));
        // A new ledger of which nothing comes has an end, so that it is not carried on later.
        let copied = options.from_node.is_some().then(again);
        let run_id = recorder.run_id();
        let skill = options.skill.as_ref().unwrap_or(&started.skill).clone();
        let executor = self.executor();
        let profile = profile_again(&*executor, run_id, &skill, &started, &options.terms)?;
        let caller = as_recorded(caller, &started);
        let ticket = self.admit(&caller, &profile, admit(&options))?;
        let input = recorded_input(run_id, &started)?;
        let wall_time_ms = wall_time_ms(&caller, &profile);
        let appended = record_resumed(&recorder, &caller, &options, &profile).await?;
        let retry_ambiguous = options.retry_ambiguous;
        let beyond = Beyond::GoOn { retry_ambiguous };
        let opened = copied.unwrap_or_else(again);
        inner.counters.resumed();
        let started_at = origin.started_at;
        let cx = RunContext::new(
            self.clone(),
            recorder,
            caller,
            profile,
            Beginning {
                seed,
                origin,
                began_at: appended.time,
                wall_time: Duration::from_millis(wall_time_ms),
                deadline: options.deadline,
                replay: Some(Replay::new(recorded.going_on(), beyond)),
                session: options.session.clone(),
            },
        );
        Ok(Dispatch {
            live: inner.live.enter(&cx),
            executor,
            cx,
            opened,
            started_at,
            ticket,
            again: ResumeOptions {
                from_node: None,
                skill: Some(skill.clone()),
                ..options
            },
            skill,
            input,
            asked,
            shutdown: inner.shutdown.clone(),
        })
    }

    /// Takes up the ledger of a run, or makes one that repeats its beginning.
    async fn take_up(
        &self,
        run_id: &RunId,
        options: &ResumeOptions,
    ) -> Result<TakenUp, ResumeError> {
        let failed = |source| ResumeError::Ledger {
            run_id: run_id.clone(),
            source,
        };
        let store = self.store();
        let taken_up = match &options.from_node {
            None => store.take_up(run_id).await.map_err(failed)?,
            Some(node) => {
                let (id, wanted) = (run_id.clone(), node.clone());
                let found = self.reading(move |runner| {
                    let recorded = runner.store().recorded(&id)?;
                    let until = recorded.find(&wanted)?;
                    Ok((recorded, until))
                });
                let (recorded, until) = found.await.map_err(failed)?;
                let until = until.ok_or_else(|| ResumeError::NoSuchNode {
                    run_id: run_id.clone(),
                    node: node.clone(),
                })?;
                let skill = options.skill.clone();
                let (started, _) = recorded.started().map_err(failed)?;
                let skill = skill.unwrap_or_else(|| started.skill.clone());
                check_execution(run_id, &started, options)?;
                // Before a ledger is made of which nothing will come.
                if let Ok(profile) = self.executor().profile(&skill, &options.terms) {
                    check_component(run_id, &skill, &started, &profile)?;
                    check_grants(run_id, &started, &options.terms, &profile)?;
                }
                let seed = started.seed.as_deref().and_then(parse_seed);
                seed.ok_or_else(|| not_recorded(run_id, "seed"))?;
                let copied = store.copy(recorded, RunId::generate(), until.seq);
                copied.await.map_err(failed)?
            }
        };
        let (recorder, recorded) = taken_up;
        let (started, started_at) = recorded.started().map_err(failed)?;
        check_execution(run_id, &started, options)?;
        check_part(&recorder, options)?;
        if !recorded.repeats_all(&started) {
            let run_id = run_id.clone();
            return Err(ResumeError::NotRepeated { run_id });
        }
        let seed = started.seed.as_deref().and_then(parse_seed);
        Ok(TakenUp {
            origin: started.origin.clone().unwrap_or_else(|| RunOrigin {
                run_id: recorded.run_id().clone(),
                started_at,
            }),
            seed: seed.ok_or_else(|| not_recorded(run_id, "seed"))?,
            recorder,
            recorded,
            started,
        })
    }
}

/// What a run is held to that goes on, after looking that it can.
fn profile_again(
    executor: &dyn Executor,
    run_id: &RunId,
    skill: &str,
    started: &RunStarted,
    terms: &Terms,
) -> Result<RunProfile, RunError> {
    let mut profile = executor.profile(skill, terms)?;
    check_component(run_id, skill, started, &profile)?;
    check_grants(run_id, started, terms, &profile)?;
    profile.environment = environment(started, &profile);
    Ok(profile)
}

/// The same caller inside the run, and in the trace, that the record names, unless it is in others itself.
fn as_recorded(caller: Caller, started: &RunStarted) -> Caller {
    let parent = started.parent_span_id.as_deref();
    let is_sampled = !started.trace_unsampled;
    let trace_id = started.trace_id.as_deref();
    let trace = trace_id.and_then(|id| TraceContext::recorded(id, parent, is_sampled));
    let caller = caller.of_recorded(started);
    caller.traced(trace)
}

/// Puts on record that the run goes on, durably.
async fn record_resumed(
    recorder: &Recorder,
    caller: &Caller,
    options: &ResumeOptions,
    profile: &RunProfile,
) -> Result<Appended, RunError> {
    let resumed = RunResumed {
        attempt: recorder.state().resumptions().saturating_add(1),
        reason: options.reason,
        wall_time_ms: Some(wall_time_ms(caller, profile)),
        retry_ambiguous: options.retry_ambiguous,
        component_digest: profile.component_digest.clone(),
        trace_id: caller.trace().map(|trace| trace.trace_id().to_string()),
        parent_span_id: caller.trace().and_then(parent_span_id),
        trace_unsampled: caller.trace().is_some_and(|trace| !trace.is_sampled()),
        session: options
            .session
            .as_ref()
            .map(|session| Box::new(session.facts().clone())),
    };
    let appended = recorder.record_durable(Origin::Host, &resumed.into());
    appended
        .await
        .map_err(|source| RunError::LedgerUnavailable {
            run_id: recorder.run_id().clone(),
            source,
        })
}

/// Nobody is there to be told that there is no room for a run that goes on by itself.
fn admit(options: &ResumeOptions) -> Admit {
    match options.reason {
        _ if options.session.is_some() => Admit::Outside,
        ResumeReason::Asked | ResumeReason::Parent => Admit::IfThereIsRoom,
        ResumeReason::Restart | ResumeReason::Decided => Admit::Always,
    }
}

fn recorded_input(run_id: &RunId, started: &RunStarted) -> Result<JsonObject, ResumeError> {
    let input = JsonObject::parse(started.input.as_str());
    input.map_err(|_| not_recorded(run_id, "input"))
}

fn not_recorded(run_id: &RunId, what: &'static str) -> ResumeError {
    ResumeError::NotRecorded {
        run_id: run_id.clone(),
        what,
    }
}

/// How a run ended, as its caller was told.
fn outcome(
    run_id: &RunId,
    completed: RunCompleted,
) -> Result<(OutcomeCode, ToolCallResult), RunError> {
    let error = completed.error.unwrap_or_default();
    let text = error.as_str().to_owned();
    let code = completed.code.unwrap_or(OutcomeCode::Internal);
    match (completed.status, code) {
        (RunStatus::Ok, _) => {
            let output = completed.output.unwrap_or_default();
            Ok((OutcomeCode::Ok, ToolCallResult::json(output)))
        }
        (RunStatus::Error, OutcomeCode::SkillError) => Ok((
            code,
            ToolCallResult {
                content: vec![ContentBlock::Text { text }],
                structured_content: None,
                is_error: true,
            },
        )),
        (RunStatus::Cancelled, _) => Err(RunError::Cancelled {
            run_id: run_id.clone(),
        }),
        _ => Err(RunError::Failed(FailedRun {
            run_id: run_id.clone(),
            error: ExecutorError::Failed(Failure::new(code, text)),
        })),
    }
}

/// An agent is taken up as an execution, in its own ledger, and nothing else is.
fn check_execution(
    run_id: &RunId,
    started: &RunStarted,
    options: &ResumeOptions,
) -> Result<(), ResumeError> {
    let run_id = run_id.clone();
    match (&started.session, &options.session) {
        (None, None) => Ok(()),
        (Some(_), Some(_)) if options.from_node.is_none() => Ok(()),
        (Some(_), _) => Err(ResumeError::IsExecution { run_id }),
        (None, Some(_)) => Err(ResumeError::NoExecution { run_id }),
    }
}

/// An execution is named after the part of the ledger that it is. Somebody else may have had that part since the
/// name was made.
fn check_part(recorder: &Recorder, options: &ResumeOptions) -> Result<(), ResumeError> {
    let Some(session) = &options.session else {
        return Ok(());
    };
    let id = &session.facts().execution_id;
    // The first part was begun, and not resumed.
    let part = recorder.state().resumptions().saturating_add(2);
    if id.run_id() == recorder.run_id() && u64::from(id.part()) == part {
        return Ok(());
    }
    Err(ResumeError::OtherPart {
        run_id: recorder.run_id().clone(),
        execution_id: id.clone(),
        part,
    })
}

fn check_component(
    run_id: &RunId,
    skill: &str,
    started: &RunStarted,
    profile: &RunProfile,
) -> Result<(), ResumeError> {
    if started.component_digest == profile.component_digest {
        return Ok(());
    }
    let or_none = |digest: &Option<String>| digest.clone().unwrap_or_else(|| "absent".to_owned());
    Err(ResumeError::ComponentChanged {
        run_id: run_id.clone(),
        skill: skill.to_owned(),
        recorded: or_none(&started.component_digest),
        now: or_none(&profile.component_digest),
    })
}

/// Checks that what the first caller granted is granted again. A ledger is no place to take it from: whoever
/// can write one could grant anything.
///
/// A skill that is named by its path has not what the operator gives to an installed one of that name, either.
fn check_grants(
    run_id: &RunId,
    started: &RunStarted,
    terms: &Terms,
    profile: &RunProfile,
) -> Result<(), ResumeError> {
    #[derive(serde::Deserialize)]
    struct Granted {
        capability: String,
        source: GrantSource,
    }
    #[derive(serde::Deserialize, Default)]
    struct Policy {
        #[serde(default)]
        granted: Vec<Granted>,
    }
    let policy = started.policy.as_ref();
    let policy = policy.and_then(|policy| serde_json::from_str::<Policy>(policy.as_str()).ok());
    let is_by_path = profile
        .skill
        .as_ref()
        .is_some_and(|skill| !skill.is_installed());
    let is_lost = |source: &GrantSource| match source {
        GrantSource::Config => false,
        GrantSource::Skill => is_by_path,
        GrantSource::Call => true,
    };
    let again: Vec<String> = terms.grants.iter().map(ToString::to_string).collect();
    let mut missing = policy.unwrap_or_default().granted;
    missing.retain(|grant| is_lost(&grant.source) && !again.contains(&grant.capability));
    if missing.is_empty() {
        return Ok(());
    }
    Err(ResumeError::GrantsMissing {
        run_id: run_id.clone(),
        grants: missing.into_iter().map(|grant| grant.capability).collect(),
    })
}

/// The variables that the guest found when it began. Where the ledger must not have a value, it is the one of
/// today.
fn environment(started: &RunStarted, profile: &RunProfile) -> Arc<[(String, String)]> {
    let recorded = started.environment.as_ref();
    let recorded: Vec<(String, String)> = recorded
        .and_then(|recorded| serde_json::from_str(recorded.as_str()).ok())
        .unwrap_or_default();
    let today = |name: &str| {
        let mut variables = profile.environment.iter();
        let found = variables.find(|(found, _)| found == name);
        found.map(|(_, value)| value.clone())
    };
    let variables = recorded.into_iter().filter_map(|(name, value)| {
        // A ledger is no place to take a variable from that nobody grants.
        let capability = Capability::Env { name: name.clone() };
        if !profile.policy.holds(&capability) {
            return None;
        }
        let value = match value.contains(REDACTED) {
            true => today(&name)?,
            false => value,
        };
        Some((name, value))
    });
    variables.collect()
}

pub(super) fn parse_seed(hex: &str) -> Option<Seed> {
    let mut seed = Seed::default();
    if hex.len() != seed.len() * 2 || !hex.is_ascii() {
        return None;
    }
    for (at, byte) in seed.iter_mut().enumerate() {
        *byte = u8::from_str_radix(hex.get(at * 2..at * 2 + 2)?, 16).ok()?;
    }
    Some(seed)
}
