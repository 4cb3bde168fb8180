//! Questions to a person: asked, answered by whoever is first, and on record with what the answer is
//! bound to.

use std::collections::BTreeSet;
use std::pin::pin;
use std::time::Duration;

use super::Journal;
use super::flight::InFlight;
use super::provided::CallId;
use super::recall::Recall;
use crate::call::{Decision, PermissionOption, Question};
use crate::capability::Capability;
use crate::clock::Timestamp;
use crate::config::{ApprovalPolicy, OnTimeout};
use crate::executor::CallError;
use crate::ledger::{
    self, Appended, ApprovalDecision, ApprovalSource, Event, Json, LogLevel, Origin, Recalled,
    Store, StoreError, decision_binding,
};
use crate::limits::LimitKey;
use crate::runner::Gate;
use crate::runner::replay::Halt;
use crate::telemetry::chain;

/// Bytes of a question. Protects the person who has to read it.
const PROMPT_BYTES_MAX: usize = 4 * 1024;
/// Bytes of what is approved, which is shown whole. Protects the same person.
const PAYLOAD_BYTES_MAX: usize = 64 * 1024;
/// Choices of a question, bytes of the id of one and of what is shown of it. Protect the same person.
const OPTIONS_MAX: usize = 16;
const OPTION_ID_BYTES_MAX: usize = 128;
const OPTION_LABEL_BYTES_MAX: usize = 1024;
/// How often it is looked whether another process has decided: at first, and at the longest when the
/// answer has been waited for for long. Looking is processor time of the run, which a day of it must not
/// use up.
const LOOK_INTERVAL_MIN: Duration = Duration::from_millis(100);
const LOOK_INTERVAL_MAX: Duration = Duration::from_secs(1);
/// The part of the time waited so far for which it is not looked again.
const LOOK_PART: u32 = 50;
/// The part of the time that a person has after which a warning is due, in percent.
const WARN_AT_PERCENT: u64 = 80;
const MS_PER_SECOND: u64 = 1000;

/// A question that is on record.
struct Asked {
    approval_id: String,
    needs_answer: bool,
    /// What a policy of yes chooses, where there is a choice.
    first_option: Option<String>,
    binding: String,
    timeout: Duration,
    warn_at: Duration,
    /// When it was asked.
    at: Timestamp,
    /// How long it had been waited for when this process began to.
    waited_before: Duration,
}

impl Journal {
    pub(super) async fn approval(
        &self,
        id: CallId,
        question: Question,
        in_flight: &InFlight,
    ) -> Result<Decision, CallError> {
        let response = self.response(id, question, Vec::new(), in_flight).await?;
        if response.source == ApprovalSource::Cancelled {
            return Err(CallError::Cancelled);
        }
        Ok(Decision {
            approved: response.approved,
            reason: response.reason.unwrap_or_default().as_str().to_owned(),
            automatic: matches!(
                response.source,
                ApprovalSource::Timeout | ApprovalSource::Auto
            ),
        })
    }

    /// Asks a person, to say yes or no or to choose, and gives the answer as it stands on record.
    pub(super) async fn response(
        &self,
        id: CallId,
        question: Question,
        options: Vec<PermissionOption>,
        in_flight: &InFlight,
    ) -> Result<ledger::ApprovalResponse, CallError> {
        let asked = match self.asked(&id, question, options).await? {
            Ok(asked) => asked,
            Err(decided) => return Ok(decided),
        };
        let since = self.stopwatch();
        let decision = self.unless_cancelled(self.decision(&asked, in_flight));
        let decision = match decision.await {
            Ok(Ok(decision)) => decision,
            // Somebody may have decided just before.
            Err(_cancelled) => self.claim(&asked, cancelled()).await?,
            // Fails closed, and on record: the run goes on from here as it would from any other answer.
            Ok(Err(CallError::Failed(reason))) => ApprovalDecision {
                approved: false,
                reason,
                source: ApprovalSource::Auto,
                option: None,
                answer: None,
            },
            Ok(Err(error)) => return Err(error),
        };
        let waited = asked.waited_before.saturating_add(since.elapsed());
        let response = ledger::ApprovalResponse {
            approval_id: id.call_id.clone(),
            node_id: Some(id.node_id),
            approved: decision.approved,
            reason: Some(decision.reason.into()),
            source: decision.source,
            option: decision.option,
            answer: decision
                .answer
                .as_deref()
                .and_then(|text| Json::parse(text).ok()),
            duration_micros: Some(u64::try_from(waited.as_micros()).unwrap_or(u64::MAX)),
        };
        let response = self.recorder.redacted(response.into());
        let response = response.map_err(|error| CallError::Failed(chain(&error)))?;
        let recorded = self.recorder.record_durable(Origin::Host, &response).await;
        let Appended { seq, time } = self.recorded(recorded).map_err(CallError::Unrecorded)?;
        let response = Recalled {
            seq,
            time,
            origin: Origin::Host,
            event: response,
            is_whole: true,
        };
        self.decided(asked.at, response)
    }

