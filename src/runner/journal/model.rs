//! Calls of language models: whether one may be asked, both halves of the record, and what it took.

use super::Journal;
use super::model_json;
use super::provided::{CallId, failure};
use crate::call::{ModelRequest, ModelResponse, Part, Usage};
use crate::capability::Capability;
use crate::clock::Stopwatch;
use crate::executor::CallError;
use crate::ledger::{self, CallFailure, CallPhase, Digest, Effect, Event, Json, Origin};
use crate::limits::{LimitKey, Reservation};
use crate::models::{ModelError, ModelName};
use crate::schema::Schema;
use crate::trace_context;

/// Bytes of the name that a guest asks for a model by.
const NAME_BYTES_MAX: usize = 256;

/// Tokens that are set aside for an answer when the skill names no number. No answer of such a question is
/// longer, whatever the provider allows.
const OUTPUT_TOKENS_MAX: u64 = 64 * 1024;
/// Bytes of text to a token, about.
const BYTES_PER_TOKEN: usize = 4;

impl From<ModelError> for CallError {
    fn from(error: ModelError) -> Self {
        match error {
            ModelError::NotFound(name) => Self::NotFound(name),
            ModelError::Invalid(what) => Self::Invalid(what),
            ModelError::Failed(message) => Self::Failed(message),
            ModelError::TimedOut { timeout_ms } => Self::TimedOut {
                limit_ms: timeout_ms,
            },
        }
    }
}

/// A question to a model, as it is recorded.
pub(super) struct Asking {
    pub(super) id: CallId,
    /// What is on record of it, or will be.
    pub(super) call: ledger::LlmCall,
    /// Whom it goes to; there is nobody of that name if there is none.
    name: Option<ModelName>,
    /// What the answer has to fit, and the digest of the schema's text.
    schema: Option<(Schema, Digest)>,
    /// Whether it may be asked now.
    allowed: Result<(), CallError>,
}

/// A question to a model that is on record, and is being answered.
pub(super) struct Asked {
    pub(super) asking: Asking,
    pub(super) name: ModelName,
    pub(super) since: Stopwatch,
    /// Tokens that are set aside for the answer.
    reserved: Reservation,
}

impl Journal {
    pub(super) async fn model(
        &self,
        id: CallId,
        request: ModelRequest,
    ) -> Result<ModelResponse, CallError> {
        let asking = self.asking(id, &request, false).await?;
        let recalled = self.recall_answer(&asking.id, || asking.call.clone().into());
        if let Some(answer) = recalled.await? {
            let response = self.model_answer(&asking, &answer)?;
            self.note_structured_again(&asking, &response)?;
            return Ok(response);
        }
        let asked = self.ask(asking, &request).await?;
        let request = asked.within_budget(request);
        let trace = self.handed_on(&asked.asking.id.call_id);
        let answer = self.models.generate(&asked.name, request);
        let answer = self
            .unless_cancelled(trace_context::scope(trace, answer))
            .await;
        match answer {
            Err(cancelled) => Err(self.unanswered(&asked, cancelled, &Usage::default())),
            Ok(Ok(response)) => self.answered(&asked, &response),
            Ok(Err(error)) => {
                let usage = asked.usage_without(&error);
                Err(self.unanswered(&asked, error.into(), &usage))
            }
        }
    }