    /// Puts a question on record, or finds it there; and then perhaps what was decided.
    async fn asked(
        &self,
        id: &CallId,
        question: Question,
        options: Vec<PermissionOption>,
    ) -> Result<Result<Asked, ledger::ApprovalResponse>, CallError> {
        let payload = match self.check_question(id, &question, &options) {
            Ok(payload) => payload,
            Err(error) => return self.refused(id, error).await,
        };
        let bytes = question.prompt.len();
        self.charge_call(bytes.saturating_add(payload.as_str().len()))?;
        let limit_ms = self.cx.budget().limits().value(LimitKey::ApprovalTimeoutMs);
        let timeout_ms = question.timeout_ms.map_or(limit_ms, |ms| ms.min(limit_ms));
        let warn_ms = timeout_ms.saturating_mul(WARN_AT_PERCENT) / 100;
        let component = self.cx.profile().component_digest.as_deref();
        let run_id = self.cx.run_id();
        let bound = bound(&payload, &options);
        let binding = decision_binding(run_id, component, &question.prompt, &bound);
        let request = ledger::ApprovalRequest {
            approval_id: id.call_id.clone(),
            node_id: Some(id.node_id.clone()),
            prompt: question.prompt.into(),
            payload: Some(payload),
            binding: Some(binding.to_string()),
            timeout_seconds: timeout_ms.div_ceil(MS_PER_SECOND),
            warn_at_seconds: Some(warn_ms / MS_PER_SECOND),
            options: options.clone(),
            asked_by: self.asked_by(),
            needs_answer: question.needs_answer,
        };
        let clock = self.cx.runner().clock();
        let (at, waited_before) = match self.recall(id, || request.clone().into()).await? {
            Recall::Answered(asked_at, response) => {
                return Ok(Err(self.decided(asked_at, *response)?));
            }
            // It is the same question still: whoever has it on the screen can answer it.
            Recall::Open(request) => {
                if options.is_empty() && !self.is_inner() {
                    self.check_allowed(&Capability::Approval, "")?;
                }
                if self.cx.is_record_only() {
                    let ends = Halt::RecordEnds(format!("the answer to {}", id.call_id));
                    return self.stop(ends).await;
                }
                let waited = clock.now().unix_micros() - request.time.unix_micros();
                let waited = Duration::from_micros(u64::try_from(waited).unwrap_or(0));
                (request.time, waited)
            }
            Recall::New => {
                let event = Event::from(request);
                let asked = self.recorder.record_durable(Origin::Host, &event).await;
                let asked = self.recorded(asked).map_err(CallError::Unrecorded)?;
                (asked.time, Duration::ZERO)
            }
        };
        Ok(Ok(Asked {
            approval_id: id.call_id.clone(),
            needs_answer: question.needs_answer,
            first_option: options.into_iter().next().map(|option| option.id),
            binding: binding.to_string(),
            timeout: Duration::from_millis(timeout_ms),
            warn_at: Duration::from_millis(warn_ms),
            at,
            waited_before,
        }))
    }

    /// What the guest is told of a decision that is on record.
    fn decided(
        &self,
        asked_at: Timestamp,
        response: Recalled,
    ) -> Result<ledger::ApprovalResponse, CallError> {
        self.waited(asked_at, response.time);
        match response.event {
            Event::ApprovalResponse(response) => Ok(response),
            _ => Err(CallError::Failed("no decision".to_owned())),
        }
    }