    /// Makes a question ready: to be found on record, or to be asked.
    pub(super) async fn asking(
        &self,
        id: CallId,
        request: &ModelRequest,
        streamed: bool,
    ) -> Result<Asking, CallError> {
        let asked = &request.model;
        let prepared = async {
            if asked.len() > NAME_BYTES_MAX || asked.contains('*') {
                let name = asked.chars().take(NAME_BYTES_MAX).collect();
                return Err(CallError::NotFound(name));
            }
            let schema = match &request.output_schema {
                None => None,
                Some(text) => {
                    let schema = Schema::compile_aside(text.clone()).await;
                    let schema = schema
                        .map_err(|error| CallError::Invalid(format!("output-schema: {error}")))?;
                    Some((schema, Digest::of(text.as_bytes())))
                }
            };
            let json = model_json::request(request).map_err(CallError::Invalid)?;
            Ok((schema, json))
        };
        let name = self.models.resolve(asked);
        let allowed = match &name {
            None if id.recorded.is_none() && self.cx.is_record_only() => {
                self.recorded_refusal(asked).await
            }
            // Nobody is asked.
            None => Ok(()),
            Some(name) => match format!("llm:{name}").parse::<Capability>() {
                Ok(capability) => self.check_allowed(&capability, asked),
                Err(_malformed) => Err(CallError::NotFound(asked.clone())),
            },
        };
        let (schema, json) = match prepared.await {
            Err(error) => return self.refused(&id, error).await,
            Ok(prepared) => prepared,
        };
        if id.recorded.is_none() {
            allowed.clone()?;
        }
        self.charge_call(json.as_str().len())?;
        if id.recorded.is_none()
            && self.cx.is_record_only()
            && let Err(ends_the_run @ CallError::LimitReached(_)) = self.reserve_tokens(request)
        {
            // Then, too, it was not put on record.
            return Err(ends_the_run);
        }
        let call = ledger::LlmCall {
            call_id: Some(id.call_id.clone()),
            phase: Some(CallPhase::Call),
            node_id: Some(id.node_id.clone()),
            model: asked.clone(),
            // Asked again it says something else, and costs again; but nothing in the world changes.
            effect: Some(Effect::Read),
            request: Some(json),
            streamed,
            ..ledger::LlmCall::default()
        };
        Ok(Asking {
            id,
            call,
            name,
            schema,
            allowed,
        })
    }

    /// Whether the record says that a model may not be asked. Which one a name stands for, only the
    /// configuration tells that there was then.
    async fn recorded_refusal(&self, asked: &str) -> Result<(), CallError> {
        let Some(replay) = self.cx.replay() else {
            return Ok(());
        };
        let denied = match replay.next_refusal() {
            Ok(denied) => denied,
            Err(halt) => return self.stop(halt).await,
        };
        let is_it = |denied: &ledger::Denied| {
            denied.capability.starts_with("llm:") && denied.wanted.as_str() == asked
        };
        match denied.filter(is_it) {
            None => Ok(()),
            Some(denied) => Err(CallError::Denied {
                rule: self.policy().rule(&denied.capability),
                capability: denied.capability,
                wanted: asked.to_owned(),
            }),
        }
    }

    /// Puts a question on record that is about to be asked. One that is refused has its answer there too.
    pub(super) async fn ask(
        &self,
        asking: Asking,
        request: &ModelRequest,
    ) -> Result<Asked, CallError> {
        asking.allowed.clone()?;
        let recorded = asking.id.recorded.as_ref();
        if recorded.is_some_and(|recorded| recorded.call.is_some()) {
            // The answer of the process before this one was paid for as well.
            let spent = self
                .cx
                .budget()
                .spend_on_models(&self.usage_before(&asking));
            spent.map_err(CallError::LimitReached)?;
        }
        let reserved = match &asking.name {
            None => Err(CallError::NotFound(request.model.clone())),
            Some(_) => self.reserve_tokens(request),
        };
        if let Err(ends_the_run @ CallError::LimitReached(_)) = reserved {
            return Err(ends_the_run);
        }
        let mut call = asking.call.clone();
        if let Some(name) = &asking.name {
            let asked = std::mem::replace(&mut call.model, name.model.clone());
            call.asked = Some(asked).filter(|asked| *asked != name.to_string());
            call.provider.clone_from(&name.provider);
        }
        self.record_call(Effect::Read, call).await?;
        let since = self.stopwatch();
        match (reserved, asking.name.clone()) {
            (Ok(reserved), Some(name)) => Ok(Asked {
                asking,
                name,
                since,
                reserved,
            }),
            (Err(error), _) => {
                if let Some(failure) = failure(&error) {
                    let refused = ledger::LlmCall {
                        is_error: true,
                        error: Some(failure),
                        ..asking.result(None, &Usage::default(), &since)
                    };
                    self.record(Origin::Host, refused)
                        .map_err(CallError::Unrecorded)?;
                }
                Err(error)
            }
            (Ok(_), None) => Err(CallError::NotFound(request.model.clone())),
        }
    }

    /// Sets tokens aside for an answer, as many as it may have and as are left. Answers that come at the
    /// same time, in this run and in those around it, cannot have them too.
    fn reserve_tokens(&self, request: &ModelRequest) -> Result<Reservation, CallError> {
        let budget = self.cx.budget();
        let wanted = request.output_tokens_max.unwrap_or(OUTPUT_TOKENS_MAX);
        let left = match budget.model_tokens_left() {
            Ok(left) => left,
            // Some of it is set aside and may come back: the run can wait for that, or do without.
            Err(reached) if budget.is_reserved() => {
                return Err(CallError::Exhausted(reached.to_string()));
            }
            Err(reached) => return Err(CallError::LimitReached(reached)),
        };
        let reserved = budget.reserve(LimitKey::LlmTokens, wanted.min(left));
        reserved.map_err(|reached| CallError::Exhausted(reached.to_string()))
    }

    /// Puts a whole answer on record and counts what it took.
    pub(super) fn answered(
        &self,
        asked: &Asked,
        response: &ModelResponse,
    ) -> Result<ModelResponse, CallError> {
        let output = model_json::response(response).map_err(CallError::Failed)?;
        let misfit = asked.asking.structured(response).err();
        let mut result = asked.result(&response.usage);
        result.output = Some(output);
        result.is_error = misfit.is_some();
        result.error = misfit.map(|message| CallFailure::Invalid { message });
        let without = |failure| asked.failed(failure, &response.usage).into();
        let recorded = self.conclude(result, without);
        asked.reserved.release();
        let recorded = match recorded {
            Ok(recorded) => recorded,
            Err(error) => {
                let spent = self.cx.budget().spend_on_models(&response.usage);
                spent.map_err(CallError::LimitReached)?;
                return Err(error);
            }
        };
        let response = self.model_answer(&asked.asking, &recorded)?;
        self.note_structured(&asked.asking, &response)?;
        Ok(response)
    }

    /// Puts an answer on record as the value that was asked for, if it was.
    fn note_structured(&self, asking: &Asking, response: &ModelResponse) -> Result<(), CallError> {
        if let Ok(Some((output, digest))) = asking.structured(response) {
            let structured = ledger::StructuredOutput {
                schema_digest: Some(digest.to_string()),
                node_id: Some(asking.id.node_id.clone()),
                output,
            };
            self.note(structured).map_err(CallError::Unrecorded)?;
        }
        Ok(())
    }

    /// As [`Journal::note_structured`], for an answer from the record, if the run was cut off before that.
    pub(super) fn note_structured_again(
        &self,
        asking: &Asking,
        response: &ModelResponse,
    ) -> Result<(), CallError> {
        let recorded = asking.id.recorded.as_ref();
        let is_noted = recorded.is_some_and(|call| call.is_structured);
        if is_noted || self.cx.is_record_only() {
            return Ok(());
        }
        self.note_structured(asking, response)
    }

    /// What the guest is told of an answer that is on record, and what of its budget that takes.
    pub(super) fn model_answer(
        &self,
        asking: &Asking,
        answer: &Event,
    ) -> Result<ModelResponse, CallError> {
        let Event::LlmCall(answer) = answer else {
            return Err(CallError::Failed("no answer of a model".to_owned()));
        };
        if let Some(output) = &answer.output {
            self.charge_answer(output.as_str().len());
        }
        let usage = usage(answer);
        self.note_usage(&usage);
        let spent = self.cx.budget().spend_on_models(&usage);
        spent.map_err(CallError::LimitReached)?;
        if let Some(failure) = &answer.error {
            return Err(failure.clone().into());
        }
        let output = answer.output.as_ref();
        let response = output.and_then(|output| model_json::to_response(output, usage));
        response.ok_or_else(|| {
            let id = &asking.id.call_id;
            CallError::Failed(format!("the answer to {id} cannot be read"))
        })
    }

    /// Puts on record that there is no answer, or no whole one, and counts what it took.
    pub(super) fn unanswered(&self, asked: &Asked, error: CallError, usage: &Usage) -> CallError {
        if let Some(failure) = failure(&error) {
            let result = asked.failed(failure, usage);
            if let Err(refused) = self.record(Origin::Host, result) {
                return CallError::Unrecorded(refused);
            }
        }
        asked.reserved.release();
        self.note_usage(usage);
        match self.cx.budget().spend_on_models(usage) {
            Ok(()) => error,
            Err(reached) => CallError::LimitReached(reached),
        }
    }
}

impl Asked {
    /// The question, for no more tokens than were set aside.
    pub(super) fn within_budget(&self, request: ModelRequest) -> ModelRequest {
        ModelRequest {
            tokens_left: self.reserved.amount(),
            ..request
        }
    }