    /// Checks whether it may be asked and can be, and gives its payload.
    fn check_question(
        &self,
        id: &CallId,
        question: &Question,
        options: &[PermissionOption],
    ) -> Result<Json, CallError> {
        check_options(options)?;
        if id.recorded.is_none() && options.is_empty() && !self.is_inner() {
            self.check_allowed(&Capability::Approval, &question.prompt)?;
        }
        check_bytes("prompt", question.prompt.len(), PROMPT_BYTES_MAX)?;
        if question.timeout_ms == Some(0) {
            let problem = "timeout-ms is 0: expected at least 1";
            return Err(CallError::Invalid(problem.to_owned()));
        }
        let payload = Json::parse(&question.payload)
            .map_err(|error| CallError::Invalid(format!("payload: {}", chain(&error))))?;
        check_bytes("payload", payload.as_str().len(), PAYLOAD_BYTES_MAX)?;
        Ok(payload)
    }

    async fn decision(
        &self,
        asked: &Asked,
        in_flight: &InFlight,
    ) -> Result<ApprovalDecision, CallError> {
        let by_policy = |approved, word: &str| ApprovalDecision {
            approved,
            reason: format!("every question of this run is answered with {word}"),
            source: ApprovalSource::Auto,
            option: asked.first_option.clone().filter(|_| approved),
            answer: None,
        };
        match self.cx.profile().approvals.policy {
            ApprovalPolicy::Yes if !asked.needs_answer => {
                self.claim(asked, by_policy(true, "yes")).await
            }
            ApprovalPolicy::No => self.claim(asked, by_policy(false, "no")).await,
            ApprovalPolicy::Ask | ApprovalPolicy::Yes => {
                let _not_wall_time = self.cx.budget().pause();
                self.wait(asked, in_flight).await
            }
        }
    }

    /// Waits until somebody has decided, or the time is over.
    async fn wait(
        &self,
        asked: &Asked,
        in_flight: &InFlight,
    ) -> Result<ApprovalDecision, CallError> {
        let (store, run_id) = (self.cx.runner().store(), self.cx.run_id());
        let _asking = self.cx.runner().counters().asking();
        let since = self.stopwatch();
        let keep = match self.cx.client() {
            Some(client) if client.is_stateless => Duration::ZERO,
            _ => Duration::from_millis(self.cx.profile().approvals.suspend_after_ms),
        };
        let mut is_warned = false;
        loop {
            // Made before the look, so that a decision between the two is not missed.
            let mut decided = pin!(store.decided());
            let filed = store.filed(run_id, &asked.approval_id, &asked.binding);
            if let Some(decision) = filed.map_err(|error| undecided(&error))? {
                return Ok(decision);
            }
            let waited = asked.waited_before.saturating_add(since.elapsed());
            let is_over = waited >= asked.timeout;
            if is_over && self.cx.profile().approvals.on_timeout == OnTimeout::Reject {
                let seconds = asked
                    .timeout
                    .as_millis()
                    .div_ceil(u128::from(MS_PER_SECOND));
                let decision = ApprovalDecision {
                    approved: false,
                    reason: format!("nobody answered within {seconds} s"),
                    source: ApprovalSource::Timeout,
                    option: None,
                    answer: None,
                };
                return self.claim(asked, decision).await;
            }
            if waited >= asked.warn_at && !std::mem::replace(&mut is_warned, true) {
                self.warn(asked)?;
            }
            if since.elapsed() >= keep && !self.cx.is_execution() {
                in_flight.rest(vec![self.gate(asked)]);
                self.suspend_if_resting().await;
            }
            let _looked = tokio::time::timeout(look_interval(waited), decided.as_mut()).await;
        }
    }

    /// What the run waits for when it is suspended.
    fn gate(&self, asked: &Asked) -> Gate {
        let until = || {
            let micros = i64::try_from(asked.timeout.as_micros()).unwrap_or(i64::MAX);
            Timestamp::from_unix_micros(asked.at.unix_micros().saturating_add(micros))
        };
        let rejects = self.cx.profile().approvals.on_timeout == OnTimeout::Reject;
        Gate {
            run_id: self.cx.run_id().clone(),
            approval_id: asked.approval_id.clone(),
            until: rejects.then(until),
        }
    }