    /// What a question took that was not answered. A provider that was too slow has worked for it all the
    /// same, and says nothing of it: a token for every four bytes is about what it read.
    fn usage_without(&self, error: &ModelError) -> Usage {
        let input_tokens = match error {
            ModelError::TimedOut { .. } => self.asking.input_tokens(),
            _ => 0,
        };
        Usage {
            input_tokens,
            ..Usage::default()
        }
    }

    fn result(&self, usage: &Usage) -> ledger::LlmCall {
        self.asking.result(Some(&self.name), usage, &self.since)
    }

    fn failed(&self, failure: CallFailure, usage: &Usage) -> ledger::LlmCall {
        ledger::LlmCall {
            is_error: true,
            error: Some(failure),
            ..self.result(usage)
        }
    }
}

/// The tokens in so many bytes of text, about.
pub(super) fn tokens(bytes: usize) -> u64 {
    u64::try_from(bytes / BYTES_PER_TOKEN).unwrap_or(u64::MAX)
}

impl Asking {
    /// What the model reads, about.
    pub(super) fn input_tokens(&self) -> u64 {
        let request = self.call.request.as_ref();
        tokens(request.map_or(0, |request| request.as_str().len()))
    }

    /// The second half of a question that was asked by a process that is gone.
    pub(super) fn ended(&self, failure: CallFailure, usage: &Usage) -> ledger::LlmCall {
        ledger::LlmCall {
            call_id: Some(self.id.call_id.clone()),
            phase: Some(CallPhase::Result),
            node_id: Some(self.id.node_id.clone()),
            model: self.call.model.clone(),
            prompt_tokens: Some(usage.input_tokens),
            output_tokens: Some(usage.output_tokens),
            is_error: true,
            error: Some(failure),
            ..ledger::LlmCall::default()
        }
    }

    fn result(
        &self,
        name: Option<&ModelName>,
        usage: &Usage,
        since: &Stopwatch,
    ) -> ledger::LlmCall {
        ledger::LlmCall {
            call_id: Some(self.id.call_id.clone()),
            phase: Some(CallPhase::Result),
            node_id: Some(self.id.node_id.clone()),
            model: name.map_or_else(|| self.call.model.clone(), |name| name.model.clone()),
            provider: name.map(|name| name.provider.clone()).unwrap_or_default(),
            prompt_tokens: Some(usage.input_tokens),
            output_tokens: Some(usage.output_tokens),
            cache_read_tokens: Some(usage.cache_read_tokens).filter(|&tokens| tokens > 0),
            cache_write_tokens: Some(usage.cache_write_tokens).filter(|&tokens| tokens > 0),
            cost_usd: Some(usage.cost_usd),
            duration_micros: Some(since.elapsed_micros()),
            ..ledger::LlmCall::default()
        }
    }

    /// The answer as the JSON value that was asked for; none where none was, or where the model did not
    /// come to it.
    fn structured(&self, response: &ModelResponse) -> Result<Option<(Json, Digest)>, String> {
        let Some((schema, digest)) = &self.schema else {
            return Ok(None);
        };
        let texts = response.content.iter().filter_map(|part| match part {
            Part::Text(text) => Some(text.as_str()),
            Part::ToolUse(_) | Part::ToolAnswer(_) => None,
        });
        let text: String = texts.collect();
        let asks_for_tools = response
            .content
            .iter()
            .any(|part| matches!(part, Part::ToolUse(_)));
        if text.trim().is_empty() && asks_for_tools {
            return Ok(None);
        }
        let not_json = |error: String| format!("the model's answer is not JSON: {error}");
        let json = Json::parse(&text).map_err(|error| not_json(error.to_string()))?;
        let value = json.to_value();
        let value = value.map_err(|error| not_json(error.to_string()))?;
        let checked = schema.check(&value);
        checked.map_err(|mismatch| {
            format!("the model's answer does not fit the schema: {mismatch}")
        })?;
        Ok(Some((json, *digest)))
    }
}

/// What a recorded answer took.
fn usage(answer: &ledger::LlmCall) -> Usage {
    Usage {
        input_tokens: answer.prompt_tokens.unwrap_or_default(),
        output_tokens: answer.output_tokens.unwrap_or_default(),
        cache_read_tokens: answer.cache_read_tokens.unwrap_or_default(),
        cache_write_tokens: answer.cache_write_tokens.unwrap_or_default(),
        cost_usd: answer.cost_usd.unwrap_or_default(),
    }
}