    fn warn(&self, asked: &Asked) -> Result<(), CallError> {
        let (approval_id, waited) = (&asked.approval_id, asked.warn_at.as_secs());
        tracing::warn!(run_id = %self.cx.run_id(), approval_id, "an approval waits for {waited} s");
        let seconds = asked.timeout.as_secs();
        let log = ledger::Log {
            level: LogLevel::Warn,
            message: format!("{approval_id} waits for {waited} of {seconds} s").into(),
            ..ledger::Log::default()
        };
        self.note(log).map_err(CallError::Unrecorded)
    }

    /// Decides without a person, unless one was first.
    async fn claim(
        &self,
        asked: &Asked,
        decision: ApprovalDecision,
    ) -> Result<ApprovalDecision, CallError> {
        let store: Store = self.cx.runner().store().clone();
        let run_id = self.cx.run_id().clone();
        let (approval_id, binding) = (asked.approval_id.clone(), asked.binding.clone());
        let claim = move || {
            let first = store.file(&run_id, &approval_id, &binding, &decision)?;
            Ok::<_, StoreError>(first.unwrap_or(decision))
        };
        match tokio::task::spawn_blocking(claim).await {
            Ok(decided) => decided.map_err(|error| undecided(&error)),
            Err(_shut_down) => Err(CallError::Cancelled),
        }
    }
}

/// What a question is answered with that nobody has to answer any more.
fn cancelled() -> ApprovalDecision {
    ApprovalDecision {
        approved: false,
        reason: "the turn was cancelled".to_owned(),
        source: ApprovalSource::Cancelled,
        option: None,
        answer: None,
    }
}

/// Checks that choices can be told apart, and shown.
fn check_options(options: &[PermissionOption]) -> Result<(), CallError> {
    let invalid = |problem: String| Err(CallError::Invalid(problem));
    if options.len() > OPTIONS_MAX {
        let given = options.len();
        return invalid(format!("{given} options: expected at most {OPTIONS_MAX}"));
    }
    let mut ids = BTreeSet::new();
    for option in options {
        check_bytes("id of an option", option.id.len(), OPTION_ID_BYTES_MAX)?;
        check_bytes(
            "label of an option",
            option.label.len(),
            OPTION_LABEL_BYTES_MAX,
        )?;
        if option.id.is_empty() || !ids.insert(&option.id) {
            let id = &option.id;
            return invalid(format!(
                "id {id:?} of an option: expected one that no other has"
            ));
        }
    }
    Ok(())
}

fn check_bytes(what: &str, bytes: usize, max: usize) -> Result<(), CallError> {
    if bytes > max {
        let problem = format!("{what} has {bytes} bytes: expected at most {max}");
        return Err(CallError::Invalid(problem));
    }
    Ok(())
}

/// Fails closed: a question of which it cannot be read whether it was answered is not answered with yes.
/// Why not names files of the host, which are no business of the skill's.
fn undecided(error: &StoreError) -> CallError {
    tracing::warn!(error = chain(error), "cannot tell what was decided");
    CallError::Failed("cannot tell what was decided".to_owned())
}

fn look_interval(waited: Duration) -> Duration {
    (waited / LOOK_PART).clamp(LOOK_INTERVAL_MIN, LOOK_INTERVAL_MAX)
}

/// What a decision is about, as its digest has it: what is chosen from is a part of what is decided.
fn bound(payload: &Json, options: &[PermissionOption]) -> String {
    let mut bound = payload.as_str().to_owned();
    for option in options {
        bound.extend(["\n", &option.id, "\t", &option.label]);
    }
    bound
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::look_interval;

    #[test]
    fn whoever_waits_for_long_looks_less_often() {
        for (waited_ms, interval_ms) in [
            (0, 100),
            (5_000, 100),
            (10_000, 200),
            (50_000, 1_000),
            (86_400_000, 1_000),
        ] {
            let interval = look_interval(Duration::from_millis(waited_ms));
            assert_eq!(interval.as_millis(), interval_ms, "{waited_ms}");
        }
    }
}
